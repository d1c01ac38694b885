//! Publishes the events of the outbox.
//!
//! A row is removed after everybody was told, so a process that ends in between leaves it to the next one: an event may come twice and
//! is never lost. A user who is offline finds what is pending with its relation.

use crate::AgentService;
use crate::outboxes::StoredEvent;
use kernel::{Aid, Audience, Caller, Event, OutboxPage, OutboxRow, OutboxSender, PageOutcome, RowEnd};
use proto_schemas::requests::gateway::{DispatchEvent, DispatchTargets};
use std::sync::Arc;

/// Sends the rows of the outbox of events.
pub(crate) struct UserEvents(pub Arc<AgentService>);

impl OutboxSender for UserEvents {
    async fn send(&self, page: OutboxPage) -> sqlx::Result<PageOutcome> {
        let Some(row) = page.rows.first() else { return Ok(PageOutcome::default()) };
        Ok(match self.0.publish_event(row).await {
            Ok(end) => PageOutcome::settled(row.settled(end)),
            // All events wait behind this one: it is tried again soon, and not only when the lease has run out.
            Err(error) => {
                tracing::warn!("events of agents are published later: {error}");
                PageOutcome::failed(error.to_string())
            }
        })
    }
}

impl AgentService {
    /// Publishes an event to its targets, or to the next page of users: an agent may have many.
    async fn publish_event(&self, row: &OutboxRow) -> sqlx::Result<RowEnd> {
        let Ok(mut stored) = serde_json::from_str::<StoredEvent>(&row.data) else {
            return Ok(RowEnd::GivenUp("it cannot be read".to_owned()));
        };
        if self.store.agent(&stored.agent_id).await?.is_none() {
            return Ok(RowEnd::GivenUp("the agent was removed".to_owned()));
        }
        if let Some(targets) = stored.targets.take() {
            self.tell(&row.key, "", &stored, targets).await;
            return Ok(RowEnd::Delivered);
        }
        let after = row.progress.as_deref().unwrap_or_default();
        let page = self.store.active_users(&stored.agent_id, after).await?;
        let Some((last, _)) = page.last().cloned() else { return Ok(RowEnd::Delivered) };
        let users = page.into_iter().map(|(_, user)| user).collect();
        self.tell(&row.key, &last, &stored, users).await;
        Ok(RowEnd::Part(last))
    }

    /// Those of this domain who are connected, and those of others through the gateway.
    async fn tell(&self, id: &str, page: &str, stored: &StoredEvent, users: Vec<String>) {
        let users = users.iter().filter_map(|user| Aid::parse(user).ok());
        let (ours, foreign): (Vec<Aid>, Vec<Aid>) = users.partition(|user| user.issuer() == self.issuer);
        for user in ours.into_iter().filter(|user| self.presence.may_be_online(user)) {
            let (to, method) = (Audience::Agent(user), stored.event.clone());
            self.bus.publish(&Event::with_params(to, method, stored.payload.clone()));
        }
        if foreign.is_empty() {
            return;
        }
        let event = DispatchEvent {
            // The same for the same page, so that it is delivered once if it is sent twice.
            event_id: format!("evt_{id}_{page}"),
            event: stored.event.trim_start_matches("event/").to_owned(),
            targets: DispatchTargets { aids: foreign, connection_ids: None },
            payload: stored.payload.clone(),
        };
        if let Err(error) = self.mesh.dispatch("agent", &Caller::service("agent"), &event).await {
            tracing::debug!("an event for another domain is lost: {error}");
        }
    }
}
