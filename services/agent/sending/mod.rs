//! What is sent without being asked: events, webhooks, messages to webhooks, and what is told to a device that connects.

mod arrivals;
mod attempts;
mod events;
mod maintenance;
mod message_marks;
mod messages;
mod signature;
mod webhooks;

pub(super) use arrivals::DeviceArrivals;
pub(super) use events::UserEvents;
pub(super) use message_marks::MessageArrivals;
pub(super) use messages::MessageDeliveries;
pub(super) use webhooks::{HttpsSender, WebhookDeliveries, WebhookSender, WebhookTarget, failure};
#[cfg(test)]
pub(super) use webhooks::{WebhookAnswer, WebhookRequest};

use std::pin::Pin;

pub(super) type SendingWork = Pin<Box<dyn Future<Output = ()> + Send>>;
