//! The mesh: the processes of one server call each other's services.
//!
//! Each process that runs a service listens, and each process that needs the service dials it: a WebSocket over mutual
//! TLS. Its frames are JSON-RPC; the calls that are ready at one moment share a frame, and so do their answers. Both ends
//! hold a certificate of the mesh authority, and the names in it say which services its holder may speak for. That is why
//! the `caller` inside a frame can be believed. HTTP goes over the same port, as HTTP/2.

mod dial_tls;
mod handshakes;
mod http;
mod identity;
mod link;
mod link_sessions;
mod peer;
mod pending_calls;
mod remote_namespace;
mod serve;
mod socket;
#[cfg(test)]
mod tests;
mod wire;
mod write_queue;

pub use identity::{MeshIdentity, server_name};
pub use remote_namespace::dial;
pub use serve::accept;

use crate::config;
use crate::telemetry::Metrics;
use kernel::{Clock, Mesh};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What every mesh link of this process shares. It is stopped last, because a draining service still calls other services.
pub struct MeshContext {
    pub settings: config::MeshConfig,
    pub mesh: Arc<Mesh>,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    pub tracker: TaskTracker,
    pub stop: CancellationToken,
}
