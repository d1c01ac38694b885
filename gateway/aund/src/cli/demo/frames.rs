//! Frames as they are sent and received, a line each.

use crate::show::{Show, printable};
use client::{Aid, FrameDirection, FrameObserver};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// What fits on most screens.
const LINE: usize = 116;

/// The longest text that is shown whole. Longer ones are ids, keys, tokens and signatures.
const TEXT: usize = 30;
/// What is shown of those.
const BEGINNING: usize = 12;

/// What a reader looks for, in the order of interest. The rest follows by name.
const FIRST: [&str; 22] = [
    "q",
    "items",
    "from",
    "to",
    "text",
    "content",
    "input",
    "message",
    "payload",
    "status",
    "artifacts",
    "artifact",
    "messages",
    "actor",
    "seq",
    "ack_seq",
    "message_ids",
    "message_id",
    "aid",
    "task_id",
    "cert",
    "nonce",
];

/// Prints the frames of both connections: Alice's on the left of the gateway, Bobb's on the right.
#[derive(Clone)]
pub(super) struct FramePrinter {
    show: Show,
    /// AIDs, and what they are called here.
    names: Vec<(Aid, &'static str)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScreenSide {
    Left,
    Right,
}

impl FramePrinter {
    pub fn new(show: Show, names: Vec<(Aid, &'static str)>) -> FramePrinter {
        FramePrinter { show, names }
    }

    pub fn left(&self) -> FrameObserver {
        self.clone().observer(ScreenSide::Left)
    }

    pub fn right(&self) -> FrameObserver {
        self.clone().observer(ScreenSide::Right)
    }

    /// What Bobb sends over HTTP, where there are no frames.
    pub fn http(&self, request: &str, text: &str) -> io::Result<()> {
        self.plain(ScreenSide::Right, FrameDirection::Sent, request, text)
    }

    pub fn http_answer(&self, request: &str, text: &str) -> io::Result<()> {
        self.plain(ScreenSide::Right, FrameDirection::Received, request, text)
    }

    fn plain(&self, side: ScreenSide, direction: FrameDirection, name: &str, text: &str) -> io::Result<()> {
        let picture = picture(side, direction);
        let used = picture.chars().count() + name.chars().count() + 6;
        let text = cut(&printable(text), LINE.saturating_sub(used).max(TEXT));
        let show = self.show;
        let line = format!("  {}  {}  {}", show.cyan(picture), show.green(name), show.dim(&text));
        show.line(line.trim_end())
    }

    fn observer(self, side: ScreenSide) -> FrameObserver {
        // An answer names its call by id only; the reader wants to know the method.
        let calls: Mutex<HashMap<String, String>> = Mutex::default();
        Arc::new(move |direction, frame| {
            let (id, method) = (frame["id"].as_str(), frame["method"].as_str());
            let method = match (direction, id, method) {
                (FrameDirection::Sent, Some(id), Some(method)) => {
                    calls.lock().insert(id.to_owned(), method.to_owned());
                    method.to_owned()
                }
                (_, Some(id), None) => calls.lock().remove(id).unwrap_or_default(),
                (_, _, method) => method.unwrap_or_default().to_owned(),
            };
            // A demo whose output was closed ends at its next line.
            let _ = self.show.line(&self.line(side, direction, &method, frame));
        })
    }

    fn line(&self, side: ScreenSide, direction: FrameDirection, method: &str, frame: &Value) -> String {
        let picture = picture(side, direction);
        let (name, body) = match (frame.get("result"), frame.get("error")) {
            (Some(result), _) => (format!("{method} ok"), result),
            (_, Some(error)) => (format!("{method} error"), error),
            _ => (method.to_owned(), &frame["params"]),
        };
        let used = picture.chars().count() + name.chars().count() + 6;
        let text = cut(&printable(&self.brief(body)), LINE.saturating_sub(used).max(TEXT));
        let show = self.show;
        let name = if method.starts_with("event/") { show.yellow(&name) } else { show.green(&name) };
        format!("  {}  {name}  {}", show.cyan(picture), show.dim(&text))
    }

    /// JSON, the interesting first, long texts cut and empty fields left out.
    fn brief(&self, value: &Value) -> String {
        match value {
            Value::String(text) if text.starts_with("-----BEGIN CERTIFICATE") => "(certificate)".to_owned(),
            Value::String(text) => Value::from(self.short(text)).to_string(),
            Value::Array(items) => {
                format!("[{}]", items.iter().map(|item| self.brief(item)).collect::<Vec<_>>().join(", "))
            }
            Value::Object(fields) => {
                let rank = |name: &str| FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
                let mut fields: Vec<_> = fields.iter().filter(|(_, value)| !is_empty(value)).collect();
                fields.sort_by_key(|(name, _)| rank(name));
                let field =
                    |(name, value): (&String, &Value)| format!("{}: {}", self.short(name), self.brief(value));
                format!("{{{}}}", fields.into_iter().map(field).collect::<Vec<_>>().join(", "))
            }
            other => other.to_string(),
        }
    }

    fn short(&self, text: &str) -> String {
        match self.names.iter().find(|(aid, _)| aid.as_str() == text) {
            Some((_, name)) => (*name).to_owned(),
            None if text.chars().count() > TEXT => cut(text, BEGINNING),
            None => text.to_owned(),
        }
    }
}

fn picture(side: ScreenSide, direction: FrameDirection) -> &'static str {
    match (side, direction) {
        (ScreenSide::Left, FrameDirection::Sent) => "alice ──▶ gateway         ",
        (ScreenSide::Left, FrameDirection::Received) => "alice ◀── gateway         ",
        (ScreenSide::Right, FrameDirection::Sent) => "          gateway ◀── bobb",
        (ScreenSide::Right, FrameDirection::Received) => "          gateway ──▶ bobb",
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_frame_is_one_line_of_bounded_length() {
        let alice = Aid::parse("alice-12d3.agents.localhost").unwrap();
        let frames = FramePrinter::new(Show::new(false, true), vec![(alice.clone(), "alice")]);
        let frame = json!({ "params": { "cert": "x".repeat(900), "many": vec![7; 900] } });
        let line = frames.line(ScreenSide::Left, FrameDirection::Sent, "auth.create_aid", &frame);
        assert!(line.chars().count() <= LINE && !line.contains('\n'), "{line}");
        assert!(line.starts_with("  alice ──▶ gateway") && line.contains("auth.create_aid"), "{line}");
        let body = json!({ "n": [1, null], "none": {}, "to": alice });
        assert_eq!(frames.brief(&body), r#"{to: "alice", n: [1, null]}"#);
    }
}
