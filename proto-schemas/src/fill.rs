//! The live values in examples: `{{aid}}`, `{{signature:{{login_nonce}}}}`, `{{number:now_ms}}`.

use serde_json::Value;

/// Replaces every placeholder in every string of `value` by what `lookup` says it stands for.
///
/// The innermost placeholder goes first, so the text of `{{signature:…}}` arrives filled. One that `lookup` does not
/// know fails the whole call with its name. A string that is nothing but `{{number:…}}` becomes a number.
pub fn fill(value: &Value, lookup: &mut impl FnMut(&str) -> Option<String>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => match number_in(text) {
            Some(name) => fill_number(name, lookup)?,
            None => Value::String(fill_text(text, lookup)?),
        },
        Value::Array(items) => {
            let mut filled = Vec::with_capacity(items.len());
            for item in items {
                filled.push(fill(item, lookup)?);
            }
            Value::Array(filled)
        }
        Value::Object(fields) => {
            let mut filled = serde_json::Map::new();
            for (name, field) in fields {
                filled.insert(name.clone(), fill(field, lookup)?);
            }
            Value::Object(filled)
        }
        other => other.clone(),
    })
}

fn fill_text(text: &str, lookup: &mut impl FnMut(&str) -> Option<String>) -> Result<String, String> {
    let mut text = text.to_owned();
    // This ends because what is filled in holds no placeholder itself: keys, nonces and tokens have no braces.
    while let Some((start, end)) = innermost(&text) {
        let name = &text[start + 2..end];
        let value = lookup(name).ok_or_else(|| format!("nothing is known about the placeholder {name}"))?;
        text.replace_range(start..end + 2, &value);
    }
    Ok(text)
}

/// The name in a string that is one placeholder for a number and nothing else.
fn number_in(text: &str) -> Option<&str> {
    text.strip_prefix("{{number:")?.strip_suffix("}}").filter(|name| !name.contains(['{', '}']))
}

fn fill_number(name: &str, lookup: &mut impl FnMut(&str) -> Option<String>) -> Result<Value, String> {
    let value = lookup(name).ok_or_else(|| format!("nothing is known about the placeholder {name}"))?;
    let number: i64 =
        value.parse().map_err(|_| format!("the placeholder {name} is not a number: {value}"))?;
    Ok(Value::from(number))
}

/// Where the first placeholder that holds no other one begins, and where its closing braces are.
fn innermost(text: &str) -> Option<(usize, usize)> {
    let end = text.find("}}")?;
    let start = text[..end].rfind("{{")?;
    Some((start, end))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::fill;

    fn shout(name: &str) -> Option<String> {
        match name {
            "aid" => Some("alice.agents.localhost".to_owned()),
            "login_nonce" => Some("n-1".to_owned()),
            "now_ms" => Some("1794701761845".to_owned()),
            _ => name.strip_prefix("signature:").map(|text| format!("signed({text})")),
        }
    }

    #[test]
    fn a_placeholder_inside_another_is_filled_first() {
        let params =
            json!({ "aid": "{{aid}}", "proof": ["{{signature:{{login_nonce}}:17{{aid}}}}"], "n": 1 });
        let filled = fill(&params, &mut shout);
        let proof = "signed(n-1:17alice.agents.localhost)";
        assert_eq!(filled, Ok(json!({ "aid": "alice.agents.localhost", "proof": [proof], "n": 1 })));
    }

    #[test]
    fn an_unknown_placeholder_is_named() {
        let sentence = fill(&json!("{{moon}}"), &mut shout).unwrap_err();
        assert_eq!(sentence, "nothing is known about the placeholder moon");
    }

    #[test]
    fn a_number_becomes_one_where_it_stands_alone() {
        let params = json!({ "t": "{{number:now_ms}}", "text": "at {{now_ms}}" });
        let filled = fill(&params, &mut shout);
        assert_eq!(filled, Ok(json!({ "t": 1_794_701_761_845_i64, "text": "at 1794701761845" })));
        let sentence = fill(&json!("{{number:aid}}"), &mut shout).unwrap_err();
        assert_eq!(sentence, "the placeholder aid is not a number: alice.agents.localhost");
    }
}
