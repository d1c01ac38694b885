//! Reminders: notifications that only say "pull now", for clients that cannot know by themselves that something is unread.
//!
//! A reminder names the newest message of the inbox, of whatever kind. The gateway drops one that a newer event has overtaken
//! on its way, because the numbers that a client sees never go back. A plain message does not make every client pull, so a
//! moment after each reminder the inbox is looked at again, and what is newer by then is named by another.

use super::consumer::Consumer;
use crate::delivery::events;
use crate::store::lookup::SeqRange;
use crate::{Error, MessageService};
use kernel::{Aid, Audience, CallerEvent, CallingAgent, DeviceId, Event};
use std::sync::Arc;
use std::time::Duration;

/// How long after a reminder the inbox is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A connection that is reminded.
pub(crate) struct RemindedConnection {
    pub connection: u64,
    pub aid: Aid,
    pub device: DeviceId,
    pub inbox: i64,
    /// Whose cursor says what is read; without one that of any slot.
    pub slot: Option<String>,
}

pub(crate) struct Reminder {
    pub seq: i64,
    pub event: CallerEvent,
}

impl RemindedConnection {
    pub fn of(session: &CallingAgent, consumer: &Consumer) -> RemindedConnection {
        RemindedConnection {
            connection: session.connection,
            aid: consumer.aid.clone(),
            device: consumer.device.clone(),
            inbox: consumer.inbox,
            slot: Some(consumer.slot.clone()),
        }
    }
}

impl MessageService {
    /// A reminder of the newest message after a seq, if there is one.
    pub(crate) async fn reminder(
        &self,
        reminded: &RemindedConnection,
        after: i64,
    ) -> Result<Option<Reminder>, Error> {
        let range = SeqRange { inbox: reminded.inbox, after, before: i64::MAX, sender: None };
        let newest = self.store.last(range, 1).await?.pop();
        Ok(newest.and_then(|newest| {
            let entry = newest.message.entry(reminded.inbox)?;
            let params = events::v2_notification(&newest.message, entry, &reminded.device, None)?;
            let event = CallerEvent { method: events::V2_RECEIVED.into(), params };
            Some(Reminder { seq: newest.seq, event })
        }))
    }

    /// The same, unless everything is read.
    pub(crate) async fn unread_reminder(
        &self,
        reminded: &RemindedConnection,
    ) -> Result<Option<Reminder>, Error> {
        let read = match &reminded.slot {
            Some(slot) => self.store.cursor(reminded.inbox, slot, "").await?.unwrap_or(0),
            None => self.store.read_through(reminded.inbox).await?,
        };
        self.reminder(reminded, read).await
    }

    /// Sends a reminder to its connection.
    pub(crate) fn remind(&self, reminded: &RemindedConnection, reminder: Reminder) {
        let CallerEvent { method, params } = reminder.event;
        let to = Audience::Connection { aid: reminded.aid.clone(), connection: reminded.connection };
        self.bus.publish(&Event::with_params(to, method.into_owned(), params));
    }

    /// Looks at the inbox again after a reminder of this seq, until nothing newer is unread or the connection is closed. One
    /// task per connection: it looks for the last reminder of all.
    pub(crate) fn look_again(self: &Arc<Self>, reminded: RemindedConnection, seq: i64) {
        {
            let mut last = self.reminded.lock();
            if let Some(last) = last.get_mut(&reminded.connection) {
                *last = seq.max(*last);
                return;
            }
            last.insert(reminded.connection, seq);
        }
        let message = self.clone();
        self.tracker.spawn(async move {
            message.stop.run_until_cancelled(message.remind_of_newer(&reminded)).await;
        });
    }

    async fn remind_of_newer(&self, reminded: &RemindedConnection) {
        loop {
            let Some(seen) = self.reminded.lock().get(&reminded.connection).copied() else { return };
            tokio::time::sleep(LOOK_AGAIN).await;
            let newest = self.unread_reminder(reminded).await.ok().flatten();
            let newer = {
                let mut last = self.reminded.lock();
                let Some(named) = last.get_mut(&reminded.connection) else { return };
                match newest.filter(|newest| newest.seq > *named) {
                    Some(newer) => {
                        *named = newer.seq;
                        Some(newer)
                    }
                    // Another reminder was sent meanwhile, and may have been overtaken, too.
                    None if *named > seen => None,
                    None => {
                        last.remove(&reminded.connection);
                        return;
                    }
                }
            };
            if let Some(newer) = newer {
                self.remind(reminded, newer);
            }
        }
    }
}
