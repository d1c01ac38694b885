//! Bells for agents of other domains, rung through the gateway: whoever acknowledges here is heard over there.
//!
//! `message.ack` is the one that crosses. A recall is asked of the recipient's own domain, which rings there; who has
//! read what is told to the reader's own devices, and they are all here.

use crate::kernel::{Aid, Ids, Mesh, Notice, Targets};
use serde_json::value::RawValue;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::task::TaskTracker;

/// What may wait for the gateway.
const QUEUE_BYTES: usize = 4 << 20;

/// A queue in front of the gateway, bounded in bytes: nobody's call waits for a bell, and a bell that finds it full is lost.
pub(in super::super) struct Bells {
    queue: mpsc::UnboundedSender<(Notice, OwnedSemaphorePermit)>,
    bytes: Arc<Semaphore>,
    ids: Ids,
}

impl Bells {
    pub fn start(tracker: &TaskTracker, mesh: Arc<Mesh>, ids: Ids) -> Bells {
        // The semaphore is the channel's bound, in bytes rather than in bells. The task ends with the service.
        let (queue, waiting) = mpsc::unbounded_channel();
        tracker.spawn(ring(waiting, mesh));
        Bells { queue, bytes: Arc::new(Semaphore::new(QUEUE_BYTES)), ids }
    }

    /// `event` without `event/`.
    pub fn ring(&self, aid: Aid, event: &str, payload: &RawValue, now: i64) {
        let weight = u32::try_from(payload.get().len() + 512).unwrap_or(u32::MAX);
        let Ok(permit) = self.bytes.clone().try_acquire_many_owned(weight) else {
            tracing::debug!("a bell for {aid} is lost: too many wait for the gateway");
            return;
        };
        let notice = Notice {
            event_id: format!("evt_{}", self.ids.time_ordered(now)),
            event: event.to_owned(),
            targets: Targets { aids: vec![aid] },
            payload: payload.to_owned(),
        };
        // Only fails when the server is stopping and nobody listens.
        let _ = self.queue.send((notice, permit));
    }
}

async fn ring(mut waiting: mpsc::UnboundedReceiver<(Notice, OwnedSemaphorePermit)>, mesh: Arc<Mesh>) {
    while let Some((notice, _bytes)) = waiting.recv().await {
        if let Err(error) = mesh.dispatch("message", &notice).await {
            tracing::debug!("a bell for another domain is lost: {error}");
        }
    }
}
