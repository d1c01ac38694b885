//! HTTP, as a service sees it: a router of its own, behind the gateway.
//!
//! The gateway has authenticated and admitted every request that reaches a router, and says so in headers that begin with
//! `x-aund-`. It removes such headers from what a client sent, and another process believes them only from a certificate
//! that may speak for their caller.

mod method_routes;
mod reply;
mod request;

pub use reply::{json_text, refuse, with_header};
pub use request::{
    CALLER, DEADLINE_MS, HOST_AGENT, HostAgent, INTERNAL_PREFIX, caller_header, caller_of, deadline_of,
};

use super::Methods;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use method_routes::method_routes;
use reply::{method_not_allowed, not_found};

/// All HTTP of a service: its own routes, those that the schemas of its methods declare, and an answer in our form for what
/// it does not have.
pub fn routes_of(methods: &Methods, own: Router) -> Router {
    own.merge(method_routes(methods))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        // The gateway counts the bytes of a body, by the limit that `namespace.json` declares.
        .layer(DefaultBodyLimit::disable())
}
