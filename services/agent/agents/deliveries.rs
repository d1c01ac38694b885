//! `agent.deliveries`: what was sent to the webhook of an agent, and what could not be.

use crate::callers::writer;
use crate::paging::{PAGE, cut_page, read_cursor};
use crate::store::outbox::DeliveryRow;
use crate::{AgentService, Error};
use kernel::{Caller, iso};
use proto_schemas::requests::agent::{WebhookDelivery, WebhookDeliveryPage};
use serde::Deserialize;
use std::sync::Arc;

/// Behind every id: the newest come first.
const LAST_ID: &str = "ffffffff-ffff-ffff-ffff-ffffffffffff";

#[derive(Deserialize)]
pub(crate) struct DeliveriesParams {
    id: String,
    status: Option<DeliveryStatus>,
    cursor: Option<String>,
    limit: Option<i64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DeliveryStatus {
    Waiting,
    Delivered,
    Dead,
}

impl AgentService {
    pub(crate) async fn deliveries(
        self: Arc<Self>,
        caller: Caller,
        params: DeliveriesParams,
    ) -> Result<WebhookDeliveryPage, Error> {
        let owner = writer(&caller)?;
        let limit = PAGE.of(params.limit)?;
        let before = read_cursor(params.cursor.as_deref(), LAST_ID)?;
        let found = self.store.agent(&params.id).await?;
        let agent = found.ok_or(Error::NoAgentRecord(params.id))?;
        if agent.owner != owner.as_str() {
            return Err(Error::NotOwner(agent.id));
        }
        let status = params.status.map(|status| match status {
            DeliveryStatus::Waiting => "waiting",
            DeliveryStatus::Delivered => "delivered",
            DeliveryStatus::Dead => "dead",
        });
        // One more tells whether there is another page.
        let mut rows = self.store.deliveries(&agent.id, status, &before, limit + 1).await?;
        let next_cursor = cut_page(&mut rows, limit, |row| &row.id);
        Ok(WebhookDeliveryPage { deliveries: rows.into_iter().map(shown).collect(), next_cursor })
    }
}

fn shown(row: DeliveryRow) -> WebhookDelivery {
    let waits = row.status == "waiting";
    WebhookDelivery {
        id: row.id,
        kind: row.kind,
        status: row.status,
        attempts: row.attempts,
        body: serde_json::from_str(&row.body).unwrap_or_default(),
        next_attempt_at: waits.then(|| iso(row.next_at)),
        last_error: row.last_error,
        created_at: iso(row.created_at),
        ended_at: row.ended_at.map(iso),
    }
}
