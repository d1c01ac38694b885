//! The part of a list that is in other domains: found as the part that is here, one short search for each role and state.

use super::Store;
use super::list::{ListTable, ListWanted};
use super::stub_row::{READ_STUB, StoredStub, StubRow};
use proto_schemas::requests::task::TaskRole;

const STUBS: ListTable = ListTable { name: "task_stub", columns: READ_STUB, id: "task_id", search };

impl Store {
    /// At most so many tasks of other domains, the last changed first.
    pub async fn list_stubs(&self, wanted: &ListWanted) -> sqlx::Result<Vec<StubRow>> {
        let rows: Vec<StoredStub> = self.list_rows(&STUBS, wanted).await?;
        rows.into_iter().map(StoredStub::read).collect()
    }
}

fn search(role: TaskRole, state: &str, filter: &str) -> String {
    format!(
        "SELECT {READ_STUB} FROM task_stub
         WHERE aid = $1 AND role = '{}' AND status = {state} AND (updated_at, task_id) < ($2, $3){filter}
         ORDER BY updated_at DESC, task_id DESC LIMIT $4",
        role.as_str()
    )
}
