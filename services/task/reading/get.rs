//! `task.get`: everything about a task.

use crate::TaskService;
use crate::federation::HomeCall;
use crate::model::error::Error;
use crate::model::task::TaskRow;
use crate::store::{MessagesWanted, TaskDetails};
use kernel::{Aid, Caller, iso};
use proto_schemas::Request as _;
use proto_schemas::requests::task::{ChildTask, Get, TaskId, TaskObject};
use std::sync::Arc;

impl TaskService {
    pub(crate) async fn get(self: Arc<Self>, caller: Caller, params: Get) -> Result<TaskObject, Error> {
        match self.get_here(&caller.calling_agent()?.aid, &params).await {
            Err(Error::NotFound(id)) => {
                let call = HomeCall { caller: &caller, method: Get::METHOD, params: &params };
                self.at_home(call, &id).await
            }
            answer => answer,
        }
    }

    async fn get_here(&self, aid: &Aid, params: &Get) -> Result<TaskObject, Error> {
        let id = params.task_id.clone();
        let wanted = match params.messages_after_seq {
            Some(..0) => return Err(Error::Param("messages_after_seq must not be negative".to_owned())),
            Some(seq) => MessagesWanted::After(seq),
            None => MessagesWanted::Last,
        };
        let reads = |trees: &crate::model::tree::Trees| {
            trees.get(&id).is_some_and(|task| trees.relation(task, aid).reads)
        };
        let (trees, details) = self.store.read_task(&id, wanted, reads).await?;
        let not_found = || Error::NotFound(id.clone());
        let task = trees.get(&id).ok_or_else(not_found)?;
        let Some(details) = details else { return Err(refused(trees.relation(task, aid).knows(), &id)) };
        let children = trees.children(task).map(TaskRow::as_child).collect();
        Ok(self.object(task, details, children))
    }

    fn object(&self, task: &TaskRow, details: TaskDetails, children: Vec<ChildTask>) -> TaskObject {
        TaskObject {
            task_id: task.id.to_string(),
            root_task_id: task.root_id.to_string(),
            parent_task_id: task.parent_id.as_ref().map(TaskId::to_string),
            depth: task.depth,
            status: task.state.to_string(),
            version: task.version,
            owner: task.owner.to_string(),
            assignee: task.assignee.to_string(),
            participants: task.participants.iter().map(ToString::to_string).collect(),
            visibility: task.visibility.as_str().to_owned(),
            required: task.required,
            title: task.title.clone(),
            input: details.input,
            artifacts: details.artifacts,
            messages: details.messages,
            messages_truncated: details.truncated,
            children,
            reason: task.reason.clone(),
            metadata: details.metadata,
            created_at: iso(task.created_at),
            updated_at: iso(task.updated_at),
            accepted_at: task.accepted_at.map(iso),
            ended_at: task.ended_at.map(iso),
            content_removed: details.content_removed.then_some(true),
            home_issuer: self.issuer.clone(),
        }
    }
}

/// The answer to whoever may not read a task: only the owner of the root of its tree knows that it exists.
pub(super) fn refused(knows: bool, id: &TaskId) -> Error {
    match knows {
        true => Error::Denied("only the owner, the assignee and the participants of a task may read it"),
        false => Error::NotFound(id.clone()),
    }
}
