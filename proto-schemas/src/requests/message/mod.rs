//! Calls of `message`: messages between agents.

mod account;
mod read_state;
mod reading;
mod received;
mod sending;
mod sessions;
mod signals;

pub mod e2ee;
pub mod thought;
pub mod v2;
pub mod webhook;

pub use account::*;
pub use read_state::*;
pub use reading::*;
pub use received::*;
pub use sending::*;
pub use sessions::*;
pub use signals::*;
