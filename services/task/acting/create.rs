//! `task.create`: the caller gives an agent a task.

use crate::TaskService;
use crate::model::answer::TaskAnswer;
use crate::model::error::Error;
use crate::model::operation::{Actor, CallOrigin, NewTask, Operation, TaskCall};
use crate::model::task::TaskVisibility;
use crate::params::{ContentBlock, IdempotencyKey, LimitedObject, Title, body_hash, idempotency};
use kernel::{Aid, Caller};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// With owner and assignee.
const MOST_PARTICIPANTS: usize = 50;
const MOST_ACCEPT_SECONDS: i64 = 30 * 86_400;

#[derive(Serialize, Deserialize)]
pub(crate) struct CreateParams {
    to: Aid,
    input: ContentBlock,
    visibility: Option<TaskVisibility>,
    title: Option<Title>,
    participants: Option<Vec<Aid>>,
    idempotency_key: Option<IdempotencyKey>,
    accept_timeout_s: Option<i64>,
    metadata: Option<LimitedObject>,
}

impl TaskService {
    pub(crate) async fn create(
        self: Arc<Self>,
        caller: Caller,
        params: CreateParams,
    ) -> Result<TaskAnswer, Error> {
        let origin = CallOrigin::of(caller.agent()?);
        params.check(&origin.aid)?;
        self.registered(&params.to, "assignee_unknown").await?;
        for aid in params.participants.iter().flatten() {
            self.registered(aid, "participant_unknown").await?;
        }

        let hash = match params.idempotency_key {
            Some(_) => body_hash("task.create", &params)?,
            None => String::new(),
        };
        let new = NewTask {
            to: params.to,
            input: self.new_input(None, params.input),
            visibility: params.visibility.unwrap_or(TaskVisibility::Private),
            title: params.title.map(Title::into_text).unwrap_or_default(),
            participants: params.participants.unwrap_or_default(),
            metadata: params.metadata.map(|metadata| metadata.0),
            accept_timeout_ms: params.accept_timeout_s.map(|seconds| seconds * 1000),
            repeat: params.idempotency_key.map(|key| idempotency(&origin.aid, key, &hash)),
        };
        let task_id = self.new_task_id()?;
        let (actor, operation) = (Actor::Agent(origin), Operation::Create(Box::new(new)));
        self.submit(TaskCall { actor, task_id, repeat: None, expected_version: None, operation }).await
    }
}

impl CreateParams {
    fn check(&self, owner: &Aid) -> Result<(), Error> {
        if self.accept_timeout_s.is_some_and(|seconds| !(1..=MOST_ACCEPT_SECONDS).contains(&seconds)) {
            return Err(Error::Param(format!("accept_timeout_s must be from 1 to {MOST_ACCEPT_SECONDS}")));
        }
        let all: BTreeSet<&Aid> = self.participants.iter().flatten().chain([owner, &self.to]).collect();
        if all.len() > MOST_PARTICIPANTS {
            return Err(Error::Param(format!("a task has at most {MOST_PARTICIPANTS} participants")));
        }
        Ok(())
    }
}
