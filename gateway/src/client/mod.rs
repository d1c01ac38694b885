//! The agent's side of the protocol: agents kept in a folder, a gateway dialled with TLS, one session after another.
//!
//! It sends what the public SDKs send, so whoever uses it sees the server as any agent does.

mod connection;
mod dial;
mod error;
mod first_use;
mod gateway_url;
mod home;
mod login;
mod trust;

pub use connection::{ByteStream, ClientConnection, FrameDirection, FrameObserver, ReceivedEvent};
pub use dial::GatewayDialer;
pub use error::Error;
pub use first_use::find_root;
pub use gateway_url::GatewayUrl;
pub use home::{Home, LocalAgent, StoredTokens};
pub use login::{ClientConnectionKind, connect, register};
pub use trust::TrustedRoot;
