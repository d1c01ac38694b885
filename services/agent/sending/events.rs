//! The task that publishes the events of the outbox.
//!
//! A row is removed after everybody was told, so a process that ends in between leaves it to the next one: an event may come twice and
//! is never lost. Whoever is offline finds what is pending with its relation.

use crate::store::outbox::EventRow;
use crate::{AgentService, Error};
use kernel::{Aid, Audience, Caller, DispatchEvent, Event, EventTargets, RpcError};
use serde_json::value::RawValue;
use std::time::Duration;
use tokio::time::timeout;

/// How often it looks when nothing wakes it: another process may have left something.
const EVERY: Duration = Duration::from_secs(1);
/// How long a process may take for one page of users.
const LEASE_MS: i64 = 60_000;

impl AgentService {
    /// Runs until the server stops.
    pub(crate) async fn publish_events(&self) {
        loop {
            match self.publish_next().await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!("events of agents are published later: {}", RpcError::from(error));
                }
            }
            let _ = timeout(EVERY, self.wake.events.notified()).await;
        }
    }

    /// Publishes the oldest event to everybody whom it is for; false if there is none.
    pub(crate) async fn publish_next(&self) -> Result<bool, Error> {
        let now = self.clock.now_ms();
        let Some(row) = self.store.take_event(now, now + LEASE_MS).await? else { return Ok(false) };
        let payload = RawValue::from_string(row.payload.clone()).map_err(RpcError::internal)?;
        match &row.targets {
            Some(targets) => {
                let targets: Vec<String> = serde_json::from_str(targets).map_err(RpcError::internal)?;
                self.tell(&row, "", &payload, targets).await;
            }
            None => self.tell_users(&row, &payload).await?,
        }
        self.store.event_done(&row.id).await?;
        Ok(true)
    }

    /// Page by page: an agent may have many users.
    async fn tell_users(&self, row: &EventRow, payload: &RawValue) -> Result<(), Error> {
        let mut after = row.after_relation.clone();
        loop {
            let page = self.store.active_users(&row.agent_id, &after).await?;
            let Some((last, _)) = page.last().cloned() else { return Ok(()) };
            let users = page.into_iter().map(|(_, user)| user).collect();
            self.tell(row, &last, payload, users).await;
            self.store.event_progress(&row.id, &last, self.clock.now_ms() + LEASE_MS).await?;
            after = last;
        }
    }

    /// Those of this domain who are connected, and those of others through the gateway.
    async fn tell(&self, row: &EventRow, page: &str, payload: &RawValue, users: Vec<String>) {
        let users = users.iter().filter_map(|user| Aid::parse(user).ok());
        let (ours, foreign): (Vec<Aid>, Vec<Aid>) = users.partition(|user| user.issuer() == self.issuer);
        for user in ours.into_iter().filter(|user| self.presence.may_be_online(user)) {
            let (to, method) = (Audience::Agent(user), row.event.clone());
            self.bus.publish(&Event::with_params(to, method, payload.to_owned()));
        }
        if foreign.is_empty() {
            return;
        }
        let event = DispatchEvent {
            // The same for the same page, so that it is delivered once if it is sent twice.
            event_id: format!("evt_{}_{page}", row.id),
            event: row.event.trim_start_matches("event/").to_owned(),
            targets: EventTargets { aids: foreign, connection_ids: None },
            payload: payload.to_owned(),
        };
        if let Err(error) = self.mesh.dispatch("agent", &Caller::service("agent"), &event).await {
            tracing::debug!("an event for another domain is lost: {error}");
        }
    }
}
