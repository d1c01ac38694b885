//! `task.send_input`: somebody who takes part says something, and the answer of the owner lets the work go on.

use super::CallTarget;
use crate::TaskService;
use crate::model::answer::TaskAnswer;
use crate::model::error::Error;
use crate::model::operation::Operation;
use crate::model::task::TaskId;
use crate::params::{ContentBlock, InputId, RequestId};
use kernel::Caller;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
pub(crate) struct SendInputParams {
    task_id: TaskId,
    input: ContentBlock,
    input_id: Option<InputId>,
    require_input: Option<bool>,
    request_id: Option<RequestId>,
    expected_version: Option<i64>,
}

impl TaskService {
    pub(crate) async fn send_input(
        self: Arc<Self>,
        caller: Caller,
        params: SendInputParams,
    ) -> Result<TaskAnswer, Error> {
        let SendInputParams { task_id, request_id, expected_version, .. } = &params;
        let target = CallTarget::of("task.send_input", &params, task_id, request_id, *expected_version)?;
        let input = self.new_input(params.input_id, params.input);
        let operation = match params.require_input {
            Some(true) => Operation::RequestInput(input),
            Some(false) | None => Operation::SendInput(input),
        };
        self.act(&caller, target, operation).await
    }
}
