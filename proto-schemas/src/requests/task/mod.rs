//! Calls of `task`: work that one agent gives another.

mod account;
mod acting;
mod assigned;
mod creating;
mod names;
mod reading;
mod relaying;
mod subscribing;

pub use account::*;
pub use acting::*;
pub use assigned::*;
pub use creating::*;
pub use names::*;
pub use reading::*;
pub use relaying::*;
pub use subscribing::*;
