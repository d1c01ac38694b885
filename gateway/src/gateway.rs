//! What every socket of this process shares: the three below, and what they are made of.

use crate::admission::Admission;
use crate::config::Config;
use crate::connection::{OutboxBudget, Sessions};
use crate::delivery::EventDelivery;
use crate::federation::Federation;
use crate::health::HealthSources;
use crate::telemetry::Metrics;
use kernel::{ByteBudget, Clock, Ids, Mesh, World};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub struct GatewayState {
    pub config: Config,
    /// The gateway URL told to clients.
    pub public_url: String,
    /// Who is connected.
    pub sessions: Arc<Sessions>,
    /// What may be called.
    pub admission: Arc<Admission>,
    /// Events out, in order.
    pub delivery: Arc<EventDelivery>,
    /// The links to other domains, where federation is enabled.
    pub federation: Option<Arc<Federation>>,
    /// What has arrived of unfinished frames and bodies, and the HTTP answers that wait to be read.
    pub frame_budget: Arc<ByteBudget>,
    pub unread_budget: Arc<ByteBudget>,
    pub mesh: Arc<Mesh>,
    /// How this process is.
    pub health: HealthSources,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    pub ids: Ids,
    /// Sockets and calls. The services have a tracker of their own: they close after every connection is closed.
    pub tracker: TaskTracker,
    /// Cancelled when the server drains: no new sockets are accepted.
    pub stop: CancellationToken,
}

impl GatewayState {
    pub fn new(
        config: Config,
        public_url: String,
        world: &World,
        metrics: Arc<Metrics>,
        admission: Arc<Admission>,
        federation: Option<Arc<Federation>>,
    ) -> Arc<GatewayState> {
        let (limits, tracker) = (&config.limits, TaskTracker::new());
        let budget = OutboxBudget::of(limits, metrics.clone());
        let sessions = Arc::new(Sessions::new(world.presence.clone(), budget, first_connection(world)));
        if let Some(federation) = &federation {
            federation.show_sessions(&sessions);
        }
        let delivery = EventDelivery::new(world, sessions.clone(), metrics.clone(), tracker.clone());
        Arc::new(GatewayState {
            public_url,
            sessions,
            admission,
            delivery: Arc::new(delivery),
            federation,
            frame_budget: ByteBudget::new(limits.frame_total_bytes),
            unread_budget: ByteBudget::new(limits.http_unread_total_bytes),
            mesh: world.mesh.clone(),
            health: HealthSources::new(world, true),
            metrics,
            clock: world.clock.clone(),
            ids: world.ids.clone(),
            tracker,
            stop: world.stop.clone(),
            config,
        })
    }

    /// How long a call may take.
    pub fn call_timeout(&self) -> Duration {
        Duration::from_millis(self.config.limits.call_timeout_ms)
    }
}

/// The ids of connections are unique over all gateways of a domain, so each gateway counts from a random number. Clients
/// read integers of at most 53 bits.
fn first_connection(world: &World) -> u64 {
    match world.bus.is_wide() {
        true => (u64::from(u32::from_be_bytes(world.ids.bytes())) << 20) + 1,
        false => 1,
    }
}
