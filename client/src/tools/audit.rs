//! What was asked for and what came of it, without what it was about.

use super::call::ReceivedToolCall;
use super::entry_file::{EntryFile, TimedEntry};
use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How long an entry is kept.
const KEPT_MS: i64 = 30 * 24 * 60 * 60 * 1000;

/// So many characters of a name that the agent chose are kept: those that are declared are shorter.
const NAME_CHARS: usize = 80;

/// One call. Of its arguments there is a digest only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// The id of the call.
    pub call_id: String,
    /// The agent that asked.
    pub agent_id: String,
    /// The tool that it asked for.
    pub tool_name: String,
    /// The scope that it asked under; empty if it said none.
    pub scope: String,
    /// The lower-case hex SHA-256 of the canonical arguments.
    pub arguments_digest: String,
    /// `ok`, `error` or `denied`.
    pub status: String,
    /// When it was answered, in unix milliseconds.
    pub timestamp: i64,
}

impl TimedEntry for AuditEntry {
    fn timestamp(&self) -> i64 {
        self.timestamp
    }
}

/// A call that was taken up, so that it is not taken up again.
#[derive(Serialize, Deserialize)]
struct SeenCall {
    agent_id: String,
    call_id: String,
    timestamp: i64,
}

impl TimedEntry for SeenCall {
    fn timestamp(&self) -> i64 {
        self.timestamp
    }
}

/// The calls of one device.
pub(super) struct AuditTrail {
    entries: EntryFile,
    seen: EntryFile,
}

impl AuditTrail {
    pub fn new(folder: &Path) -> AuditTrail {
        AuditTrail {
            entries: EntryFile::new(folder.join("audit.jsonl")),
            seen: EntryFile::new(folder.join("seen.jsonl")),
        }
    }

    /// Takes up a call. False if that was done already: the same call may arrive twice, and is executed once.
    pub fn take_up(&self, call: &ReceivedToolCall, now: i64) -> Result<bool, Error> {
        let seen: Vec<SeenCall> = self.seen.read(now - KEPT_MS)?;
        let agent_id = call.agent.as_str();
        if seen.iter().any(|seen| seen.agent_id == agent_id && seen.call_id == call.call_id) {
            return Ok(false);
        }
        let entry = SeenCall { agent_id: agent_id.to_owned(), call_id: call.call_id.clone(), timestamp: now };
        self.seen.add(&entry, now - KEPT_MS)?;
        Ok(true)
    }

    /// Adds what came of a call.
    pub fn add(&self, call: &ReceivedToolCall, status: &str, now: i64) -> Result<(), Error> {
        let short = |text: &str| text.chars().take(NAME_CHARS).collect::<String>();
        let entry = AuditEntry {
            call_id: call.call_id.clone(),
            agent_id: call.agent.to_string(),
            tool_name: short(&call.tool_name),
            scope: short(call.permission_scope.as_deref().unwrap_or_default()),
            arguments_digest: manifest::digest(&call.arguments),
            status: status.to_owned(),
            timestamp: now,
        };
        self.entries.add(&entry, now - KEPT_MS)
    }

    /// The entries of the last 30 days, the oldest first.
    pub fn entries(&self, now: i64) -> Result<Vec<AuditEntry>, Error> {
        self.entries.read(now - KEPT_MS)
    }
}
