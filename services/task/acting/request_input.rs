//! `task.request_input`: the assignee asks, and the task waits for its owner.

use super::CallTarget;
use crate::TaskService;
use crate::model::answer::TaskAnswer;
use crate::model::error::Error;
use crate::model::operation::Operation;
use crate::model::task::TaskId;
use crate::params::{ContentBlock, RequestId};
use kernel::Caller;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
pub(crate) struct RequestInputParams {
    task_id: TaskId,
    message: ContentBlock,
    request_id: Option<RequestId>,
    expected_version: Option<i64>,
}

impl TaskService {
    pub(crate) async fn request_input(
        self: Arc<Self>,
        caller: Caller,
        params: RequestInputParams,
    ) -> Result<TaskAnswer, Error> {
        let RequestInputParams { task_id, request_id, expected_version, .. } = &params;
        let target = CallTarget::of("task.request_input", &params, task_id, request_id, *expected_version)?;
        let input = self.new_input(None, params.message);
        self.act(&caller, target, Operation::RequestInput(input)).await
    }
}
