//! `h2a.grant`: a user grants an agent scopes.

use super::shown::shown;
use crate::callers::calling_aid;
use crate::consent::facts::ConsentFacts;
use crate::consent::notices::{Notices, RelationStep};
use crate::consent::{granted, scopes_json};
use crate::store::agents;
use crate::store::relations::{self, RelationRow};
use crate::{AgentService, Error};
use kernel::Caller;
use proto_schemas::requests::h2a::{Grant, GrantedRelation};
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn grant(
        self: Arc<Self>,
        caller: Caller,
        mut params: Grant,
    ) -> Result<GrantedRelation, Error> {
        let (user, now) = (calling_aid(&caller)?, self.clock.now_ms());
        // Written out also where it is passed on: a domain of an earlier build requires it.
        let granted_scopes = params.granted_scopes.get_or_insert_default().clone();
        if let Some(there) = self.at_its_domain(&caller, &params.agent_id, &params).await? {
            return Ok(there);
        }
        let mut tx = self.store.begin().await?;
        // Locked, so that the manifest is the one that the grant is stored with, and a user begins one relation and not two.
        let found = agents::lock(&mut tx, &params.agent_id).await?;
        let agent = found.ok_or(Error::NoAgentRecord(params.agent_id))?;
        let scopes = scopes_json(granted(&ConsentFacts::stored(&agent)?, granted_scopes)?);
        if let Some(open) = relations::open_with(&mut tx, &agent.id, user.as_str()).await? {
            return match open.status == "active" && open.granted_scopes == scopes {
                true => Ok(GrantedRelation { relation: shown(open), created: false }),
                false => Err(Error::RelationExists { relation_id: open.id }),
            };
        }
        if relations::count_of(&mut tx, user.as_str()).await? >= self.relations_per_user {
            return Err(Error::TooManyRelations(self.relations_per_user));
        }
        let relation = RelationRow {
            id: self.ids.time_ordered(now),
            agent_id: agent.id.clone(),
            agent_aid: agent.aid.clone(),
            user_aid: user.to_string(),
            status: "active".to_owned(),
            granted_scopes: scopes,
            granted_manifest_version: agent.manifest_version,
            reauth_required: 0,
            reauth_manifest_version: None,
            reauth_scopes: "[]".to_owned(),
            created_at: now,
            updated_at: now,
        };
        let payer = self.store.account.payer(caller.calling_agent()?);
        let charge = self.store.account.before(&mut tx, payer).await?;
        relations::put(&mut tx, &relation).await?;
        self.store.account.charge(&mut tx, charge).await?;
        let notices = Notices { outboxes: &self.outboxes, ids: &self.ids, now };
        notices.relation_changed(&mut tx, &agent, &relation, RelationStep::Established).await?;
        self.store.commit(tx).await?;

        self.outboxes.wake();
        Ok(GrantedRelation { relation: shown(relation), created: true })
    }
}
