//! `message.v2.ack`: how far was read, of everything or of one sender.

use super::peer_scope;
use crate::reading::consumer::{Consumer, ConsumerClaim, Seq};
use crate::reading::volatile::{VolatileAck, VolatileNames};
use crate::{Error, MessageService};
use kernel::{Aid, Audience, Caller, CallerEvent, Event, Generation, Session};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Deserialize)]
pub(crate) struct V2AckParams {
    #[serde(default)]
    up_to_seq: Option<Seq>,
    #[serde(default)]
    cursor_scope: Option<String>,
    #[serde(default)]
    sender_aid: Option<Aid>,
    #[serde(default)]
    device_id: Option<String>,
    #[serde(default)]
    slot_id: Option<String>,
    #[serde(default)]
    volatile_cursor: Option<String>,
    #[serde(default)]
    volatile_cursors: Vec<String>,
    #[serde(default)]
    volatile_ids: Vec<String>,
}

#[derive(Clone, Serialize)]
pub(crate) struct V2Acked {
    success: bool,
    acked: bool,
    ack_seq: i64,
    effective_ack_seq: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor_scope: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender_aid: Option<Aid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer_ack_seq: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    volatile_ack: Option<VolatileAck>,
}

/// How long some clients are busy with their own acknowledgement.
const ACK_DELAY: Duration = Duration::from_millis(250);

impl MessageService {
    /// Some clients of the second generation drop every notification that comes before their pull has ended with this
    /// acknowledgement. A moment after the last one they are notified once more, if something is left.
    fn notify_later(self: &Arc<Self>, session: &Session, consumer: Consumer) {
        if session.generation != Generation::Second {
            return;
        }
        let at = Instant::now() + ACK_DELAY;
        if self.notifying.lock().insert(session.connection, at).is_some() {
            return; // Whoever waits for the one before waits for this one, too.
        }
        let (message, session) = (self.clone(), session.clone());
        self.tracker.spawn(async move {
            if !message.last_ack_is_over(session.connection).await {
                return;
            }
            let Ok(Some(CallerEvent { method, params })) =
                message.unread_notification(&session, &consumer).await
            else {
                return;
            };
            let to = Audience::Connection { aid: session.aid, connection: session.connection };
            message.bus.publish(&Event::with_params(to, method.into_owned(), params));
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
        params: V2AckParams,
    ) -> Result<V2Acked, Error> {
        let claim = ConsumerClaim { device_id: params.device_id, slot_id: params.slot_id };
        let consumer = self.consumer(&caller, &claim).await?;
        let sender = peer_scope(params.cursor_scope.as_deref(), params.sender_aid)?;
        let mut cursors = params.volatile_cursors;
        cursors.extend(params.volatile_cursor);
        let names = VolatileNames { cursors, message_ids: params.volatile_ids };
        if params.up_to_seq.is_none() && names.is_empty() {
            return Err(Error::Param("params.up_to_seq: missing".to_owned()));
        }

        let Seq(wanted) = params.up_to_seq.unwrap_or_default();
        let stored = self.advance(&consumer, sender.as_ref(), wanted).await?;
        let volatile_ack = self.ack_volatile(&consumer, &names).await?;
        if sender.is_none() {
            self.notify_later(caller.session()?, consumer);
        }

        // The cursor of a peer is never answered lower than asked for: the client would take that for an error.
        let now = if sender.is_some() { stored.max(wanted) } else { stored };
        Ok(V2Acked {
            success: true,
            acked: true,
            ack_seq: now,
            effective_ack_seq: now,
            cursor_scope: sender.is_some().then_some("peer"),
            peer_ack_seq: sender.is_some().then_some(now),
            sender_aid: sender,
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
