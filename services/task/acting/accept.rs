//! `task.accept`: the assignee begins.

use super::CallTarget;
use crate::TaskService;
use crate::model::error::Error;
use crate::model::operation::Operation;
use kernel::Caller;
use proto_schemas::requests::task::{Accept, ChangedTask};
use std::sync::Arc;

impl TaskService {
    pub(crate) async fn accept(
        self: Arc<Self>,
        caller: Caller,
        params: Accept,
    ) -> Result<ChangedTask, Error> {
        let target = CallTarget::of(&params, &params.task_id, &params.request_id, params.expected_version)?;
        self.act(&caller, target, Operation::Accept).await
    }
}
