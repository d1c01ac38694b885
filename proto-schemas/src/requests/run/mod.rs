//! Calls of `run`: a back end creates a run, submits commands, has a runner started, and reads events and results.

mod approvals;
mod commands;
mod events;
mod jobs;
mod policy;
mod results;
mod runs;
mod signals;
mod tokens;
mod watching;

pub use approvals::*;
pub use commands::*;
pub use events::*;
pub use jobs::*;
pub use policy::*;
pub use results::*;
pub use runs::*;
pub use signals::*;
pub use tokens::*;
pub use watching::*;
