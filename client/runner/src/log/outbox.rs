//! What waits to be told, between the one that says it and the one that tells it.

use super::batch::EntryQueue;
use super::{EntryBatch, LogEntry};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// While more waits, the back end is not read. One more entry may come on top, of 1 MiB at most.
const MOST_BYTES: usize = 8 << 20;

/// A queue that is limited in bytes: who fills it asks first whether there is space.
#[derive(Clone, Default)]
pub(crate) struct RunnerOutbox(Arc<SharedQueue>);

#[derive(Default)]
struct SharedQueue {
    queue: Mutex<EntryQueue>,
    /// Something waits.
    filled: Notify,
    /// Something was told.
    emptied: Notify,
}

impl RunnerOutbox {
    /// The caller has asked for space, or says something that has to be said.
    pub fn push(&self, entry: LogEntry) {
        self.0.queue.lock().push(entry);
        self.0.filled.notify_one();
    }

    pub fn has_space(&self) -> bool {
        self.0.queue.lock().bytes() < MOST_BYTES
    }

    /// Waits until there is less than before.
    pub async fn emptied(&self) {
        self.0.emptied.notified().await;
    }

    /// Whether everything has been told.
    pub fn is_empty(&self) -> bool {
        self.0.queue.lock().is_empty()
    }

    /// What is told next; it waits for it.
    pub async fn next(&self) -> EntryBatch {
        loop {
            if let Some(batch) = self.0.queue.lock().take() {
                return batch;
            }
            self.0.filled.notified().await;
        }
    }

    /// What [`RunnerOutbox::next`] gave was told.
    pub fn told(&self) {
        self.0.queue.lock().told();
        self.0.emptied.notify_one();
    }

    pub fn forget(&self, command_id: &str) {
        self.0.queue.lock().forget(command_id);
        self.0.emptied.notify_one();
    }

    pub fn clear(&self) {
        self.0.queue.lock().clear();
        self.0.emptied.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_schemas::requests::run::RunEventType;
    use proto_schemas::requests::runner::NewRunEvent;
    use serde_json::value::to_raw_value;

    #[tokio::test]
    async fn a_full_outbox_says_so_until_something_was_told() {
        let outbox = RunnerOutbox::default();
        let event = || {
            LogEntry::Event(NewRunEvent {
                client_event_id: "e".to_owned(),
                kind: RunEventType::CommandOutput,
                command_id: None,
                payload: to_raw_value(&"x".repeat(1 << 20)).unwrap(),
                occurred_at: None,
            })
        };
        while outbox.has_space() {
            outbox.push(event());
        }
        assert!(matches!(outbox.next().await, EntryBatch::Events { .. }));
        assert!(!outbox.has_space(), "it is still in memory");
        outbox.told();
        outbox.emptied().await;
        assert!(outbox.has_space() && !outbox.is_empty());
        outbox.clear();
        assert!(outbox.is_empty());
    }
}
