//! A runner: the side of a run that does the work. It takes the lease of one run, passes its commands to a back end such as Codex, and
//! appends what happens to the log of the run.
//!
//! - [`work`] is a runner from its registration to its end. It speaks only the private routes of the manager, on any machine from which the
//!   manager can be reached, and outlives it: what happens meanwhile is kept within bounds and told later.
//! - [`BackEnd`] is what does the work; [`ProcessJsonl`] is the one for programs that read and write lines of JSON, [`CodexStdio`] the
//!   one for `codex app-server`.
//! - [`RunnerSecrets`] are the values that the back end gets and that nobody is told.
//! - [`example`] is a program of the kind `process-jsonl`, without a model and the same every time.
//!
//! What is decided is in the pure state machine `work/state`. `work/driver.rs` carries it out and knows the back end; three others speak to the
//! manager at the same time: `work/heart.rs` keeps the lease, `work/poller.rs` hears of commands, `log/writer.rs` tells, in order. The images
//!   that a turn names are fetched by `work/attachments` before it begins, and are files until it has ended.

mod back_end;
pub mod example;
mod log;
mod manager;
mod own_process;
mod secrets;
#[cfg(test)]
mod test_commands;
mod work;

pub use back_end::{
    ApprovalAnswer, BackEnd, BackEndError, BackEndEvent, BackEndProgram, BackEndQuestion, CodexFiles,
    CodexStdio, PastTurn, ProcessJsonl, ToolProgress, ToolStatus, TurnEnd, TurnImage, TurnRequest,
    TurnStatus, WrittenStream,
};
pub use manager::{ManagerUrl, RunnerToken, TokenRefused};
pub use own_process::{ResourceLimit, begin_process_session};
pub use secrets::RunnerSecrets;
pub use work::{RunnerError, RunnerOutcome, RunnerSettings, work};
