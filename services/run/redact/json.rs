//! Secrets in JSON: strings in members whose names say so, and every other string by its text. Everything else is copied as it was
//! written, so that no number changes. A `secretRef` is an object with the name of a secret and of its keys, so it stays as it is.

use super::text::{REDACTED, redact_text};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;

/// The JSON without secrets; borrowed where it has none. An error means that a string of it is no text.
pub(crate) fn redact_json(json: &RawValue) -> serde_json::Result<Cow<'_, RawValue>> {
    match rewritten(json, usize::MAX)?.json {
        Some(changed) => Ok(Cow::Owned(changed)),
        None => Ok(Cow::Borrowed(json)),
    }
}

/// JSON after its strings were redacted and cut.
pub(super) struct Rewritten {
    /// `None`: nothing has changed.
    pub json: Option<Box<RawValue>>,
    /// Whether a string was longer than allowed.
    pub cut: bool,
}

/// Redacts every string and then cuts it after so many bytes.
pub(super) fn rewritten(json: &RawValue, longest: usize) -> serde_json::Result<Rewritten> {
    let mut writer = JsonRedactor { json: json.get(), longest, out: String::new(), copied: 0, cut: false };
    writer.walk()?;
    let JsonRedactor { json, mut out, copied, cut, .. } = writer;
    if copied == 0 {
        return Ok(Rewritten { json: None, cut });
    }
    out.push_str(&json[copied..]);
    Ok(Rewritten { json: Some(RawValue::from_string(out)?), cut })
}

/// An array or an object that has not ended.
struct OpenValue {
    object: bool,
    /// Whether the strings in it are secrets: those of an array in a member whose name says so.
    secret: bool,
    names: RedactedNames,
}

impl OpenValue {
    fn new(object: bool, secret: bool) -> OpenValue {
        OpenValue { object, secret, names: RedactedNames::default() }
    }
}

/// The names of one object that say `[redacted]`, each with the number of the last one that was made of it. Most objects have none.
#[derive(Default)]
struct RedactedNames(HashMap<String, usize>);

impl RedactedNames {
    /// The name, or with a number, because strict readers refuse a name that an object has twice, and others lose a member.
    fn unique<'a>(&mut self, name: Cow<'a, str>) -> Cow<'a, str> {
        let words = REDACTED.trim_end_matches(']');
        if !name.contains(words) {
            return name;
        }
        let Some(mut number) = self.0.get(&*name).copied() else {
            self.0.insert(name.clone().into_owned(), 1);
            return name;
        };
        let numbered = loop {
            number += 1;
            let numbered = name.replacen(words, &format!("{words} {number}"), 1);
            if !self.0.contains_key(&numbered) {
                break numbered;
            }
        };
        self.0.insert(name.into_owned(), number);
        self.0.insert(numbered.clone(), 1);
        Cow::Owned(numbered)
    }
}

struct JsonRedactor<'a> {
    json: &'a str,
    longest: usize,
    out: String,
    /// How much of `json` is in `out`, as it was or changed.
    copied: usize,
    cut: bool,
}

impl<'a> JsonRedactor<'a> {
    /// Reads the JSON once, without recursion. It is valid, so only the bytes that begin or end something matter.
    fn walk(&mut self) -> serde_json::Result<()> {
        let json = self.json.as_bytes();
        let mut open: Vec<OpenValue> = Vec::new();
        // Whether the next string is the name of a member, and whether the next value is a secret if it is a string.
        let (mut name, mut secret) = (false, false);
        let mut at = 0;
        while at < json.len() {
            let begin = at;
            at += 1;
            match json[begin] {
                b'"' => {
                    at = string_end(json, begin);
                    let text = self.string(begin, at)?;
                    if name {
                        secret = is_secret_name(&text);
                        name = false;
                        let redacted = redact_text(&text);
                        let unique = match open.last_mut() {
                            Some(object) => object.names.unique(redacted),
                            None => redacted,
                        };
                        self.write(begin, at, &unique, &text)?;
                    } else {
                        let redacted = if secret { Cow::Borrowed(REDACTED) } else { redact_text(&text) };
                        let kept = cut(&redacted, self.longest);
                        self.cut |= kept.len() < redacted.len();
                        self.write(begin, at, kept, &text)?;
                    }
                }
                b'{' => {
                    open.push(OpenValue::new(true, false));
                    name = true;
                }
                b'[' => open.push(OpenValue::new(false, secret)),
                b'}' | b']' => {
                    open.pop();
                    name = false;
                }
                b',' => {
                    name = open.last().is_some_and(|open| open.object);
                    secret = open.last().is_some_and(|open| open.secret);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What a string says. Most have no escapes and are not copied.
    fn string(&self, begin: usize, end: usize) -> serde_json::Result<Cow<'a, str>> {
        #[derive(Deserialize)]
        #[serde(transparent)]
        struct JsonText<'a>(#[serde(borrow)] Cow<'a, str>);
        let json = self.json;
        serde_json::from_str::<JsonText<'a>>(&json[begin..end]).map(|text| text.0)
    }

    fn write(&mut self, begin: usize, end: usize, new: &str, old: &str) -> serde_json::Result<()> {
        if new != old {
            self.out.push_str(&self.json[self.copied..begin]);
            self.out.push_str(&serde_json::to_string(new)?);
            self.copied = end;
        }
        Ok(())
    }
}

/// After the quote that ends the string.
fn string_end(json: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while at < json.len() {
        match json[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    json.len()
}

/// The beginning of a text that has at most so many bytes.
pub(crate) fn cut(text: &str, longest: usize) -> &str {
    &text[..text.floor_char_boundary(longest)]
}

/// Whether the name of a member says that its value is secret. `/home/me/.codex/auth.json` is `auth.json`, too.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let file = name.rsplit(['/', '\\']).next().unwrap_or_default();
    ["token", "secret", "password", "apikey", "api_key", "api-key"].iter().any(|part| name.contains(part))
        || matches!(file, "authorization" | "proxy-authorization" | "auth.json" | "config.toml" | "dsn")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;
    use testing::cases;

    fn redacted(json: &str) -> String {
        let json = RawValue::from_string(json.to_owned()).unwrap();
        redact_json(&json).unwrap().get().to_owned()
    }

    #[test]
    fn strings_in_members_with_these_names_are_secret() {
        for name in [
            "token",
            "accessToken",
            "refresh_token",
            "TOKENS",
            "secret",
            "client-secret",
            "password",
            "dbPassword",
            "apiKey",
            "api_key",
            "API-KEY",
            "OPENAI_API_KEY",
            "authorization",
            "Authorization",
            "auth.json",
            "/root/.codex/auth.json",
            "config.toml",
            "dsn",
            "DSN",
        ] {
            let json = |value: &str| format!(r#"{{"a": [1, {{"{name}": {value}, "text": "as it is"}}]}}"#);
            assert_eq!(redacted(&json("\"hunter2\"")), json("\"[redacted]\""));
            assert_eq!(redacted(&json("[\"a\", [\"b\"], 7]")), json("[\"[redacted]\", [\"[redacted]\"], 7]"));
            for unchanged in
                ["7", "7.50", "true", "null", "{}", "{\"text\": \"hunter2\"}", "[{\"a\": \"b\"}, 1]"]
            {
                assert_eq!(redacted(&json(unchanged)), json(unchanged));
            }
        }
    }

    #[test]
    fn other_members_are_as_they_were_written() {
        for json in [
            r#"{ "text" : "token", "n": 1.0e3, "big": 123456789012345678901234567890, "input_tokens": 7 }"#,
            r#"{"secretRef": {"name": "agentrun-v01-provider-codex", "namespace": "n", "keys": ["auth.json"]}}"#,
            r#"{"authorizationUrl": "https://example.com", "feedsname": "x", "auth": "no", "keys": ["a"]}"#,
            r#""a \"quoted\" \u00e9 text""#,
            r#"[null, true, -0, [], {}, ["token"], {"a": {"b": "token"}}]"#,
            "\"\"",
            "7",
        ] {
            assert_eq!(redacted(json), json);
        }
    }

    #[test]
    fn strings_are_redacted_by_their_text_as_well() {
        let table = [
            (r#"{"text":"see https:\/\/u:p@h\n","n":1}"#, r#"{"text":"see https://[redacted]@h\n","n":1}"#),
            (r#"["Bearer 0123456789","b"]"#, r#"["Bearer [redacted]","b"]"#),
            (r#"{"sk-0123456789abcdef":{"k":1}}"#, r#"{"[redacted]":{"k":1}}"#),
            (r#"{"to\u006ben":"x"}"#, r#"{"to\u006ben":"[redacted]"}"#),
        ];
        for (json, expected) in table {
            assert_eq!(redacted(json), expected);
        }
    }

    #[test]
    fn no_name_stands_twice_in_an_object() {
        let table = [
            (
                r#"{"sk-0123456789abcdef":1,"sk-0123456789abcdee":{"sk-0123456789abcded":2},"sk-0123456789abcdec":3}"#,
                r#"{"[redacted]":1,"[redacted 2]":{"[redacted]":2},"[redacted 3]":3}"#,
            ),
            (
                r#"[{"[redacted 2]":1,"sk-0123456789abcdef":2,"sk-0123456789abcdee":3,"[redacted]":4}]"#,
                r#"[{"[redacted 2]":1,"[redacted]":2,"[redacted 3]":3,"[redacted 4]":4}]"#,
            ),
            (
                r#"{"https://u:a@h":1,"https://u:b@h":2,"https://u:b@i":3}"#,
                r#"{"https://[redacted]@h":1,"https://[redacted 2]@h":2,"https://[redacted]@i":3}"#,
            ),
        ];
        for (json, expected) in table {
            assert_eq!(redacted(json), expected);
            assert_eq!(redacted(expected), expected, "redacted twice");
        }
        let many: Vec<String> = (0..50_000).map(|n| format!("\"sk-0123456789abc{n}\":0")).collect();
        let many = redacted(&format!("{{{}}}", many.join(",")));
        let names: std::collections::BTreeMap<String, u8> = serde_json::from_str(&many).unwrap();
        assert_eq!(names.len(), 50_000);
    }

    #[test]
    fn names_are_secret_in_any_case_and_only_for_strings() {
        for name in [
            "X-Api-Key",
            "x_api_key",
            "APIKEY",
            "accessToken",
            "AUTHORIZATION",
            "Auth.JSON",
            "C:\\\\config.toml",
        ] {
            let json = |value: &str| format!(r#"{{"{name}":{value}}}"#);
            assert_eq!(
                redacted(&json(r#"["a",{"b":"c"},[["d"]],null]"#)),
                json(r#"["[redacted]",{"b":"c"},[["[redacted]"]],null]"#)
            );
        }
        // A schema of a question has members with such names, and none of them is a secret.
        let schema =
            r#"{"properties":{"password":{"type":"string","title":"the password"}},"required":["password"]}"#;
        assert_eq!(redacted(schema), schema);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(["", "a", "a", "aé"], [0, 1, 2, 3].map(|longest| cut("aé", longest)));
    }

    #[test]
    fn a_lone_surrogate_is_no_text() {
        let json = RawValue::from_string(r#"["\ud800"]"#.to_owned()).unwrap();
        assert!(redact_json(&json).is_err());
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            let name = prop_oneof!["[a-z\"\\\\]{0,6}", Just("apiKey".to_owned())];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(name, inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// The same rule on a tree.
    fn simple(value: &mut Value, secret: bool) {
        match value {
            Value::String(text) if secret => *text = REDACTED.to_owned(),
            Value::String(text) => *text = redact_text(text).into_owned(),
            Value::Array(items) => items.iter_mut().for_each(|item| simple(item, secret)),
            Value::Object(members) => {
                members.iter_mut().for_each(|(name, member)| simple(member, is_secret_name(name)));
            }
            _ => {}
        }
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn a_document_is_redacted_as_its_tree_would_be(mut value in json(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let redacted: Value = serde_json::from_str(&redacted(&text.unwrap())).unwrap();
            simple(&mut value, false);
            prop_assert_eq!(redacted, value);
        }
    }
}
