//! What does the work: an agent that takes turns and says what it does.

pub(crate) mod attachment;
mod codex;
mod event;
pub(crate) mod process_jsonl;
mod program;
pub(crate) mod turn;

pub use codex::{CodexFiles, CodexStdio};
pub use event::{
    BackEndEvent, BackEndQuestion, ToolProgress, ToolStatus, TurnEnd, TurnStatus, WrittenStream,
};
pub use process_jsonl::ProcessJsonl;
pub use program::BackEndProgram;
pub use turn::{ApprovalAnswer, TurnImage, TurnRequest};

use proto_schemas::requests::run::ApprovalMode;
use serde_json::Value;
use std::path::PathBuf;

/// Why a back end did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BackEndError {
    /// A kind of failure of the manager, such as `backend-failed`.
    pub failure_kind: &'static str,
    pub message: String,
}

impl BackEndError {
    pub fn failed(message: impl Into<String>) -> BackEndError {
        BackEndError { failure_kind: "backend-failed", message: message.into() }
    }
}

/// What is known of a turn that an earlier runner began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PastTurn {
    /// The back end can prove that it is completed; what it said last, if it knows that, is the reply.
    Completed { reply: Option<String> },
    /// It failed or was interrupted, or nobody knows: it is not run again.
    NotProven { why: String },
}

/// An agent behind a runner. It works on one turn at a time.
pub trait BackEnd: Send {
    /// Begins a turn. That it has ended is an event.
    fn begin(&mut self, turn: TurnRequest) -> impl Future<Output = Result<(), BackEndError>> + Send;

    /// Gives guidance to the turn under way. `Ok` means that the back end has taken it, not what it makes of it.
    fn steer(&mut self, text: String) -> impl Future<Output = Result<(), BackEndError>> + Send;

    /// Asks the turn under way to end soon. Its end is an event as ever; who waits for it limits the time.
    fn interrupt(&mut self) -> impl Future<Output = Result<(), BackEndError>> + Send;

    /// Answers a question of the turn under way.
    fn answer(&mut self, answer: ApprovalAnswer) -> impl Future<Output = Result<(), BackEndError>> + Send;

    /// What happens next; it never comes while there is nothing to report. It may be dropped and called again without a loss. Who does not
    /// call it makes the back end wait, once what lies between is full.
    fn next(&mut self) -> impl Future<Output = BackEndEvent> + Send;

    /// What became of a turn that an earlier runner began: never a guess.
    fn past_turn(&mut self, command_id: &str) -> impl Future<Output = PastTurn> + Send;

    /// Ends everything that was started, within a limited time. A later turn starts it again.
    fn stop(&mut self) -> impl Future<Output = ()> + Send;

    /// What the next runner of the session needs to continue the thread.
    fn session_state(&self) -> Option<Value>;

    /// Whether questions are passed to the client under this policy. If not, they are declined at once.
    fn passes_questions(&self, mode: ApprovalMode) -> bool;

    /// A folder of this machine that the back end sees at the same path, however it is isolated. Into it the runner puts the images of a
    /// turn.
    fn image_folder(&self) -> PathBuf;
}
