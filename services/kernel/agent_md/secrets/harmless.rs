//! Values that are as long as secrets, and are none.

/// How fingerprints, public keys and names of things begin.
const PUBLIC: [&str; 18] = [
    "sha1:",
    "sha256:",
    "sha384:",
    "sha512:",
    "sha-256",
    "md5:",
    "ssh-",
    "ecdsa-sha2-",
    "did:",
    "urn:",
    "age1",
    "mailto:",
    "~/",
    "./",
    "../",
    // The DER of public keys in base64: on P-256, on P-384, and Ed25519.
    "mfkwewyhkozi",
    "mhywea",
    "mcowbqydk2vw",
];

/// What people write where a secret would stand.
const STANDS_FOR_ONE: [&str; 5] = ["example", "placeholder", "change-me", "changeme", "replace"];

/// How many characters the longest words have.
const LONGEST_WORD: usize = 24;

/// How many words with hyphens between them are prose: `end-to-end`, `short-lived`.
const HYPHENATED_WORDS: usize = 3;

/// How many digits a number in a sentence has.
const DIGITS_OF_A_NUMBER: usize = 9;

/// Whether a value only says where a secret would stand: `<token>`, `${TOKEN}`, `xxxx`, `your-key`, `…`.
pub(super) fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let is_variable = |name: &str| {
        name.len() > 1 && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    };
    ["<", "${", "$(", "{{", "your"].iter().any(|begin| lower.starts_with(begin))
        || ["…", "..."].iter().any(|left_out| value.contains(left_out))
        || STANDS_FOR_ONE.iter().any(|word| lower.contains(word))
        || value.strip_prefix('$').is_some_and(is_variable)
        || value.len() > 2 && value.starts_with('%') && value.ends_with('%')
        || value.len() > 2 && value.starts_with('[') && value.ends_with(']')
        || has_run(&lower)
}

/// Whether a character that stands for any other is there four times in a row.
fn has_run(value: &str) -> bool {
    let characters: Vec<char> = value.chars().collect();
    characters.windows(4).any(|four| {
        matches!(four[0], 'x' | '*' | '•' | '#' | '_' | '-' | '?') && four.iter().all(|one| *one == four[0])
    })
}

/// Whether a value is for everybody: a fingerprint, a public key, a URL, the path of a file.
pub(super) fn is_public(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    PUBLIC.iter().any(|begin| lower.starts_with(begin)) || lower.contains("://") || is_fingerprint(&lower)
}

/// Bytes in hex with colons between them.
fn is_fingerprint(value: &str) -> bool {
    let mut pairs = value.split(':');
    value.len() >= 11 && pairs.all(|pair| pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Whether nothing in it is of ASCII: a sentence without spaces, as Chinese has them.
pub(super) fn is_without_ascii(value: &str) -> bool {
    !value.chars().any(|next| next.is_ascii_alphanumeric())
}

/// Whether a value is what people write in sentences: a word, a few with hyphens, a dotted name, a number, a date.
pub(super) fn is_plain(value: &str) -> bool {
    is_number(value) || is_without_ascii(value) || is_words(value)
}

fn is_number(value: &str) -> bool {
    let is_date = value.len() >= 10
        && value.bytes().take(10).zip(b"dddd-dd-dd").all(|(byte, form)| match form {
            b'd' => byte.is_ascii_digit(),
            _ => byte == b'-',
        });
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let is_of_numbers = value.bytes().all(|b| b.is_ascii_digit() || b".,:-+/%".contains(&b));
    is_date || is_of_numbers && digits <= DIGITS_OF_A_NUMBER
}

fn is_words(value: &str) -> bool {
    let joins = |next: char| !next.is_alphanumeric();
    let (mut words, mut others) = (0, 0);
    for part in value.split(joins).filter(|part| !part.is_empty()) {
        let length = part.chars().count();
        match is_word(part) {
            true => words += length,
            // A short number or abbreviation between words: `string(32)`, `i18n`.
            false if length <= 4 => others += length,
            false => return false,
        }
    }
    let hyphenated = value.split('-').filter(|part| part.chars().count() > 3).count();
    words * 10 >= (words + others) * 7 && hyphenated <= HYPHENATED_WORDS && words > 0
}

/// Alphabetic characters only, with capitals where words have them: `Bearer`, `accessToken`, `UTF`.
fn is_word(part: &str) -> bool {
    let characters: Vec<char> = part.chars().collect();
    let humps = characters.windows(2).filter(|two| two[0].is_lowercase() && two[1].is_uppercase()).count();
    characters.iter().all(|one| one.is_alphabetic())
        && characters.len() <= LONGEST_WORD
        && humps * 5 <= characters.len()
}
