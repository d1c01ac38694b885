//! Secrets in text, found by their shape.
//!
//! One pass looks for what secrets begin with. Most text has none of it and is returned as it is. What follows a beginning decides, so
//! that `task-list`, `the bearer of this` and `chart_1` pass unchanged. The time is linear in the text: what is read after a beginning
//! is bounded, or ends before the next beginning of its kind, or is remembered, or is redacted.

use super::pem;
use super::url::{url_end, userinfo};
use super::words::{
    LONGEST_WORD, PLACEHOLDER, begins_word, count_read, ends_with_word, escaped, escaped_run, has_only_names,
    is_mixed, is_words, pattern, run,
};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use regex::{Match, Regex};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

/// What stands in the place of a secret.
pub(super) const REDACTED: &str = "[redacted]";

/// JSON may have a backslash before each `/`, and JSON in JSON more of them.
static BEGINNINGS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r":(?:\\{0,7}/){2}|(?i-u:bearer|basic)|sk-|hsk_|ar[tar]_|eyJ|-----BEGIN "));

/// The text without secrets.
pub(crate) fn redact_text(text: &str) -> Cow<'_, str> {
    // Most names of members are one word, and a secret has more than a word.
    if text.len() <= LONGEST_WORD && text.bytes().all(|b| b.is_ascii_alphabetic()) {
        return Cow::Borrowed(text);
    }
    let mut search = SecretSearch { text, no_key_before: 0, no_bearer_before: 0, no_jwt_before: 0 };
    let (mut redacted, mut copied, mut from) = (String::new(), 0, 0);
    while let Some(beginning) = BEGINNINGS.find_at(text, from) {
        // The dash after `sk` may be the first one of a PEM block.
        from = if beginning.as_str().ends_with('-') { beginning.end() - 1 } else { beginning.end() };
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
/// And in the middle of a word, which says that it is none.
const JUDGED_IN_WORD: usize = 64;
/// The random part of our own tokens.
const TOKEN: usize = 40;
/// The shortest key after `sk-`, and the shortest token after `Bearer` where nothing else says that it is one.
const SHORTEST_KEY: usize = 12;
const SHORTEST_BEARER: usize = 8;
/// The longest name and password after `Basic`, in base64.
const LONGEST_BASIC: usize = 1024;
/// A key in the middle of a word needs this length, upper and lower case, and digits.
const CERTAIN_KEY: usize = 20;

struct SecretSearch<'a> {
    text: &'a str,
    /// No `sk-` before this byte says anything new: what follows was read, and is words or part of a key.
    no_key_before: usize,
    /// No `Bearer` that ends before this byte does: it is part of a token.
    no_bearer_before: usize,
    /// No JWT begins before this byte that is not part of another one.
    no_jwt_before: usize,
}

impl SecretSearch<'_> {
    /// The part that is secret, which begins neither before its beginning nor at the start of the text.
    fn secret(&mut self, beginning: Match<'_>) -> Option<Range<usize>> {
        let (start, end) = (beginning.start(), beginning.end());
        match beginning.as_str() {
            "sk-" => self.key(start, end),
            "hsk_" | "art_" | "ara_" | "arr_" => self.token(start, end),
            "eyJ" => self.jwt(start),
            pem::BEGIN => pem::block_end(self.text, end).map(|block| start..block),
            slashes if slashes.starts_with(':') => {
                userinfo(&self.text[..start], &self.text[end..]).map(|length| end..end + length)
            }
            basic if basic.eq_ignore_ascii_case("basic") => self.basic(start, end),
            _ => self.bearer(start, end),
        }
    }

    /// `Bearer` and a token. In prose a word follows; after `Authorization:` everything is a token.
    fn bearer(&mut self, start: usize, end: usize) -> Option<Range<usize>> {
        if end < self.no_bearer_before {
            return None;
        }
        let at = after_space(self.text, end)?;
        let token = &self.text[at..];
        if is_authorization(&self.text[..start]) {
            let length = url_end(token, |c| matches!(c, '\'' | ',' | ';' | ')'));
            self.no_bearer_before = at + length;
            return (length > 0 && !is_template(token, length)).then_some(at..at + length);
        }
        let bytes = token.as_bytes();
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/=|:%".contains(&b);
        let judged = escaped_run(&bytes[..bytes.len().min(JUDGED)], is_token);
        let judged = token[..judged].trim_end_matches(['.', ':', '=']);
        if judged.len() < SHORTEST_BEARER || is_words(judged, 0) {
            return None;
        }
        self.no_bearer_before = at + escaped_run(bytes, is_token);
        Some(at..self.no_bearer_before)
    }

    /// `Basic`, and a name and a password in base64. In prose a word follows, which may happen to be the base64 of something.
    fn basic(&self, start: usize, end: usize) -> Option<Range<usize>> {
        let at = after_space(self.text, end)?;
        let near = &self.text.as_bytes()[at..self.text.len().min(at + LONGEST_BASIC)];
        let is_base64 = |b: u8| b.is_ascii_alphanumeric() || b"+/=".contains(&b);
        let judged = &near[..escaped_run(near, is_base64)];
        let is_word = str::from_utf8(judged).is_ok_and(|judged| is_words(judged, 0));
        let found = is_credentials(judged) && (!is_word || is_authorization(&self.text[..start]));
        found.then(|| at..at + escaped_run(&self.text.as_bytes()[at..], is_base64))
    }

    /// `sk-` and a key.
    fn key(&mut self, start: usize, end: usize) -> Option<Range<usize>> {
        if start < self.no_key_before {
            return None;
        }
        let rest = &self.text.as_bytes()[end..];
        let is_key = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let begins_word = begins_word(&self.text[..start]);
        let longest = if begins_word { JUDGED } else { JUDGED_IN_WORD };
        let judged = run(&rest[..rest.len().min(longest)], is_key);
        let judged = &self.text[end..end + judged];
        let found = match begins_word {
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
}

/// Where the text goes on after the space that follows here, which may be written as in a URL.
fn after_space(text: &str, at: usize) -> Option<usize> {
    match run(&text.as_bytes()[at..], |b| b == b' ' || b == b'\t') {
        0 => text[at..].starts_with("%20").then_some(at + 3),
        spaces => Some(at + spaces),
    }
}

/// Whether this is the name of the header and what stands between it and its value, in HTTP, JSON or code.
fn is_authorization(before: &str) -> bool {
    let between = |c: char| c.is_whitespace() || matches!(c, ':' | '=' | '"' | '\'' | '\\');
    // Few characters are between them, and not so many that looking for them takes long.
    let name = before.char_indices().rev().take(16).find(|(_, c)| !between(*c));
    name.is_some_and(|(at, c)| ends_with_word(&before[..at + c.len_utf8()], "authorization"))
}

/// Whether so many bytes are code that makes a token, or its beginning: `$TOKEN`, `${this.token()}`, `$(cat file)`.
fn is_template(text: &str, length: usize) -> bool {
    static TEMPLATE: LazyLock<Regex> = LazyLock::new(|| {
        const CALL: &str = r#"[$#]?\{[A-Za-z_][\w.()\[\]'"\\]*\}"#;
        const OF_ACTIONS: &str = r"\$\{\{ *[\w.-]+ *\}\}";
        const COMMAND: &str = r"\$\([\w./~-]+ [^()\n]*\)";
        pattern(&format!("^(?:{CALL}|{OF_ACTIONS}|{COMMAND}|{PLACEHOLDER})"))
    });
    count_read(JUDGED);
    let near = &text[..text.floor_char_boundary(JUDGED)];
    let length = text[..length].trim_end_matches(['.', ':']).len();
    TEMPLATE.find(near).is_some_and(|found| found.end() >= length && has_only_names(found.as_str()))
}

/// Whether this is a text with a `:` in base64.
fn is_credentials(base64: &[u8]) -> bool {
    const ANY_PADDING: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, ANY_PADDING);
    let (mut at, mut plain) = (0, Vec::with_capacity(base64.len()));
    while let Some(byte) = base64.get(at) {
        let (length, byte) = escaped(&base64[at..]).unwrap_or((1, *byte));
        plain.push(byte);
        at += length;
    }
    let decoded = BASE64.decode(plain).unwrap_or_default();
    decoded.contains(&b':') && str::from_utf8(&decoded).is_ok_and(|text| !text.contains(char::is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("Authorization: Bearer $ecret and", "Authorization: Bearer [redacted] and"),
            ("authorization: bearer {x9!k, b", "authorization: bearer [redacted], b"),
            ("Authorization: Bearer [x9", "Authorization: Bearer [redacted]"),
            (r#"{\"h\":\"Bearer 0a1b2c3d\/e4f5\u002b==\"}"#, r#"{\"h\":\"Bearer [redacted]\"}"#),
            ("Authorization: Basic dXNlcjpodW50ZXIy", "Authorization: Basic [redacted]"),
            ("basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==.", "basic [redacted]."),
            ("Authorization: Basic ajpi", "Authorization: Basic [redacted]"),
            ("{Authorization: Bearer {aaAZ7}", "{Authorization: Bearer [redacted]"),
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
            (format!("sk-----BEGIN RSA PRIVATE KEY-----\n{key}"), "sk[redacted]".to_owned()),
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
            "-H 'Authorization: Bearer $TOKEN' -H \"Authorization: Bearer $(gcloud auth print-access-token)\"",
            "Authorization: `Bearer ${process.env.TOKEN}`, f'Authorization: Bearer {self.token}', Authorization: Bearer %s",
            "Authorization: Bearer ${{ secrets.GITHUB_TOKEN }} and `Authorization: Bearer ${this.token()}`.",
            "WWW-Authenticate: Bearer realm=api, Bearer error=invalid_token, Basic realm=\"api\"",
            "basic authentication, Basic auth, a BASIC programme, basic understanding of basic/advanced, Basic $CREDENTIALS",
            "Basic ajo, basic ajpi",
            r#""bearer authentication\/authorization""#,
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
}
