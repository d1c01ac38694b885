//! `task.fail`: the assignee cannot do it; what is open below it is canceled.

use super::CallTarget;
use crate::TaskService;
use crate::model::answer::TaskAnswer;
use crate::model::error::Error;
use crate::model::operation::Operation;
use crate::model::task::TaskId;
use crate::params::{RequestId, TaskReason};
use kernel::Caller;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
pub(crate) struct FailParams {
    task_id: TaskId,
    reason: Option<TaskReason>,
    request_id: Option<RequestId>,
    expected_version: Option<i64>,
}

impl TaskService {
    pub(crate) async fn fail(
        self: Arc<Self>,
        caller: Caller,
        params: FailParams,
    ) -> Result<TaskAnswer, Error> {
        let FailParams { task_id, request_id, expected_version, .. } = &params;
        let target = CallTarget::of("task.fail", &params, task_id, request_id, *expected_version)?;
        let reason = params.reason.map(TaskReason::into_text);
        self.act(&caller, target, Operation::Fail { reason }).await
    }
}
