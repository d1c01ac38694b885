//! Events on their way from the socket to whoever reads them, in queues that are bounded in number and in bytes.

pub(crate) mod event_stream;

use super::error::Error;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Notify;

/// What may wait in one queue. A reader that falls behind further loses its queue and the connection: the client comes back, and
/// what is stored is pulled.
const MAX_EVENTS: usize = 10_000;
const MAX_BYTES: usize = 16 << 20;

/// An event from the server: a frame that answers no call.
#[derive(Clone, Debug)]
pub struct ReceivedEvent {
    /// `event/message.received`, for example.
    pub method: String,
    /// What it says.
    pub params: Value,
    /// The frame as it came.
    pub text: String,
}

/// What a reader is told.
#[derive(Clone, Debug)]
pub(crate) enum Notice {
    /// There is a session again. Events since the last one were missed.
    Connected,
    /// The connection is lost, and the next attempt is made after this time.
    Disconnected(Error, Duration),
    Event(Arc<ReceivedEvent>),
    /// The queue was full and what was in it is gone.
    Missed,
    /// There will be no other connection.
    Ended(Error),
}

/// The readers of one client.
#[derive(Default)]
pub(crate) struct EventReaders(Mutex<Vec<Weak<EventQueue>>>);

/// The queue of one reader.
#[derive(Default)]
pub(crate) struct EventQueue {
    waiting: Mutex<WaitingNotices>,
    added: Notify,
}

#[derive(Default)]
struct WaitingNotices {
    notices: VecDeque<Notice>,
    bytes: usize,
    ended: Option<Error>,
}

impl EventReaders {
    /// A queue for everything that is published from now on. It ends when it is dropped.
    pub(crate) fn subscribe(&self) -> Arc<EventQueue> {
        let queue = Arc::new(EventQueue::default());
        self.0.lock().push(Arc::downgrade(&queue));
        queue
    }

    /// Gives an event to every reader. Fails if one of them has fallen too far behind.
    pub(crate) fn publish_event(&self, event: &ReceivedEvent) -> Result<(), Error> {
        let event = Arc::new(event.clone());
        let mut outcome = Ok(());
        self.each(|queue| {
            if !queue.push_event(event.clone()) {
                outcome = Err(Error::TooManyEvents);
            }
        });
        outcome
    }

    pub(crate) fn publish(&self, notice: &Notice) {
        self.each(|queue| queue.push(notice.clone()));
    }

    fn each(&self, mut tell: impl FnMut(&EventQueue)) {
        self.0.lock().retain(|queue| queue.upgrade().map(|queue| tell(&queue)).is_some());
    }
}

impl EventQueue {
    /// The next notice, however long it takes. May be dropped and called again.
    pub(crate) async fn next(&self) -> Notice {
        loop {
            let added = self.added.notified();
            if let Some(notice) = self.pop() {
                return notice;
            }
            added.await;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.lock().notices.is_empty()
    }

    fn pop(&self) -> Option<Notice> {
        let mut waiting = self.waiting.lock();
        let notice = waiting.notices.pop_front();
        if let Some(Notice::Event(event)) = &notice {
            waiting.bytes -= event.text.len();
        }
        notice.or_else(|| waiting.ended.clone().map(Notice::Ended))
    }

    /// Adds an event, or empties the queue if it is full.
    fn push_event(&self, event: Arc<ReceivedEvent>) -> bool {
        let mut waiting = self.waiting.lock();
        let bytes = waiting.bytes + event.text.len();
        let fits = waiting.notices.len() < MAX_EVENTS && bytes <= MAX_BYTES;
        if fits {
            waiting.bytes = bytes;
            waiting.notices.push_back(Notice::Event(event));
        } else {
            waiting.bytes = 0;
            waiting.notices.clear();
            waiting.notices.push_back(Notice::Missed);
        }
        self.added.notify_one();
        fits
    }

    fn push(&self, notice: Notice) {
        let mut waiting = self.waiting.lock();
        match notice {
            Notice::Ended(error) => waiting.ended = Some(error),
            notice => {
                // A reader that has not read the last one is told how things are now, and not how often they changed.
                if matches!(waiting.notices.back(), Some(Notice::Connected | Notice::Disconnected(..))) {
                    waiting.notices.pop_back();
                }
                waiting.notices.push_back(notice);
            }
        }
        self.added.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(bytes: usize) -> ReceivedEvent {
        ReceivedEvent { method: "event/a.b".to_owned(), params: Value::Null, text: "x".repeat(bytes) }
    }

    #[tokio::test]
    async fn a_reader_that_falls_behind_is_told_and_goes_on() {
        for (bytes, fit) in [(1, MAX_EVENTS), (MAX_BYTES / 4, 4)] {
            let readers = EventReaders::default();
            let (slow, _idle) = (readers.subscribe(), readers.subscribe());
            for _ in 0..fit {
                readers.publish_event(&event(bytes)).unwrap();
            }
            assert!(matches!(readers.publish_event(&event(bytes)), Err(Error::TooManyEvents)));
            readers.publish_event(&event(bytes)).unwrap();
            assert!(matches!(slow.next().await, Notice::Missed));
            assert!(matches!(slow.next().await, Notice::Event(_)));
            assert!(slow.is_empty());
        }
    }

    #[tokio::test]
    async fn the_end_comes_after_everything_else_and_stays() {
        let readers = EventReaders::default();
        let queue = readers.subscribe();
        readers.publish(&Notice::Ended(Error::ClientClosed));
        readers.publish_event(&event(1)).unwrap();
        assert!(matches!(queue.next().await, Notice::Event(_)));
        for _ in 0..2 {
            assert!(matches!(queue.next().await, Notice::Ended(Error::ClientClosed)));
        }
        drop(queue);
        readers.publish_event(&event(1)).unwrap();
        assert!(readers.0.lock().is_empty(), "a reader that is gone is forgotten");
    }
}
