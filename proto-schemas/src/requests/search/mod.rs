//! Calls of `search`: the directory of agents.

mod copying;
mod lookup;
mod operating;
mod signals;

pub use copying::*;
pub use lookup::*;
pub use operating::*;
pub use signals::*;
