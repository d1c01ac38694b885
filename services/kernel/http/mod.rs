//! HTTP: how a request becomes the parameters of a method, how its answer looks, and what the router of a service sees.
//!
//! The gateway has authenticated and admitted every request that reaches a router, and says so in headers that begin with
//! `x-aund-`. It removes such headers from what a client sent, and another process believes them only from a certificate
//! that may speak for their caller. Which form a refusal has is decided by the envelope of its path, so a router answers an error as
//! it is, and the gateway writes it.

mod binding;
mod envelope;
mod free_space;
mod reply;
mod request;
mod route_table;

pub use binding::{RouteRequest, answer_of, header_text, wants_events};
pub use envelope::{RequestIds, failure};
pub use free_space::stores;
pub use reply::{json_text, refusal, refusal_of, refuse, with_header};
pub use request::{
    CALLER, DEADLINE_MS, HOST_AGENT, HostAgent, INTERNAL_PREFIX, caller_header, caller_of, deadline_of,
};
pub use route_table::{FoundRoutes, MethodRoute, RouteTable};

use crate::Disk;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use free_space::check_space;
use reply::{method_not_allowed, not_found};

/// The router of a service that stores on this disk, with an answer in our form for what it does not have.
pub fn routes_of(own: Router, disk: &Disk) -> Router {
    own.fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        // The gateway counts the bytes of a body, by the limit that `namespace.json` declares.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(disk.clone(), check_space))
}
