//! `message.v2.ack`: how far was read, of everything or of one sender.

use super::peer_scope;
use crate::reading::consumer::{Consumer, ConsumerClaim};
use crate::reading::reminders::RemindedConnection;
use crate::reading::volatile::VolatileNames;
use crate::{Error, MessageService};
use kernel::{Caller, CallingAgent, Generation};
use proto_schemas::requests::message::CursorScope;
use proto_schemas::requests::message::v2::{Ack, V2AckResult};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long some clients are busy with their own acknowledgement.
const ACK_DELAY: Duration = Duration::from_millis(250);

impl MessageService {
    /// Some clients of the second generation drop every notification that comes before their pull has ended with this
    /// acknowledgement. A moment after the last one they are notified once more, if something is left.
    fn notify_later(self: &Arc<Self>, session: &CallingAgent, consumer: Consumer) {
        if session.generation != Generation::Second {
            return;
        }
        let at = Instant::now() + ACK_DELAY;
        if self.notifying.lock().insert(session.connection, at).is_some() {
            return; // Whoever waits for the one before waits for this one, too.
        }
        let (message, reminded) = (self.clone(), RemindedConnection::of(session, &consumer));
        self.tracker.spawn(async move {
            if !message.last_ack_is_over(reminded.connection).await {
                return;
            }
            if let Ok(Some(reminder)) = message.unread_reminder(&reminded).await {
                let seq = reminder.seq;
                message.remind(&reminded, reminder);
                message.look_again(reminded, seq);
            }
        });
    }

    /// Waits until a connection has not acknowledged anything for a moment. Gives whether it is still open.
    async fn last_ack_is_over(&self, connection: u64) -> bool {
        loop {
            let at = {
                let mut notifying = self.notifying.lock();
                let Some(at) = notifying.get(&connection).copied() else { return false };
                if at <= Instant::now() {
                    notifying.remove(&connection);
                    return true;
                }
                at
            };
            tokio::time::sleep_until(at).await;
        }
    }

    pub(in super::super) async fn v2_ack(
        self: Arc<Self>,
        caller: Caller,
        ack: Ack,
    ) -> Result<V2AckResult, Error> {
        let claim = ConsumerClaim { device_id: ack.device_id.as_deref(), slot_id: ack.slot_id.as_deref() };
        let consumer = self.consumer(&caller, claim).await?;
        let sender = peer_scope(ack.cursor_scope.as_deref(), ack.sender_aid)?;
        let names = VolatileNames::new(ack.volatile_cursor, ack.volatile_cursors, ack.volatile_ids);
        if ack.up_to_seq.is_none() && names.is_empty() {
            return Err(Error::Param("up_to_seq is required".to_owned()));
        }

        let wanted = ack.up_to_seq.unwrap_or_default().get();
        let stored = self.advance(&consumer, sender.as_ref(), wanted).await?;
        let volatile_ack = self.ack_volatile(&consumer, &names).await?;
        if sender.is_none() {
            self.notify_later(&*self.acting_agent(&caller).await?, consumer);
        }

        // The cursor of a peer is never answered lower than asked for: the client would take that for an error.
        let now = if sender.is_some() { stored.max(wanted) } else { stored };
        Ok(V2AckResult {
            success: true,
            acked: Some(true),
            ack_seq: now,
            effective_ack_seq: now,
            cursor_scope: sender.is_some().then_some(CursorScope::Peer),
            peer_ack_seq: sender.is_some().then_some(now),
            sender_aid: sender,
            event_published: None,
            event_error: None,
            volatile_ack,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::TestWorld;

    #[tokio::test]
    async fn a_client_is_notified_again_after_the_last_of_its_acknowledgements() {
        let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
        let message = MessageService::open(&test.world, &Default::default()).await.unwrap();
        let (first, last) = (Instant::now() + ACK_DELAY / 5, Instant::now() + ACK_DELAY);
        message.notifying.lock().insert(7, first);
        let (open, _) =
            tokio::join!(message.last_ack_is_over(7), async { message.notifying.lock().insert(7, last) });
        assert!(open && Instant::now() >= last);
        assert!(!message.last_ack_is_over(7).await, "the connection is closed, or was notified");
    }
}
