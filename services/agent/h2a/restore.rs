//! `h2a.restore`: the operator ends the suspension of a relation.

use super::shown::shown;
use crate::consent::notices::RelationStep;
use crate::{AgentService, Error};
use kernel::Caller;
use proto_schemas::requests::h2a::{CurrentRelation, Restore};
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn restore(
        self: Arc<Self>,
        _: Caller,
        params: Restore,
    ) -> Result<CurrentRelation, Error> {
        let found = self.find_relation(&params.id, None).await?;
        let relation = self.take_step(found, RelationStep::Restored).await?;
        Ok(CurrentRelation { relation: shown(relation) })
    }
}
