//! `task.complete`: the assignee is done, and hands in the last of the results.

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
pub(crate) struct CompleteParams {
    task_id: TaskId,
    artifacts: Option<Vec<ArtifactParams>>,
    request_id: Option<RequestId>,
    expected_version: Option<i64>,
}

impl TaskService {
    pub(crate) async fn complete(
        self: Arc<Self>,
        caller: Caller,
        params: CompleteParams,
    ) -> Result<TaskAnswer, Error> {
        let CompleteParams { task_id, request_id, expected_version, .. } = &params;
        let target = CallTarget::of("task.complete", &params, task_id, request_id, *expected_version)?;
        let artifacts = params.artifacts.unwrap_or_default().into_iter();
        let artifacts = artifacts.map(ArtifactParams::offered).collect::<Result<_, _>>()?;
        self.act(&caller, target, Operation::Complete { artifacts }).await
    }
}
