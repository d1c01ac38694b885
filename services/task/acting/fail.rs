//! `task.fail`: the assignee cannot do it; what is open below it is canceled.

use super::CallTarget;
use crate::TaskService;
use crate::model::error::Error;
use crate::model::operation::Operation;
use kernel::Caller;
use proto_schemas::requests::task::{ChangedTask, Fail, TaskReason};
use std::sync::Arc;

impl TaskService {
    pub(crate) async fn fail(self: Arc<Self>, caller: Caller, params: Fail) -> Result<ChangedTask, Error> {
        let target = CallTarget::of(&params, &params.task_id, &params.request_id, params.expected_version)?;
        let reason = params.reason.map(TaskReason::into_text);
        self.act(&caller, target, Operation::Fail { reason }).await
    }
}
