//! `task.request_input`: the assignee asks, and the task waits for its owner.

use super::CallTarget;
use crate::TaskService;
use crate::model::error::Error;
use crate::model::operation::Operation;
use crate::params::check_block;
use kernel::Caller;
use proto_schemas::requests::task::{ChangedTask, RequestInput, TaskInput};
use std::sync::Arc;

impl TaskService {
    pub(crate) async fn request_input(
        self: Arc<Self>,
        caller: Caller,
        params: RequestInput,
    ) -> Result<ChangedTask, Error> {
        check_block("message", &params.message)?;
        let target = CallTarget::of(&params, &params.task_id, &params.request_id, params.expected_version)?;
        let input = self.new_input(None, params.message);
        let asked: TaskInput = self.act(&caller, target, Operation::RequestInput(input)).await?;
        Ok(ChangedTask { task_id: asked.task_id, status: asked.status })
    }
}
