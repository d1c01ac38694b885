//! The tasks of which other domains have yet to learn.

use super::Store;
use super::row::{READ, StoredTask};
use crate::model::task::TaskRow;
use kernel::json_rows as json;
use sqlx::{Any, AssertSqlSafe};

impl Store {
    /// The tasks of these marks as they are now, without those that are gone.
    pub async fn marked_tasks(&self, keys: &[&str]) -> sqlx::Result<Vec<TaskRow>> {
        let (row, given) = (json::row(self.engine(), READ), json::texts(self.engine(), 1));
        let text = format!("SELECT {row} FROM task WHERE id IN {given}");
        let rows: Vec<String> = sqlx::query_scalar::<Any, String>(AssertSqlSafe(text))
            .bind(json::text(&keys)?)
            .fetch_all(self.db.read())
            .await?;
        rows.iter().map(|row| json::read::<StoredTask>(row)?.read()).collect()
    }
}
