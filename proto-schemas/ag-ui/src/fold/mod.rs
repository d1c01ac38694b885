//! The log of a run of the manager as the frames of an AG-UI stream.
//!
//! This is a pure fold: whoever reads the same log from the first event of a command again gets the same frames with the same numbers, so
//! that a client which was cut off goes on with the frame behind the last one it has.
//!
//! Two verifiers read what comes out, those of `@ag-ui/client` 1.0.0 and 0.0.47, and the frames keep to both.

mod command;
mod event;
mod frame;
mod happened;
mod ids;
mod question;
mod steps;
mod text;
mod thought;
mod tool;

#[cfg(test)]
mod tests;

pub use frame::{Frame, FrameId, NoFrameId};
pub use ids::message_id;

use command::ActiveCommand;
use frame::FrameWriter;
use happened::Happened;
use ids::MessageNames;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// An event of the log of a run of the manager.
#[derive(Clone, Copy, Debug)]
pub struct LogEvent<'a> {
    pub seq: i64,
    /// Its type, as the log has it: `assistant_message`, `tool_call`, …
    pub kind: &'a str,
    pub command_id: Option<&'a str>,
    /// JSON.
    pub payload: &'a str,
}

/// An AG-UI run as its input was. It is the part of a command's events from its start, or from an answer, to its end, or to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPart {
    pub run_id: String,
    pub parent_run_id: Option<String>,
    /// Whether the input named a version of the protocol. Clients that do so know how a run is cancelled.
    pub has_protocol_version: bool,
    /// The questions that the `resume` of the input has answered, by their approval ids. The first part of a command has none.
    pub answers: Vec<String>,
}

/// The frames of a thread, event by event.
#[derive(Clone, Debug)]
pub struct ThreadFold {
    thread_id: Arc<str>,
    names: MessageNames,
    base: i64,
    last_seq: Option<i64>,
    commands: HashMap<String, Vec<RunPart>>,
    active: Option<ActiveCommand>,
    ended: HashSet<String>,
    /// What happened to other commands than the active one, in its order.
    waiting: VecDeque<(String, Happened)>,
}

impl ThreadFold {
    /// The base is added to the numbers of all events: those of a thread count on where it had to open another run of the manager.
    pub fn new(thread_id: &str, base: i64) -> ThreadFold {
        ThreadFold {
            thread_id: Arc::from(thread_id),
            names: message_id,
            base,
            last_seq: None,
            commands: HashMap::new(),
            active: None,
            ended: HashSet::new(),
            waiting: VecDeque::new(),
        }
    }

    /// With messages that are called as their back end calls them.
    #[cfg(test)]
    fn with_plain_names(thread_id: &str, base: i64) -> ThreadFold {
        ThreadFold { names: |_, shown| shown.to_owned(), ..ThreadFold::new(thread_id, base) }
    }

    /// Replaces what is known of a command: its parts in the order in which they came. Events of other commands show nothing. A part that
    /// continues a command has to be learned before the answer is pushed that it continues from, or the end that came before it: so parts
    /// are read after the events that are pushed next.
    pub fn learn(&mut self, command_id: &str, parts: Vec<RunPart>) {
        self.commands.insert(command_id.to_owned(), parts);
    }

    /// The frames that an event causes. Events come in the order of the log; what came before shows nothing again.
    pub fn push(&mut self, event: &LogEvent<'_>) -> Vec<Frame> {
        let Some(command_id) = event.command_id.filter(|id| self.counts(id)) else { return Vec::new() };
        if self.last_seq.is_some_and(|last| event.seq <= last) {
            return Vec::new();
        }
        self.last_seq = Some(event.seq);
        self.waiting.push_back((command_id.to_owned(), Happened::read(event.kind, event.payload)));

        let mut out = FrameWriter::new(self.thread_id.clone(), self.base.saturating_add(event.seq));
        while let Some((command_id, happened)) = self.next() {
            self.fold(&command_id, happened, &mut out);
        }
        out.finish()
    }

    fn counts(&self, command_id: &str) -> bool {
        let is_known = self.commands.get(command_id).is_some_and(|parts| !parts.is_empty());
        is_known && !self.ended.contains(command_id)
    }

    /// The next event that can be folded. A runner works on one command after the other, but one that is still queued may be cancelled:
    /// its end is shown when the active one has ended, because the runs of a stream cannot stand inside each other.
    fn next(&mut self) -> Option<(String, Happened)> {
        let at = match &self.active {
            Some(active) => self.waiting.iter().position(|(id, _)| id == active.id())?,
            None => 0,
        };
        self.waiting.remove(at)
    }

    fn fold(&mut self, command_id: &str, happened: Happened, out: &mut FrameWriter) {
        if !self.counts(command_id) {
            return;
        }
        let Some(parts) = self.commands.get(command_id) else { return };
        let mut active = match self.active.take() {
            Some(active) => {
                active.go_on(out);
                active
            }
            None => match parts.first() {
                Some(first) => ActiveCommand::begin(command_id, first, self.names, out),
                None => return,
            },
        };
        match active.fold(happened, parts, out) {
            true => {
                self.ended.insert(command_id.to_owned());
            }
            false => self.active = Some(active),
        }
    }
}
