//! The one spelling of a JSON value (RFC 8785), and its digest.

use ring::digest::SHA256;
use serde_json::Value;

/// The canonical form of RFC 8785: keys in the order of their UTF-16 code units, no white space, numbers as ECMAScript prints them.
///
/// `certs::canonical_json` is another one, which AUN signs: keys in the order of code points, numbers as they were written.
pub fn canonical_form(value: &Value) -> String {
    serde_jcs::to_string(value).expect("a JSON value has text for keys and finite numbers")
}

/// The lower-case hex SHA-256 of the canonical form.
pub fn digest(value: &Value) -> String {
    sha256_hex(&canonical_form(value))
}

pub(crate) fn sha256_hex(text: &str) -> String {
    hex::encode(ring::digest::digest(&SHA256, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn canonical(text: &str) -> String {
        canonical_form(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn numbers_are_as_ecmascript_prints_them() {
        // Of the examples in RFC 8785, 3.2.2.3 and appendix B.
        for (written, canonical_number) in [
            ("333333333.33333329", "333333333.3333333"),
            ("1E30", "1e+30"),
            ("4.50", "4.5"),
            ("2e-3", "0.002"),
            ("0.000000000000000000000000001", "1e-27"),
            ("1.0", "1"),
            ("-0.0", "0"),
            ("9007199254740993", "9007199254740992"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("5e-324", "5e-324"),
            ("0.3", "0.3"),
        ] {
            assert_eq!(canonical(written), canonical_number, "{written}");
        }
    }

    #[test]
    fn keys_are_in_the_order_of_utf_16_and_texts_are_hardly_escaped() {
        // U+FB33 comes behind a character of two code units, whose code point is larger.
        let text = "{\"\\ufb33\":1,\"\\ud83d\\ude00\":2,\"\\u20ac\":3,\"1\":4,\"\\r\":5,\"\":[ ]}";
        assert_eq!(
            canonical(text),
            "{\"\":[],\"\\r\":5,\"1\":4,\"\u{20ac}\":3,\"\u{1f600}\":2,\"\u{fb33}\":1}"
        );
        assert_eq!(canonical(r#""\u20ac$\u000f\nA'B\"\\\"\/""#), "\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\"/\"");
    }

    #[test]
    fn the_digest_is_that_of_the_canonical_form() {
        let arguments = json!({ "path": "/Users/alice/notes.md" });
        assert_eq!(canonical_form(&arguments), r#"{"path":"/Users/alice/notes.md"}"#);
        assert_eq!(digest(&arguments), "dac63a2ffc11af893afd48ac48226f00c31aa52c213f190118d30d6b9024d13f");
    }
}
