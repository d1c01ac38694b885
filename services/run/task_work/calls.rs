//! Calls of `task.*` as the agent whose task it is.

use crate::RunService;
use crate::error::Error;
use kernel::{Aid, Caller, RpcError, codes};
use proto_schemas::Request;
use proto_schemas::requests::task::{Accept, Act, RequestInput, TaskId};
use serde_json::json;
use serde_json::value::to_raw_value;

/// What a call did to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acted {
    Done,
    /// The task waits for its owner, or for a task below it.
    Later,
    /// The task has ended, or is in a state in which somebody else has brought it: the next look tells.
    Overtaken,
}

impl RunService {
    pub(super) async fn as_agent<R: Request>(&self, aid: &Aid, request: &R) -> Result<R::Result, RpcError> {
        let params = to_raw_value(request).map_err(RpcError::internal)?;
        let act = Act { aid: aid.clone(), method: R::METHOD.to_owned(), params };
        let answer = self.mesh.ask(Caller::service("run"), &act).await?;
        serde_json::from_str(answer.result.get()).map_err(RpcError::internal)
    }

    /// A call that changes a task. A task that is not as it was when it was looked at is no error.
    pub(super) async fn change_task<R: Request>(&self, aid: &Aid, request: &R) -> Result<Acted, Error> {
        match self.as_agent(aid, request).await {
            Ok(_) => Ok(Acted::Done),
            Err(error) => acted(&error).ok_or(Error::Other(error)),
        }
    }

    pub(super) async fn accept_task(&self, aid: &Aid, task_id: &TaskId) -> Result<Acted, Error> {
        let accept = Accept { task_id: task_id.clone(), request_id: None, expected_version: None };
        self.change_task(aid, &accept).await
    }

    /// Asks the owner. The same question is asked once.
    pub(super) async fn ask_owner(
        &self,
        aid: &Aid,
        task_id: &TaskId,
        question: &str,
        key: &str,
    ) -> Result<Acted, Error> {
        let message = to_raw_value(&json!({ "type": "text", "content": question }));
        let request = RequestInput {
            task_id: task_id.clone(),
            message: message.map_err(RpcError::internal)?,
            request_id: Some(
                key.parse()
                    .map_err(|error: String| Error::Other(RpcError::internal(anyhow::anyhow!(error))))?,
            ),
            expected_version: None,
        };
        self.change_task(aid, &request).await
    }
}

fn acted(error: &RpcError) -> Option<Acted> {
    let code = error.code();
    let is_one_of = |codes: &[proto_schemas::Code]| codes.iter().any(|known| known.code == code);
    if is_one_of(&[codes::task::TASK_INPUT_REQUIRED, codes::task::TASK_COMPLETION_BLOCKED]) {
        return Some(Acted::Later);
    }
    let overtaken = is_one_of(&[
        codes::task::TASK_NOT_FOUND,
        codes::task::TASK_STATE_INVALID,
        codes::task::TASK_CANCELED,
        codes::task::TASK_REJECTED,
        codes::task::TASK_FAILURE_RECORDED,
    ]);
    if overtaken {
        return Some(Acted::Overtaken);
    }
    // Accepted before, by this service or by the agent itself.
    is_one_of(&[codes::task::TASK_ALREADY_ACCEPTED]).then_some(Acted::Done)
}
