//! Tasks as a person reads them. Whatever others wrote is made safe for a terminal here.

use crate::show::{Show, cut, printable, printable_line};
use serde_json::Value;
use serde_json::value::RawValue;

/// The longest name of a status.
const STATUS: usize = "input_required".len();

/// Whether nothing happens to a task with this status any more.
pub(super) fn is_ended(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "canceled" | "rejected")
}

/// A status, as wide as the longest.
pub(super) fn status(show: &Show, status: &str) -> String {
    let text = format!("{:STATUS$}", printable_line(status));
    match status {
        "completed" => show.green(&text),
        "input_required" | "failed" | "rejected" => show.yellow(&text),
        "working" => show.cyan(&text),
        "canceled" => show.dim(&text),
        _ => text,
    }
}

/// An AID without the domain of whoever looks, as it may be typed.
pub(super) fn short(aid: &str, issuer: &str) -> String {
    let name = aid.strip_suffix(issuer).and_then(|name| name.strip_suffix('.'));
    printable_line(name.unwrap_or(aid))
}

/// What a content block says, as short as its type allows; it may have several lines.
pub(super) fn block(block: &Value) -> String {
    let text = match (block["type"].as_str(), &block["content"]) {
        (Some("text"), Value::String(text)) => text.clone(),
        (Some("json"), content) => content.to_string(),
        (Some("e2ee"), _) => "(encrypted)".to_owned(),
        _ => block.to_string(),
    };
    printable(&cut(&text))
}

/// The same for one that was not parsed.
pub(super) fn raw_block(raw: &RawValue) -> String {
    serde_json::from_str(raw.get()).map_or_else(|_| printable(&cut(raw.get())), |value| block(&value))
}

/// What an artifact contains: its text, or its JSON.
pub(super) fn content(raw: &RawValue) -> String {
    serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
}

/// Where something was delegated as optional, or a task has a title: what stands behind its other words.
pub(super) fn label(title: &str, required: bool) -> String {
    let title = printable_line(title);
    match (title.is_empty(), required) {
        (true, true) => String::new(),
        (false, true) => format!("  {title}"),
        (true, false) => "  (optional)".to_owned(),
        (false, false) => format!("  {title} (optional)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_as_short_as_they_can_be() {
        assert_eq!(short("bobb.a.example", "a.example"), "bobb");
        assert_eq!(short("bobb.b.example", "a.example"), "bobb.b.example");
        assert_eq!(short("bobb.xa.example", "a.example"), "bobb.xa.example");
    }

    #[test]
    fn what_others_wrote_is_safe_for_a_terminal() {
        let plain = Show::new(false, true);
        assert_eq!(block(&json!({ "type": "text", "content": "a\x1b[2J\nb" })), "a\\u001b[2J\n    b");
        assert_eq!(block(&json!({ "type": "json", "content": { "n": 1 } })), r#"{"n":1}"#);
        assert_eq!(block(&json!({ "type": "e2ee", "ciphertext": "x" })), "(encrypted)");
        assert_eq!(label("Review\n\u{202e}it", true), "  Review \\u202eit");
        assert_eq!(label("", false), "  (optional)");
        assert_eq!(status(&plain, "work\x1bing"), "work\\u001bing ");
    }

    #[test]
    fn four_states_are_the_end() {
        for open in ["submitted", "working", "input_required"] {
            assert!(!is_ended(open));
        }
        for ended in ["completed", "failed", "canceled", "rejected"] {
            assert!(is_ended(ended));
        }
    }
}
