//! Why and how the server closes a connection.

use crate::frame;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Utf8Bytes;

#[derive(Clone, Debug)]
pub struct CloseReason {
    pub code: u16,
    pub reason: String,
    /// The `event/gateway.disconnect` frame that goes before the close. Clients that get it do not reconnect.
    pub event: Option<Utf8Bytes>,
}

impl CloseReason {
    /// Without an event: the client reconnects by itself.
    pub fn plain(code: u16, reason: impl Into<String>) -> CloseReason {
        CloseReason { code, reason: reason.into(), event: None }
    }

    /// With the event that says why, so that the client does not reconnect by itself.
    pub fn disconnect(code: u16, reason: &str, detail: &Value) -> CloseReason {
        let params = json!({ "code": code, "reason": reason, "detail": detail }).to_string();
        let event = Utf8Bytes::from(frame::notification("event/gateway.disconnect", &params));
        CloseReason { code, reason: reason.to_owned(), event: Some(event) }
    }
}
