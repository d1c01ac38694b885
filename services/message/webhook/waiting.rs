//! `message.webhook.waiting`: lists the webhooks that messages wait for.

use crate::{Error, MessageService};
use kernel::Caller;
use proto_schemas::requests::message::webhook::{MOST_WAITING_AIDS, Waiting, WaitingResult, WaitingWebhook};
use std::sync::Arc;

impl MessageService {
    pub(crate) async fn waiting_for_webhooks(
        self: Arc<Self>,
        _: Caller,
        Waiting { aids }: Waiting,
    ) -> Result<WaitingResult, Error> {
        if aids.len() > MOST_WAITING_AIDS {
            return Err(Error::Param(format!("aids must have at most {MOST_WAITING_AIDS} entries")));
        }
        let mut waiting = Vec::new();
        for aid in aids {
            let Some(consumer) = self.webhook_consumer(&aid).await? else { continue };
            let acknowledged = self.store.cursor(consumer.inbox, &consumer.slot, "").await?.unwrap_or(0);
            let seq = self.store.inbox_state(consumer.inbox).await?.head;
            if seq > acknowledged {
                waiting.push(WaitingWebhook { aid, seq });
            }
        }
        Ok(WaitingResult { waiting })
    }
}
