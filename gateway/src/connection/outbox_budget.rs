//! What outboxes may hold: one, those of one agent, and all of the process together.
//!
//! A connection pays for itself: it is closed when its own outbox is full. What an agent or the process holds beyond its
//! limit is paid for by the largest holder, never by whoever is written to next.

use crate::config::LimitsConfig;
use crate::telemetry::Metrics;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

pub struct OutboxBudget {
    pub per_connection: usize,
    pub per_agent: usize,
    pub total: usize,
    /// Its `outbox_bytes` is what all outboxes of the process hold together, at every moment.
    pub metrics: Arc<Metrics>,
    /// Closes the largest holders; set by whoever knows all connections.
    relief: OnceLock<Relief>,
    relieving: Mutex<()>,
}

type Relief = Box<dyn Fn(&OutboxBudget, &OutboxOverflow) + Send + Sync>;

/// What the outboxes of one agent hold together.
#[derive(Default)]
pub struct AgentOutboxes(AtomicUsize);

/// Which limit does not hold any more.
pub enum OutboxOverflow {
    Agent(Arc<AgentOutboxes>),
    Total,
}

impl OutboxBudget {
    pub fn of(limits: &LimitsConfig, metrics: Arc<Metrics>) -> OutboxBudget {
        OutboxBudget {
            // One connection may always fill its own outbox.
            per_agent: limits.outbox_agent_bytes.max(limits.outbox_bytes),
            ..OutboxBudget::new(limits.outbox_bytes, limits.outbox_total_bytes, metrics)
        }
    }

    /// Without a limit for one agent.
    pub fn new(per_connection: usize, total: usize, metrics: Arc<Metrics>) -> OutboxBudget {
        OutboxBudget {
            per_connection,
            per_agent: usize::MAX,
            total,
            metrics,
            relief: OnceLock::new(),
            relieving: Mutex::default(),
        }
    }

    /// What all outboxes hold together.
    pub fn used(&self) -> usize {
        usize::try_from(self.metrics.outbox_bytes.get()).unwrap_or_default()
    }

    /// Says who closes the largest holders when a limit does not hold any more. The first to be said counts.
    pub fn relieved_by(&self, relief: impl Fn(&OutboxBudget, &OutboxOverflow) + Send + Sync + 'static) {
        let _ = self.relief.set(Box::new(relief));
    }

    /// Counts bytes that are held from now on, and gives the limit that does not hold any more. They are counted before
    /// anybody is closed for them: the limits may be exceeded by a frame for each thread, for as long as that takes.
    pub(super) fn add(&self, agent: Option<&Arc<AgentOutboxes>>, bytes: usize) -> Option<OutboxOverflow> {
        let before = self.metrics.outbox_bytes.inc_by(signed(bytes));
        if let Some(agent) = agent
            && agent.0.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > self.per_agent
        {
            return Some(OutboxOverflow::Agent(agent.clone()));
        }
        let used = usize::try_from(before).unwrap_or_default().saturating_add(bytes);
        (used > self.total).then_some(OutboxOverflow::Total)
    }

    pub(super) fn subtract(&self, agent: Option<&Arc<AgentOutboxes>>, bytes: usize) {
        self.metrics.outbox_bytes.dec_by(signed(bytes));
        if let Some(agent) = agent {
            agent.0.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Has the largest holders closed. No lock of an outbox may be held here.
    pub(super) fn relieve(&self, overflow: &OutboxOverflow) {
        // Another thread is closing somebody at this moment, which may be enough for both. If not, the next frame asks again.
        let Some(_alone) = self.relieving.try_lock() else { return };
        if let Some(relief) = self.relief.get() {
            relief(self, overflow);
        }
    }
}

impl AgentOutboxes {
    pub fn used(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
