//! An agent as callers see it.

use crate::store::agents::AgentRow;
use kernel::{Aid, iso};
use proto_schemas::requests::agent::AgentRecord;
use serde_json::value::RawValue;

/// What only its owner may know is left out for others. The AID itself sees whether its messages are sent to a webhook.
pub(super) fn record(row: AgentRow, viewer: &Aid) -> AgentRecord {
    let owned = row.owner == viewer.as_str();
    let is_own = owned || row.aid == viewer.as_str();
    let webhook_messages = is_own.then(|| row.messages_url().is_some());
    AgentRecord {
        id: row.id,
        aid: row.aid,
        owner_id: Some(row.owner),
        name: row.name,
        description: row.description,
        connection_mode: Some(row.connection_mode),
        scope_texts: None,
        capability_manifest: row.manifest.and_then(|text| RawValue::from_string(text).ok()),
        capability_manifest_version: row.manifest_version,
        capability_manifest_hash: row.manifest_hash,
        health_check_url: row.health_check_url.filter(|_| owned),
        webhook_url: row.webhook_url.filter(|_| owned),
        webhook_messages,
        webhook_unreachable: owned.then_some(row.webhook_unreachable != 0),
        created_at: iso(row.created_at),
        updated_at: iso(row.updated_at),
    }
}

/// What everybody may know: not who owns it, and not how it is told of events.
pub(super) fn public_record(row: AgentRow) -> AgentRecord {
    AgentRecord {
        id: row.id,
        aid: row.aid,
        name: row.name,
        description: row.description,
        capability_manifest: row.manifest.and_then(|text| RawValue::from_string(text).ok()),
        capability_manifest_version: row.manifest_version,
        capability_manifest_hash: row.manifest_hash,
        created_at: iso(row.created_at),
        updated_at: iso(row.updated_at),
        ..AgentRecord::default()
    }
}
