//! The back end `process-jsonl`: any program that reads a turn as a line of JSON and writes what it does as lines of JSON.

mod protocol;
#[cfg(test)]
mod tests;

pub use protocol::{DoneStatus, FromProgram, StageStatus, ToProgram};

use super::program::{BackEndProgram, ProgramNews, RunningProgram};
use super::{
    ApprovalAnswer, BackEnd, BackEndError, BackEndEvent, PastTurn, TurnEnd, TurnRequest, WrittenStream,
};
use proto_schemas::requests::run::ApprovalMode;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::PathBuf;

/// The longest line of a program, without its line feed.
pub const LONGEST_LINE: usize = 1 << 20;

/// A program, started with the first turn and again after it has ended. It works on many turns.
pub struct ProcessJsonl {
    program: BackEndProgram,
    started: Option<RunningProgram>,
    /// What the program wants to have back with the next turn.
    thread_id: Option<String>,
    has_turn: bool,
    /// What happened at once with something else.
    ready: VecDeque<BackEndEvent>,
}

impl ProcessJsonl {
    /// `session_state` is what an earlier runner of the session reported.
    pub fn new(program: BackEndProgram, session_state: Option<&Value>) -> ProcessJsonl {
        let thread_id = session_state.and_then(|state| state["threadId"].as_str()).map(str::to_owned);
        ProcessJsonl { program, started: None, thread_id, has_turn: false, ready: VecDeque::new() }
    }

    /// The program, started if it does not run.
    fn running(&mut self) -> Result<&mut RunningProgram, BackEndError> {
        if self.started.as_ref().is_some_and(RunningProgram::is_ending) {
            self.started = None;
        }
        match &mut self.started {
            Some(running) => Ok(running),
            none => Ok(none.insert(RunningProgram::start(&self.program, LONGEST_LINE)?)),
        }
    }

    /// Tells the program of the turn under way something.
    fn tell(&self, message: &ToProgram) -> Result<(), BackEndError> {
        let running =
            self.started.as_ref().ok_or_else(|| BackEndError::failed("the back end does not run"))?;
        running.tell(written(message)?)
    }

    /// The program does not keep to its protocol: nobody knows what it does now, so it is ended.
    fn broken(&mut self, message: String) -> Option<BackEndEvent> {
        self.started = None;
        if !std::mem::take(&mut self.has_turn) {
            return None;
        }
        let kind = "backend-failed";
        self.ready.push_back(BackEndEvent::Ended(TurnEnd::failed(kind, message.clone())));
        Some(BackEndEvent::Error { failure_kind: kind.to_owned(), message })
    }

    fn said(&mut self, record: &[u8]) -> Option<BackEndEvent> {
        let event = match FromProgram::read(record) {
            Ok(said) => said.event(),
            Err(message) => return self.broken(message),
        };
        if let BackEndEvent::Thread { thread_id } = &event {
            self.thread_id = Some(thread_id.clone());
        }
        // What it says between two turns belongs to none, but for its thread.
        let is_of_turn = match &event {
            BackEndEvent::Ended(_) => std::mem::take(&mut self.has_turn),
            _ => self.has_turn,
        };
        is_of_turn.then_some(event)
    }

    /// The event of what the program did, if it is one.
    fn heard(&mut self, news: ProgramNews) -> Option<BackEndEvent> {
        match news {
            ProgramNews::Line(record) => self.said(&record),
            ProgramNews::TooLong => {
                self.broken(format!("the back end wrote a line of more than {LONGEST_LINE} bytes"))
            }
            ProgramNews::Printed(text) => Some(BackEndEvent::Written { stream: WrittenStream::Stderr, text }),
            ProgramNews::Ended(how) => {
                self.started = None;
                let message = format!("the back end ended before its turn: {how}");
                let has_turn = std::mem::take(&mut self.has_turn);
                has_turn.then(|| BackEndEvent::Ended(TurnEnd::failed("backend-failed", message)))
            }
        }
    }
}

fn written(message: &ToProgram) -> Result<Vec<u8>, BackEndError> {
    serde_json::to_vec(message).map_err(|error| BackEndError::failed(format!("it cannot be told: {error}")))
}

impl BackEnd for ProcessJsonl {
    async fn begin(&mut self, turn: TurnRequest) -> Result<(), BackEndError> {
        let message = written(&ToProgram::turn(turn, self.thread_id.clone()))?;
        self.running()?.tell(message)?;
        self.has_turn = true;
        Ok(())
    }

    async fn steer(&mut self, text: String) -> Result<(), BackEndError> {
        if !self.has_turn {
            return Err(BackEndError::failed("no turn is under way"));
        }
        self.tell(&ToProgram::Steer { text })
    }

    async fn interrupt(&mut self) -> Result<(), BackEndError> {
        self.tell(&ToProgram::Interrupt)
    }

    async fn answer(&mut self, answer: ApprovalAnswer) -> Result<(), BackEndError> {
        self.tell(&ToProgram::approval(answer))
    }

    async fn next(&mut self) -> BackEndEvent {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            let Some(running) = &mut self.started else { return std::future::pending().await };
            let news = running.next().await;
            if let Some(event) = self.heard(news) {
                return event;
            }
        }
    }

    /// A program of this kind keeps nothing that a runner could read.
    async fn past_turn(&mut self, _command_id: &str) -> PastTurn {
        PastTurn::NotProven {
            why: "the runner died in the turn, and nobody knows what became of it".to_owned(),
        }
    }

    async fn stop(&mut self) {
        self.has_turn = false;
        self.ready.clear();
        if let Some(mut running) = self.started.take() {
            running.stop().await;
        }
    }

    fn session_state(&self) -> Option<Value> {
        self.thread_id.as_ref().map(|thread_id| json!({ "threadId": thread_id }))
    }

    /// The policy is about what an agent does by itself. A program of this kind asks because it needs an answer.
    fn passes_questions(&self, _mode: ApprovalMode) -> bool {
        true
    }

    fn image_folder(&self) -> PathBuf {
        self.program.temporary_folder()
    }
}
