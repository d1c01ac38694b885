//! `agent.create`: somebody registers an agent and is its owner from then on.

use super::checks::{check_description, check_mode, check_name, check_url};
use super::proof::{Agreement, CheckedProof, WebhookClaim, use_once};
use super::record::record;
use super::tokens::{hash_of, new_token, new_webhook_secret};
use crate::callers::calling_aid;
use crate::consent::manifests;
use crate::store::agents::{self, AgentRow};
use crate::store::touch_document;
use crate::{AgentService, Error};
use kernel::{Caller, Payer};
use proto_schemas::requests::agent::{AgentKeyProof, ConnectionMode, Create, CreatedAgentRecord};
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn create(
        self: Arc<Self>,
        caller: Caller,
        mut params: Create,
    ) -> Result<CreatedAgentRecord, Error> {
        let owner = calling_aid(&caller)?;
        self.check_new(&params)?;
        let mode = params.connection_mode.unwrap_or(ConnectionMode::Websocket);
        let mode = check_mode(mode, params.webhook_url.as_deref())?;
        let manifest = self.accept_manifest(&caller, params.capability_manifest.take()).await?;
        let aid = match &params.proof {
            Some(proof) => {
                self.check_proof(proof, owner, Agreement::Registration { name: &params.name }).await?;
                proof.aid.clone()
            }
            None => owner.clone(),
        };
        let agreed = match &params.webhook_proof {
            Some(proof) => {
                let url = params.webhook_url.as_deref();
                let claim = WebhookClaim { proof, aid: aid.as_str(), url };
                Some(self.check_webhook_proof(claim, owner).await?)
            }
            None => None,
        };

        let (now, agent_token) = (self.clock.now_ms(), new_token(&self.ids));
        let webhook_secret = params.webhook_url.as_ref().map(|_| new_webhook_secret(&self.ids));
        let mut row = AgentRow {
            id: self.ids.time_ordered(now),
            aid: aid.to_string(),
            owner: owner.to_string(),
            name: params.name,
            description: params.description,
            connection_mode: mode.to_owned(),
            health_check_url: params.health_check_url,
            webhook_url: params.webhook_url.clone(),
            webhook_secret: webhook_secret.clone(),
            webhook_unreachable: 0,
            webhook_agreed: None,
            webhook_agreed_key: None,
            token_hash: hash_of(&agent_token),
            manifest: None,
            manifest_version: 0,
            manifest_hash: None,
            manifest_facts: None,
            consent_facts: None,
            created_at: now,
            updated_at: now,
        };
        if let Some(manifest) = &manifest {
            manifests::set(&mut row, manifest);
        }
        let payer = self.store.account.payer(caller.calling_agent()?);
        let in_directory = self.register(&mut row, payer, params.proof.as_ref(), agreed).await?;

        if row.has_webhook_device() {
            self.outboxes.wake();
        }
        if in_directory {
            self.tell_readers();
        }
        let warnings = manifest.as_deref().and_then(manifests::notes);
        Ok(CreatedAgentRecord { agent: record(row, owner), agent_token, webhook_secret, warnings })
    }

    fn check_new(&self, params: &Create) -> Result<(), Error> {
        check_name(&params.name)?;
        check_description(params.description.as_deref())?;
        check_url("webhook_url", params.webhook_url.as_deref(), self.allow_private)?;
        check_url("health_check_url", params.health_check_url.as_deref(), self.allow_private)
    }

    /// Stores a new agent; returns whether the directory has something to read.
    async fn register(
        &self,
        row: &mut AgentRow,
        payer: Payer,
        proof: Option<&AgentKeyProof>,
        agreed: Option<CheckedProof<'_>>,
    ) -> Result<bool, Error> {
        let mut tx = self.store.begin().await?;
        let charge = self.store.account.before(&mut tx, payer).await?;
        agents::lock_registration(&mut tx).await?;
        if let Some(proof) = proof {
            use_once(&mut tx, proof).await?;
        }
        if let Some(agent_id) = agents::id_of(&mut tx, &row.aid).await? {
            return Err(Error::AgentExists { aid: row.aid.clone(), agent_id });
        }
        if agents::count_of(&mut tx, &row.owner).await? >= self.agents_per_owner {
            return Err(Error::TooManyAgents(self.agents_per_owner));
        }
        if let Some(agreed) = agreed {
            agreed.apply(&mut tx, row).await?;
        }
        agents::insert(&mut tx, row).await?;
        let in_directory = row.manifest.is_some() && touch_document(&mut tx, &row.aid).await?;
        self.store.account.charge(&mut tx, charge).await?;
        if row.has_webhook_device() {
            self.outboxes.mark_device(&mut tx, &row.aid, &row.owner, row.created_at).await?;
        }
        self.store.commit(tx).await?;
        Ok(in_directory)
    }
}
