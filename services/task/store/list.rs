//! Lists: the tasks of an agent, page by page, each page found by an index.
//!
//! An index has the tasks of one agent in one role and one state, the last changed last. So a page is put together from one short
//! search for each role and state that is wanted, and costs the same however many pages came before it.

use super::Store;
use super::row::{READ, StoredTask};
use crate::model::state::TaskState;
use crate::model::task::TaskRow;
use kernel::Aid;
use kernel::json_rows as json;
use proto_schemas::requests::task::{TaskId, TaskRole};
use serde::de::DeserializeOwned;
use sqlx::{Any, AssertSqlSafe};

/// After which task a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListPosition {
    pub updated_at: i64,
    pub task_id: String,
}

impl ListPosition {
    /// Before every task.
    pub fn first() -> ListPosition {
        ListPosition { updated_at: i64::MAX, task_id: String::new() }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ListWanted {
    pub aid: Aid,
    pub roles: Vec<TaskRole>,
    pub states: Vec<TaskState>,
    pub peer: Option<Aid>,
    pub parent: Option<TaskId>,
    pub after: ListPosition,
    pub limit: i64,
}

/// A table that lists are read from.
pub(super) struct ListTable {
    pub name: &'static str,
    pub columns: &'static str,
    /// The column with the id of the task.
    pub id: &'static str,
    /// The search for one role and one state, which is a parameter, with the filter as a last condition.
    pub search: fn(TaskRole, &str, &str) -> String,
}

const TASKS: ListTable = ListTable { name: "task", columns: READ, id: "id", search };

impl Store {
    /// At most so many tasks, the last changed first.
    pub async fn list(&self, wanted: &ListWanted) -> sqlx::Result<Vec<TaskRow>> {
        let rows: Vec<StoredTask> = self.list_rows(&TASKS, wanted).await?;
        rows.into_iter().map(StoredTask::read).collect()
    }

    /// The same of any table.
    pub(super) async fn list_rows<R: DeserializeOwned>(
        &self,
        table: &ListTable,
        wanted: &ListWanted,
    ) -> sqlx::Result<Vec<R>> {
        let row = json::row(self.engine(), table.columns);
        let mut query = sqlx::query_scalar::<Any, String>(AssertSqlSafe(text(table, &row, wanted)))
            .bind(wanted.aid.as_str())
            .bind(wanted.after.updated_at)
            .bind(wanted.after.task_id.as_str())
            .bind(wanted.limit);
        for state in &wanted.states {
            query = query.bind(state.as_str());
        }
        if let Some(peer) = &wanted.peer {
            query = query.bind(peer.as_str());
        }
        if let Some(parent) = &wanted.parent {
            query = query.bind(parent.as_str());
        }
        let rows = query.fetch_all(self.db.read()).await?;
        rows.iter().map(|row| json::read(row)).collect()
    }
}

/// There are as many texts as there are roles and numbers of states, so each is prepared once.
fn text(table: &ListTable, row: &str, wanted: &ListWanted) -> String {
    let ListTable { name, columns, id, search } = table;
    let mut parameter = 4;
    let mut next = || {
        parameter += 1;
        format!("${parameter}")
    };
    let states: Vec<String> = wanted.states.iter().map(|_| next()).collect();
    let mut filter = String::new();
    if wanted.peer.is_some() {
        let peer = next();
        filter += &format!(" AND ({name}.owner = {peer} OR {name}.assignee = {peer})");
    }
    if wanted.parent.is_some() {
        filter += &format!(" AND {name}.parent_id = {}", next());
    }
    let searches =
        wanted.roles.iter().flat_map(|role| states.iter().map(|state| search(*role, state, &filter)));
    let numbered =
        searches.enumerate().map(|(n, search)| format!("SELECT {columns} FROM ({search}) AS search{n}"));
    let all = numbered.collect::<Vec<_>>().join(" UNION ALL ");
    format!("SELECT {row} FROM ({all}) AS found ORDER BY updated_at DESC, {id} DESC LIMIT $4")
}

fn search(role: TaskRole, state: &str, filter: &str) -> String {
    match role {
        TaskRole::Owner => format!(
            "SELECT {READ} FROM task WHERE owner = $1 AND status = {state} AND (updated_at, id) < ($2, $3){filter}
             ORDER BY updated_at DESC, id DESC LIMIT $4"
        ),
        // What an agent gave itself is found as the owner's.
        TaskRole::Assignee => {
            format!(
                "SELECT {READ} FROM task WHERE assignee = $1 AND status = {state} AND (updated_at, id) < ($2, $3)
                 AND owner <> $1{filter} ORDER BY updated_at DESC, id DESC LIMIT $4"
            )
        }
        TaskRole::Participant => {
            let columns = READ.split(',').map(|column| format!("task.{}", column.trim()));
            let columns = columns.collect::<Vec<_>>().join(", ");
            format!(
                "SELECT {columns} FROM task_participant AS taking JOIN task ON task.id = taking.task_id
                 WHERE taking.aid = $1 AND taking.status = {state} AND (taking.updated_at, taking.task_id) < ($2, $3){filter}
                 ORDER BY taking.updated_at DESC, taking.task_id DESC LIMIT $4"
            )
        }
    }
}
