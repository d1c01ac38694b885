//! Requests to addresses that somebody else names, such as webhooks.
//!
//! Whoever names an address could name one of our own network, so nothing is trusted of it: `https` only, every address that the name
//! resolves to must be public, the connection is made to an address that was checked and not to the name, redirects are not followed,
//! and time and size are bounded. An operator may allow private addresses and plain `http`, for tests and for networks of their own.
//!
//! This is a crate of its own because services know no sockets.

mod address;
mod client;
mod url;

pub use address::is_public;
pub use client::{OutboundClient, OutboundError, ResolvedAddresses, Resolver};
pub use url::{OutboundUrl, UrlRefused};
