//! Calls that change tasks: each is checked as far as that is possible without the task, and then decided with others.

mod accept;
mod act;
mod add_artifact;
mod cancel;
mod complete;
mod create;
mod delegate;
mod fail;
mod reject;
mod request_input;
mod send_input;

use super::TaskService;
use super::federation::HomeCall;
use super::model::answer::TaskAnswer;
use super::model::error::Error;
use super::model::operation::{Actor, CallOrigin, NewInput, Operation, RepeatKey, TaskCall};
use super::repeats::body_hash;
use kernel::{Caller, CallingAgent, RpcError};
use proto_schemas::Request;
use proto_schemas::requests::task::{InputId, RequestId, TaskId};
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

/// What every call on a task says beside what it wants.
struct CallTarget {
    task_id: TaskId,
    request_id: Option<RequestId>,
    expected_version: Option<i64>,
    /// Of the call, where it has a `request_id`.
    body_hash: String,
    /// The call itself, for where the task is in another domain.
    method: &'static str,
    params: Box<RawValue>,
}

impl CallTarget {
    fn of<R: Request + DeserializeOwned>(
        params: &R,
        task_id: &TaskId,
        request_id: &Option<RequestId>,
        expected_version: Option<i64>,
    ) -> Result<CallTarget, Error> {
        let body_hash = match request_id {
            Some(_) => body_hash(params)?,
            None => String::new(),
        };
        Ok(CallTarget {
            task_id: task_id.clone(),
            request_id: request_id.clone(),
            expected_version,
            body_hash,
            method: R::METHOD,
            params: to_raw_value(params).map_err(RpcError::internal)?,
        })
    }
}

impl TaskService {
    /// Waits until the change is durable, or refused.
    pub(super) async fn submit(&self, call: TaskCall) -> Result<TaskAnswer, Error> {
        let bytes = call.bytes();
        let author = match &call.actor {
            Actor::Agent(origin) => Some(origin.aid.clone()),
            Actor::System => None,
        };
        match (self.batch.submit(call, bytes).await?, author) {
            (Err(Error::Full(full)), Some(author)) => Err(self.refused(full, author).await),
            (answer, _) => answer,
        }
    }

    /// The same for an agent's call on a task that is there, or in another domain. What that domain answers is read, so that nothing is
    /// passed on that is no answer to this call.
    async fn act<T>(&self, caller: &Caller, target: CallTarget, operation: Operation) -> Result<T, Error>
    where
        T: DeserializeOwned + TryFrom<TaskAnswer, Error = Error>,
    {
        let origin = self.origin(caller.calling_agent()?);
        let CallTarget { task_id, request_id, expected_version, body_hash, method, params } = target;
        // One task, one agent: the request_id of another agent is another one.
        let repeat = request_id.map(|request_id| RepeatKey {
            scope: format!("task {task_id}"),
            key: format!("{} {}", origin.aid, request_id.as_str()),
            body_hash,
        });
        let (actor, id) = (Actor::Agent(origin), task_id.clone());
        let call = TaskCall { actor, task_id, repeat, expected_version, operation };
        match self.submit(call).await {
            Err(Error::NotFound(_)) => self.at_home(HomeCall { caller, method, params: &params }, &id).await,
            answer => answer?.try_into(),
        }
    }

    fn origin(&self, session: &CallingAgent) -> CallOrigin {
        CallOrigin::of(session, self.store.account.payer(session))
    }

    fn new_task_id(&self) -> Result<TaskId, Error> {
        let id = format!("task_{}", self.ids.time_ordered(self.clock.now_ms()));
        TaskId::try_from(id).map_err(Error::Param)
    }

    fn new_input(&self, id: Option<InputId>, body: Box<RawValue>) -> NewInput {
        let once = id.is_some();
        let made = || self.ids.time_ordered(self.clock.now_ms());
        NewInput { id: id.map_or_else(made, InputId::into_text), once, body }
    }
}
