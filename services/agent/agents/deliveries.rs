//! `agent.deliveries`: what was sent to the webhook of an agent, and what could not be.

use crate::callers::calling_aid;
use crate::paging::{PAGE, cut_page, read_cursor};
use crate::{AgentService, Error};
use kernel::{Caller, OutboxEntry, iso};
use proto_schemas::requests::agent::{Deliveries, DeliveryStatus, WebhookDelivery, WebhookDeliveryPage};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;

/// Behind every id: the newest come first.
const LAST_ID: &str = "ffffffff-ffff-ffff-ffff-ffffffffffff";

/// What the outbox says of a row that is not sent yet, or never will be.
const WAITING: &str = "waiting";
const GIVEN_UP: &str = "given_up";

/// What is read of the body of a delivery.
#[derive(Default, Deserialize)]
#[serde(default)]
struct DeliveryKind {
    #[serde(rename = "type")]
    kind: String,
}

impl AgentService {
    pub(crate) async fn deliveries(
        self: Arc<Self>,
        caller: Caller,
        params: Deliveries,
    ) -> Result<WebhookDeliveryPage, Error> {
        let owner = calling_aid(&caller)?;
        let limit = PAGE.of(params.limit)?;
        let before = read_cursor(params.cursor.as_deref(), LAST_ID)?;
        let found = self.store.agent(&params.id).await?;
        let agent = found.ok_or(Error::NoAgentRecord(params.id))?;
        if agent.owner != owner.as_str() {
            return Err(Error::NotOwner(agent.id));
        }
        let outcome = match params.status {
            None => "",
            Some(DeliveryStatus::Waiting) => WAITING,
            Some(DeliveryStatus::Delivered) => "delivered",
            Some(DeliveryStatus::Dead) => GIVEN_UP,
        };
        // One more tells whether there is another page.
        let mut rows = self.outboxes.webhooks.entries(&agent.id, outcome, &before, limit + 1).await?;
        let next_cursor = cut_page(&mut rows, limit, |row| &row.key);
        Ok(WebhookDeliveryPage { deliveries: rows.into_iter().map(shown).collect(), next_cursor })
    }
}

fn shown(row: OutboxEntry) -> WebhookDelivery {
    let DeliveryKind { kind } = serde_json::from_str(&row.data).unwrap_or_default();
    WebhookDelivery {
        id: row.key,
        kind,
        next_attempt_at: (row.outcome == WAITING).then(|| iso(row.next_try)),
        status: if row.outcome == GIVEN_UP { "dead".to_owned() } else { row.outcome },
        attempts: row.attempts,
        body: RawValue::from_string(row.data).unwrap_or_else(|_| RawValue::NULL.to_owned()),
        last_error: row.reason,
        created_at: iso(row.created_at),
        ended_at: row.ended_at.map(iso),
    }
}
