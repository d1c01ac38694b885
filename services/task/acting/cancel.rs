//! `task.cancel`: the owner does not want it any more; what is open below it is canceled, too.

use super::CallTarget;
use crate::TaskService;
use crate::model::error::Error;
use crate::model::operation::Operation;
use kernel::Caller;
use proto_schemas::requests::task::{Cancel, ChangedTask, TaskReason};
use std::sync::Arc;

impl TaskService {
    pub(crate) async fn cancel(
        self: Arc<Self>,
        caller: Caller,
        params: Cancel,
    ) -> Result<ChangedTask, Error> {
        let target = CallTarget::of(&params, &params.task_id, &params.request_id, params.expected_version)?;
        let reason = params.reason.map(TaskReason::into_text);
        self.act(&caller, target, Operation::Cancel { reason }).await
    }
}
