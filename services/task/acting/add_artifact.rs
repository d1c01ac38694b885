//! `task.add_artifact`: a result of a task that goes on.

use super::CallTarget;
use crate::TaskService;
use crate::model::error::Error;
use crate::model::operation::Operation;
use crate::params::offered;
use kernel::Caller;
use proto_schemas::requests::task::{AddArtifact, AddedArtifact};
use std::sync::Arc;

impl TaskService {
    pub(crate) async fn add_artifact(
        self: Arc<Self>,
        caller: Caller,
        params: AddArtifact,
    ) -> Result<AddedArtifact, Error> {
        let target = CallTarget::of(&params, &params.task_id, &params.request_id, params.expected_version)?;
        let artifact = offered("artifact", params.artifact)?;
        self.act(&caller, target, Operation::AddArtifact(Box::new(artifact))).await
    }
}
