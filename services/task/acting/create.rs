//! `task.create`: the caller gives an agent a task.

use crate::TaskService;
use crate::model::error::Error;
use crate::model::operation::{Actor, NewTask, Operation, TaskCall};
use crate::params::{check_block, check_object};
use crate::repeats::idempotency;
use kernel::{Aid, Caller};
use proto_schemas::requests::task::{Create, CreatedTask, TaskTitle, TaskVisibility};
use std::collections::BTreeSet;
use std::sync::Arc;

/// With owner and assignee.
const MOST_PARTICIPANTS: usize = 50;
const MOST_ACCEPT_SECONDS: i64 = 30 * 86_400;

impl TaskService {
    pub(crate) async fn create(
        self: Arc<Self>,
        caller: Caller,
        params: Create,
    ) -> Result<CreatedTask, Error> {
        let origin = self.origin(caller.local_agent()?);
        check(&params, &origin.aid)?;
        self.registered(&params.to, "assignee_unknown").await?;
        for aid in params.participants.iter().flatten() {
            self.registered(aid, "participant_unknown").await?;
        }

        let repeat = idempotency(&origin.aid, &params, params.idempotency_key.as_ref())?;
        let new = NewTask {
            to: params.to,
            input: self.new_input(None, params.input),
            visibility: params.visibility.unwrap_or(TaskVisibility::Private),
            title: params.title.map(TaskTitle::into_text).unwrap_or_default(),
            participants: params.participants.unwrap_or_default(),
            metadata: params.metadata,
            accept_timeout_ms: params.accept_timeout_s.map(|seconds| seconds * 1000),
            repeat,
        };
        let task_id = self.new_task_id()?;
        let (actor, operation) = (Actor::Agent(origin), Operation::Create(Box::new(new)));
        let call = TaskCall { actor, task_id, repeat: None, expected_version: None, operation };
        self.submit(call).await?.try_into()
    }
}

fn check(params: &Create, owner: &Aid) -> Result<(), Error> {
    check_block("input", &params.input)?;
    check_object("metadata", params.metadata.as_deref())?;
    if params.accept_timeout_s.is_some_and(|seconds| !(1..=MOST_ACCEPT_SECONDS).contains(&seconds)) {
        return Err(Error::Param(format!("accept_timeout_s must be between 1 and {MOST_ACCEPT_SECONDS}")));
    }
    let all: BTreeSet<&Aid> = params.participants.iter().flatten().chain([owner, &params.to]).collect();
    if all.len() > MOST_PARTICIPANTS {
        return Err(Error::Param(format!("a task has at most {MOST_PARTICIPANTS} participants")));
    }
    Ok(())
}
