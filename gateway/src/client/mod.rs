//! The agent's side of the wire: an identity kept in a folder, a gateway dialled with TLS, one session after another.
//!
//! It sends what the public SDKs send, so whoever uses it sees the server as any agent does.

mod dial;
mod error;
mod home;
mod login;
mod trust;
mod wire;

pub use dial::{Gateway, Target};
pub use error::Error;
pub use home::{Home, Identity, Tokens};
pub use login::{Kind, connect, register};
pub use trust::{Root, root_of};
pub use wire::{Event, Tap, Way, Wire};
