//! Calls of `task`: work that one agent gives another.

mod acting;
mod creating;
mod reading;
mod relaying;
mod subscribing;

pub use acting::*;
pub use creating::*;
pub use reading::*;
pub use relaying::*;
pub use subscribing::*;
