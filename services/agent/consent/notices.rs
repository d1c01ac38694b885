//! What is told because of a change: rows of the outbox, written in the transaction of the change.

use crate::outboxes::{SendingOutboxes, StoredEvent, USERS};
use crate::store::agents::{AgentRow, WriteTx};
use crate::store::relations::RelationRow;
use kernel::{Ids, NewOutboxRow, Outbox, json_rows};
use proto_schemas::requests::agent::ManifestChange;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

pub(crate) const REAUTH_REQUIRED: &str = "event/h2a.reauth_required";
pub(crate) const MANIFEST_UPDATED: &str = "event/h2a.manifest_updated";
pub(crate) const RELATION_CHANGED: &str = "event/h2a.relation_changed";

/// What happened to a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelationStep {
    Established,
    Updated,
    Suspended,
    Restored,
    Revoked,
}

impl RelationStep {
    fn word(self) -> &'static str {
        match self {
            RelationStep::Established => "established",
            RelationStep::Updated => "updated",
            RelationStep::Suspended => "suspended",
            RelationStep::Restored => "restored",
            RelationStep::Revoked => "revoked",
        }
    }
}

/// Writes the rows of one change.
pub(crate) struct Notices<'a> {
    pub outboxes: &'a SendingOutboxes,
    pub ids: &'a Ids,
    pub now: i64,
}

impl Notices<'_> {
    /// Everybody with an active relation is told of another manifest, and so is the webhook of the agent.
    pub async fn manifest_changed(
        &self,
        tx: &mut WriteTx,
        agent: &AgentRow,
        change: &ManifestChange,
    ) -> sqlx::Result<()> {
        let asked = change.breaking.then_some(change.scopes_requiring_reauth.as_slice());
        let payload = manifest_payload(agent, asked);
        let event = if change.breaking { REAUTH_REQUIRED } else { MANIFEST_UPDATED };
        self.event(tx, agent, event, &payload, None).await?;
        self.delivery(tx, agent, event.trim_start_matches("event/"), &payload).await
    }

    /// Both sides are told of a relation, and the webhook of the agent.
    pub async fn relation_changed(
        &self,
        tx: &mut WriteTx,
        agent: &AgentRow,
        relation: &RelationRow,
        step: RelationStep,
    ) -> sqlx::Result<()> {
        let payload = json!({
            "relation_id": relation.id,
            "agent_id": relation.agent_id,
            "agent_aid": relation.agent_aid,
            "user_id": relation.user_aid,
            "change": step.word(),
            "status": relation.status,
        });
        let targets = vec![relation.user_aid.clone(), relation.agent_aid.clone()];
        self.event(tx, agent, RELATION_CHANGED, &payload, Some(targets)).await?;
        self.delivery(tx, agent, &format!("relation.{}", step.word()), &payload).await
    }

    async fn event(
        &self,
        tx: &mut WriteTx,
        agent: &AgentRow,
        event: &str,
        payload: &Value,
        targets: Option<Vec<String>>,
    ) -> sqlx::Result<()> {
        let payload = to_raw_value(payload).map_err(|error| sqlx::Error::Encode(error.into()))?;
        let stored = StoredEvent { agent_id: agent.id.clone(), event: event.to_owned(), targets, payload };
        self.add(tx, &self.outboxes.events, USERS, &agent.owner, json_rows::text(&stored)?).await
    }

    async fn delivery(
        &self,
        tx: &mut WriteTx,
        agent: &AgentRow,
        kind: &str,
        payload: &Value,
    ) -> sqlx::Result<()> {
        if agent.webhook_url.is_none() {
            return Ok(());
        }
        let mut body = json!({ "type": kind, "version": "v1" });
        if let (Some(body), Some(members)) = (body.as_object_mut(), payload.as_object()) {
            body.extend(members.clone());
        }
        self.add(tx, &self.outboxes.webhooks, &agent.id, &agent.owner, body.to_string()).await
    }

    async fn add(
        &self,
        tx: &mut WriteTx,
        outbox: &Outbox,
        destination: &str,
        owner: &str,
        data: String,
    ) -> sqlx::Result<()> {
        let row = NewOutboxRow {
            key: self.ids.time_ordered(self.now),
            destination: destination.to_owned(),
            position: outbox.next_position(self.now),
            owner: owner.to_owned(),
            created_at: self.now,
            expires_at: None,
            tried_at: None,
            data,
        };
        outbox.add(tx, &[row]).await.map(drop)
    }
}

/// What is said of the manifest that an agent has now, with the scopes to ask about where there are any.
pub(crate) fn manifest_payload(agent: &AgentRow, asked: Option<&[String]>) -> Value {
    let mut payload = json!({
        "agent_id": agent.id,
        "agent_aid": agent.aid,
        "new_manifest_version": agent.manifest_version,
        "new_manifest_hash": agent.manifest_hash,
    });
    if let Some(asked) = asked {
        payload["scopes_requiring_reauth"] = json!(asked);
    }
    payload
}
