//! The steps that a relation takes from one status to another, and how they are stored.
//!
//! ```text
//! active <-> suspended (operator)      active, suspended -> revoked (user), for good
//! ```

use crate::consent::notices::{Notices, RelationStep};
use crate::store::agents::{self, AgentRow, WriteTx};
use crate::store::relations::{self, RelationRow};
use crate::{AgentService, Error};
use kernel::Aid;

/// The status after a step; none if nothing changes.
pub(super) fn after(status: &str, step: RelationStep) -> Result<Option<&'static str>, Error> {
    match (status, step) {
        ("active", RelationStep::Suspended) => Ok(Some("suspended")),
        ("suspended", RelationStep::Restored) => Ok(Some("active")),
        ("active" | "suspended", RelationStep::Revoked) => Ok(Some("revoked")),
        ("suspended", RelationStep::Suspended)
        | ("active", RelationStep::Restored)
        | ("revoked", RelationStep::Revoked) => Ok(None),
        _ => Err(Error::RelationRevoked),
    }
}

/// A relation and its agent, both locked until the transaction ends.
pub(super) struct LockedRelation {
    pub tx: WriteTx,
    pub agent: AgentRow,
    pub relation: RelationRow,
}

impl AgentService {
    /// The relation with this id, or that of a user with the agent that has this AID.
    pub(super) async fn find_relation(&self, id: &str, user: Option<&Aid>) -> Result<RelationRow, Error> {
        let found = match (Aid::parse(id), user) {
            (Ok(agent), Some(user)) => self.store.open_relation(agent.as_str(), user.as_str()).await?,
            _ => self.store.relation(id).await?,
        };
        found.ok_or_else(|| Error::NoRelation(id.to_owned()))
    }

    /// Locks the agent first, as everybody does who changes a relation, and reads the relation again after it. None if the agent is
    /// gone: its relations are all revoked then.
    pub(super) async fn lock_relation(&self, found: &RelationRow) -> Result<Option<LockedRelation>, Error> {
        let mut tx = self.store.begin().await?;
        let Some(agent) = agents::lock(&mut tx, &found.agent_id).await? else { return Ok(None) };
        let relation = relations::read(&mut tx, &found.id).await?;
        let relation = relation.ok_or_else(|| Error::NoRelation(found.id.clone()))?;
        Ok(Some(LockedRelation { tx, agent, relation }))
    }

    /// Takes a relation a step further, and tells both sides of it.
    pub(crate) async fn take_step(
        &self,
        found: RelationRow,
        step: RelationStep,
    ) -> Result<RelationRow, Error> {
        let Some(locked) = self.lock_relation(&found).await? else {
            return match step {
                RelationStep::Revoked => Ok(found),
                _ => Err(Error::RelationRevoked),
            };
        };
        let LockedRelation { mut tx, agent, mut relation } = locked;
        let Some(status) = after(&relation.status, step)? else { return Ok(relation) };
        let now = self.clock.now_ms();
        relation.status = status.to_owned();
        relation.updated_at = now;
        if step == RelationStep::Revoked {
            relation.reauth_required = 0;
        }
        relations::put(&mut tx, &relation).await?;
        Notices { outboxes: &self.outboxes, ids: &self.ids, now }
            .relation_changed(&mut tx, &agent, &relation, step)
            .await?;
        self.store.commit(tx).await?;
        self.outboxes.wake();
        Ok(relation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relation_goes_from_status_to_status_as_the_table_says() {
        use RelationStep::{Restored, Revoked, Suspended};
        for (status, step, expected) in [
            ("active", Suspended, Some(Some("suspended"))),
            ("active", Restored, Some(None)),
            ("active", Revoked, Some(Some("revoked"))),
            ("suspended", Suspended, Some(None)),
            ("suspended", Restored, Some(Some("active"))),
            ("suspended", Revoked, Some(Some("revoked"))),
            ("revoked", Suspended, None),
            ("revoked", Restored, None),
            ("revoked", Revoked, Some(None)),
        ] {
            assert_eq!(after(status, step).ok(), expected, "{status} {step:?}");
        }
    }
}
