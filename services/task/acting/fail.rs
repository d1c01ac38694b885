//! `task.fail`: the assignee cannot do it; what is open below it is canceled.

use super::CallTarget;
use crate::kernel::Caller;
use crate::task::TaskService;
use crate::task::model::answer::TaskAnswer;
use crate::task::model::error::Error;
use crate::task::model::operation::Operation;
use crate::task::model::task::TaskId;
use crate::task::params::{RequestId, TaskReason};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
pub(in crate::task) struct FailParams {
    task_id: TaskId,
    reason: Option<TaskReason>,
    request_id: Option<RequestId>,
    expected_version: Option<i64>,
}

impl TaskService {
    pub(in crate::task) async fn fail(
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
