//! The events of a client, one after the other.

use crate::error::Error;
use crate::events::{EventQueue, Notice, ReceivedEvent};
use futures_util::Stream;
use futures_util::stream::try_unfold;
use std::sync::Arc;
use std::time::Duration;

/// What [`EventStream::next_notice`] gives.
#[derive(Clone, Debug)]
pub enum EventNotice {
    /// An event.
    Event(ReceivedEvent),
    /// Events were lost because they were not read in time.
    Missed,
    /// The connection is lost. The next attempt is made after `retry_in`.
    Disconnected {
        /// How it was lost, or why the last attempt failed.
        error: Error,
        /// The time until then.
        retry_in: Duration,
    },
    /// There is a connection again; what happened meanwhile was missed.
    Reconnected,
}

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
            match self.next_notice().await? {
                EventNotice::Event(event) => return Ok(event),
                EventNotice::Missed => return Err(Error::TooManyEvents),
                EventNotice::Reconnected | EventNotice::Disconnected { .. } => {}
            }
        }
    }

    /// The same, with how it is with the connection: for whoever has to know that events may be missing. Fails only with the error
    /// that ended the client. May be dropped and called again.
    pub async fn next_notice(&mut self) -> Result<EventNotice, Error> {
        Ok(match self.0.next().await {
            Notice::Event(event) => EventNotice::Event(Arc::unwrap_or_clone(event)),
            Notice::Missed => EventNotice::Missed,
            Notice::Disconnected(error, retry_in) => EventNotice::Disconnected { error, retry_in },
            Notice::Connected => EventNotice::Reconnected,
            Notice::Ended(error) => return Err(error),
        })
    }

    /// The same as a [`Stream`], which ends behind the first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<ReceivedEvent, Error>> {
        try_unfold(self, |mut events| async { Ok(Some((events.next().await?, events))) })
    }
}
