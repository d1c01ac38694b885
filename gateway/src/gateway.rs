//! The gateway: what every socket of this process shares.

use crate::capabilities::{Capabilities, Toggles};
use crate::config::Config;
use crate::event_order::EventOrder;
use crate::federation::Federation;
use crate::limits::Limits;
use crate::resync::Resync;
use crate::session::{Budget, Link, Outbox, Registry};
use crate::telemetry::Metrics;
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use services::kernel::{Bus, Caller, Clock, Ids, Mesh, Presence, RpcError, World};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub struct Gateway {
    pub config: Config,
    /// The gateway URL told to clients.
    pub public_url: String,
    pub mesh: Arc<Mesh>,
    pub bus: Bus,
    pub presence: Presence,
    pub registry: Registry,
    pub resync: Resync,
    pub event_order: EventOrder,
    pub limits: Limits,
    pub metrics: Arc<Metrics>,
    pub capabilities: Capabilities,
    pub clock: Clock,
    pub ids: Ids,
    /// Sockets and calls. The services have a tracker of their own: they close after everyone has left.
    pub tracker: TaskTracker,
    /// Cancelled when the server drains: nobody new comes in.
    pub stop: CancellationToken,
    federation: OnceLock<Arc<Federation>>,
    budget: Arc<Budget>,
    next_connection: AtomicU64,
    told: RwLock<Told>,
}

/// What clients are told of the server's abilities, made once for each state of the mesh.
#[derive(Clone)]
pub struct Told {
    /// The `capabilities` member of the answer to `auth.connect`.
    pub session: Arc<str>,
    /// The answer to `rpc.discover`.
    pub openrpc: Arc<str>,
}

impl Gateway {
    pub fn new(config: Config, public_url: String, world: &World, metrics: Arc<Metrics>) -> Arc<Gateway> {
        let capabilities = Capabilities::new(&toggles(&world.mesh));
        Arc::new(Gateway {
            public_url,
            bus: world.bus.clone(),
            presence: world.presence.clone(),
            registry: Registry::new(world.presence.clone()),
            resync: Resync::default(),
            event_order: EventOrder::default(),
            limits: Limits::new(&config.limits, &world.bus),
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
            federation: OnceLock::new(),
            next_connection: AtomicU64::new(first_connection(world)),
            told: RwLock::new(told(&capabilities, &world.mesh)),
            capabilities,
            config,
        })
    }

    pub fn new_link(&self, address: IpAddr) -> Arc<Link> {
        let id = self.next_connection.fetch_add(1, Ordering::Relaxed);
        let link = Arc::new(Link::new(id, address, Outbox::new(self.budget.clone())));
        self.registry.add(&link);
        link
    }

    /// The links to other domains, where there are any.
    pub fn federation(&self) -> Option<&Arc<Federation>> {
        self.federation.get()
    }

    pub fn federate(&self, federation: Arc<Federation>) {
        let _ = self.federation.set(federation);
    }

    pub fn told(&self) -> Told {
        self.told.read().clone()
    }

    /// Looks at which namespaces answer and gives what changed for those who want to know.
    pub fn refresh_capabilities(&self) -> Option<Value> {
        let change = self.capabilities.update(&toggles(&self.mesh))?;
        *self.told.write() = told(&self.capabilities, &self.mesh);
        Some(change)
    }

    pub fn outbox_bytes(&self) -> usize {
        self.budget.used()
    }

    /// Asks a service in the gateway's own name.
    pub async fn ask<T: DeserializeOwned>(&self, method: &str, params: &Value) -> Result<T, RpcError> {
        self.mesh.ask(Caller::service("gateway"), method, params).await
    }
}

/// Connections are told apart over all gateways of a domain, so each counts from a place of its own. Clients read numbers
/// of at most 53 bits.
fn first_connection(world: &World) -> u64 {
    match world.bus.is_wide() {
        true => (u64::from(u32::from_be_bytes(world.ids.bytes())) << 20) + 1,
        false => 1,
    }
}

/// What a message may weigh; a frame holds a little more.
const MESSAGE_BYTES: usize = 1 << 20;

fn told(capabilities: &Capabilities, mesh: &Mesh) -> Told {
    let mut namespaces: Vec<&str> = proto_schemas::methods()
        .iter()
        .filter(|method| method.access.is_for_agents() && !method.notification)
        .filter_map(|method| method.name.split('.').next())
        .filter(|namespace| matches!(*namespace, "meta" | "rpc") || mesh.has(namespace))
        .collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    let session = json!({
        "namespaces": namespaces,
        "features": { "e2ee": mesh.has("message"), "binary_message": false, "max_message_size": MESSAGE_BYTES },
        // Clients from 0.5.25 on do not connect without it.
        "p2p_peer_pull_v1": true,
    });
    let openrpc = proto_schemas::openrpc(env!("CARGO_PKG_VERSION"), |method| {
        method.access.is_for_agents() && capabilities.allows(method.name)
    });
    Told { session: session.to_string().into(), openrpc: openrpc.to_string().into() }
}

/// The limits are always on; the namespaces are the ones that answer.
fn toggles(mesh: &Mesh) -> Toggles {
    Toggles { rate_limit: true, namespaces: mesh.namespaces() }
}
