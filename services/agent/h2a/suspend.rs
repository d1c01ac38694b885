//! `h2a.suspend`: the operator suspends a relation.

use super::shown::shown;
use crate::consent::notices::RelationStep;
use crate::{AgentService, Error};
use kernel::Caller;
use proto_schemas::requests::h2a::{CurrentRelation, Suspend};
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn suspend(
        self: Arc<Self>,
        _: Caller,
        params: Suspend,
    ) -> Result<CurrentRelation, Error> {
        let found = self.find_relation(&params.id, None).await?;
        let relation = self.take_step(found, RelationStep::Suspended).await?;
        Ok(CurrentRelation { relation: shown(relation) })
    }
}
