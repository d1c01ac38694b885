//! Calls of `auth`: who an agent is, its tokens and its session.

mod certificates;
mod connect;
mod login;
mod revocation;
mod signals;

pub use certificates::*;
pub use connect::*;
pub use login::*;
pub use revocation::*;
pub use signals::*;
