//! The work of a runner on its run: what it hears, what it decides, and what it does.

mod driver;
mod heart;
mod lease;
mod poller;
mod session;
mod signal;
mod state;
#[cfg(test)]
pub(crate) mod test_commands;
mod turn_end;

pub(crate) use lease::RunnerLease;
pub use session::{RunnerError, RunnerOutcome, RunnerSettings, work};
pub(crate) use signal::WorkSignal;
