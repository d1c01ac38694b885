//! Events for agents of other domains, which the gateway passes on: a sender at a peer learns that its message was
//! acknowledged here.
//!
//! Only `message.ack` crosses. A recall is asked of the recipient's own domain, which publishes the event there; and who has
//! read what is an event for the reader's own devices, which are all here.

use kernel::{Aid, Caller, Ids, Mesh};
use proto_schemas::requests::gateway::{DispatchEvent, DispatchTargets};
use serde_json::value::RawValue;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::task::TaskTracker;

/// What may wait for the gateway.
const QUEUE_BYTES: usize = 4 << 20;

/// A queue in front of the gateway, bounded in bytes: no call waits for an event, and an event that finds it full is
/// dropped.
pub(in super::super) struct PeerEvents {
    queue: mpsc::UnboundedSender<(DispatchEvent, OwnedSemaphorePermit)>,
    bytes: Arc<Semaphore>,
    ids: Ids,
}

impl PeerEvents {
    pub fn start(tracker: &TaskTracker, mesh: Arc<Mesh>, ids: Ids) -> PeerEvents {
        // The semaphore is the channel's bound, in bytes rather than in events. The task ends with the service.
        let (queue, waiting) = mpsc::unbounded_channel();
        tracker.spawn(dispatch(waiting, mesh));
        PeerEvents { queue, bytes: Arc::new(Semaphore::new(QUEUE_BYTES)), ids }
    }

    /// `event` without `event/`.
    pub fn publish(&self, aid: Aid, event: &str, payload: &RawValue, now: i64) {
        let weight = u32::try_from(payload.get().len() + 512).unwrap_or(u32::MAX);
        let Ok(permit) = self.bytes.clone().try_acquire_many_owned(weight) else {
            tracing::debug!("an event for {aid} is dropped: too many wait for the gateway");
            return;
        };
        let event = DispatchEvent {
            event_id: format!("evt_{}", self.ids.time_ordered(now)),
            event: event.to_owned(),
            targets: DispatchTargets { aids: vec![aid], connection_ids: None },
            payload: payload.to_owned(),
        };
        // Fails only when the server is stopping and the task has ended.
        let _ = self.queue.send((event, permit));
    }
}

async fn dispatch(
    mut waiting: mpsc::UnboundedReceiver<(DispatchEvent, OwnedSemaphorePermit)>,
    mesh: Arc<Mesh>,
) {
    while let Some((event, _bytes)) = waiting.recv().await {
        if let Err(error) = mesh.dispatch("message", &Caller::service("message"), &event).await {
            tracing::debug!("an event for another domain is lost: {error}");
        }
    }
}
