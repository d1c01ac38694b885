//! `message.v2.ack`: how far was read, of everything or of one sender.

use super::super::ack::{Fleeted, VolatileAck};
use super::super::consumer::{Claim, Consumer, Seq};
use super::super::{Error, Message};
use super::peer_scope;
use crate::kernel::{Aid, Audience, Caller, CallerEvent, Event, Generation, Session};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

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

/// How long a client needs to get over its own acknowledgement.
const A_MOMENT: Duration = Duration::from_millis(250);

impl Message {
    /// Some clients of the second generation forget every bell that rings before their pull has ended with this
    /// acknowledgement. A moment later they are rung for once more, if something is left.
    fn look_again(self: &Arc<Self>, session: &Session, consumer: Consumer) {
        if session.generation != Generation::Second || !self.looking.lock().insert(session.connection) {
            return;
        }
        let (message, session) = (self.clone(), session.clone());
        self.tracker.spawn(async move {
            tokio::time::sleep(A_MOMENT).await;
            message.looking.lock().remove(&session.connection);
            let Ok(Some(CallerEvent { method, params })) = message.waiting_bell(&session, &consumer).await
            else {
                return;
            };
            let to = Audience::Connection { aid: session.aid, connection: session.connection };
            message.bus.publish(&Event { to, method: method.into_owned(), params });
        });
    }

    pub(in super::super) async fn v2_ack(
        self: Arc<Self>,
        caller: Caller,
        params: V2AckParams,
    ) -> Result<V2Acked, Error> {
        let claim = Claim { device_id: params.device_id, slot_id: params.slot_id };
        let consumer = self.consumer(&caller, &claim).await?;
        let sender = peer_scope(params.cursor_scope.as_deref(), params.sender_aid)?;
        let mut cursors = params.volatile_cursors;
        cursors.extend(params.volatile_cursor);
        let fleeted = Fleeted { cursors, ids: params.volatile_ids };
        if params.up_to_seq.is_none() && fleeted.is_empty() {
            return Err(Error::Param("params.up_to_seq: missing".to_owned()));
        }

        let Seq(wanted) = params.up_to_seq.unwrap_or_default();
        let stored = self.advance(&consumer, sender.as_ref(), wanted).await?;
        let volatile_ack = self.ack_fleeting(&consumer, &fleeted).await?;
        if sender.is_none() {
            self.look_again(caller.session()?, consumer);
        }

        // A peer's cursor is never told lower than asked for: the client would take that for an error.
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
