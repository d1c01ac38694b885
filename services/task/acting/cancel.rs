//! `task.cancel`: the owner does not want it any more; what is open below it is canceled, too.

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
pub(in crate::task) struct CancelParams {
    task_id: TaskId,
    reason: Option<TaskReason>,
    request_id: Option<RequestId>,
    expected_version: Option<i64>,
}

impl TaskService {
    pub(in crate::task) async fn cancel(
        self: Arc<Self>,
        caller: Caller,
        params: CancelParams,
    ) -> Result<TaskAnswer, Error> {
        let CancelParams { task_id, request_id, expected_version, .. } = &params;
        let target = CallTarget::of("task.cancel", &params, task_id, request_id, *expected_version)?;
        let reason = params.reason.map(TaskReason::into_text);
        self.act(&caller, target, Operation::Cancel { reason }).await
    }
}
