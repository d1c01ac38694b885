//! Redaction: no known form of a secret leaves the server or is stored in a log.

use crate::error::Error;
use proto_schemas::requests::run::RunEventType;
use regex::{Regex, RegexSet};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::LazyLock;

const REDACTED: &str = "[redacted]";
/// What a text of an event may have.
pub(crate) const MOST_TEXT: usize = 64 << 10;
/// What an event may have after its texts were cut.
const MOST_EVENT: usize = 256 << 10;

/// Forms of secrets, with what stands in their place. What is kept of a match is its first group.
const PATTERNS: [(&str, &str); 7] = [
    // The user information of a URL, of a database as of a web page.
    (r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@:?#]*:[^\s/@]*@", "${1}[redacted]@"),
    (r"((?i:\bbearer)\s+)[A-Za-z0-9._~+/=-]{8,}", "${1}[redacted]"),
    (r"\bsk-[A-Za-z0-9_-]{16,}", "[redacted]"),
    (r"\b(?:hsk|art|ara|arr)_[A-Za-z0-9]{40}", "[redacted]"),
    (r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}", "[redacted]"),
    (r"-----BEGIN [A-Z0-9 ]+-----[\s\S]*?(?:-----END [A-Z0-9 ]+-----|\z)", "[redacted]"),
    // Where only the password is given.
    (r"([A-Za-z][A-Za-z0-9+.-]*://)[A-Za-z0-9_~.-]{20,}@", "${1}[redacted]@"),
];

static SET: LazyLock<RegexSet> =
    LazyLock::new(|| RegexSet::new(PATTERNS.map(|(pattern, _)| pattern)).expect("the patterns are right"));
static EACH: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    PATTERNS.iter().map(|(pattern, _)| Regex::new(pattern).expect("the patterns are right")).collect()
});

/// The same text without known forms of secrets.
pub(crate) fn redact_text(text: &str) -> Cow<'_, str> {
    let mut redacted = Cow::Borrowed(text);
    for found in SET.matches(text).into_iter() {
        let replaced = EACH[found].replace_all(&redacted, PATTERNS[found].1).into_owned();
        redacted = Cow::Owned(replaced);
    }
    redacted
}

/// Whether a member, or a variable, of this name holds a secret.
pub(crate) fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let parts = ["token", "secret", "password", "apikey", "api_key", "api-key", "authorization", "dsn"];
    ["auth.json", "config.toml"].contains(&name.as_str()) || parts.iter().any(|part| name.contains(part))
}

/// The same JSON without strings in members that hold secrets, and without known forms of secrets in the others.
pub(crate) fn redact_json(json: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
    if !may_have_secret(json.get()) {
        return Ok(json.to_owned());
    }
    let mut value: Value = serde_json::from_str(json.get())?;
    match redact_value(&mut value) {
        true => to_raw_value(&value),
        false => Ok(json.to_owned()),
    }
}

/// Whether it is worth reading: most JSON has neither such a form nor such a name, and is passed on as it was written.
fn may_have_secret(text: &str) -> bool {
    static NAMES: LazyLock<Regex> = LazyLock::new(|| {
        // An escaped letter could hide a name or a form.
        Regex::new(r"(?i)token|secret|password|api[_-]?key|authorization|auth\.json|config\.toml|dsn|\\u|\\/|\\n|\\r|\\t")
            .expect("the pattern is right")
    });
    SET.is_match(text) || NAMES.is_match(text)
}

/// Whether something was replaced.
fn redact_value(value: &mut Value) -> bool {
    match value {
        Value::String(text) => match redact_text(text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(redacted) => {
                let differs = redacted != *text;
                *text = redacted;
                differs
            }
        },
        Value::Array(items) => items.iter_mut().fold(false, |any, item| redact_value(item) | any),
        Value::Object(members) => redact_members(members),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn redact_members(members: &mut Map<String, Value>) -> bool {
    let mut any = false;
    for (name, member) in members.iter_mut() {
        // A reference names a secret and does not hold one.
        let is_reference = (name == "secretRef" || name == "secretScope") && member.is_object();
        any |= match member {
            Value::String(text) if names_a_secret(name) => {
                let differs = text != REDACTED;
                *text = REDACTED.to_owned();
                differs
            }
            _ if is_reference => false,
            other => redact_value(other),
        };
    }
    any
}

/// The payload of an event as it is stored: of the form of its type, redacted, and cut where it is too long.
pub(crate) fn event_payload(kind: RunEventType, payload: &RawValue) -> Result<Box<RawValue>, Error> {
    let read = || serde_json::from_str::<Map<String, Value>>(payload.get());
    let mut members = read().map_err(|_| Error::Invalid("payload must be an object".to_owned()))?;
    check_members(kind, &members)?;
    let mut changed = redact_members(&mut members);
    if payload.get().len() > MOST_TEXT {
        changed |= cut_members(kind, &mut members);
    }
    let stored = match changed {
        true => to_raw_value(&members).map_err(|error| Error::Invalid(error.to_string()))?,
        false => payload.to_owned(),
    };
    match stored.get().len() > MOST_EVENT {
        true => Err(Error::TooLarge(format!("an event must have at most {MOST_EVENT} bytes"))),
        false => Ok(stored),
    }
}

/// What a member of a payload has to be.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Name,
    Flag,
    Number,
    Texts,
}

/// The members that readers rely on: which are required, and of which form those are that are there.
fn check_members(kind: RunEventType, members: &Map<String, Value>) -> Result<(), Error> {
    use Form::{Flag, Name, Number, Text, Texts};
    let (required, forms): (&[&str], &[(&str, Form)]) = match kind {
        RunEventType::AssistantMessage => (
            &["text"],
            &[
                ("text", Text),
                ("final", Flag),
                ("replyAuthority", Flag),
                ("partial", Flag),
                ("textTruncated", Flag),
                ("outputTruncated", Flag),
                ("itemId", Text),
            ],
        ),
        RunEventType::CommandOutput => (
            &["stream", "text"],
            &[("stream", Text), ("text", Text), ("outputBytes", Number), ("outputTruncated", Flag)],
        ),
        RunEventType::ToolCall => (
            &["callId"],
            &[
                ("callId", Name),
                ("method", Text),
                ("toolName", Text),
                ("type", Text),
                ("status", Text),
                ("exitCode", Number),
                ("command", Text),
            ],
        ),
        RunEventType::BackendStatus | RunEventType::RunnerStatus => {
            (&["phase"], &[("phase", Text), ("threadId", Text), ("turnId", Text), ("stage", Text)])
        }
        RunEventType::SteerDelivery => (
            &["targetCommandId"],
            &[("targetCommandId", Text), ("runnerAcked", Flag), ("backendAccepted", Flag), ("error", Text)],
        ),
        RunEventType::ApprovalRequest => (
            &["approvalId", "reason"],
            &[
                ("approvalId", Name),
                ("reason", Text),
                ("message", Text),
                ("callId", Text),
                ("options", Texts),
                ("expiresAt", Text),
            ],
        ),
        RunEventType::ApprovalResolved => {
            (&["approvalId"], &[("approvalId", Name), ("decision", Text), ("by", Text)])
        }
        RunEventType::Error => (
            &["failureKind", "message"],
            &[("failureKind", Text), ("message", Text), ("retryable", Flag)],
        ),
        RunEventType::Reasoning
        | RunEventType::Plan
        | RunEventType::Diff
        | RunEventType::TerminalStatus => (&[], &[]),
    };
    if let Some(missing) = required.iter().find(|name| members.get(**name).is_none_or(Value::is_null)) {
        return Err(Error::Invalid(format!("payload.{missing} is required")));
    }
    for (name, form) in forms {
        let Some(member) = members.get(*name).filter(|member| !member.is_null()) else { continue };
        let wrong = match form {
            Text => (!member.is_string()).then_some("a string"),
            Name => {
                let named = member.as_str().is_some_and(|text| (1..=200).contains(&text.chars().count()));
                (!named).then_some("a string of 1 to 200 characters")
            }
            Flag => (!member.is_boolean()).then_some("a boolean"),
            Number => (!member.is_i64() && !member.is_u64()).then_some("an integer"),
            Texts => {
                let texts = member.as_array().is_some_and(|all| all.len() <= 20 && all.iter().all(Value::is_string));
                (!texts).then_some("at most 20 strings")
            }
        };
        if let Some(form) = wrong {
            return Err(Error::Invalid(format!("payload.{name} must be {form}")));
        }
    }
    let stream = members.get("stream").and_then(Value::as_str);
    if kind == RunEventType::CommandOutput && !matches!(stream, Some("stdout" | "stderr")) {
        return Err(Error::Invalid("payload.stream must be stdout or stderr".to_owned()));
    }
    Ok(())
}

/// Whether something was cut. Readers are told by a flag.
fn cut_members(kind: RunEventType, members: &mut Map<String, Value>) -> bool {
    let mut cut = Vec::new();
    for (name, member) in members.iter_mut() {
        if let Value::String(text) = member
            && text.len() > MOST_TEXT
        {
            cut.push((name.clone(), text.len()));
            text.truncate(text.floor_char_boundary(MOST_TEXT));
        }
    }
    for (name, bytes) in &cut {
        let of_output = kind == RunEventType::CommandOutput && name == "text";
        let flag = if of_output { "outputTruncated" } else { "textTruncated" };
        members.insert(flag.to_owned(), true.into());
        if of_output && !members.contains_key("outputBytes") {
            members.insert("outputBytes".to_owned(), (*bytes).into());
        }
    }
    !cut.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testing::cases;

    const TOKEN: &str = "0aZ9bY8cX70aZ9bY8cX70aZ9bY8cX70aZ9bY8cX7";

    fn secrets() -> Vec<(String, String)> {
        let with = |text: &str, secret: &str| (text.replace("SECRET", secret), secret.to_owned());
        vec![
            with("postgres://agent:SECRET@db.internal:5432/x", "hunter2-hunter2"),
            with("https://user:SECRET@example.com/a?b=c", "p4ssw0rd!x"),
            with("Authorization: Bearer SECRET", "abcdef.0123456789"),
            with("sk-SECRET", "proj-0123456789abcdefABCDEF"),
            with("hsk_SECRET", TOKEN),
            with("art_SECRET", TOKEN),
            with("ara_SECRET", TOKEN),
            with("arr_SECRET", TOKEN),
            with("SECRET", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJlc2ln"),
            with("-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----", "MIGHAgEAMBMGByqGSM49"),
        ]
    }

    #[test]
    fn ordinary_text_paths_hashes_and_code_pass_unchanged() {
        for text in [
            "the task-list of sk-learn, risk-free",
            "carries a Bearer of news",
            "/usr/local/bin:/home/me/.config/config.toml",
            "0190163d868b7ce2a5f1c1b6d0b3a7e4 caec494a0a6ce5631d5c43ac6ba492dbac5c4d0f03f6fa69b00c01edb523de80",
            "let art_work = hsk_short; // arr_0",
            "https://example.com/path@2x?q=a:b",
            "mailto:alice@example.com, git@github.com:owner/name.git",
            "input_tokens: 7, ssh://host/x",
        ] {
            assert_eq!(redact_text(text), text);
        }
        let json = r#"{"input_tokens": 7,"maxTokens":true,"secretRef":{"name":"n","keys":["auth.json"]},"path":"a\/b"}"#;
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        assert_eq!(redact_json(&raw).unwrap().get(), json);
    }

    #[test]
    fn members_that_hold_secrets_are_replaced_at_every_depth() {
        let json = r#"{"a":[{"apiKey":"x1","my_password":"x2","authorization":"x3"}],"auth.json":"x4","dsn":"x5","t\u006fken":"x6"}"#;
        let shown = redact_json(&RawValue::from_string(json.to_owned()).unwrap()).unwrap();
        for hidden in ["x1", "x2", "x3", "x4", "x5", "x6"] {
            assert!(!shown.get().contains(hidden), "{shown}");
        }
    }

    #[test]
    fn long_texts_are_cut_and_flagged_and_a_large_event_is_refused() {
        let payload = |value: Value| to_raw_value(&value).unwrap();
        let long = "é".repeat(40_000);
        let cut = event_payload(
            RunEventType::CommandOutput,
            &payload(serde_json::json!({ "stream": "stdout", "text": long })),
        );
        let cut: Value = serde_json::from_str(cut.unwrap().get()).unwrap();
        assert_eq!((cut["outputTruncated"].as_bool(), cut["outputBytes"].as_i64()), (Some(true), Some(80_000)));
        assert!(cut["text"].as_str().unwrap().len() <= MOST_TEXT);
        let said = event_payload(RunEventType::AssistantMessage, &payload(serde_json::json!({ "text": long })));
        let said: Value = serde_json::from_str(said.unwrap().get()).unwrap();
        assert_eq!(said["textTruncated"], true);
        let many: Map<String, Value> =
            (0..5).map(|n| (format!("m{n}"), Value::from("x".repeat(60_000)))).collect();
        let refused = event_payload(RunEventType::Plan, &payload(many.into())).unwrap_err();
        assert!(matches!(refused, Error::TooLarge(_)), "{refused}");
    }

    #[test]
    fn a_payload_has_the_members_of_its_type() {
        let refusal = |kind, text: &str| {
            let payload = RawValue::from_string(text.to_owned()).unwrap();
            event_payload(kind, &payload).map(|_| String::new()).unwrap_or_else(|error| error.to_string())
        };
        for (kind, text, sentence) in [
            (RunEventType::AssistantMessage, "{}", "payload.text is required"),
            (RunEventType::AssistantMessage, r#"{"text":7}"#, "payload.text must be a string"),
            (RunEventType::AssistantMessage, "[]", "payload must be an object"),
            (RunEventType::CommandOutput, r#"{"stream":"x","text":""}"#, "payload.stream must be stdout or stderr"),
            (RunEventType::ApprovalRequest, r#"{"approvalId":"","reason":"r"}"#, "payload.approvalId must be a string of 1 to 200 characters"),
            (RunEventType::ToolCall, r#"{"callId":"c","exitCode":"0"}"#, "payload.exitCode must be an integer"),
            (RunEventType::Plan, r#"{"any":[1]}"#, ""),
        ] {
            assert_eq!(refusal(kind, text), sentence, "{text}");
        }
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn a_known_secret_never_comes_through(before in "[a-z .,:/\n]{0,30}", after in "( [a-z .,\n]{0,30})?", which in 0_usize..10) {
            let (text, secret) = secrets()[which].clone();
            let text = format!("{before} {text}{after}");
            prop_assert!(!redact_text(&text).contains(&secret), "{text}");
            let json = to_raw_value(&serde_json::json!({ "a": [text], "b": { "text": text } })).unwrap();
            prop_assert!(!redact_json(&json).unwrap().get().contains(&secret));
        }

        #[test]
        fn ordinary_text_is_not_changed(text in "[a-zA-Z0-9 ./_\\-]{0,200}") {
            prop_assume!(!text.to_ascii_lowercase().contains("bearer") && !text.contains("sk-") && !text.contains('@'));
            prop_assume!(!["hsk_", "art_", "ara_", "arr_", "eyJ", "-----BEGIN"].iter().any(|part| text.contains(part)));
            prop_assert_eq!(redact_text(&text), &*text);
        }
    }
}
