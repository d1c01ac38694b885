//! `task.accept`: the assignee begins.

use super::CallTarget;
use crate::kernel::Caller;
use crate::task::TaskService;
use crate::task::model::answer::TaskAnswer;
use crate::task::model::error::Error;
use crate::task::model::operation::Operation;
use crate::task::model::task::TaskId;
use crate::task::params::RequestId;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
pub(in crate::task) struct AcceptParams {
    task_id: TaskId,
    request_id: Option<RequestId>,
    expected_version: Option<i64>,
}

impl TaskService {
    pub(in crate::task) async fn accept(
        self: Arc<Self>,
        caller: Caller,
        params: AcceptParams,
    ) -> Result<TaskAnswer, Error> {
        let AcceptParams { task_id, request_id, expected_version } = &params;
        let target = CallTarget::of("task.accept", &params, task_id, request_id, *expected_version)?;
        self.act(&caller, target, Operation::Accept).await
    }
}
