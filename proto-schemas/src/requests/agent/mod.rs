//! Calls of `agent`: what agents publish about themselves, and what their owners register about them.

mod account;
mod agent_md;
mod registry;
mod signals;

pub use account::*;
pub use agent_md::*;
pub use registry::*;
pub use signals::*;
