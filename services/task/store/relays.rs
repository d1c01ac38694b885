//! The tasks of which other domains have yet to learn.

use super::Store;
use super::row::{READ, StoredTask};
use crate::model::task::TaskRow;
use kernel::{BackoffSchedule, OutboxSettings, Retry, RowKind, json_rows as json};
use sqlx::{Any, AssertSqlSafe};
use std::time::Duration;

/// How many domains are told at once, and of how many tasks in one call.
pub(crate) const MOST_DOMAINS: usize = 64;
pub(crate) const MOST_ITEMS: usize = 64;
/// Before a domain that could not be reached is tried again.
const WAITS: BackoffSchedule = BackoffSchedule::new(Duration::from_secs(1), Duration::from_secs(300));
pub(crate) const RELAYS: OutboxSettings = OutboxSettings {
    lease: Duration::from_secs(60),
    at_once: MOST_DOMAINS,
    page_rows: MOST_ITEMS,
    to_peers: true,
    ..OutboxSettings::new("relay", RowKind::Mark, Retry::Destination { schedule: WAITS, demand: None })
};

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
