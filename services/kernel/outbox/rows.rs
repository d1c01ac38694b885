//! The rows of the outbox, and statements that remove many of them at once and count them.

use super::Outbox;
use crate::Engine;
use crate::json_rows;
use serde::Serialize;
use sqlx::{Any, AnyConnection, AssertSqlSafe};

/// What a row takes beside its data.
const ROW_BYTES: i64 = 256;

/// A row with a payload that is to be sent.
#[derive(Clone, Debug)]
pub struct NewOutboxRow {
    pub key: String,
    pub destination: String,
    /// From [`Outbox::next_position`].
    pub position: i64,
    /// Whose row it is.
    pub owner: String,
    pub created_at: i64,
    pub expires_at: Option<i64>,
    /// When it may have arrived already, by a try before it was written.
    pub tried_at: Option<i64>,
    pub data: String,
}

/// A row that waits.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct OutboxRow {
    pub key: String,
    pub position: i64,
    pub version: i64,
    /// Of a row that is sent in parts: up to where it was.
    pub progress: Option<String>,
    pub data: String,
}

/// A row that was removed.
#[derive(sqlx::FromRow)]
pub(super) struct RemovedRow {
    pub key: String,
    pub bytes: i64,
    pub owner: String,
    pub created_at: i64,
    /// Empty where rows that ended are not kept.
    pub data: String,
}

/// What became of rows that do not wait any more.
#[derive(Clone, Copy, Default)]
pub(super) struct EndCounts {
    pub delivered: i64,
    pub refused: i64,
    pub expired: i64,
}

/// Which rows are removed.
#[derive(Clone, Copy, Default)]
pub(super) struct RemoveOnly {
    /// Only those behind this position.
    pub after: Option<i64>,
    /// Only those that cannot have arrived.
    pub untried: bool,
}

pub(super) fn row_bytes(data: &str) -> i64 {
    data.len() as i64 + ROW_BYTES
}

/// `key` is one of a list of texts, which is the parameter of this number. PostgreSQL looks up the members of an array by the
/// index, also with a plan that it made while the table was small; for those of a list that is selected it may scan the whole table.
pub(super) fn key_is_one_of(engine: Engine, parameter: usize) -> String {
    let texts = json_rows::texts(engine, parameter);
    match engine {
        Engine::Sqlite => format!("key IN {texts}"),
        Engine::Postgres => format!("key = ANY(ARRAY{texts})"),
    }
}

/// A column in a condition next to others that find few rows. SQLite is kept from searching by it: it would read everything that waits
/// for a destination to find a few.
pub(super) fn unsearched(engine: Engine, column: &str) -> String {
    match engine {
        Engine::Sqlite => format!("+{column}"),
        Engine::Postgres => column.to_owned(),
    }
}

impl Outbox {
    /// Removes those of these rows that wait for a destination.
    pub(super) async fn remove_rows<S: Serialize>(
        &self,
        tx: &mut AnyConnection,
        destination: &str,
        keys: &[S],
        only: RemoveOnly,
    ) -> sqlx::Result<Vec<RemovedRow>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        sqlx::query_as::<Any, RemovedRow>(AssertSqlSafe(self.remove_statement()))
            .bind(json_rows::text(&keys)?)
            .bind(destination)
            .bind(only.after.unwrap_or(i64::MIN))
            .bind(i64::from(only.untried))
            .fetch_all(tx)
            .await
    }

    pub(super) fn remove_statement(&self) -> String {
        let (engine, data) =
            (self.db.engine(), if self.settings.kept_ended > 0 { "data" } else { "'' AS data" });
        format!(
            "DELETE FROM {} WHERE {} AND {} = $2 AND {} > $3 AND (tried_at IS NULL OR $4 = 0)
             RETURNING key, bytes, owner, created_at, {data}",
            self.tables.rows,
            key_is_one_of(engine, 1),
            unsearched(engine, "destination"),
            unsearched(engine, "position")
        )
    }

    /// Keeps the counts of a destination in step with its rows.
    pub(super) async fn count_removed(
        &self,
        tx: &mut AnyConnection,
        destination: &str,
        removed: &[RemovedRow],
        counts: EndCounts,
    ) -> sqlx::Result<()> {
        let text = format!(
            "UPDATE {} SET waiting = waiting - $2, bytes = bytes - $3, delivered = delivered + $4, refused = refused + $5,
                 expired = expired + $6
             WHERE destination = $1",
            self.tables.destinations
        );
        sqlx::query(AssertSqlSafe(text))
            .bind(destination)
            .bind(removed.len() as i64)
            .bind(removed.iter().map(|row| row.bytes).sum::<i64>())
            .bind(counts.delivered)
            .bind(counts.refused)
            .bind(counts.expired)
            .execute(tx)
            .await?;
        Ok(())
    }
}
