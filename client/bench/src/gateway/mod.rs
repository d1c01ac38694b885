//! What the gateway costs by itself: pings, requests over HTTP, connections that are opened, and connections that do nothing.

pub(crate) mod connect;
pub(crate) mod http;
pub(crate) mod idle;
pub(crate) mod ping;
