//! `h2a.revoke`: a user ends a relation, for good.

use super::shown::shown;
use crate::callers::calling_aid;
use crate::consent::notices::RelationStep;
use crate::{AgentService, Error};
use kernel::Caller;
use proto_schemas::requests::h2a::{CurrentRelation, Revoke};
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn revoke(
        self: Arc<Self>,
        caller: Caller,
        params: Revoke,
    ) -> Result<CurrentRelation, Error> {
        let user = calling_aid(&caller)?;
        if let Some(revoked) = self.at_its_domain(&caller, &params.id, &params).await? {
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
