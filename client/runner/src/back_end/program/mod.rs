//! A program behind a back end: started, told lines, read in lines, and ended with everything that it started.

mod process;
mod reader;

pub use process::BackEndProgram;

use super::BackEndError;
use process::{ProgramPipes, ProgramProcess};
use reader::JsonlRecord;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How long the pipes of a program that has ended are read, and how long the end of a program is waited for that has closed its output.
/// Everything that could write into the pipes was ended with the program, unless it has left its group.
const DRAIN: Duration = Duration::from_secs(2);

/// A program, and how far its end was seen.
pub(super) struct RunningProgram {
    process: ProgramProcess,
    pipes: ProgramPipes,
    is_stdout_over: bool,
    is_stderr_over: bool,
    ended: Option<ProgramEnd>,
    /// Until when the rest of its end is waited for: it has closed its output, or has ended.
    until: Option<Instant>,
}

/// What a program did.
pub(super) enum ProgramNews {
    Line(Vec<u8>),
    /// A line that is longer than a line may be. What follows is not read.
    TooLong,
    /// On standard error.
    Printed(String),
    /// It has ended, in these words.
    Ended(String),
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

impl RunningProgram {
    pub fn start(program: &BackEndProgram, longest_line: usize) -> Result<RunningProgram, BackEndError> {
        let (process, pipes) = program.start(longest_line)?;
        Ok(RunningProgram {
            process,
            pipes,
            is_stdout_over: false,
            is_stderr_over: false,
            ended: None,
            until: None,
        })
    }

    /// Whether it works on no further turn.
    pub fn is_ending(&self) -> bool {
        self.ended.is_some() || self.is_stdout_over
    }

    /// Gives it a line. A program that does not read is not waited for.
    pub fn tell(&self, json: Vec<u8>) -> Result<(), BackEndError> {
        self.process.tell(json)
    }

    /// Ends it with its whole group, within a limited time.
    pub async fn stop(&mut self) {
        self.process.stop().await;
    }

    /// A future of it may be dropped without a loss.
    pub async fn next(&mut self) -> ProgramNews {
        loop {
            let step = self.step().await;
            if let Some(news) = self.news(step) {
                return news;
            }
        }
    }

    async fn step(&mut self) -> ProgramStep {
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

    fn news(&mut self, step: ProgramStep) -> Option<ProgramNews> {
        match step {
            ProgramStep::Record(JsonlRecord::Whole(record)) => return Some(ProgramNews::Line(record)),
            ProgramStep::Record(JsonlRecord::TooLong) => return Some(ProgramNews::TooLong),
            ProgramStep::Record(JsonlRecord::CutOff | JsonlRecord::End) => self.is_stdout_over = true,
            ProgramStep::Printed(Some(text)) => return Some(ProgramNews::Printed(text)),
            ProgramStep::Printed(None) => self.is_stderr_over = true,
            ProgramStep::Ended(status) => self.ended = Some(ProgramEnd(status)),
            ProgramStep::Late => (self.is_stdout_over, self.is_stderr_over) = (true, true),
        }
        if self.is_ending() {
            self.until.get_or_insert_with(|| Instant::now() + DRAIN);
        }
        let is_late = self.until.is_some_and(|until| until <= Instant::now());
        let is_read = self.is_stdout_over && self.is_stderr_over;
        if !is_read || (self.ended.is_none() && !is_late) {
            return None;
        }
        Some(ProgramNews::Ended(match &self.ended {
            Some(ProgramEnd(Some(status))) => status.to_string(),
            Some(ProgramEnd(None)) => "how is unknown".to_owned(),
            None => "it has closed its output".to_owned(),
        }))
    }
}
