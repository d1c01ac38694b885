//! The events of a client, one after the other.

use super::error::Error;
use super::events::{EventQueue, Notice, ReceivedEvent};
use futures_util::Stream;
use futures_util::stream::try_unfold;
use std::sync::Arc;

/// The events since it was made. It may hold 10,000 events or 16 MiB that were not read yet.
pub struct EventStream(Arc<EventQueue>);

impl EventStream {
    pub(crate) fn new(queue: Arc<EventQueue>) -> EventStream {
        EventStream(queue)
    }

    /// The next event, however long it takes. Fails with [`Error::TooManyEvents`] where events were lost because they were not read
    /// in time, and may be called again then; any other error is the one that ended the client. May be dropped and called again.
    pub async fn next(&mut self) -> Result<ReceivedEvent, Error> {
        loop {
            match self.0.next().await {
                Notice::Event(event) => return Ok(Arc::unwrap_or_clone(event)),
                Notice::Missed => return Err(Error::TooManyEvents),
                Notice::Ended(error) => return Err(error),
                Notice::Connected | Notice::Disconnected(..) => {}
            }
        }
    }

    /// The same as a [`Stream`], which ends behind the first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<ReceivedEvent, Error>> {
        try_unfold(self, |mut events| async { Ok(Some((events.next().await?, events))) })
    }
}
