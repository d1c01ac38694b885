//! What is sent without being asked: events, webhooks, and what is told to a device that connects.

mod arrivals;
mod events;
mod maintenance;
mod signature;
mod webhooks;

pub(super) use arrivals::DeviceArrivals;
pub(super) use webhooks::{HttpsSender, WebhookSender};
#[cfg(test)]
pub(super) use webhooks::{WebhookAnswer, WebhookRequest};

use std::pin::Pin;
use tokio::sync::Notify;

/// What ends the waits of the tasks that send.
#[derive(Default)]
pub(super) struct SenderWakes {
    pub events: Notify,
    pub webhooks: Notify,
}

pub(super) type SendingWork = Pin<Box<dyn Future<Output = ()> + Send>>;
