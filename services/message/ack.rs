//! `message.ack`: a consumer has read everything up to a seq.

use super::delivery::events;
use super::reading::consumer::{Consumer, ConsumerClaim};
use super::reading::volatile::VolatileNames;
use super::store::write::{AckOutcome, CursorAdvance};
use super::{Error, MessageService};
use kernel::{Aid, Audience, Caller, Event};
use proto_schemas::requests::message::{Ack, AckResult};
use serde_json::json;
use serde_json::value::to_raw_value;
use std::sync::Arc;

impl MessageService {
    pub(super) async fn ack(self: Arc<Self>, caller: Caller, ack: Ack) -> Result<AckResult, Error> {
        let claim = ConsumerClaim { device_id: ack.device_id.as_deref(), slot_id: ack.slot_id.as_deref() };
        let consumer = self.consumer(&caller, claim).await?;
        let names = VolatileNames::new(ack.volatile_cursor, ack.volatile_cursors, ack.volatile_ids);
        if ack.seq.is_none() && names.is_empty() {
            return Err(Error::Param("seq is required".to_owned()));
        }

        let ack_seq = self.advance(&consumer, None, ack.seq.unwrap_or_default().get()).await?;
        let volatile_ack = self.ack_volatile(&consumer, &names).await?;
        Ok(AckResult { success: true, ack_seq, volatile_ack, event_published: None, event_error: None })
    }

    /// Moves a cursor forward, tells the senders whose messages it passed, and gives where it is now. There is no cursor for a sender of
    /// whom the inbox has nothing: names that nobody has would be stored without a bound, and agents told that wrote nothing.
    pub(super) async fn advance(
        &self,
        consumer: &Consumer,
        sender: Option<&Aid>,
        seq: i64,
    ) -> Result<i64, Error> {
        if let Some(sender) = sender
            && !self.store.has_sender(consumer.inbox, sender.as_str()).await?
        {
            return Ok(0);
        }
        let advance = CursorAdvance {
            inbox: consumer.inbox,
            slot: consumer.slot.clone(),
            sender: sender.map_or_else(String::new, ToString::to_string),
            seq,
        };
        let AckOutcome { before, now } = self.ledger.ack(advance).await?;
        if now > before {
            self.publish_ack(consumer, sender, before, now).await;
        }
        Ok(now)
    }

    /// Best effort: the cursor is stored, and a sender that misses the event loses nothing.
    async fn publish_ack(&self, consumer: &Consumer, sender: Option<&Aid>, before: i64, now: i64) {
        let senders = match sender {
            Some(sender) => Ok(vec![sender.to_string()]),
            None => self.store.senders_between(consumer.inbox, before, now).await,
        };
        let mut params = json!({
            "to": consumer.aid,
            "device_id": consumer.device,
            "slot_id": consumer.slot_id,
            "ack_seq": now,
            "timestamp": self.clock.now_ms(),
        });
        if let Some(sender) = sender {
            params["cursor_scope"] = json!("peer");
            params["sender_aid"] = json!(sender);
            params["peer_ack_seq"] = json!(now);
        }
        let Ok(params) = to_raw_value(&params) else { return };
        for sender in senders.unwrap_or_default() {
            let Ok(aid) = Aid::parse(&sender) else { continue };
            if !self.is_ours(&aid) {
                self.peer_events.publish(aid, "message.ack", &params, self.clock.now_ms());
            } else if self.presence.may_be_online(&aid) {
                let to = Audience::Agent(aid);
                self.bus.publish(&Event::with_params(to, events::ACK, params.clone()));
            }
        }
    }
}
