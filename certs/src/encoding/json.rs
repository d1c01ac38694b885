//! Canonical JSON: the one spelling of a value, so that a signature over it can be checked anywhere.

use serde_json::Value;

/// The value with its keys sorted by code point at every level, without white space, in unescaped UTF-8.
pub fn canonical_json(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(value, &mut bytes);
    bytes
}

fn write(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Value::Object(members) => {
            // Sorted here and not left to the map: another crate may ask serde_json to keep insertion order.
            // The order of UTF-8 bytes is the order of code points.
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| name.as_bytes());
            list(bytes, b'{', b'}', members, |(name, member), bytes| {
                scalar(&Value::String(name.clone()), bytes);
                bytes.push(b':');
                write(member, bytes);
            });
        }
        Value::Array(items) => list(bytes, b'[', b']', items, write),
        _ => scalar(value, bytes),
    }
}

fn list<T>(
    bytes: &mut Vec<u8>,
    open: u8,
    close: u8,
    items: impl IntoIterator<Item = T>,
    each: fn(T, &mut Vec<u8>),
) {
    bytes.push(open);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        each(item, bytes);
    }
    bytes.push(close);
}

fn scalar(value: &Value, bytes: &mut Vec<u8>) {
    bytes.extend(value.to_string().into_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(value: Value) -> String {
        String::from_utf8(canonical_json(&value)).unwrap()
    }

    #[test]
    fn keys_are_sorted_by_code_point_at_every_level() {
        let value =
            json!({ "b": [{ "z": 1, "a": 2 }], "B": null, "a": { "ä": true, "z": false }, "10": 1, "9": 2 });
        assert_eq!(text(value), r#"{"10":1,"9":2,"B":null,"a":{"z":false,"ä":true},"b":[{"a":2,"z":1}]}"#);
        // U+FF5A sorts before U+1F600 by code point, and after it in UTF-16.
        assert_eq!(text(json!({ "\u{1f600}": 1, "\u{ff5a}": 2 })), "{\"\u{ff5a}\":2,\"\u{1f600}\":1}");
    }

    #[test]
    fn text_stays_utf8_and_only_what_must_be_is_escaped() {
        let value = json!({ "s": "ü 中 😀 / \" \\ \u{8}\u{c}\n\r\t\u{1}\u{7f}\u{2028}" });
        let expected = "{\"s\":\"ü 中 😀 / \\\" \\\\ \\b\\f\\n\\r\\t\\u0001\u{7f}\u{2028}\"}";
        assert_eq!(text(value), expected);
    }

    #[test]
    fn empty_things_and_numbers_keep_their_shape() {
        assert_eq!(
            text(json!({ "a": {}, "b": [], "c": "", "d": -1, "e": 1.5 })),
            r#"{"a":{},"b":[],"c":"","d":-1,"e":1.5}"#
        );
    }
}
