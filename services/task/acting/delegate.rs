//! `task.delegate`: the assignee passes a part of a task on.

use super::CallTarget;
use crate::TaskService;
use crate::model::answer::TaskAnswer;
use crate::model::error::Error;
use crate::model::operation::{NewChild, Operation};
use crate::model::task::{TaskId, TaskVisibility};
use crate::params::{ContentBlock, IdempotencyKey, RequestId, body_hash, idempotency};
use kernel::{Aid, Caller};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
pub(crate) struct DelegateParams {
    task_id: TaskId,
    to: Aid,
    input: ContentBlock,
    required: Option<bool>,
    visibility: Option<TaskVisibility>,
    idempotency_key: Option<IdempotencyKey>,
    request_id: Option<RequestId>,
    expected_version: Option<i64>,
}

impl TaskService {
    pub(crate) async fn delegate(
        self: Arc<Self>,
        caller: Caller,
        params: DelegateParams,
    ) -> Result<TaskAnswer, Error> {
        let aid = caller.speaker()?.aid.clone();
        if params.to == aid {
            return Err(Error::conflict("a task cannot be delegated to oneself", "self_delegation"));
        }
        self.registered(&params.to, "assignee_unknown").await?;

        let DelegateParams { task_id, request_id, expected_version, .. } = &params;
        let target = CallTarget::of("task.delegate", &params, task_id, request_id, *expected_version)?;
        let hash = match params.idempotency_key {
            Some(_) => body_hash("task.delegate", &params)?,
            None => String::new(),
        };
        let new = NewChild {
            id: self.new_task_id()?,
            to: params.to,
            input: self.new_input(None, params.input),
            required: params.required.unwrap_or(true),
            visibility: params.visibility,
            repeat: params.idempotency_key.map(|key| idempotency(&aid, key, &hash)),
        };
        self.act(&caller, target, Operation::Delegate(Box::new(new))).await
    }
}
