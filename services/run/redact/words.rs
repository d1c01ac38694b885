//! What tells random text from words, and what stands in a text in the place of a secret.

use regex::Regex;
use std::sync::LazyLock;

/// No word is longer than this.
pub(super) const LONGEST_WORD: usize = 24;

/// Code that puts a secret into a text, and what was hidden before: a name after `$` or in braces, and nothing else. Passwords begin with
/// these characters as well, so the whole text has to be one.
pub(super) const PLACEHOLDER: &str = r"\$[A-Z_][A-Z0-9_]*|[$#]?\{[\w.]*\}|\$?\{\{[\w.-]+\}\}|\$\([\w.-]+\)|%\(\w+\)s|%[sv]|\*{3,}|\.{3}|\.[*+]\??|\[redacted\]";

static WHOLE_PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| pattern(&format!("^(?:{PLACEHOLDER})$")));
static ANY_PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| pattern(PLACEHOLDER));

pub(super) fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is valid")
}

#[cfg(test)]
thread_local! {
    /// How many bytes the search has read after what it found.
    pub(super) static READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts what is read where something was found, so that a test can tell whether all of it is linear in the text.
pub(super) fn count_read(_bytes: usize) {
    #[cfg(test)]
    READ.with(|read| read.set(read.get() + _bytes));
}

/// `$PASSWORD`, `${password}`, `{}`, `%s`, `***`.
pub(super) fn is_placeholder(text: &str) -> bool {
    count_read(text.len());
    WHOLE_PLACEHOLDER.is_match(text) && has_only_names(text)
}

/// Whether code could have these names: words, and few digits, which are not beside both cases. A random text in braces is no placeholder.
pub(super) fn has_only_names(code: &str) -> bool {
    code.bytes().filter(u8::is_ascii_digit).count() <= 4
        && !is_mixed(code)
        && code.split(|c: char| !c.is_ascii_alphabetic()).all(is_word)
}

/// What is between the placeholders of a text.
pub(super) fn beside_placeholders(text: &str) -> impl Iterator<Item = &str> {
    count_read(text.len());
    ANY_PLACEHOLDER.split(text)
}

/// How many bytes at the beginning are of this kind.
pub(super) fn run(bytes: &[u8], of_kind: impl Fn(u8) -> bool) -> usize {
    let length = bytes.iter().position(|b| !of_kind(*b)).unwrap_or(bytes.len());
    count_read(length);
    length
}

/// The same in text that may be JSON, where some write `/` as `\/` and other characters as `\u002b`.
pub(super) fn escaped_run(bytes: &[u8], of_kind: impl Fn(u8) -> bool) -> usize {
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let (length, byte) = match byte {
            b'\\' => escaped(&bytes[at..]).unwrap_or((1, b'\\')),
            byte => (1, *byte),
        };
        if !of_kind(byte) {
            break;
        }
        at += length;
    }
    count_read(at);
    at
}

/// How long the escape sequence of a visible character is, and the character. JSON in JSON has more backslashes.
pub(super) fn escaped(bytes: &[u8]) -> Option<(usize, u8)> {
    let slashes = run(&bytes[..bytes.len().min(8)], |b| b == b'\\');
    match bytes[slashes..] {
        [b'/', ..] if slashes > 0 => Some((slashes + 1, b'/')),
        [b'u', b'0', b'0', high @ b'2'..=b'7', low, ..] if slashes > 0 => {
            let low = char::from(low).to_digit(16).and_then(|low| u8::try_from(low).ok())?;
            Some((slashes + 5, ((high - b'0') << 4) | low))
        }
        _ => None,
    }
}

pub(super) fn ends_with_word(text: &str, word: &str) -> bool {
    let tail = text.len().checked_sub(word.len()).map(|from| &text.as_bytes()[from..]);
    tail.is_some_and(|tail| tail.eq_ignore_ascii_case(word.as_bytes()))
}

/// Whether what follows begins a word: no character of a word is before it, except for those of an escape sequence.
pub(super) fn begins_word(before: &str) -> bool {
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
pub(super) fn is_words(text: &str, digits: usize) -> bool {
    count_read(text.len());
    text.split(['-', '_', '.', '/', '+', '~', '|', ':', '=', '\\']).all(|part| {
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
pub(super) fn is_mixed(text: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| text.as_bytes().iter().any(kind);
    has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_is_the_whole_text() {
        for text in ["$PASSWORD", "$_A1", "${pass}", "${env.PASS}", "{password}", "{}", "{0}", "{{db.pass}}"]
        {
            assert!(is_placeholder(text), "{text}");
        }
        for text in ["$(PASSWORD)", "#{pass}", "%(pass)s", "%s", "%v", "***", "...", "[redacted]"] {
            assert!(is_placeholder(text), "{text}");
        }
        for text in ["{oauth2_token}", "${AWS_S3_KEY}", "{accessToken}"] {
            assert!(is_placeholder(text), "{text}");
        }
        for text in ["{aaAZ7}", "{abc12XYZ}", "${x4K9q2LmT}", "{1234567890}"] {
            assert!(!is_placeholder(text), "{text}");
        }
        for text in ["$tr0ngPass", "$x", "{x9!k", "[a", "$A:b", "${A:-b}", "{a}b", "x{a}", "", "%sx", "**"] {
            assert!(!is_placeholder(text), "{text}");
        }
        assert_eq!(beside_placeholders("a${B}c{d}").collect::<Vec<_>>(), ["a", "c", ""]);
    }

    #[test]
    fn escape_sequences_are_characters() {
        let kind = |b: u8| b.is_ascii_alphanumeric() || b"+/=".contains(&b);
        for (text, length) in
            [("ab\\/c d", 5), ("a\\u002bb\\u003D.", 14), ("a\\\\\\/b\\n", 6), ("a\\nb", 1), ("a\\u000ab", 1)]
        {
            assert_eq!(escaped_run(text.as_bytes(), kind), length, "{text}");
        }
    }
}
