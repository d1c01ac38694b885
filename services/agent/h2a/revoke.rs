//! `h2a.revoke`: a user ends a relation, for good.

use super::shown::shown;
use crate::callers::writer;
use crate::consent::notices::RelationStep;
use crate::{AgentService, Error};
use kernel::Caller;
use proto_schemas::requests::h2a::{self, CurrentRelation};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
pub(crate) struct RevokeParams {
    id: String,
}

impl AgentService {
    pub(crate) async fn revoke(
        self: Arc<Self>,
        caller: Caller,
        params: RevokeParams,
    ) -> Result<CurrentRelation, Error> {
        let user = writer(&caller)?;
        let there = h2a::Revoke { id: params.id.clone() };
        if let Some(revoked) = self.at_its_domain(&caller, &params.id, &there).await? {
            return Ok(revoked);
        }
        let found = self.find_relation(&params.id, Some(user)).await?;
        if found.user_aid != user.as_str() {
            return Err(Error::RelationForbidden);
        }
        let revoked = self.take_step(found, RelationStep::Revoked).await?;
        Ok(CurrentRelation { relation: shown(revoked) })
    }
}
