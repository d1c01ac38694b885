//! What is sent without being asked: events, webhooks, and what is told to a device that connects.

mod arrivals;
mod events;
mod maintenance;
mod signature;
mod webhooks;

pub(super) use arrivals::DeviceArrivals;
pub(super) use events::{StoredEvent, UserEvents};
pub(super) use webhooks::{HttpsSender, WebhookDeliveries, WebhookSender};
#[cfg(test)]
pub(super) use webhooks::{WebhookAnswer, WebhookRequest};

use kernel::{Db, Outbox, World};
use std::pin::Pin;
use std::sync::Arc;

/// The destination of all events: a user may have relations with several agents, and hears of them in order.
pub(super) const USERS: &str = "users";

/// What is written with a change and sent afterwards.
pub(super) struct AgentOutboxes {
    pub events: Arc<Outbox>,
    /// Their destinations are the ids of agents.
    pub webhooks: Arc<Outbox>,
}

impl AgentOutboxes {
    pub async fn open(world: &World, db: &Db) -> sqlx::Result<AgentOutboxes> {
        Ok(AgentOutboxes {
            events: Outbox::open(world, db, events::SETTINGS).await?,
            webhooks: Outbox::open(world, db, webhooks::SETTINGS).await?,
        })
    }

    /// Has what was written sent. Called after the commit.
    pub fn wake(&self) {
        self.events.wake();
        self.webhooks.wake();
    }
}

pub(super) type SendingWork = Pin<Box<dyn Future<Output = ()> + Send>>;
