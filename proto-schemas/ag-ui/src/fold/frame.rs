//! Frames of the stream, and the numbers by which a reader goes on.

use super::RunPart;
use super::event::{AgUiEvent, RunOutcome};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The number of a frame, `<seq>-<n>`: the event that caused it, and which of its frames it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId {
    pub seq: i64,
    pub n: u32,
}

/// A text that is no number of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame is named <seq>-<n>")]
pub struct NoFrameId;

impl fmt::Display for FrameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.seq, self.n)
    }
}

impl FromStr for FrameId {
    type Err = NoFrameId;

    fn from_str(text: &str) -> Result<FrameId, NoFrameId> {
        let (seq, n) = text.split_once('-').ok_or(NoFrameId)?;
        let id = FrameId { seq: seq.parse().map_err(|_| NoFrameId)?, n: n.parse().map_err(|_| NoFrameId)? };
        // Numbers of Rust may have a sign and zeros before them.
        (id.to_string() == text).then_some(id).ok_or(NoFrameId)
    }
}

/// An AG-UI event with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub id: FrameId,
    /// The AG-UI run that it belongs to.
    pub run_id: String,
    /// The type of the event: `RUN_STARTED`, …
    pub kind: &'static str,
    /// The event as JSON.
    pub data: String,
    /// Whether the run is over, or waits for an answer, after this.
    pub ends_run: bool,
}

/// Writes the frames of one event of the log.
#[derive(Debug)]
pub(super) struct FrameWriter {
    thread_id: Arc<str>,
    run_id: String,
    next: FrameId,
    frames: Vec<Frame>,
}

impl FrameWriter {
    pub fn new(thread_id: Arc<str>, seq: i64) -> FrameWriter {
        FrameWriter { thread_id, run_id: String::new(), next: FrameId { seq, n: 0 }, frames: Vec::new() }
    }

    pub fn begin_run(&mut self, part: &RunPart) {
        self.go_on(part);
        let thread_id = self.thread_id.clone();
        self.say(&AgUiEvent::RunStarted {
            thread_id: &thread_id,
            run_id: &part.run_id,
            parent_run_id: part.parent_run_id.as_deref(),
            protocol_version: part.has_protocol_version.then_some("1.0"),
        });
    }

    /// What follows belongs to this run, which has begun before.
    pub fn go_on(&mut self, part: &RunPart) {
        self.run_id.clone_from(&part.run_id);
    }

    pub fn finish_run(&mut self, outcome: Option<RunOutcome<'_>>) {
        let (thread_id, run_id) = (self.thread_id.clone(), self.run_id.clone());
        self.say(&AgUiEvent::RunFinished { thread_id: &thread_id, run_id: &run_id, outcome });
    }

    pub fn fail_run(&mut self, message: &str, code: &str) {
        self.say(&AgUiEvent::RunError { message, code });
    }

    pub fn say(&mut self, event: &AgUiEvent<'_>) {
        let ends_run = matches!(event, AgUiEvent::RunFinished { .. } | AgUiEvent::RunError { .. });
        self.frames.push(Frame {
            id: self.next,
            run_id: self.run_id.clone(),
            kind: event.kind(),
            data: serde_json::to_string(event).expect("an event of texts and JSON values can be written"),
            ends_run,
        });
        self.next.n = self.next.n.saturating_add(1);
    }

    pub fn finish(self) -> Vec<Frame> {
        self.frames
    }
}
