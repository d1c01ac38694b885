//! The back end `codex-stdio`: `codex app-server`, spoken to over its standard input and output.
//!
//! - `dialogue` decides what is said to Codex and what its lines mean; `turn`, `items`, `question` and `failure` are parts of it.
//! - `home` is the storage of the session. The files of the credential are there only while Codex runs.
//! - `history` says what became of a turn that an earlier runner began.

mod dialogue;
mod failure;
mod history;
mod home;
mod items;
mod protocol;
mod question;
#[cfg(test)]
mod tests;
mod turn;

pub use home::CodexFiles;

use super::program::{BackEndProgram, ProgramNews, RunningProgram};
use super::{ApprovalAnswer, BackEnd, BackEndError, BackEndEvent, PastTurn, TurnRequest};
use dialogue::{ANSWER_WITHIN, CodexDialogue};
use home::CredentialFiles;
use proto_schemas::requests::run::{ApprovalMode, ExecutionPolicy};
use serde_json::{Value, json};
use std::path::PathBuf;
use tokio::time::{Instant, sleep_until, timeout};

/// The longest line of Codex. The output of a command may have a MiB, and JSON writes some characters with six.
const LONGEST_LINE: usize = 8 << 20;
/// What may come, in bytes, while an answer is waited for.
const MOST_HEARD: usize = 2 * LONGEST_LINE;
/// What is kept of standard error, in bytes: its last line says why Codex has ended.
const MOST_PRINTED: usize = 4 << 10;

/// Codex, started with the first turn and again after it has ended.
pub struct CodexStdio {
    program: BackEndProgram,
    files: CodexFiles,
    dialogue: CodexDialogue,
    started: Option<RunningCodex>,
    printed: String,
}

/// Codex and its files. It ends before they are removed.
struct RunningCodex {
    program: RunningProgram,
    _files: CredentialFiles,
}

impl CodexStdio {
    /// `session_state` is what an earlier runner of the session reported.
    pub fn new(
        mut program: BackEndProgram,
        files: CodexFiles,
        policy: &ExecutionPolicy,
        session_state: Option<&Value>,
    ) -> CodexStdio {
        program.environment.push(("CODEX_HOME".into(), files.home().into()));
        let known = session_state.and_then(|state| state["threadId"].as_str()).map(str::to_owned);
        let thread = protocol::thread(&program.workspace, policy);
        let dialogue = CodexDialogue::new(thread, known.or_else(|| files.thread()));
        CodexStdio { program, files, dialogue, started: None, printed: String::new() }
    }

    /// Starts Codex if it does not run.
    fn start(&mut self) -> Result<(), BackEndError> {
        if self.started.as_ref().is_some_and(|running| !running.program.is_ending()) {
            return Ok(());
        }
        self.started = None;
        self.dialogue.ended("backend-failed", "codex has ended");
        self.printed.clear();
        let files = self.files.write()?;
        let program = RunningProgram::start(&self.program, LONGEST_LINE)?;
        self.started = Some(RunningCodex { program, _files: files });
        Ok(())
    }

    /// Tells Codex what is to be told.
    fn tell(&mut self) -> Result<(), BackEndError> {
        for line in self.dialogue.take_lines() {
            let running = self.started.as_ref().ok_or_else(|| BackEndError::failed("codex does not run"))?;
            running.program.tell(line.to_string().into_bytes())?;
        }
        Ok(())
    }

    /// What Codex did. What it does wrong ends it, and the turn with it.
    async fn heard(&mut self, news: ProgramNews) {
        let heard = match news {
            ProgramNews::Line(line) => {
                let known = self.dialogue.thread_id().map(str::to_owned);
                let heard = self.dialogue.hear(&line, Instant::now()).map_err(BackEndError::failed);
                heard.and_then(|()| self.keep_thread(known.as_deref())).and_then(|()| self.tell())
            }
            ProgramNews::TooLong => {
                Err(BackEndError::failed(format!("codex wrote a line of more than {LONGEST_LINE} bytes")))
            }
            ProgramNews::Printed(text) => {
                self.print(&text);
                Ok(())
            }
            ProgramNews::Ended(how) => {
                self.started = None;
                let why = last_line(&self.printed).map(|line| format!(": {line}")).unwrap_or_default();
                self.dialogue.ended("backend-failed", &format!("codex ended before its turn: {how}{why}"));
                Ok(())
            }
        };
        if let Err(error) = heard {
            self.broken(&error).await;
        }
    }

    fn keep_thread(&self, known: Option<&str>) -> Result<(), BackEndError> {
        match self.dialogue.thread_id() {
            Some(thread_id) if known != Some(thread_id) => self.files.keep_thread(thread_id),
            _ => Ok(()),
        }
    }

    async fn broken(&mut self, error: &BackEndError) {
        self.dialogue.ended(error.failure_kind, &error.message);
        if let Some(mut running) = self.started.take() {
            running.program.stop().await;
        }
    }

    fn print(&mut self, text: &str) {
        self.printed.push_str(text);
        let surplus = self.printed.len().saturating_sub(MOST_PRINTED);
        let cut = self.printed.ceil_char_boundary(surplus);
        self.printed.drain(..cut);
    }

    /// Waits for the answer to a request. What else comes meanwhile is kept.
    async fn answer_to(&mut self, request: u64) -> Result<Value, BackEndError> {
        let until = Instant::now() + ANSWER_WITHIN;
        let answer = loop {
            if let Some(answer) = self.dialogue.take_answer(request) {
                break answer.map_err(BackEndError::failed);
            }
            if let Err(error) = self.hear_until(until).await {
                break Err(error);
            }
        };
        self.dialogue.forget(request);
        answer
    }

    /// Waits until Codex has begun the turn, or it has ended.
    async fn begun(&mut self) -> Result<(), BackEndError> {
        let until = Instant::now() + ANSWER_WITHIN;
        while self.dialogue.is_beginning() {
            self.hear_until(until).await?;
        }
        Ok(())
    }

    /// Hears one more thing.
    async fn hear_until(&mut self, until: Instant) -> Result<(), BackEndError> {
        let late = || BackEndError::failed("codex has not answered in time");
        let Some(running) = &mut self.started else { return Err(BackEndError::failed("codex has ended")) };
        if self.dialogue.unread() > MOST_HEARD {
            return Err(late());
        }
        let news = timeout(until.saturating_duration_since(Instant::now()), running.program.next()).await;
        self.heard(news.map_err(|_| late())?).await;
        Ok(())
    }
}

/// The last line that says something, without the colors of a terminal.
fn last_line(printed: &str) -> Option<String> {
    let line = printed.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().unwrap_or_default();
    let others = parts.map(|part| part.split_once('m').map_or(part, |(_, text)| text));
    Some([first].into_iter().chain(others).collect())
}

impl BackEnd for CodexStdio {
    async fn begin(&mut self, turn: TurnRequest) -> Result<(), BackEndError> {
        self.start()?;
        self.dialogue.begin(turn, Instant::now());
        self.tell()
    }

    async fn steer(&mut self, text: String) -> Result<(), BackEndError> {
        self.begun().await?;
        let request = self.dialogue.steer(&text, Instant::now())?;
        self.tell()?;
        self.answer_to(request).await.map(|_| ())
    }

    async fn interrupt(&mut self) -> Result<(), BackEndError> {
        self.dialogue.interrupt(Instant::now());
        self.tell()
    }

    async fn answer(&mut self, answer: ApprovalAnswer) -> Result<(), BackEndError> {
        self.dialogue.answer(&answer);
        self.tell()
    }

    async fn next(&mut self) -> BackEndEvent {
        loop {
            if let Some(event) = self.dialogue.next_event() {
                return event;
            }
            let Some(running) = &mut self.started else { return std::future::pending().await };
            let due_at = self.dialogue.due_at();
            let due = async {
                match due_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                news = running.program.next() => self.heard(news).await,
                () = due => {
                    let ticked = self.dialogue.tick(Instant::now()).map_err(BackEndError::failed);
                    if let Err(error) = ticked.and_then(|()| self.tell()) {
                        self.broken(&error).await;
                    }
                }
            }
        }
    }

    async fn past_turn(&mut self, command_id: &str) -> PastTurn {
        if self.dialogue.thread_id().is_none() {
            return PastTurn::NotProven { why: "the runner died before codex had a thread".to_owned() };
        }
        let turns = match self.start() {
            Ok(()) => {
                let request = self.dialogue.ask_past(Instant::now());
                match self.tell() {
                    Ok(()) => self.answer_to(request).await,
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        match turns {
            Ok(turns) => history::past_turn(&turns, command_id),
            Err(error) => PastTurn::NotProven {
                why: format!("the runner died, and codex does not say what became of the turn: {error}"),
            },
        }
    }

    async fn stop(&mut self) {
        self.dialogue.stop();
        if let Some(mut running) = self.started.take() {
            running.program.stop().await;
        }
    }

    fn session_state(&self) -> Option<Value> {
        self.dialogue.thread_id().map(|thread_id| json!({ "threadId": thread_id }))
    }

    /// Codex is told the policy, and asks for more only where it says so. What asks nevertheless, such as an MCP server, is declined.
    fn passes_questions(&self, mode: ApprovalMode) -> bool {
        mode != ApprovalMode::Never
    }

    /// Codex reads a `localImage` itself, outside of the sandbox of the commands that it runs, when the turn begins; its history has the
    /// bytes.
    fn image_folder(&self) -> PathBuf {
        self.program.temporary_folder()
    }
}
