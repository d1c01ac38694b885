//! The back end `process-jsonl`: any program that reads a turn as a line of JSON and writes what it does as lines of JSON.

mod process;
mod protocol;
mod reader;
#[cfg(test)]
mod tests;

pub use process::BackEndProgram;
pub use protocol::{DoneStatus, FromProgram, StageStatus, ToProgram};
pub use reader::LONGEST_LINE;

use super::{
    ApprovalAnswer, BackEnd, BackEndError, BackEndEvent, PastTurn, TurnEnd, TurnRequest, WrittenStream,
};
use process::{ProgramPipes, ProgramProcess};
use proto_schemas::requests::run::ApprovalMode;
use reader::JsonlRecord;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How long the pipes of a program that has ended are read, and how long the end of a program is waited for that has closed its output.
/// Everything that could write into the pipes was ended with the program, unless it has left its group.
const DRAIN: Duration = Duration::from_secs(2);

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

/// A program, and how far its end was seen.
struct RunningProgram {
    process: ProgramProcess,
    pipes: ProgramPipes,
    is_stdout_over: bool,
    is_stderr_over: bool,
    ended: Option<ProgramEnd>,
    /// Until when the rest of its end is waited for: it has closed its output, or has ended.
    until: Option<Instant>,
}

/// That a program has ended, and how, if the system says it.
struct ProgramEnd(Option<ExitStatus>);

/// What a program did last.
enum ProgramStep {
    Record(JsonlRecord),
    Printed(Option<String>),
    Ended(Option<ExitStatus>),
    /// The rest of its end has not come in time.
    Late,
}

impl ProcessJsonl {
    /// `session_state` is what an earlier runner of the session reported.
    pub fn new(program: BackEndProgram, session_state: Option<&Value>) -> ProcessJsonl {
        let thread_id = session_state.and_then(|state| state["threadId"].as_str()).map(str::to_owned);
        ProcessJsonl { program, started: None, thread_id, has_turn: false, ready: VecDeque::new() }
    }

    /// The program, started if it does not run.
    fn running(&mut self) -> Result<&mut RunningProgram, BackEndError> {
        if self.started.as_ref().is_some_and(|running| running.ended.is_some() || running.is_stdout_over) {
            self.started = None;
        }
        match &mut self.started {
            Some(running) => Ok(running),
            none => {
                let (process, pipes) = self.program.start()?;
                Ok(none.insert(RunningProgram {
                    process,
                    pipes,
                    is_stdout_over: false,
                    is_stderr_over: false,
                    ended: None,
                    until: None,
                }))
            }
        }
    }

    /// Tells the program of the turn under way something.
    fn tell(&self, message: &ToProgram) -> Result<(), BackEndError> {
        let running =
            self.started.as_ref().ok_or_else(|| BackEndError::failed("the back end does not run"))?;
        running.process.tell(written(message)?)
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

    /// The event of a step, if it is one.
    fn step(&mut self, step: ProgramStep) -> Option<BackEndEvent> {
        let running = self.started.as_mut()?;
        match step {
            ProgramStep::Record(JsonlRecord::Whole(record)) => return self.said(&record),
            ProgramStep::Record(JsonlRecord::TooLong) => {
                return self.broken(format!("the back end wrote a line of more than {LONGEST_LINE} bytes"));
            }
            ProgramStep::Record(JsonlRecord::CutOff | JsonlRecord::End) => running.is_stdout_over = true,
            ProgramStep::Printed(Some(text)) => {
                return Some(BackEndEvent::Written { stream: WrittenStream::Stderr, text });
            }
            ProgramStep::Printed(None) => running.is_stderr_over = true,
            ProgramStep::Ended(status) => running.ended = Some(ProgramEnd(status)),
            ProgramStep::Late => (running.is_stdout_over, running.is_stderr_over) = (true, true),
        }
        if running.is_stdout_over || running.ended.is_some() {
            running.until.get_or_insert_with(|| Instant::now() + DRAIN);
        }
        let is_late = running.until.is_some_and(|until| until <= Instant::now());
        let is_read = running.is_stdout_over && running.is_stderr_over;
        if !is_read || (running.ended.is_none() && !is_late) {
            return None;
        }
        let how = match &running.ended {
            Some(ProgramEnd(Some(status))) => status.to_string(),
            Some(ProgramEnd(None)) => "how is unknown".to_owned(),
            None => "it has closed its output".to_owned(),
        };
        self.started = None;
        let message = format!("the back end ended before its turn: {how}");
        let has_turn = std::mem::take(&mut self.has_turn);
        has_turn.then(|| BackEndEvent::Ended(TurnEnd::failed("backend-failed", message)))
    }
}

impl RunningProgram {
    async fn next(&mut self) -> ProgramStep {
        let late = async {
            match self.until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // A pipe that cannot be read is at its end.
            record = self.pipes.stdout.next(), if !self.is_stdout_over => {
                ProgramStep::Record(record.unwrap_or(JsonlRecord::End))
            }
            text = self.pipes.stderr.next(), if !self.is_stderr_over => {
                ProgramStep::Printed(text.unwrap_or_default())
            }
            status = self.process.ended(), if self.ended.is_none() => ProgramStep::Ended(status),
            () = late => ProgramStep::Late,
        }
    }
}

fn written(message: &ToProgram) -> Result<Vec<u8>, BackEndError> {
    serde_json::to_vec(message).map_err(|error| BackEndError::failed(format!("it cannot be told: {error}")))
}

impl BackEnd for ProcessJsonl {
    async fn begin(&mut self, turn: TurnRequest) -> Result<(), BackEndError> {
        let message = written(&ToProgram::turn(turn, self.thread_id.clone()))?;
        self.running()?.process.tell(message)?;
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
            let step = running.next().await;
            if let Some(event) = self.step(step) {
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
            running.process.stop().await;
        }
    }

    fn session_state(&self) -> Option<Value> {
        self.thread_id.as_ref().map(|thread_id| json!({ "threadId": thread_id }))
    }

    /// The policy is about what an agent does by itself. A program of this kind asks because it needs an answer.
    fn passes_questions(&self, _mode: ApprovalMode) -> bool {
        true
    }
}
