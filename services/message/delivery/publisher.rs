//! The task that publishes committed messages, in the order of the commits.

use super::events;
use crate::store::inboxes::Inboxes;
use crate::store::write::CommittedMessage;
use kernel::{Bus, DeviceId, Presence, World, catch_panic};
use std::sync::Arc;
use tokio::sync::mpsc;

/// How many commits may be ahead of their events.
const MAX_COMMITS: usize = 64;

/// Gives where the ledger sends what it committed. The task ends when the ledger is gone.
pub(crate) fn start(world: &World, inboxes: Arc<Inboxes>) -> mpsc::Sender<Vec<CommittedMessage>> {
    let (committed, receiver) = mpsc::channel(MAX_COMMITS);
    world.tracker.spawn(publish_all(receiver, inboxes, world.bus.clone(), world.presence.clone()));
    committed
}

/// It ends with the ledger and not before, whatever happens to a single message.
async fn publish_all(
    mut commits: mpsc::Receiver<Vec<CommittedMessage>>,
    inboxes: Arc<Inboxes>,
    bus: Bus,
    presence: Presence,
) {
    while let Some(mut committed) = commits.recv().await {
        // The senders are being answered at this moment; they come first.
        tokio::task::yield_now().await;
        for message in &mut committed {
            if message.devices.iter().any(DeviceId::is_empty) {
                name_devices(message, &inboxes).await;
            }
            // A panic is logged there, and nobody waits for more: the recipient finds the message by pull.
            let _ = catch_panic("the event of a message", || {
                events::publish_committed(&bus, &presence, &*message);
                events::tell_webhooks(&bus, &*message);
                Ok(())
            });
        }
    }
}

/// An inbox without a device may have got its first one since the message was addressed.
async fn name_devices(committed: &mut CommittedMessage, inboxes: &Inboxes) {
    let Ok(known) = inboxes.of(&committed.message.to).await else { return };
    for (entry, device) in committed.message.entries.iter().zip(&mut committed.devices) {
        if let Some(inbox) = known.iter().find(|inbox| inbox.id == entry.inbox) {
            *device = inbox.device.clone();
        }
    }
}
