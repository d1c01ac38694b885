//! The work of a runner on its run: what it hears, what it decides, and what it does.

mod attachments;
mod driver;
mod heart;
mod poller;
mod session;
mod state;
#[cfg(test)]
mod tests;
mod turn_end;

pub use session::{RunnerError, RunnerOutcome, RunnerSettings, work};
