//! The open tasks that some agents were given, here and in other domains.

use super::Store;
use super::row::{aid, task_id};
use crate::model::state::TaskState;
use kernel::json_rows as json;
use kernel::{Aid, Engine};
use proto_schemas::requests::task::{AssignedTask, TaskId, TaskRole};
use sqlx::AssertSqlSafe;
use std::collections::BTreeSet;

impl Store {
    /// At most so many, in the order of their ids.
    pub async fn assigned(
        &self,
        aids: &BTreeSet<Aid>,
        after: &str,
        limit: i64,
    ) -> sqlx::Result<Vec<AssignedTask>> {
        let texts = json::texts(self.engine(), 1);
        let of = |column: &str| match self.engine() {
            Engine::Sqlite => format!("{column} IN {texts}"),
            Engine::Postgres => format!("{column} = ANY(ARRAY{texts})"),
        };
        let (here, elsewhere) = (of("assignee"), of("aid"));
        let open = TaskState::ALL.into_iter().filter(|state| !state.is_terminal());
        let open = open.map(|state| format!("'{state}'")).collect::<Vec<_>>().join(", ");
        let role = TaskRole::Assignee.as_str();
        // Every open task has a time, and none that has ended.
        let text = format!(
            "SELECT id, assignee, status, version, CAST(NULL AS TEXT) AS home FROM task WHERE {here} AND due_at IS NOT NULL AND id > $2
             UNION ALL
             SELECT task_id AS id, aid AS assignee, status, version, home_issuer AS home FROM task_stub
             WHERE {elsewhere} AND role = '{role}' AND status IN ({open}) AND task_id > $2
             ORDER BY id LIMIT $3"
        );
        let rows: Vec<(String, String, String, i64, Option<String>)> = sqlx::query_as(AssertSqlSafe(text))
            .bind(json::text(aids)?)
            .bind(after.to_owned())
            .bind(limit)
            .fetch_all(self.db.read())
            .await?;
        let read = |(id, assignee, status, version, home_issuer)| {
            let (task_id, assignee): (TaskId, Aid) = (task_id(id)?, aid(String::as_str(&assignee))?);
            Ok(AssignedTask { task_id, assignee, status, version, home_issuer })
        };
        rows.into_iter().map(read).collect()
    }
}
