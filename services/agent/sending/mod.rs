//! What is sent without being asked: events, webhooks, and what is told to a device that connects.

mod arrivals;
mod events;
mod maintenance;
mod signature;
mod webhooks;

pub(super) use arrivals::DeviceArrivals;
pub(super) use events::UserEvents;
pub(super) use webhooks::{HttpsSender, WebhookDeliveries, WebhookSender};
#[cfg(test)]
pub(super) use webhooks::{WebhookAnswer, WebhookRequest};

use std::pin::Pin;

pub(super) type SendingWork = Pin<Box<dyn Future<Output = ()> + Send>>;
