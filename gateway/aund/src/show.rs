//! Lines for a terminal, and JSON for a program instead.

use crate::output;
use client::OthersText;
use serde_json::Value;
use std::io::{self, IsTerminal as _};
use time::OffsetDateTime;

/// So much of a text is shown beside other things.
const SHOWN_CHARS: usize = 4096;

#[derive(Clone, Copy)]
pub(crate) struct Show {
    pub json: bool,
    colour: bool,
}

impl Show {
    pub fn new(json: bool, plain: bool) -> Show {
        Show { json, colour: !plain && !json && io::stdout().is_terminal() }
    }

    /// A line on standard output, there at once.
    pub fn line(&self, text: &str) -> io::Result<()> {
        output::line(text)
    }

    /// A line on standard error, for the person who waits.
    pub fn note(&self, text: &str) {
        output::note(text);
    }

    /// A frame as it came, in one line. Where JSON has a line end or a tab, it stands between two tokens.
    pub fn frame(&self, text: &str) -> io::Result<()> {
        self.line(&text.replace(['\n', '\r', '\t'], " "))
    }

    pub fn dim(&self, text: &str) -> String {
        self.paint("2", text)
    }

    pub fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    pub fn cyan(&self, text: &str) -> String {
        self.paint("36", text)
    }

    pub fn green(&self, text: &str) -> String {
        self.paint("32", text)
    }

    pub fn yellow(&self, text: &str) -> String {
        self.paint("33", text)
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { output::painted(code, text) } else { text.to_owned() }
    }

    /// One message in one line: time, seq, sender, recipient and payload.
    pub fn message(&self, row: &Value) -> String {
        let seq = row["seq"].as_i64().map_or_else(String::new, |seq| format!("#{seq} "));
        let (from, to) = (word(&row["from"]), word(&row["to"]));
        let head = format!("{} {}", self.when(row), self.dim(&seq));
        format!("{head}{} → {}  {}", self.cyan(&from), self.cyan(&to), printable(&what(row)))
    }

    /// One event in one line.
    pub fn event(&self, method: &str, params: &Value) -> String {
        let when = self.when(params);
        let text = match method {
            "event/message.received" => return self.message(params),
            "event/message.ack" => format!("{} has read up to #{}", word(&params["to"]), params["ack_seq"]),
            "event/message.recalled" => recalled(params),
            "event/peer.v2.message_received" => {
                format!(
                    "there are encrypted messages up to #{}; this client has no key for them",
                    params["seq"]
                )
            }
            "event/gateway.disconnect" => {
                format!("the gateway closes the connection: {} ({})", word(&params["reason"]), params["code"])
            }
            _ => format!("{} {params}", method.trim_start_matches("event/")),
        };
        format!("{when} {}", self.yellow(&printable(&text)))
    }

    /// `09:14:03Z`, from whichever field tells the time.
    fn when(&self, row: &Value) -> String {
        let ms = row["timestamp"].as_i64().or_else(|| row["t_server"].as_i64());
        let time = ms.and_then(|ms| OffsetDateTime::from_unix_timestamp(ms.div_euclid(1000)).ok());
        let text = time.map_or_else(
            || "--:--:--Z".to_owned(),
            |time| format!("{:02}:{:02}:{:02}Z", time.hour(), time.minute(), time.second()),
        );
        self.dim(&text)
    }
}

/// Whether an error only says that standard output was closed.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// What a message says, as short as its form allows.
fn what(row: &Value) -> String {
    let payload = &row["payload"];
    let kind = row["type"].as_str().or_else(|| payload["type"].as_str()).unwrap_or_default();
    match (kind, payload["text"].as_str()) {
        ("message.recalled", _) => format!("({})", recalled(payload)),
        (kind, _) if kind.starts_with("e2ee.") => "(encrypted; this client has no key for it)".to_owned(),
        ("text", Some(text)) => text.to_owned(),
        _ => payload.to_string(),
    }
}

fn recalled(params: &Value) -> String {
    let ids = params["message_ids"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ids: Vec<String> = ids.iter().map(word).collect();
    let who = params["from"].as_str().or_else(|| params["recalled_by"].as_str()).unwrap_or("the sender");
    format!("{who} recalled {}", ids.join(", "))
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| "?".to_owned(), printable)
}

/// Text of others as it is printed, its lines after the first indented: nobody else's text looks like a line of ours.
pub(crate) fn printable(text: &str) -> String {
    output::indented(&OthersText(text).to_string())
}

/// Text of others in one line.
pub(crate) fn printable_line(text: &str) -> String {
    printable(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// `2026-03-21T13:00:00Z`, without fractions of a second.
pub(crate) fn time(iso: &str) -> String {
    let whole = match iso.split_once('.') {
        Some((whole, _)) => format!("{whole}Z"),
        None => iso.to_owned(),
    };
    printable_line(&whole)
}

/// `13:00:00Z`.
pub(crate) fn clock(iso: &str) -> String {
    let whole = time(iso);
    whole.split_once('T').map_or(whole.as_str(), |(_, clock)| clock).to_owned()
}

/// The beginning of a text, and that there is more.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("{}… ({} bytes in all)", &text[..at], text.len()),
        None => text.to_owned(),
    }
}

/// Lines below something, each of them further right.
pub(crate) fn below(text: &str) -> String {
    let lines: Vec<String> = text.trim_end().lines().map(|line| format!("    {}", printable(line))).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PLAIN: Show = Show { json: false, colour: false };

    #[test]
    fn a_message_is_a_line() {
        let mut row = json!({ "seq": 3, "from": "alice.a.example", "to": "bobb.a.example",
            "timestamp": 1_794_702_696_945_i64, "payload": { "type": "text", "text": "hello" } });
        assert_eq!(PLAIN.message(&row), "00:31:36Z #3 alice.a.example → bobb.a.example  hello");
        row["payload"] = json!({ "type": "offer", "price": 7 });
        assert!(PLAIN.message(&row).ends_with(r#"{"price":7,"type":"offer"}"#));
        row["payload"] = json!({ "type": "e2ee.encrypted", "ciphertext": "…" });
        assert!(PLAIN.message(&row).ends_with("(encrypted; this client has no key for it)"));
        assert!(PLAIN.message(&json!({})).contains("? → ?"), "an empty row is shown, too");
        // It names the newest message, which may be a plain one of somebody else.
        let reminder = json!({ "seq": 4, "from_aid": "carol.a.example", "message_id": "m-4" });
        let line = PLAIN.event("event/peer.v2.message_received", &reminder);
        assert!(
            line.ends_with("there are encrypted messages up to #4; this client has no key for them"),
            "{line}"
        );
    }

    #[test]
    fn control_characters_of_others_are_escaped() {
        assert_eq!(printable("\x1b[2J\u{9b}x\u{202e}y\r\n"), "\\u001b[2J\\u009bx\\u202ey\\u000d\n    ");
        assert_eq!(printable_line(" a\r\n2  b\u{2028}\tc\x07 "), "a 2 b c\\u0007");
    }

    #[test]
    fn times_are_as_short_as_they_can_be() {
        assert_eq!(time("2026-03-21T13:00:00.123Z"), "2026-03-21T13:00:00Z");
        assert_eq!(clock("2026-03-21T13:00:00Z"), "13:00:00Z");
        assert_eq!(clock("soon"), "soon");
    }

    #[test]
    fn long_texts_are_cut_and_stand_further_right() {
        assert_eq!(below("a\r\nb\x07\n"), "    a\n    b\\u0007");
        assert!(cut(&"x".repeat(SHOWN_CHARS + 1)).ends_with("x… (4097 bytes in all)"));
    }
}
