//! Registered agents: their names, their capability manifests, and where they are told of events.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::rust::double_option;
use serde_with::skip_serializing_none;

use crate::{Aid, Request, ServiceToken};

/// `agent.create`: register an agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Create {
    pub name: String,
    pub description: Option<String>,
    pub connection_mode: Option<ConnectionMode>,
    pub webhook_url: Option<String>,
    pub health_check_url: Option<String>,
    /// As it was written: what it repeats is refused, and `null` is not the same as no manifest.
    #[serde(default, with = "double_option")]
    pub capability_manifest: Option<Option<Box<RawValue>>>,
    pub proof: Option<AgentKeyProof>,
    pub webhook_proof: Option<AgentKeyProof>,
}

/// How an agent is told of what happens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionMode {
    Websocket,
    Webhook,
    Polling,
}

impl Request for Create {
    const METHOD: &'static str = "agent.create";
    type Result = CreatedAgentRecord;
}

/// That the key of an AID agrees to being registered, or to a webhook for its messages.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentKeyProof {
    pub aid: Aid,
    pub cert_fingerprint: Option<String>,
    /// In seconds since 1970.
    pub timestamp: i64,
    pub nonce: String,
    pub signature: String,
}

/// A registered agent. What only its owner may know is absent for others.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AgentRecord {
    pub id: String,
    pub aid: String,
    /// Absent for who has no token.
    pub owner_id: Option<String>,
    pub name: String,
    pub description: Option<String>,
    /// Absent for who has no token.
    pub connection_mode: Option<String>,
    /// What people are shown of each scope, by its id and the language.
    pub scope_texts: Option<ScopeTexts>,
    /// In its canonical form, over which its hash is made.
    pub capability_manifest: Option<Box<RawValue>>,
    pub capability_manifest_version: i64,
    pub capability_manifest_hash: Option<String>,
    pub health_check_url: Option<String>,
    pub webhook_url: Option<String>,
    /// Whether messages are sent there, too.
    pub webhook_messages: Option<bool>,
    pub webhook_unreachable: Option<bool>,
    pub created_at: String,
    pub updated_at: String,
}

/// What people are shown of scopes, by their ids, and then by the language.
pub type ScopeTexts = BTreeMap<String, BTreeMap<String, ScopeText>>;

/// What a person is shown of a scope.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeText {
    pub label: String,
    pub description: String,
}

/// A new agent, and the secrets that are shown once.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CreatedAgentRecord {
    pub agent: AgentRecord,
    pub agent_token: String,
    pub webhook_secret: Option<String>,
    pub warnings: Option<Vec<ManifestNote>>,
}

/// Something about a manifest that is accepted and could be better.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ManifestNote {
    pub path: String,
    pub message: String,
}

/// `agent.get`: read a registered agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Get {
    pub id: String,
}

impl Request for Get {
    const METHOD: &'static str = "agent.get";
    type Result = GotAgentRecord;
}

/// One agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GotAgentRecord {
    pub agent: AgentRecord,
}

/// `agent.list`: the agents that the caller owns.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct List {
    pub cursor: Option<String>,
    pub limit: Option<i64>,
}

impl Request for List {
    const METHOD: &'static str = "agent.list";
    type Result = AgentRecordPage;
}

/// Agents, without their manifests.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AgentRecordPage {
    pub agents: Vec<AgentRecord>,
    pub next_cursor: Option<String>,
}

/// `agent.update`: change a registered agent. Where a member may be `null`, the outer `None` is one that was left out.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Update {
    pub id: String,
    pub name: Option<String>,
    #[serde(default, with = "double_option")]
    pub description: Option<Option<String>>,
    pub connection_mode: Option<ConnectionMode>,
    #[serde(default, with = "double_option")]
    pub webhook_url: Option<Option<String>>,
    pub webhook_proof: Option<AgentKeyProof>,
    #[serde(default, with = "double_option")]
    pub health_check_url: Option<Option<String>>,
    /// As it was written: what it repeats is refused, and so is `null`.
    #[serde(default, with = "double_option")]
    pub capability_manifest: Option<Option<Box<RawValue>>>,
    pub expected_manifest_version: Option<i64>,
}

impl Request for Update {
    const METHOD: &'static str = "agent.update";
    type Result = UpdatedAgentRecord;
}

/// The agent as it is now, and what another manifest means for its users.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UpdatedAgentRecord {
    pub agent: AgentRecord,
    pub manifest_change: Option<ManifestChange>,
    pub webhook_secret: Option<String>,
    pub warnings: Option<Vec<ManifestNote>>,
}

/// What was decided about a new manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ManifestChange {
    pub from_version: i64,
    pub to_version: i64,
    pub hash: String,
    pub breaking: bool,
    pub reasons: Vec<ManifestChangeReason>,
    pub scopes_requiring_reauth: Vec<String>,
}

/// One difference between two manifests, with the rule that it falls under.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ManifestChangeReason {
    pub rule: String,
    pub breaking: bool,
    pub tool: Option<String>,
    pub path: Option<String>,
    pub scope: Option<String>,
}

/// `agent.delete`: remove a registered agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delete {
    pub id: String,
}

impl Request for Delete {
    const METHOD: &'static str = "agent.delete";
    type Result = DeletedAgentRecord;
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeletedAgentRecord {
    pub id: String,
    pub deleted_at: String,
}

/// `agent.verify_token`: whose an agent token is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifyToken {
    pub token: String,
}

impl Request for VerifyToken {
    const METHOD: &'static str = "agent.verify_token";
    type Result = ServiceToken;
}

/// `agent.rotate_token`: replace the token of an agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RotateToken {
    pub id: String,
    pub webhook_secret: Option<bool>,
}

impl Request for RotateToken {
    const METHOD: &'static str = "agent.rotate_token";
    type Result = RotatedAgentToken;
}

/// The new secrets, which are shown once.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RotatedAgentToken {
    pub agent_token: String,
    pub webhook_secret: Option<String>,
}

/// `agent.deliveries`: what was sent to the webhook of an agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Deliveries {
    pub id: String,
    pub status: Option<DeliveryStatus>,
    pub cursor: Option<String>,
    pub limit: Option<i64>,
}

/// How far a delivery got.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryStatus {
    Waiting,
    Delivered,
    Dead,
}

impl Request for Deliveries {
    const METHOD: &'static str = "agent.deliveries";
    type Result = WebhookDeliveryPage;
}

/// Deliveries, the newest first.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WebhookDeliveryPage {
    pub deliveries: Vec<WebhookDelivery>,
    pub next_cursor: Option<String>,
}

/// One event for a webhook.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WebhookDelivery {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub attempts: i64,
    pub body: Box<RawValue>,
    pub next_attempt_at: Option<String>,
    pub last_error: Option<String>,
    pub created_at: String,
    pub ended_at: Option<String>,
}

/// `agent.test_webhook`: send a signed request to the webhook of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestWebhook {
    pub id: String,
}

impl Request for TestWebhook {
    const METHOD: &'static str = "agent.test_webhook";
    type Result = TestedWebhook;
}

/// What came back.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestedWebhook {
    pub delivery_id: String,
    pub accepted: bool,
    pub status: Option<i64>,
    pub error: Option<String>,
    pub duration_ms: i64,
}
