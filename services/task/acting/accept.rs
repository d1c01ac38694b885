//! `task.accept`: the assignee begins.

use super::CallTarget;
use crate::TaskService;
use crate::model::answer::TaskAnswer;
use crate::model::error::Error;
use crate::model::operation::Operation;
use crate::model::task::TaskId;
use crate::params::RequestId;
use kernel::Caller;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
pub(crate) struct AcceptParams {
    task_id: TaskId,
    request_id: Option<RequestId>,
    expected_version: Option<i64>,
}

impl TaskService {
    pub(crate) async fn accept(
        self: Arc<Self>,
        caller: Caller,
        params: AcceptParams,
    ) -> Result<TaskAnswer, Error> {
        let AcceptParams { task_id, request_id, expected_version } = &params;
        let target = CallTarget::of("task.accept", &params, task_id, request_id, *expected_version)?;
        self.act(&caller, target, Operation::Accept).await
    }
}
