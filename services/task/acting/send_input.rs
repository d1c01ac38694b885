//! `task.send_input`: somebody who takes part says something, and the answer of the owner lets the work go on.

use super::CallTarget;
use crate::TaskService;
use crate::model::error::Error;
use crate::model::operation::Operation;
use crate::params::check_block;
use kernel::Caller;
use proto_schemas::requests::task::{SendInput, TaskInput};
use std::sync::Arc;

impl TaskService {
    pub(crate) async fn send_input(
        self: Arc<Self>,
        caller: Caller,
        params: SendInput,
    ) -> Result<TaskInput, Error> {
        check_block("input", &params.input)?;
        let target = CallTarget::of(&params, &params.task_id, &params.request_id, params.expected_version)?;
        let input = self.new_input(params.input_id, params.input);
        let operation = match params.require_input {
            Some(true) => Operation::RequestInput(input),
            Some(false) | None => Operation::SendInput(input),
        };
        self.act(&caller, target, operation).await
    }
}
