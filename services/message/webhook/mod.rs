//! Messages for webhooks: an agent whose key has agreed has a device `webhook`, whose messages the service of agents fetches one after
//! the other and acknowledges when they were accepted.
//!
//! Only what says that something came is sent by the bus; it may get lost, and the service of agents asks now and then.

mod ack;
mod acting;
mod next;
mod put_device;
mod remove_device;
mod waiting;

use crate::MessageService;
use crate::reading::consumer::Consumer;
use kernel::{Aid, SlotId};

impl MessageService {
    /// The webhook of an agent as one that reads, if it has the device.
    async fn webhook_consumer(&self, aid: &Aid) -> sqlx::Result<Option<Consumer>> {
        let inbox = self.inboxes.of_webhook(aid).await?;
        Ok(inbox.map(|inbox| Consumer {
            aid: aid.clone(),
            device: inbox.device,
            inbox: inbox.id,
            slot: String::new(),
            slot_id: SlotId::default(),
        }))
    }
}
