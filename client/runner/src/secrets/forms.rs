//! The forms in which a value is found again: as it is, in base64, percent-encoded, and as JSON writes it.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::collections::BTreeSet;

/// Shorter values are words that stand in every text.
const SHORTEST: usize = 8;

/// What a URL may have as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Every form of every value. A value is also without the white space around it, because files end with a line feed; the texts of a JSON
/// document are values, too, such as the key in an `auth.json`.
pub(super) fn forms<'a>(values: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    for value in values {
        for part in parts(value).into_iter().filter(|part| part.len() >= SHORTEST) {
            add_forms(&part, &mut forms);
        }
    }
    forms
}

/// A value, and those inside of it.
fn parts(value: &str) -> Vec<String> {
    let mut parts = vec![value.to_owned(), value.trim().to_owned()];
    if value.trim_start().starts_with(['{', '['])
        && let Ok(document) = serde_json::from_str(value)
    {
        add_texts(&document, &mut parts);
    }
    parts
}

fn add_texts(document: &Value, parts: &mut Vec<String>) {
    match document {
        Value::String(text) => parts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| add_texts(item, parts)),
        Value::Object(members) => members.values().for_each(|item| add_texts(item, parts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn add_forms(value: &str, forms: &mut BTreeSet<String>) {
    forms.insert(value.to_owned());
    let percent = utf8_percent_encode(value, ENCODED).to_string();
    forms.insert(lower_case_escapes(&percent));
    forms.insert(percent);
    let json = Value::from(value).to_string();
    forms.insert(json[1..json.len() - 1].to_owned());
    for alphabet in [BASE64_STANDARD, BASE64_URL_SAFE] {
        let whole = alphabet.encode(value);
        forms.insert(whole.trim_end_matches('=').to_owned());
        forms.insert(whole);
        // Inside of a longer text, such as `user:value` of a header, a value begins at one of three positions of a group of characters.
        forms.extend((0..3).map(|position| inside_of_base64(&alphabet, value, position)));
    }
}

/// The characters that a value has in base64 whatever stands before and behind it, where its first byte is at this position of a group.
fn inside_of_base64(alphabet: &impl base64::Engine, value: &str, position: usize) -> String {
    let mut bytes = vec![0; position];
    bytes.extend_from_slice(value.as_bytes());
    let encoded = alphabet.encode(&bytes);
    // A character has six bits. The first and the last may have bits of what stands beside the value.
    let (first, end) = ((position * 8).div_ceil(6), bytes.len() * 8 / 6);
    encoded[first..end].to_owned()
}

/// `%2F` is `%2f` for some.
fn lower_case_escapes(percent: &str) -> String {
    let mut lower = String::with_capacity(percent.len());
    let mut parts = percent.split('%');
    lower.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (digits, rest) = part.split_at(part.len().min(2));
        lower.push('%');
        lower.push_str(&digits.to_ascii_lowercase());
        lower.push_str(rest);
    }
    lower
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> BTreeSet<String> {
        forms(values.iter().copied())
    }

    #[test]
    fn a_value_has_its_forms() {
        let forms = of(&["pass/\"wörd\""]);
        for form in ["pass/\"wörd\"", "pass%2F%22w%C3%B6rd%22", "pass%2f%22w%c3%b6rd%22", "pass/\\\"wörd\\\""]
        {
            assert!(forms.contains(form), "{form} in {forms:?}");
        }
        assert!(forms.contains("cGFzcy8id8O2cmQi"), "{forms:?}");
    }

    #[test]
    fn a_value_is_found_in_base64_wherever_it_begins() {
        let value = "a-secret-value";
        let forms = of(&[value]);
        for before in ["", "u", "us", "user:", "user:."] {
            for after in ["", "x", "xy", "xyz"] {
                let encoded = BASE64_STANDARD.encode(format!("{before}{value}{after}"));
                let found = forms.iter().any(|form| form.len() >= 16 && encoded.contains(form.as_str()));
                assert!(found, "{before}{value}{after}");
            }
        }
    }

    #[test]
    fn words_are_no_secrets_and_texts_of_a_document_are() {
        assert!(of(&["secret", "", "true"]).is_empty());
        let forms =
            of(&["{\"OPENAI_API_KEY\": \"sk-1234567890\", \"short\": \"x\", \"more\": [\"another one\"]}\n"]);
        assert!(forms.contains("sk-1234567890") && forms.contains("another one"), "{forms:?}");
        assert!(!forms.contains("x"));
        assert!(of(&["value-of-a-file\n"]).contains("value-of-a-file"));
    }
}
