//! Conversations of front ends, as a commit sees them: what is stored beside the log when a turn is accepted, begins, says something and
//! ends.

use kernel::Payer;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What the keys of commands begin with that are turns of conversations. Behind it is the id that the front end has given its run.
pub(crate) const TURN_KEY: &str = "agui ";

/// A conversation. Its run is the one in which its turns are now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, sqlx::FromRow)]
pub(crate) struct ThreadRow {
    pub id: String,
    pub aid: String,
    pub session_id: String,
    pub run_id: String,
    /// Which run of the conversation it is, from 1.
    pub generation: i64,
    /// What is added to the numbers of the run's events.
    pub base: i64,
    pub last_message: i64,
    pub last_position: i64,
    /// The last whole message of a back end that is stored: its turn and its item.
    pub last_item: String,
    pub event_bytes: i64,
    pub event_rows: i64,
    pub created_at: i64,
    pub updated_at: i64,
}

/// A run as its front end knows it: a turn, or the rest of one behind the answers to its questions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, sqlx::FromRow)]
pub(crate) struct PartRow {
    pub thread_id: String,
    pub id: String,
    pub aid: String,
    pub position: i64,
    /// The turn.
    pub task_id: String,
    pub run_id: String,
    pub base: i64,
    pub input: String,
    pub input_hash: String,
    pub parent_id: Option<String>,
    pub has_protocol: i64,
    /// The questions that it answers, as a JSON list.
    pub answers: String,
    pub created_at: i64,
}

/// A message, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ThreadMessage {
    pub thread_id: String,
    pub seq: i64,
    pub aid: String,
    pub id: String,
    pub role: &'static str,
    pub content: String,
    pub attachments: Option<String>,
    pub ui_schema: Option<String>,
    pub task_id: String,
    pub shown: i64,
    pub created_at: i64,
}

/// The input of a front end, which was checked.
#[derive(Clone, Debug)]
pub(crate) struct NewPart {
    pub thread_id: String,
    pub id: String,
    pub aid: String,
    pub input: String,
    pub input_hash: String,
    pub parent_id: Option<String>,
    pub has_protocol: bool,
    pub payer: Payer,
}

impl NewPart {
    pub fn bytes(&self) -> usize {
        self.input.len()
    }
}

/// What a user says.
#[derive(Clone, Debug)]
pub(crate) struct NewTurn {
    pub part: NewPart,
    pub message_id: String,
    pub text: String,
    /// Its pictures as a JSON list of `{path, mimeType}`.
    pub attachments: Option<String>,
    /// The paths of its pictures.
    pub pictures: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct NewThreadSession {
    pub id: String,
    pub payer: String,
    pub tenant: String,
    pub project: String,
    pub profile: String,
    pub now: i64,
    pub expires_at: i64,
}

/// An answer to a question.
#[derive(Clone, Debug)]
pub(crate) struct GivenAnswer {
    pub approval_id: String,
    pub decision: String,
    pub payload: Option<Box<RawValue>>,
}

/// What a commit writes of conversations.
#[derive(Debug, Default)]
pub(crate) struct ThreadChanges {
    pub new_sessions: Vec<NewThreadSession>,
    /// By their ids: those that are new, and those that have changed.
    pub new_threads: Vec<String>,
    pub parts: Vec<PartRow>,
    pub messages: Vec<ThreadMessage>,
    /// Turns that have begun, with the number of their first event.
    pub begun: Vec<(String, i64)>,
    pub ended: Vec<EndedTurn>,
    /// How the last message of a turn may be shown.
    pub ui: Vec<(String, String)>,
    /// Pictures that a turn uses.
    pub used: Vec<(String, String)>,
}

/// A turn that has ended. Only what a completed one has said is shown.
#[derive(Clone, Debug)]
pub(crate) struct EndedTurn {
    pub task_id: String,
    pub seq: i64,
    pub is_completed: bool,
    pub at: i64,
    pub run_id: String,
    /// The message that the pieces are which it has said, if it has said no whole one.
    pub of_pieces: Option<ThreadMessage>,
}

/// Texts that are kept of one message; the log has no longer ones.
pub(crate) const LONGEST_CONTENT: usize = 256 << 10;

impl ThreadChanges {
    pub fn is_empty(&self) -> bool {
        self.new_sessions.is_empty()
            && self.new_threads.is_empty()
            && self.parts.is_empty()
            && self.messages.is_empty()
            && self.begun.is_empty()
            && self.ended.is_empty()
            && self.ui.is_empty()
    }
}
