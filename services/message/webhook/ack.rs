//! `message.webhook.ack`: a webhook accepted what it was sent, up to a seq.

use crate::store::write::CursorAdvance;
use crate::{Error, MessageService};
use kernel::Caller;
use proto_schemas::requests::message::webhook::{Ack, WebhookAckResult};
use std::sync::Arc;

impl MessageService {
    pub(crate) async fn ack_of_webhook(
        self: Arc<Self>,
        _: Caller,
        Ack { aid, seq, skipped }: Ack,
    ) -> Result<WebhookAckResult, Error> {
        let Some(consumer) = self.webhook_consumer(&aid).await? else {
            return Ok(WebhookAckResult { ack_seq: 0 });
        };
        let ack_seq = match skipped {
            Some(true) => self.step_over(consumer.inbox, seq).await?,
            Some(false) | None => self.advance(&consumer, None, seq).await?,
        };
        Ok(WebhookAckResult { ack_seq })
    }

    /// Moves the cursor past what nobody has accepted: no sender is told that it arrived.
    pub(super) async fn step_over(&self, inbox: i64, seq: i64) -> Result<i64, Error> {
        let advance = CursorAdvance { inbox, slot: String::new(), sender: String::new(), seq };
        Ok(self.ledger.ack(advance).await?.now)
    }
}
