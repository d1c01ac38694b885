//! `task.delegate`: the assignee passes a part of a task on.

use super::CallTarget;
use crate::TaskService;
use crate::model::error::Error;
use crate::model::operation::{NewChild, Operation};
use crate::params::check_block;
use crate::repeats::idempotency;
use kernel::Caller;
use proto_schemas::requests::task::{Delegate, DelegatedTask};
use std::sync::Arc;

impl TaskService {
    pub(crate) async fn delegate(
        self: Arc<Self>,
        caller: Caller,
        params: Delegate,
    ) -> Result<DelegatedTask, Error> {
        check_block("input", &params.input)?;
        let aid = caller.calling_agent()?.aid.clone();
        if params.to == aid {
            return Err(Error::conflict("a task cannot be delegated to oneself", "self_delegation"));
        }
        self.registered(&params.to, "assignee_unknown").await?;

        let target = CallTarget::of(&params, &params.task_id, &params.request_id, params.expected_version)?;
        let repeat = idempotency(&aid, &params, params.idempotency_key.as_ref())?;
        let new = NewChild {
            id: self.new_task_id()?,
            to: params.to,
            input: self.new_input(None, params.input),
            required: params.required.unwrap_or(true),
            visibility: params.visibility,
            repeat,
        };
        self.act(&caller, target, Operation::Delegate(Box::new(new))).await
    }
}
