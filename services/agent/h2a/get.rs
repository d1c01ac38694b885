//! `h2a.get`: a relation, for its user, the agent, and the agent's owner.

use super::shown::shown;
use crate::callers::calling_aid;
use crate::store::relations::RelationRow;
use crate::{AgentService, Error};
use kernel::{Aid, Caller};
use proto_schemas::requests::h2a::{CurrentRelation, Get};
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn get_relation(
        self: Arc<Self>,
        caller: Caller,
        params: Get,
    ) -> Result<CurrentRelation, Error> {
        let viewer = calling_aid(&caller)?;
        if let Some(found) = self.at_its_domain(&caller, &params.id, &params).await? {
            return Ok(found);
        }
        let relation = self.find_relation(&params.id, Some(viewer)).await?;
        match self.may_read(&relation, viewer).await? {
            true => Ok(CurrentRelation { relation: shown(relation) }),
            false => Err(Error::RelationForbidden),
        }
    }

    async fn may_read(&self, relation: &RelationRow, viewer: &Aid) -> Result<bool, Error> {
        if [&relation.user_aid, &relation.agent_aid].into_iter().any(|aid| aid == viewer.as_str()) {
            return Ok(true);
        }
        let agent = self.store.agent(&relation.agent_id).await?;
        Ok(agent.is_some_and(|agent| agent.owner == viewer.as_str()))
    }
}
