//! The door: what every socket of this process shares.

use crate::capabilities::{Capabilities, Toggles};
use crate::config::Config;
use crate::limits::Limits;
use crate::session::{Budget, Link, Outbox, Registry};
use crate::telemetry::Metrics;
use serde::de::DeserializeOwned;
use serde_json::Value;
use services::kernel::{Caller, Clock, Ids, Mesh, RpcError, World};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub struct Door {
    pub config: Config,
    /// The gateway URL told to clients.
    pub public_url: String,
    pub mesh: Arc<Mesh>,
    pub registry: Registry,
    pub limits: Limits,
    pub metrics: Arc<Metrics>,
    pub capabilities: Capabilities,
    pub clock: Clock,
    pub ids: Ids,
    /// Sockets and calls. The rooms have a tracker of their own: they close after everyone has left.
    pub tracker: TaskTracker,
    /// Cancelled when the server drains: nobody new comes in.
    pub stop: CancellationToken,
    budget: Arc<Budget>,
    next_connection: AtomicU64,
}

impl Door {
    pub fn new(config: Config, public_url: String, world: &World) -> Arc<Door> {
        let metrics = Arc::new(Metrics::new());
        let workspace = world.data.canonicalize().unwrap_or_else(|_| world.data.clone());
        Arc::new(Door {
            public_url,
            registry: Registry::new(world.presence.clone()),
            limits: Limits::new(&config.limits),
            capabilities: Capabilities::new(workspace.display().to_string(), &toggles(&world.mesh)),
            budget: Arc::new(Budget::new(
                config.limits.outbox_bytes,
                config.limits.outbox_total_bytes,
                metrics.clone(),
            )),
            metrics,
            mesh: world.mesh.clone(),
            clock: world.clock.clone(),
            ids: world.ids.clone(),
            tracker: TaskTracker::new(),
            stop: world.stop.clone(),
            next_connection: AtomicU64::new(1),
            config,
        })
    }

    pub fn new_link(&self, address: IpAddr) -> Arc<Link> {
        let id = self.next_connection.fetch_add(1, Ordering::Relaxed);
        let link = Arc::new(Link::new(id, address, Outbox::new(self.budget.clone())));
        self.registry.add(&link);
        link
    }

    pub fn outbox_bytes(&self) -> usize {
        self.budget.used()
    }

    /// Asks a room in the door's own name.
    pub async fn ask<T: DeserializeOwned>(&self, method: &str, params: &Value) -> Result<T, RpcError> {
        self.mesh.ask(Caller::room("gateway"), method, params).await
    }
}

/// The limits are always on; the namespaces are the ones that answer.
pub fn toggles(mesh: &Mesh) -> Toggles {
    Toggles { rate_limit: true, namespaces: mesh.namespaces() }
}
