//! Single HTTP requests, and the rules for addresses that somebody else names, such as webhooks and the gateways of other domains.
//!
//! Whoever names an address could name one of our own network, so nothing is trusted of it: `https` only, every address that the name
//! resolves to must be public, the connection is made to an address that was checked and not to the name, redirects are not followed,
//! and time, size and the number of requests to one address are limited. An operator may allow private addresses and plain `http`, for tests and for networks of their own.
//!
//! This is a crate of its own because services know no sockets, and because the client sends requests, too. A [`OneShot`] goes over any
//! connection; the gateway and the client make and verify theirs in their own ways. An [`OutboundClient`] makes its own, by these rules.

mod address;
mod address_requests;
mod client;
mod error;
mod lookup;
mod one_shot;
mod url;

pub use address::is_public;
pub use address_requests::AddressRequests;
pub use client::{OutboundAnswer, OutboundClient, ResolvedAddresses, Resolver};
pub use error::OutboundError;
pub use lookup::look_up;
pub use one_shot::{OneShot, OneShotAnswer, OneShotError};
pub use url::{OutboundUrl, UrlRefused};
