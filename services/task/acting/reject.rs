//! `task.reject`: the assignee does not begin.

use super::CallTarget;
use crate::TaskService;
use crate::model::error::Error;
use crate::model::operation::Operation;
use kernel::Caller;
use proto_schemas::requests::task::{ChangedTask, Reject, TaskReason};
use std::sync::Arc;

impl TaskService {
    pub(crate) async fn reject(
        self: Arc<Self>,
        caller: Caller,
        params: Reject,
    ) -> Result<ChangedTask, Error> {
        let target = CallTarget::of(&params, &params.task_id, &params.request_id, params.expected_version)?;
        let reason = params.reason.map(TaskReason::into_text);
        self.act(&caller, target, Operation::Reject { reason }).await
    }
}
