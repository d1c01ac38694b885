//! `task.cancel`: the owner does not want it any more; what is open below it is canceled, too.

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
pub(crate) struct CancelParams {
    task_id: TaskId,
    reason: Option<TaskReason>,
    request_id: Option<RequestId>,
    expected_version: Option<i64>,
}

impl TaskService {
    pub(crate) async fn cancel(
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
