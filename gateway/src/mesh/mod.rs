//! The wire of the mesh: the same call, between processes.
//!
//! Each process with a service listens, and whoever needs the service dials it: a WebSocket over mutual TLS, and JSON-RPC frames
//! in which the calls that are ready at one moment travel together, and their answers too. Both ends hold a certificate of
//! the mesh authority, and its names say for which parts of the server it may speak; that is why the `caller` inside can be
//! believed.

mod acquaint;
mod link;
mod links;
mod pass;
mod post;
mod pump;
mod serve;
mod table;
#[cfg(test)]
mod tests;
mod waiting;
mod wire;

pub use links::dial;
pub use pass::{Pass, server_name};
pub use serve::accept;

use crate::config;
use crate::telemetry::Metrics;
use services::kernel::{Clock, Ids, Mesh};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What every link of this process shares. It is taken down last: a draining service still asks other services.
pub struct Wiring {
    pub settings: config::MeshConfig,
    pub mesh: Arc<Mesh>,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    pub ids: Ids,
    pub tracker: TaskTracker,
    pub stop: CancellationToken,
}
