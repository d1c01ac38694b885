//! `agent.update`: the owner changes an agent.
//!
//! What a new manifest changes is computed before the transaction, from the version that was read. The row is locked from the first look
//! at it until the commit: of two writers at the same moment the second finds another version there, and computes again. So versions have
//! no gaps and each is given once, and nobody waits for somebody's comparison.

use super::checks::{check_description, check_mode, check_name, check_url};
use super::proof::{CheckedProof, WebhookClaim};
use super::record::record;
use super::tokens::new_webhook_secret;
use crate::callers::calling_aid;
use crate::consent::manifests::{self, DecidedChange};
use crate::consent::notices::Notices;
use crate::store::agents::{self, AgentRow, WriteTx};
use crate::store::attempts::forget_attempts;
use crate::store::touch_document;
use crate::{AgentService, Error};
use kernel::{Aid, Caller, RpcError, codes};
use manifest::Manifest;
use proto_schemas::requests::agent::{ConnectionMode, ManifestChange, Update, UpdatedAgentRecord};
use std::sync::Arc;

/// How often a change is computed because somebody else was faster: more often than changes of one agent wait to be computed, of whom
/// one is the first each time.
const MOST_ATTEMPTS: usize = 64;

/// What is to be changed.
struct AgentChange<'a> {
    params: &'a Update,
    manifest: Option<&'a Arc<Manifest>>,
    agreed: Option<&'a CheckedProof<'a>>,
}

/// What was stored.
struct UpdatedAgent {
    row: AgentRow,
    change: Option<ManifestChange>,
    webhook_secret: Option<String>,
    in_directory: bool,
    is_marked: bool,
}

impl AgentService {
    pub(crate) async fn update(
        self: Arc<Self>,
        caller: Caller,
        mut params: Update,
    ) -> Result<UpdatedAgentRecord, Error> {
        let owner = calling_aid(&caller)?;
        self.check_changes(&params)?;
        let manifest = params.capability_manifest.take();
        let agreed = self.agreed_webhook(owner, &params).await?;
        let manifest = self.accept_manifest(&caller, manifest).await?;

        let change = AgentChange { params: &params, manifest: manifest.as_ref(), agreed: agreed.as_ref() };
        let updated = self.change(&caller, owner, &change).await?;

        if updated.change.is_some() || updated.is_marked {
            self.outboxes.wake();
        }
        if updated.in_directory {
            self.tell_readers();
        }
        Ok(UpdatedAgentRecord {
            agent: record(updated.row, owner),
            manifest_change: updated.change,
            webhook_secret: updated.webhook_secret,
            warnings: manifest.as_deref().and_then(manifests::notes),
        })
    }

    /// Whether the key of the AID has signed for the URL, if it is said so.
    async fn agreed_webhook<'a>(
        &self,
        owner: &Aid,
        params: &'a Update,
    ) -> Result<Option<CheckedProof<'a>>, Error> {
        let Some(proof) = &params.webhook_proof else { return Ok(None) };
        let found = self.store.agent(&params.id).await?;
        let before = found.ok_or_else(|| Error::NoAgentRecord(params.id.clone()))?;
        check_writer(&before, owner, params, None)?;
        let url = params.webhook_url.as_ref().unwrap_or(&before.webhook_url).as_deref();
        let claim = WebhookClaim { proof, aid: &before.aid, url };
        Ok(Some(self.check_webhook_proof(claim, owner).await?))
    }

    fn check_changes(&self, params: &Update) -> Result<(), Error> {
        if let Some(name) = &params.name {
            check_name(name)?;
        }
        let inner = |member: &Option<Option<String>>| member.clone().flatten();
        check_description(inner(&params.description).as_deref())?;
        check_url("webhook_url", inner(&params.webhook_url).as_deref(), self.allow_private)?;
        check_url("health_check_url", inner(&params.health_check_url).as_deref(), self.allow_private)
    }

    /// Computes and stores, again where another manifest was stored meanwhile.
    async fn change(
        &self,
        caller: &Caller,
        owner: &Aid,
        wanted: &AgentChange<'_>,
    ) -> Result<UpdatedAgent, Error> {
        let params = wanted.params;
        for _ in 0..MOST_ATTEMPTS {
            let mut decided = None;
            if let Some(new) = wanted.manifest {
                let found = self.store.agent(&params.id).await?;
                let before = found.ok_or_else(|| Error::NoAgentRecord(params.id.clone()))?;
                check_writer(&before, owner, params, wanted.manifest)?;
                decided = self.decide(caller, &before, new).await?;
            }
            if let Some(updated) = self.store_changes(caller, wanted, decided).await? {
                return Ok(updated);
            }
        }
        let sentence = "the manifest of this agent changes too often right now, try again in a moment";
        Err(RpcError::new(codes::UNAVAILABLE, sentence).into())
    }

    /// None if the manifest is another one by now than the one that was compared with.
    async fn store_changes(
        &self,
        caller: &Caller,
        wanted: &AgentChange<'_>,
        decided: Option<DecidedChange>,
    ) -> Result<Option<UpdatedAgent>, Error> {
        let AgentChange { params, manifest, agreed } = *wanted;
        let now = self.clock.now_ms();
        let mut tx = self.store.begin().await?;
        let found = agents::lock(&mut tx, &params.id).await?;
        let before = found.ok_or_else(|| Error::NoAgentRecord(params.id.clone()))?;
        check_writer(&before, calling_aid(caller)?, params, manifest)?;
        let payer = self.store.account.payer(caller.calling_agent()?);
        let charge = self.store.account.before(&mut tx, payer).await?;
        let mut row = changed(&before, params)?;
        let webhook_secret = match row.webhook_url.is_some() && row.webhook_secret.is_none() {
            true => Some(new_webhook_secret(&self.ids)),
            false => None,
        };
        row.webhook_secret = webhook_secret.clone().or(row.webhook_secret);
        row.updated_at = now;
        if let Some(agreed) = agreed {
            agreed.apply(&mut tx, &mut row).await?;
        }

        // The same manifest again is no change, so a writer that repeats a call counts once.
        let new = manifest.filter(|new| before.manifest_hash.as_deref() != Some(new.hash()));
        let (mut change, mut in_directory) = (None, false);
        if let Some(new) = new {
            let decided = decided.filter(|decided| decided.change.from_version == before.manifest_version);
            let Some(decided) = decided else { return Ok(None) };
            manifests::set(&mut row, new);
            crate::consent::apply(&mut tx, &row.id, &decided, now).await?;
            let notices = Notices { outboxes: &self.outboxes, ids: &self.ids, now };
            notices.manifest_changed(&mut tx, &row, &decided.change).await?;
            in_directory = touch_document(&mut tx, &row.aid).await?;
            change = Some(decided.change);
        }
        agents::write(&mut tx, &row).await?;
        self.store.account.charge(&mut tx, charge).await?;
        let is_marked = self.mark_webhook(&mut tx, &before, &row).await?;
        self.store.commit(tx).await?;
        Ok(Some(UpdatedAgent { row, change, webhook_secret, in_directory, is_marked }))
    }

    /// Has the device of the webhook made or removed, and messages sent to another URL at once, where that is what changed.
    async fn mark_webhook(&self, tx: &mut WriteTx, before: &AgentRow, row: &AgentRow) -> Result<bool, Error> {
        let is_same = before.has_webhook_device() == row.has_webhook_device()
            && before.messages_url() == row.messages_url();
        if is_same {
            return Ok(false);
        }
        forget_attempts(tx, &row.aid).await?;
        self.outboxes.mark_device(tx, &row.aid, &row.owner, row.updated_at).await?;
        Ok(true)
    }
}

/// Only the owner writes, and only from the version that it expects. The AID itself may end that its messages are sent to a webhook.
fn check_writer(
    agent: &AgentRow,
    writer: &Aid,
    params: &Update,
    manifest: Option<&Arc<Manifest>>,
) -> Result<(), Error> {
    let ends_webhook = agent.aid == writer.as_str() && manifest.is_none() && only_leaves_webhook(params);
    if agent.owner != writer.as_str() && !ends_webhook {
        return Err(Error::NotOwner(agent.id.clone()));
    }
    let (expected, current) = (params.expected_manifest_version, agent.manifest_version);
    match expected.filter(|expected| *expected != current) {
        Some(expected) => Err(Error::ManifestVersion { expected, current }),
        None => Ok(()),
    }
}

fn only_leaves_webhook(params: &Update) -> bool {
    let Update {
        id: _,
        name,
        description,
        connection_mode,
        webhook_url,
        webhook_proof,
        health_check_url,
        capability_manifest,
        expected_manifest_version: _,
    } = params;
    connection_mode.is_some_and(|mode| mode != ConnectionMode::Webhook)
        && name.is_none()
        && description.is_none()
        && webhook_url.is_none()
        && webhook_proof.is_none()
        && health_check_url.is_none()
        && capability_manifest.is_none()
}

/// The row with everything but its manifest.
fn changed(before: &AgentRow, params: &Update) -> Result<AgentRow, Error> {
    let mut row = before.clone();
    if let Some(name) = &params.name {
        row.name.clone_from(name);
    }
    if let Some(description) = &params.description {
        row.description.clone_from(description);
    }
    if let Some(health_check_url) = &params.health_check_url {
        row.health_check_url.clone_from(health_check_url);
    }
    if let Some(webhook_url) = &params.webhook_url {
        if *webhook_url != row.webhook_url {
            row.webhook_unreachable = 0;
        }
        row.webhook_url.clone_from(webhook_url);
    }
    if let Some(mode) = params.connection_mode {
        row.connection_mode = check_mode(mode, row.webhook_url.as_deref())?.to_owned();
    }
    if row.connection_mode == "webhook" && row.webhook_url.is_none() {
        return Err(Error::Bad("connection mode webhook needs a webhook_url"));
    }
    if row.connection_mode != "webhook" {
        // Whoever comes back to this mode asks the key again.
        row.webhook_agreed = None;
        row.webhook_agreed_key = None;
    }
    Ok(row)
}
