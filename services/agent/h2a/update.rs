//! `h2a.update`: a user grants other scopes, or agrees to a manifest as it is now.

use super::shown::shown;
use super::steps::LockedRelation;
use crate::callers::calling_aid;
use crate::consent::facts::ConsentFacts;
use crate::consent::notices::{Notices, RelationStep};
use crate::consent::{granted, scopes_json};
use crate::store::relations;
use crate::{AgentService, Error};
use kernel::Caller;
use proto_schemas::requests::h2a::{CurrentRelation, Update};
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn update_relation(
        self: Arc<Self>,
        caller: Caller,
        params: Update,
    ) -> Result<CurrentRelation, Error> {
        let user = calling_aid(&caller)?;
        if let Some(updated) = self.at_its_domain(&caller, &params.id, &params).await? {
            return Ok(updated);
        }
        let found = self.find_relation(&params.id, Some(user)).await?;
        if found.user_aid != user.as_str() {
            return Err(Error::RelationForbidden);
        }
        let locked = self.lock_relation(&found).await?.ok_or(Error::RelationRevoked)?;
        let LockedRelation { mut tx, agent, mut relation } = locked;
        if relation.status == "revoked" {
            return Err(Error::RelationRevoked);
        }
        let current = agent.manifest_version;
        if let Some(expected) = params.manifest_version.filter(|version| *version != current) {
            return Err(Error::ManifestVersion { expected, current });
        }
        let scopes = granted(&ConsentFacts::stored(&agent)?, params.granted_scopes)?;

        let now = self.clock.now_ms();
        relation.granted_scopes = scopes_json(scopes);
        relation.granted_manifest_version = current;
        relation.reauth_required = 0;
        relation.reauth_manifest_version = None;
        relation.reauth_scopes = "[]".to_owned();
        relation.updated_at = now;
        let payer = self.store.account.payer(caller.calling_agent()?);
        let charge = self.store.account.before(&mut tx, payer).await?;
        relations::put(&mut tx, &relation).await?;
        self.store.account.charge(&mut tx, charge).await?;
        let notices = Notices { outboxes: &self.outboxes, ids: &self.ids, now };
        notices.relation_changed(&mut tx, &agent, &relation, RelationStep::Updated).await?;
        self.store.commit(tx).await?;

        self.outboxes.wake();
        Ok(CurrentRelation { relation: shown(relation) })
    }
}
