//! Values behind a name that says what they are: `password: …`, `API_KEY=…`, `密钥：…`.

use super::harmless::{is_placeholder, is_plain, is_public, is_without_ascii};

/// A shorter value is taken for prose.
const SECRET_CHARS: usize = 8;

/// A name, and what stands behind it.
struct SecretName {
    name: &'static str,
    what: &'static str,
    /// Whether a word that people use in sentences is a secret, too: people choose passwords.
    any: bool,
}

const NAMES: [SecretName; 9] = [
    SecretName { name: "password", what: "a password", any: true },
    SecretName { name: "passwd", what: "a password", any: false },
    SecretName { name: "secret", what: "a secret", any: false },
    SecretName { name: "token", what: "a token", any: false },
    SecretName { name: "key", what: "a key", any: false },
    SecretName { name: "密码", what: "a password", any: true },
    SecretName { name: "口令", what: "a password", any: false },
    SecretName { name: "令牌", what: "a token", any: false },
    SecretName { name: "密钥", what: "a key", any: false },
];

/// The ends of words before `key` that make one name with it. Behind anything else of A-Z it is a part of a word, as in `monkey`.
const BEFORE_KEY: [&str; 10] =
    ["api", "access", "secret", "private", "auth", "app", "master", "session", "signing", "encryption"];

/// What a key is called that everybody may know.
const PUBLIC_KEYS: [&str; 5] = ["public", "pub", "i18n", "公开", "公共"];

/// The first one: what it looks like, and where its name begins.
pub(super) fn find(text: &str) -> Option<(&'static str, usize)> {
    // Of the same length in bytes.
    let lower = text.to_ascii_lowercase();
    let client_secret = lower.match_indices("client_secret").map(|(at, name)| (at, name.len()));
    let client_secret = client_secret.filter(|(at, len)| is_client_secret(&text[at + len..]));
    let client_secret = client_secret.map(|(at, _)| ("a client_secret", at));
    let others = NAMES.iter().flat_map(|name| {
        let places = lower.match_indices(name.name).map(|(at, _)| at);
        let places = places.filter(move |at| name.is_before_a_secret(text, *at));
        places.map(move |at| (name.what, at))
    });
    client_secret.min_by_key(|(_, at)| *at).or_else(|| others.min_by_key(|(_, at)| *at))
}

impl SecretName {
    fn is_before_a_secret(&self, text: &str, at: usize) -> bool {
        let (before, rest) = (&text[..at], &text[at + self.name.len()..]);
        if is_in_url(before) || matches!(self.name, "key" | "密钥") && !is_key_name(before, &text[at..]) {
            return false;
        }
        let Some(value) = value_behind(rest) else { return false };
        let whole = value.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '*']);
        let is_harmless = match self.any {
            true => is_without_ascii(whole),
            false => is_plain(whole),
        };
        whole.chars().count() >= SECRET_CHARS && !is_placeholder(value) && !is_public(value) && !is_harmless
    }
}

/// A value of one character is enough: nothing but a secret stands behind this name.
fn is_client_secret(rest: &str) -> bool {
    let rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest).trim_start_matches([' ', '\t']);
    let Some(rest) = rest.strip_prefix([':', '=']) else { return false };
    let rest = rest.trim_start_matches([' ', '\t']);
    let value = match rest.strip_prefix(['"', '\'']) {
        Some(quoted) => quoted.split(['"', '\'']).next().unwrap_or_default(),
        None => rest,
    };
    let value = value.split(char::is_whitespace).next().unwrap_or_default();
    !value.is_empty() && !is_placeholder(value)
}

/// The value behind a name, a sign and whatever quotes or emphasis them, up to a space; none where there is no sign.
fn value_behind(rest: &str) -> Option<&str> {
    let is_mark = |next: char| matches!(next, ' ' | '\t' | '"' | '\'' | '`' | '*');
    let rest = rest.trim_start_matches(is_mark).strip_prefix([':', '=', '：', '＝'])?;
    let rest = rest.trim_start_matches(['=', '>']).trim_start_matches(is_mark);
    let ends = |next: char| next.is_whitespace() || "\"'`|，。；、）】」》".contains(next);
    Some(&rest[..rest.find(ends).unwrap_or(rest.len())])
}

/// Whether what comes next is a part of a URL.
fn is_in_url(before: &str) -> bool {
    before.rsplit(char::is_whitespace).next().is_some_and(|word| word.contains("://"))
}

/// Whether `key` is the name of a key that is kept secret, and neither a part of a word nor a public key.
fn is_key_name(before: &str, key: &str) -> bool {
    let lower = before.to_ascii_lowercase();
    let called = lower.trim_end_matches([' ', '\t', '_', '-', '.', '*', '`']);
    if PUBLIC_KEYS.iter().any(|public| called.ends_with(public)) {
        return false;
    }
    let is_inside_a_word = before.ends_with(|last: char| last.is_ascii_alphabetic());
    let camel_case = key.starts_with('K') && before.ends_with(|last: char| last.is_ascii_lowercase());
    !is_inside_a_word || camel_case || BEFORE_KEY.iter().any(|word| lower.ends_with(word))
}
