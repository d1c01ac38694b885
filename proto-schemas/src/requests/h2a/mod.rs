//! Calls of `h2a`: what a user grants an agent.

mod relations;
mod sessions;

pub use relations::*;
pub use sessions::*;
