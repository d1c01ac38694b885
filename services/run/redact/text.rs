//! Secrets in text, found by their shape.
//!
//! One pass looks for what secrets begin with. Most text has none of it and is returned as it is. What follows a beginning decides, so
//! that `task-list`, `the bearer of this` and `chart_1` pass unchanged. The time is linear in the text: what is read after a beginning
//! is bounded, or ends before the next beginning of its kind, or is remembered, or is redacted.

use regex::{Match, Regex};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

/// What stands in the place of a secret.
pub(super) const REDACTED: &str = "[redacted]";

static BEGINNINGS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"://|(?i-u:bearer)|sk-|hsk_|ar[tar]_|eyJ|-----BEGIN ").expect("the pattern is valid")
});

/// The text without secrets.
pub(crate) fn redact_text(text: &str) -> Cow<'_, str> {
    let mut search =
        SecretSearch { text, no_key_before: 0, no_bearer_before: 0, no_jwt_before: 0, pem_end: None };
    let (mut redacted, mut copied, mut from) = (String::new(), 0, 0);
    while let Some(beginning) = BEGINNINGS.find_at(text, from) {
        from = beginning.end();
        let Some(secret) = search.secret(beginning) else { continue };
        // One that begins in another one continues it.
        if secret.start >= copied {
            redacted.push_str(&text[copied..secret.start]);
            redacted.push_str(REDACTED);
        }
        copied = copied.max(secret.end);
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    redacted.push_str(&text[copied..]);
    Cow::Owned(redacted)
}

/// How much of a long run of characters is read to tell a key from words.
const JUDGED: usize = 256;
/// Within how many bytes the password of a connection string has to end, where it has characters that URLs do not allow.
const PASSWORD: usize = 512;
/// The random part of our own tokens.
const TOKEN: usize = 40;
/// The shortest key after `sk-`, and the shortest token after `Bearer` where nothing else says that it is one.
const SHORTEST_KEY: usize = 12;
const SHORTEST_BEARER: usize = 8;
/// A key in the middle of a word needs this length, upper and lower case, and digits.
const CERTAIN_KEY: usize = 20;
const LONGEST_WORD: usize = 24;

struct SecretSearch<'a> {
    text: &'a str,
    /// No `sk-` before this byte says anything new: what follows was read, and is words or part of a key.
    no_key_before: usize,
    /// No `Bearer` that ends before this byte does: it is part of a token.
    no_bearer_before: usize,
    /// No JWT begins before this byte that is not part of another one.
    no_jwt_before: usize,
    /// Where the next end of a PEM block is, as it was found last. `usize::MAX`: there is none.
    pem_end: Option<usize>,
}

impl SecretSearch<'_> {
    /// The part that is secret, which begins neither before its beginning nor at the start of the text.
    fn secret(&mut self, beginning: Match<'_>) -> Option<Range<usize>> {
        let (start, end) = (beginning.start(), beginning.end());
        match beginning.as_str() {
            "://" => self.userinfo(start, end),
            "sk-" => self.key(start, end),
            "hsk_" | "art_" | "ara_" | "arr_" => self.token(start, end),
            "eyJ" => self.jwt(start),
            "-----BEGIN " => self.pem(start, end),
            _ => self.bearer(start, end),
        }
    }

    /// `https://name:password@host`: what is between `://` and the last `@` before the path.
    fn userinfo(&self, start: usize, at: usize) -> Option<Range<usize>> {
        let rest = &self.text[at..];
        let authority =
            rest.split(|c| ends_url(c) || matches!(c, '/' | '?' | '#')).next().unwrap_or_default();
        let length = match is_postgres(&self.text[..start]) {
            true => password_end(rest, authority),
            false => authority.rfind('@'),
        }?;
        let userinfo = &rest[..length];
        let password = userinfo.rsplit(':').next().unwrap_or_default();
        // `git` is the name of everybody at the hosts of repositories, and a placeholder is none's.
        (!userinfo.is_empty() && userinfo != "git" && !is_placeholder(password)).then_some(at..at + length)
    }

    /// `Bearer` and a token. In prose a word follows; after `Authorization:` everything is a token.
    fn bearer(&mut self, start: usize, end: usize) -> Option<Range<usize>> {
        if end < self.no_bearer_before {
            return None;
        }
        let rest = &self.text[end..];
        let token = rest.trim_start_matches([' ', '\t']);
        let token = match token.len() == rest.len() {
            true => rest.strip_prefix("%20")?,
            false => token,
        };
        let at = self.text.len() - token.len();
        if is_authorization(&self.text[..start]) {
            let ends = |c: char| ends_url(c) || matches!(c, ',' | ';' | ')');
            let token = token.split(ends).next().unwrap_or_default();
            self.no_bearer_before = at + token.len();
            return (!token.is_empty() && !is_placeholder(token)).then_some(at..at + token.len());
        }
        let bytes = token.as_bytes();
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/=|:%".contains(&b);
        let judged = run(&bytes[..bytes.len().min(JUDGED)], is_token);
        let judged = token[..judged].trim_end_matches(['.', ':', '=']);
        if judged.len() < SHORTEST_BEARER || is_words(judged, 0) {
            return None;
        }
        self.no_bearer_before = at + run(bytes, is_token);
        Some(at..self.no_bearer_before)
    }

    /// `sk-` and a key.
    fn key(&mut self, start: usize, end: usize) -> Option<Range<usize>> {
        if start < self.no_key_before {
            return None;
        }
        let rest = &self.text.as_bytes()[end..];
        let is_key = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let judged = run(&rest[..rest.len().min(JUDGED)], is_key);
        let judged = &self.text[end..end + judged];
        let found = match begins_word(&self.text[..start]) {
            true if is_words(judged, 4) => {
                // What was read of a longer run may end in the middle of a key.
                let known = if judged.len() == JUDGED { JUDGED - LONGEST_WORD } else { judged.len() };
                self.no_key_before = end + known;
                false
            }
            true => judged.len() >= SHORTEST_KEY,
            false => judged.split(['-', '_']).any(|part| part.len() >= CERTAIN_KEY && is_mixed(part)),
        };
        if !found {
            return None;
        }
        self.no_key_before = end + run(rest, is_key);
        Some(start..self.no_key_before)
    }

    /// `hsk_`, `art_`, `ara_` or `arr_` and 40 characters: the tokens of this server. In the middle of a word it may also be a hash.
    fn token(&self, start: usize, end: usize) -> Option<Range<usize>> {
        let rest = &self.text.as_bytes()[end..];
        let length = run(&rest[..rest.len().min(TOKEN)], |b| b.is_ascii_alphanumeric());
        let random = &self.text[end..end + length];
        (length == TOKEN && (begins_word(&self.text[..start]) || is_mixed(random)))
            .then_some(start..end + TOKEN)
    }

    /// Three parts in base64, of which the first is the header, a JSON object; an encrypted token has five.
    fn jwt(&mut self, start: usize) -> Option<Range<usize>> {
        if start < self.no_jwt_before {
            return None;
        }
        let bytes = self.text.as_bytes();
        let part =
            |at: usize| at + run(&bytes[at..], |b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        let dot = |at: usize| bytes.get(at) == Some(&b'.');
        let header = part(start);
        if !dot(header) {
            self.no_jwt_before = header;
            return None;
        }
        let payload = part(header + 1);
        if !dot(payload) {
            self.no_jwt_before = payload;
            return None;
        }
        if header - start < 10 || payload - header < 5 {
            self.no_jwt_before = header;
            return None;
        }
        let mut end = part(payload + 1);
        for _ in 0..2 {
            if dot(end) && part(end + 1) > end + 1 {
                end = part(end + 1);
            }
        }
        self.no_jwt_before = end;
        Some(start..end)
    }

    /// A PEM block to its end, or as far as its content goes where the end is missing.
    fn pem(&mut self, start: usize, at: usize) -> Option<Range<usize>> {
        let label = label(&self.text[at..])?;
        let content = at + label;
        let end = match self.pem_end {
            Some(end) if end >= content => end,
            _ => self.text[content..].find("-----END ").map_or(usize::MAX, |found| content + found),
        };
        self.pem_end = Some(end);
        let block = self.text.get(content..end).filter(|block| !block.contains("-----BEGIN "));
        if block.is_some() {
            let after = end + "-----END ".len();
            return Some(start..after + self::label(&self.text[after..]).unwrap_or(0));
        }
        let length = unended_content(&self.text[content..]);
        (length > 0).then_some(start..content + length)
    }
}

/// How many bytes at the beginning are of this kind.
fn run(bytes: &[u8], of_kind: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|b| !of_kind(*b)).unwrap_or(bytes.len())
}

/// What no URL has in it: spaces, quotes, and the characters of scripts that are written without spaces around a URL.
fn ends_url(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'' | '<' | '>' | '`' | '\\' | '\u{2000}'..)
}

fn ends_with_word(text: &str, word: &str) -> bool {
    let tail = text.len().checked_sub(word.len()).map(|from| &text.as_bytes()[from..]);
    tail.is_some_and(|tail| tail.eq_ignore_ascii_case(word.as_bytes()))
}

fn is_postgres(scheme: &str) -> bool {
    ends_with_word(scheme, "postgres") || ends_with_word(scheme, "postgresql")
}

/// The `@` after the password of a connection string. People write passwords into them that have a `/`, so it may be after the first
/// one; but then what follows the `:` is no port.
fn password_end(rest: &str, authority: &str) -> Option<usize> {
    let port = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    match authority.split_once(':') {
        Some((_, password)) if !authority.starts_with('[') && !port(password) => {
            let long = rest.char_indices().take_while(|(at, c)| *at < PASSWORD && !ends_url(*c));
            long.filter(|(_, c)| *c == '@').map(|(at, _)| at).last().or_else(|| authority.rfind('@'))
        }
        _ => authority.rfind('@'),
    }
}

/// `${PASSWORD}`, `{password}`, `$(cat file)`, `%s`: code that makes a text, and what was redacted before.
fn is_placeholder(text: &str) -> bool {
    text.starts_with(['$', '{', '[']) || text == "%s" || text == "%v"
}

/// Whether this is the name of the header and what stands between it and its value, in HTTP, JSON or code.
fn is_authorization(before: &str) -> bool {
    let between = |c: char| c.is_whitespace() || matches!(c, ':' | '=' | '"' | '\'' | '\\');
    // Few characters are between them, and not so many that looking for them takes long.
    let name = before.char_indices().rev().take(16).find(|(_, c)| !between(*c));
    name.is_some_and(|(at, c)| ends_with_word(&before[..at + c.len_utf8()], "authorization"))
}

/// Whether what follows begins a word: no character of a word is before it, except for those of an escape sequence.
fn begins_word(before: &str) -> bool {
    match before.as_bytes() {
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., b'%', high, low] => high.is_ascii_hexdigit() && low.is_ascii_hexdigit(),
        // The end of the sequence that sets a colour.
        [.., b'0'..=b'9' | b'[', b'm'] => true,
        [.., last] => !last.is_ascii_alphanumeric(),
        [] => true,
    }
}

/// Words, and no random text: `authorization`, `access-token`, `someName`, each followed by at most so many digits.
fn is_words(text: &str, digits: usize) -> bool {
    text.split(['-', '_', '.', '/', '+', '~', '|', ':']).all(|part| {
        let word = part.trim_end_matches(|c: char| c.is_ascii_digit());
        part.len() - word.len() <= digits && is_word(word)
    })
}

/// All upper case, all lower case, or parts that begin with a capital and have at least three characters.
fn is_word(word: &str) -> bool {
    if word.len() > LONGEST_WORD || !word.bytes().all(|b| b.is_ascii_alphabetic()) {
        return false;
    }
    let one_case =
        word.bytes().all(|b| b.is_ascii_uppercase()) || word.bytes().all(|b| b.is_ascii_lowercase());
    one_case || word.split(|c: char| c.is_ascii_uppercase()).skip(1).all(|part| part.len() >= 2)
}

/// Upper case, lower case and digits, as random text has them. Hashes have one case.
fn is_mixed(text: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| text.as_bytes().iter().any(kind);
    has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit)
}

/// The length of the rest of a line of PEM: `RSA PRIVATE KEY-----`.
fn label(rest: &str) -> Option<usize> {
    let name = run(&rest.as_bytes()[..rest.len().min(64)], |b| {
        b.is_ascii_uppercase() || b.is_ascii_digit() || b == b' '
    });
    rest[name..].starts_with("-----").then_some(name + "-----".len())
}

/// How far the content of a PEM block without an end goes: lines of base64 and header lines. Line ends may be escaped, as in JSON. 0: it
/// is not the content of a block, but a text that speaks of one.
fn unended_content(content: &str) -> usize {
    const SHORTEST: usize = 16;
    const WITHOUT_LINE_END: usize = 40;
    let bytes = content.as_bytes();
    let (mut end, mut held) = (0, 0);
    let mut at = 0;
    loop {
        let (separator, line_end) = separator(&bytes[at..]);
        at += separator;
        let length = run(&bytes[at..], |b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
        let header = run(&bytes[at..bytes.len().min(at + 64)], |b| b.is_ascii_alphabetic() || b == b'-');
        if line_end && bytes[at + header..].starts_with(b": ") {
            at += run(&bytes[at..bytes.len().min(at + JUDGED)], |b| b != b'\n' && b != b'\\');
            continue;
        }
        let ended = at + length == bytes.len() || self::separator(&bytes[at + length..]).1;
        let is_base64 = match line_end {
            true => ended || length >= SHORTEST,
            false => length >= WITHOUT_LINE_END,
        };
        if length == 0 || !is_base64 {
            break;
        }
        at += length;
        (end, held) = (at, held + length);
    }
    if held >= SHORTEST { end } else { 0 }
}

/// The length of the space between two runs, and whether it has the end of a line.
fn separator(bytes: &[u8]) -> (usize, bool) {
    let (mut at, mut line_end) = (0, false);
    loop {
        match bytes[at..] {
            [b' ' | b'\t' | b'\r', ..] => at += 1,
            [b'\n', ..] => (at, line_end) = (at + 1, true),
            [b'\\', b'n', ..] => (at, line_end) = (at + 2, true),
            [b'\\', b'r' | b't', ..] => at += 2,
            _ => return (at, line_end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Instant;
    use testing::cases;

    const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    const JWT: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U";

    #[test]
    fn secrets_are_replaced() {
        let token = "aB3".repeat(13) + "z";
        let key = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQ==";
        let table: Vec<(String, String)> = [
            ("https://u:p@host/a", "https://[redacted]@host/a"),
            ("see https://ghp_x1@github.com/a.", "see https://[redacted]@github.com/a."),
            ("postgres://u:p@h", "postgres://[redacted]@h"),
            ("postgresql://u:p/a#s@s@h:5432/db", "postgresql://[redacted]@h:5432/db"),
            ("redis://:p@h", "redis://[redacted]@h"),
            ("https://a:b@c@host", "https://[redacted]@host"),
            ("Authorization: Bearer hunter2", "Authorization: Bearer [redacted]"),
            (r#"{\"authorization\": \"bearer hunter\"}"#, r#"{\"authorization\": \"bearer [redacted]\"}"#),
            ("Bearer abc.def.ghi1", "Bearer [redacted]"),
            ("Bearer aaBEARER 0aAa0Aaaa0A", "Bearer [redacted] [redacted]"),
            ("a bearer  0123456789abcdef?", "a bearer  [redacted]?"),
            ("BEARER%2012345678 x", "BEARER%20[redacted] x"),
            ("key=sk-0123456789abcdef0123456789abcdef;", "key=[redacted];"),
            ("sk-proj-aB3_x-9zQ1 and", "[redacted] and"),
            ("KEY\\nsk-ant-api03-0a1b2c3d4e", "KEY\\n[redacted]"),
            ("x\u{1b}[31msk-0123456789ab", "x\u{1b}[31m[redacted]"),
            ("wordsk-aB3dE5gH7jK9mN1pQ3rS", "word[redacted]"),
        ]
        .map(|(text, expected)| (text.to_owned(), expected.to_owned()))
        .into_iter()
        .chain(["hsk_", "art_", "ara_", "arr_"].map(|p| (format!("<{p}{token}>"), "<[redacted]>".to_owned())))
        .chain([
            (format!("art_{}", "0".repeat(40)), "[redacted]".to_owned()),
            (format!("chart_{token}rest"), "ch[redacted]rest".to_owned()),
            (format!("token {JWT}, and"), "token [redacted], and".to_owned()),
            (
                format!("a\n-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\nb"),
                "a\n[redacted]\nb".to_owned(),
            ),
            (format!("-----BEGIN RSA PRIVATE KEY-----\n{key}"), "[redacted]".to_owned()),
            (
                format!(
                    "\"-----BEGIN RSA PRIVATE KEY-----\\nProc-Type: 4,ENCRYPTED\\n\\n{}\\n\"",
                    "MIIE".repeat(16)
                ),
                "\"[redacted]\\n\"".to_owned(),
            ),
            (
                format!("-----BEGIN A-----\n{key}\n-----BEGIN B-----\n{key}\n-----END B-----"),
                "[redacted]\n[redacted]".to_owned(),
            ),
        ])
        .collect();
        for (text, expected) in table {
            assert_eq!(redact_text(&text), expected, "{text:?}");
            assert_eq!(redact_text(&expected), expected, "redacted twice");
        }
    }

    #[test]
    fn ordinary_text_passes_unchanged() {
        let table = [
            "",
            "task-list, risk-assessment-for-2026-and-later, disk-usage",
            "task-550e8400-e29b-41d4-a716-446655440000",
            "sk-learn, sk-SK, .sk-toggleable__label-arrow, #sk-container-id-1, sk-estimator-doc-link",
            "the bearer of this note; Bearer tokens; Bearer authentication/authorization; forbearer",
            "WWW-Authenticate: Bearer realm=\"api\", bearer accessToken, a bearer.",
            "headers[\"Authorization\"] = \"Bearer \" + token; f\"Bearer {token}\"; Bearer ${TOKEN}; Bearer <token>",
            "-H 'Authorization: Bearer $TOKEN'",
            "chart_1 art_gallery start_time smart_contract arr_length para_0123456789abcdef",
            "chart_da39a3ee5e6b4b0d3255bfef95601890afd80709",
            HASH,
            "https://example.com/@scope/pkg@1.2.3?mail=a@b.c#x@y http://localhost:5432",
            "postgres://localhost:5432/db?user=a@b postgres://[::1]:5432/a@b postgresql://host/db@x",
            "ssh://git@github.com/a/b.git git@github.com:a/b.git",
            "https://${USER}:${PASS}@host https://user:{password}@host",
            "访问https://example.com，邮箱a@b.c https://example.com或邮箱a@b.c",
            "https://example.com\\nmail@example.org",
            "eyJhbGciOiJIUzI1NiJ9 eyJ.a.b eyes eyJust.keep.going",
            "a key begins with -----BEGIN PRIVATE KEY----- and is secret",
            "text.contains(\"-----BEGIN RSA PRIVATE KEY-----\")",
            "fn main() { let x: Vec<u8> = vec![1, 2]; println!(\"{x:?} -> {}\", x.len()); } // -----",
            "/usr/share/doc/task-1/a_b/c.tar.gz C:\\new\\sk-x \u{1f600}",
        ];
        for text in table {
            assert!(
                matches!(redact_text(text), Cow::Borrowed(same) if same == text),
                "{}",
                redact_text(text)
            );
        }
    }

    /// Secrets as they are made: random, with digits, upper and lower case.
    fn secret() -> impl Strategy<Value = (String, String)> {
        let random = |length: &str| {
            let characters = prop::string::string_regex(&format!("[A-Za-z0-9]{length}")).unwrap();
            characters.prop_map(|text| format!("a{text}Z7"))
        };
        prop_oneof![
            ("(https?|ftp|redis|postgres|postgresql)", "[a-z]{0,8}", random("{8,20}"))
                .prop_map(|(scheme, name, secret)| (format!("{scheme}://{name}:{secret}@host/db"), secret)),
            ("(Bearer|bearer|BEARER) ", random("{12,60}"))
                .prop_map(|(word, secret)| (word + &secret, secret)),
            (" sk-(proj-|ant-api03-|)", random("{20,48}"))
                .prop_map(|(word, secret)| (word + &secret, secret)),
            ("(hsk|art|ara|arr)_", random("{37}")).prop_map(|(word, secret)| (word + &secret, secret)),
            ("eyJ[A-Za-z0-9]{10,40}", random("{8,40}"), random("{20,43}"))
                .prop_map(|(header, payload, secret)| (format!("{header}.{payload}.{secret}"), secret)),
            ("(RSA |EC |)PRIVATE KEY", random("{64}"), random("{64}")).prop_map(|(label, line, secret)| {
                (format!("-----BEGIN {label}-----\n{line}\n{secret}\n-----END {label}-----"), secret)
            }),
        ]
    }

    /// Texts with everything that secrets have, but no secret.
    fn ordinary() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            4 => "[a-z]{1,12}",
            2 => "\\PC{0,8}".prop_filter("no beginning", |text| !BEGINNINGS.is_match(text)),
            1 => "(task|disk|risk)-[a-z]{1,12}-[0-9]{1,4}",
            1 => "(chart|start|art|hsk)_[a-z0-9]{1,30}",
            1 => "[0-9a-f]{64}",
            1 => "(/[a-z]{1,8}){1,4}(\\.[a-z]{1,4})?",
            1 => "https://[a-z]{1,8}\\.example(/[a-z@]{1,8})?",
            1 => "Bearer [a-z]{1,12}",
            1 => "[a-z]{1,8}@[a-z]{1,8}",
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.join(" "))
    }

    proptest! {
        #![proptest_config(cases(512))]

        #[test]
        fn no_secret_is_left(before in ordinary(), glue in "[ ,;\"'\\n(]?", (text, secret) in secret(), after in "\\PC{0,20}") {
            let redacted = redact_text(&(before + &glue + &text + &after)).into_owned();
            prop_assert!(!redacted.contains(&secret), "{redacted}");
            prop_assert!(!redact_text(&redacted).contains(&secret));
        }

        #[test]
        fn text_without_secrets_is_not_changed(text in ordinary()) {
            prop_assert_eq!(redact_text(&text), text.as_str());
        }

        #[test]
        fn any_text_is_read(text in "(\\PC|://|@|Bearer |sk-|art_|eyJ|\\.|-----BEGIN |-----END |A-----|\\\\n|\n|é){0,40}") {
            let once = redact_text(&text).into_owned();
            prop_assert!(once.len() <= text.len() + 10 * text.len());
        }
    }

    #[test]
    fn the_time_is_linear_in_the_text() {
        let beginnings = [
            "://",
            "postgres://u:x",
            "bearer ",
            "Bearer a",
            "sk-",
            "art_",
            "eyJ",
            "eyJaaaaaaaaaa.",
            "-----BEGIN ",
            "-----BEGIN A-----",
            "-----BEGIN A-----\n",
            "-----END A-----",
            "authorization: bearer ",
            "sk-aB3",
            "bearer%20",
            "Bearer aB3aB3aB3",
            "xsk-",
            "sk-aaaaaaaaaaaaaaaaaaaa-1-",
            "bearer%20",
            "Bearer aB3aB3aB3",
            "xsk-",
            "sk-aaaaaaaaaaaaaaaaaaaa-1-",
        ];
        for beginning in beginnings {
            let began = Instant::now();
            redact_text(&(beginning.repeat((1 << 17) / beginning.len()) + ".a. end"));
            assert!(began.elapsed().as_secs() < 10, "{beginning:?} took {:?}", began.elapsed());
        }
    }
}
