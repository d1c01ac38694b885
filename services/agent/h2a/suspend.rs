//! `h2a.suspend`: the operator suspends a relation.

use super::shown::shown;
use crate::agent::consent::notices::RelationStep;
use crate::agent::{Agent, Error};
use crate::kernel::Caller;
use proto_schemas::requests::h2a::CurrentRelation;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
pub(in crate::agent) struct SuspendParams {
    id: String,
}

impl Agent {
    pub(in crate::agent) async fn suspend(
        self: Arc<Self>,
        _: Caller,
        params: SuspendParams,
    ) -> Result<CurrentRelation, Error> {
        let found = self.find_relation(&params.id, None).await?;
        let relation = self.take_step(found, RelationStep::Suspended).await?;
        Ok(CurrentRelation { relation: shown(relation) })
    }
}
