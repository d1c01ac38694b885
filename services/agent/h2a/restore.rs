//! `h2a.restore`: the operator ends the suspension of a relation.

use super::shown::shown;
use crate::agent::consent::notices::RelationStep;
use crate::agent::{Agent, Error};
use crate::kernel::Caller;
use proto_schemas::requests::h2a::CurrentRelation;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
pub(in crate::agent) struct RestoreParams {
    id: String,
}

impl Agent {
    pub(in crate::agent) async fn restore(
        self: Arc<Self>,
        _: Caller,
        params: RestoreParams,
    ) -> Result<CurrentRelation, Error> {
        let found = self.find_relation(&params.id, None).await?;
        let relation = self.take_step(found, RelationStep::Restored).await?;
        Ok(CurrentRelation { relation: shown(relation) })
    }
}
