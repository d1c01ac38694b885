//! `task.add_artifact`: a result of a task that goes on.

use super::CallTarget;
use crate::TaskService;
use crate::model::answer::TaskAnswer;
use crate::model::error::Error;
use crate::model::operation::Operation;
use crate::model::task::TaskId;
use crate::params::{ArtifactParams, RequestId};
use kernel::Caller;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
pub(crate) struct AddArtifactParams {
    task_id: TaskId,
    artifact: ArtifactParams,
    request_id: Option<RequestId>,
    expected_version: Option<i64>,
}

impl TaskService {
    pub(crate) async fn add_artifact(
        self: Arc<Self>,
        caller: Caller,
        params: AddArtifactParams,
    ) -> Result<TaskAnswer, Error> {
        let AddArtifactParams { task_id, request_id, expected_version, .. } = &params;
        let target = CallTarget::of("task.add_artifact", &params, task_id, request_id, *expected_version)?;
        let artifact = params.artifact.offered()?;
        self.act(&caller, target, Operation::AddArtifact(Box::new(artifact))).await
    }
}
