//! What arrives for an agent.

use crate::error::Error;
use crate::events::ReceivedEvent;
use proto_schemas::requests::message::ReceivedMessage;
use serde::Deserialize as _;
use serde_json::Value;
use std::time::Duration;

/// What [`Messages::next_incoming`](crate::Messages::next_incoming) gives.
#[derive(Clone, Debug)]
pub enum Incoming {
    /// A message, or the note that one was recalled.
    Message(IncomingMessage),
    /// Any other event.
    Event(ReceivedEvent),
    /// Everything that was in the inbox was handed out; what follows is new.
    CaughtUp,
    /// The connection is lost. The next attempt is made after `retry_in`.
    Disconnected {
        /// How it was lost, or why the last attempt failed.
        error: Error,
        /// The time until then.
        retry_in: Duration,
    },
}

/// A plaintext message as the inbox has it. It is kept as it came, whatever a newer server adds to it.
#[derive(Clone, Debug)]
pub struct IncomingMessage {
    row: Value,
}

impl IncomingMessage {
    pub(crate) fn new(row: Value) -> IncomingMessage {
        IncomingMessage { row }
    }

    /// Its number in the inbox of this device; none for a message that is not stored.
    pub fn seq(&self) -> Option<u64> {
        self.row["seq"].as_u64()
    }

    /// The id that the sender gave it, or the server.
    pub fn id(&self) -> &str {
        self.row["message_id"].as_str().unwrap_or_default()
    }

    /// The AID of the sender.
    pub fn from(&self) -> &str {
        self.row["from"].as_str().unwrap_or_default()
    }

    /// The AID of the recipient.
    pub fn to(&self) -> &str {
        self.row["to"].as_str().unwrap_or_default()
    }

    /// What it says.
    pub fn payload(&self) -> &Value {
        &self.row["payload"]
    }

    /// The text of a message of type `text`; empty for others.
    pub fn text(&self) -> &str {
        self.payload()["text"].as_str().unwrap_or_default()
    }

    /// The same with a field for each member.
    pub fn parsed(&self) -> Result<ReceivedMessage, Error> {
        ReceivedMessage::deserialize(&self.row).map_err(|error| Error::Unexpected(error.to_string()))
    }

    /// Everything that the server says about it.
    pub fn row(&self) -> &Value {
        &self.row
    }

    /// Whether it only says that earlier messages were recalled.
    pub fn is_recall(&self) -> bool {
        self.row["type"] == "message.recalled"
    }

    pub(crate) fn volatile_cursor(&self) -> Option<&str> {
        self.row["volatile_cursor"].as_str()
    }
}
