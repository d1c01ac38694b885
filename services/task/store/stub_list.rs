//! The part of a list that is in other domains: found as the part that is here, one short search for each role and state.

use super::Store;
use super::list::{ListRole, ListWanted};
use super::stub_row::{READ_STUB, StoredStub, StubRow};
use sqlx::{Any, AssertSqlSafe};

impl Store {
    /// At most so many tasks of other domains, the last changed first.
    pub async fn list_stubs(&self, wanted: &ListWanted) -> sqlx::Result<Vec<StubRow>> {
        let mut query = sqlx::query_as::<Any, StoredStub>(AssertSqlSafe(text(wanted)))
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
        rows.into_iter().map(StoredStub::read).collect()
    }
}

fn text(wanted: &ListWanted) -> String {
    let mut parameter = 4;
    let mut next = || {
        parameter += 1;
        format!("${parameter}")
    };
    let states: Vec<String> = wanted.states.iter().map(|_| next()).collect();
    let mut filter = String::new();
    if wanted.peer.is_some() {
        let peer = next();
        filter += &format!(" AND (owner = {peer} OR assignee = {peer})");
    }
    if wanted.parent.is_some() {
        filter += &format!(" AND parent_id = {}", next());
    }
    let searches =
        wanted.roles.iter().flat_map(|role| states.iter().map(|state| search(*role, state, &filter)));
    let numbered =
        searches.enumerate().map(|(n, search)| format!("SELECT {READ_STUB} FROM ({search}) AS search{n}"));
    let all = numbered.collect::<Vec<_>>().join(" UNION ALL ");
    format!("SELECT {READ_STUB} FROM ({all}) AS found ORDER BY updated_at DESC, task_id DESC LIMIT $4")
}

fn search(role: ListRole, state: &str, filter: &str) -> String {
    format!(
        "SELECT {READ_STUB} FROM task_stub
         WHERE aid = $1 AND role = '{}' AND status = {state} AND (updated_at, task_id) < ($2, $3){filter}
         ORDER BY updated_at DESC, task_id DESC LIMIT $4",
        role.as_str()
    )
}
