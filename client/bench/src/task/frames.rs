//! What tasks and messages of the bench say, and how a call is written.

use tokio_tungstenite::tungstenite::Utf8Bytes;

/// What is asked, said and answered, in tasks as in messages: 256 bytes, and nothing that JSON would have to escape.
pub(super) const TEXT: &str = concat!(
    "Please read the three reports of the harbour office from last week, compare what they say about the depth of the channel ",
    "with the table of the pilots, and write down where the two differ by more than half a metre, with the page of each report; many thanks."
);

/// The params are JSON. The id is the one that [`PairSockets`](super::pair::PairSockets) reads.
pub(super) fn call(number: usize, method: &str, params: &str) -> Utf8Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":"rpc-{number:016x}","method":"{method}","params":{params}}}"#).into()
}

/// What a task is told.
pub(super) fn block() -> String {
    format!(r#"{{"type":"text","content":"{TEXT}"}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_as_long_as_is_said_and_needs_no_escapes() {
        assert_eq!(TEXT.len(), 256);
        assert_eq!(serde_json::to_string(TEXT).unwrap(), format!("\"{TEXT}\""));
    }

    #[test]
    fn a_call_is_json() {
        let frame: serde_json::Value =
            serde_json::from_str(&call(10, "task.list", r#"{"limit":1}"#)).unwrap();
        assert_eq!(frame["id"], "rpc-000000000000000a");
        assert_eq!(frame["params"]["limit"], 1);
    }
}
