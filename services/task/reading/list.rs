//! `task.list`: the tasks in which the caller has a role.

use crate::TaskService;
use crate::model::error::Error;
use crate::model::state::TaskState;
use crate::model::task::TaskRow;
use crate::store::{ListPosition, ListWanted, StubRow};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kernel::{Caller, PageLimit};
use proto_schemas::requests::task::{List, StatusFilter, TaskId, TaskPage, TaskRole, TaskSummary};
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(20, 100);
const PREFIX: &str = "tl_";

impl TaskService {
    pub(crate) async fn list(self: Arc<Self>, caller: Caller, params: List) -> Result<TaskPage, Error> {
        let limit = PAGE.of(params.limit)?;
        let wanted = ListWanted {
            aid: caller.local_agent()?.aid.clone(),
            roles: params.role.map_or_else(|| TaskRole::ALL.to_vec(), |role| vec![role]),
            states: states(params.status)?,
            peer: params.peer,
            parent: params.parent_task_id,
            after: params.cursor.as_deref().map_or_else(|| Ok(ListPosition::first()), read_cursor)?,
            // One more tells whether there is another page.
            limit: limit + 1,
        };
        let here = self.store.list(&wanted).await?.into_iter().map(ListedTask::here);
        let elsewhere = self.store.list_stubs(&wanted).await?.into_iter().map(ListedTask::elsewhere);
        let mut found: Vec<ListedTask> = here.chain(elsewhere).collect();
        found.sort_by(|one, other| other.position.cmp(&one.position));
        let has_more = found.len() as i64 > limit;
        found.truncate(usize::try_from(limit).unwrap_or_default());
        let next_cursor = found.last().filter(|_| has_more).map(write_cursor);
        Ok(TaskPage { items: found.into_iter().map(|task| task.summary).collect(), next_cursor, has_more })
    }
}

/// A task of this domain or another, and where it is in the list.
struct ListedTask {
    position: (i64, TaskId),
    summary: TaskSummary,
}

impl ListedTask {
    fn here(task: TaskRow) -> ListedTask {
        ListedTask { position: (task.updated_at, task.id.clone()), summary: task.summary() }
    }

    fn elsewhere(stub: StubRow) -> ListedTask {
        ListedTask { position: (stub.updated_at, stub.key.task_id.clone()), summary: stub.summary() }
    }
}

/// All of them where none is named.
fn states(param: Option<StatusFilter>) -> Result<Vec<TaskState>, Error> {
    let names = match param {
        None => return Ok(TaskState::ALL.to_vec()),
        Some(StatusFilter::One(name)) => vec![name],
        Some(StatusFilter::Several(names)) => names,
    };
    let mut states: Vec<TaskState> =
        names.iter().map(|name| name.parse().map_err(Error::Param)).collect::<Result<_, _>>()?;
    states.sort();
    states.dedup();
    match states.is_empty() {
        true => Err(Error::Param("status must name at least one status".to_owned())),
        false => Ok(states),
    }
}

/// A cursor only says where to go on in the caller's own list, so nothing is gained by making one up.
fn write_cursor(last: &ListedTask) -> String {
    let (updated_at, id) = &last.position;
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(format!("{updated_at} {id}")))
}

fn read_cursor(text: &str) -> Result<ListPosition, Error> {
    let read = || {
        let bytes = URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        let (updated_at, task_id) = text.split_once(' ')?;
        let task_id = TaskId::try_from(task_id.to_owned()).ok()?.to_string();
        Some(ListPosition { updated_at: updated_at.parse().ok()?, task_id })
    };
    read().ok_or_else(|| Error::Param("cursor must be a next_cursor of this method".to_owned()))
}
