//! Which rows are sent next: the owners whose rows wait for one destination take turns.
//!
//! A page holds as many rows of each owner, so thousands of rows of one owner delay the first row of another by one page at most.
//! The rows of one owner stay in order: those that a page holds are always its first ones. Owners are visited in the order of their
//! names, from the one after whom the last page ended.
//!
//! Everything is found by the index `{name}_outbox_turns`, in a number of steps that the size of a page limits, however much waits.

use super::rows::{OutboxRow, key_is_one_of, unsearched};
use super::send::SendTurn;
use super::{Outbox, RowKind};
use crate::{Engine, json_rows};
use sqlx::{Any, AssertSqlSafe};
use std::collections::HashMap;

/// A row that may be sent next, without its data.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(super) struct WaitingRow {
    pub owner: String,
    pub key: String,
    pub position: i64,
    pub bytes: i64,
}

impl Outbox {
    /// The rows that are sent next, up to the limits of a page, in their order. Marks whose time has not come are left out.
    pub(super) async fn next_rows(&self, turn: &mut SendTurn, now: i64) -> sqlx::Result<Vec<OutboxRow>> {
        let until = self.due_until(now);
        let owners = self.next_owners(turn, until).await?;
        let first = self.first_rows(turn.lease.row(), &owners, until).await?;
        let page = by_turns(&owners, first, self.settings.page_rows, self.settings.page_bytes);
        let Some(last) = page.last() else { return Ok(Vec::new()) };
        turn.last_owner.clone_from(&last.owner);
        let keys: Vec<&str> = page.iter().map(|row| row.key.as_str()).collect();
        self.rows_of(turn.lease.row(), &keys, until).await
    }

    /// The position up to which rows are due.
    pub(super) fn due_until(&self, now: i64) -> i64 {
        match self.settings.kind {
            RowKind::Payload => i64::MAX,
            RowKind::Mark => now,
        }
    }

    /// The owners whose turn is next, in the order of their turns. Marks that are not due are stepped over one by one: they are
    /// those of the last moments.
    async fn next_owners(&self, turn: &SendTurn, until: i64) -> sqlx::Result<Vec<String>> {
        sqlx::query_scalar(AssertSqlSafe(self.owners_statement()))
            .bind(turn.lease.row())
            .bind(until)
            .bind(turn.last_owner.as_str())
            .bind(i64::try_from(self.settings.page_rows).unwrap_or(i64::MAX))
            .fetch_all(self.db.read())
            .await
    }

    /// As many of the first rows of each owner as have space in a page together. Their sizes are in the index: no data is read that
    /// is not sent.
    async fn first_rows(
        &self,
        destination: &str,
        owners: &[String],
        until: i64,
    ) -> sqlx::Result<Vec<WaitingRow>> {
        if owners.is_empty() {
            return Ok(Vec::new());
        }
        let share = self.settings.page_rows.div_ceil(owners.len());
        sqlx::query_as::<Any, WaitingRow>(AssertSqlSafe(self.first_rows_statement()))
            .bind(destination)
            .bind(json_rows::text(&owners)?)
            .bind(until)
            .bind(i64::try_from(share).unwrap_or(i64::MAX))
            .fetch_all(self.db.read())
            .await
    }

    /// These rows with their data, in their order.
    async fn rows_of(&self, destination: &str, keys: &[&str], until: i64) -> sqlx::Result<Vec<OutboxRow>> {
        let engine = self.db.engine();
        let text = format!(
            "SELECT key, position, version, progress, data FROM {} WHERE {} AND {} = $2",
            self.tables.rows,
            key_is_one_of(engine, 1),
            unsearched(engine, "destination")
        );
        let found: Vec<OutboxRow> = sqlx::query_as::<Any, OutboxRow>(AssertSqlSafe(text))
            .bind(json_rows::text(&keys)?)
            .bind(destination)
            .fetch_all(self.db.read())
            .await?;
        let mut rows: Vec<OutboxRow> = found.into_iter().filter(|row| row.position <= until).collect();
        rows.sort_by(|one, other| (one.position, &one.key).cmp(&(other.position, &other.key)));
        Ok(rows)
    }

    /// Those after the one who had the last turn, then the others. Each step is one search of the index for the next name.
    pub(super) fn owners_statement(&self) -> String {
        let rows = &self.tables.rows;
        let lap = |name: &str, first: &str, next: &str| {
            let due = format!("FROM {rows} AS waits WHERE waits.destination = $1 AND waits.position <= $2");
            format!(
                "{name}(owner, nth) AS (
                     SELECT MIN(waits.owner), 1 {due} AND {first}
                     UNION ALL
                     SELECT (SELECT MIN(waits.owner) {due} AND waits.owner > {name}.owner {next}), {name}.nth + 1
                     FROM {name} WHERE {name}.owner IS NOT NULL AND {name}.nth < $4)"
            )
        };
        format!(
            "WITH RECURSIVE {}, {}
             SELECT owner FROM (SELECT owner, 1 AS lap, nth FROM later UNION ALL SELECT owner, 2, nth FROM earlier) AS turn
             WHERE owner IS NOT NULL ORDER BY lap, nth LIMIT $4",
            lap("later", "waits.owner > $3", ""),
            lap("earlier", "waits.owner <= $3", "AND waits.owner <= $3")
        )
    }

    pub(super) fn first_rows_statement(&self) -> String {
        let rows = &self.tables.rows;
        let of_owner = |columns: &str, owner: &str| {
            format!(
                "SELECT {columns} FROM {rows} AS first WHERE first.destination = $1 AND first.owner = {owner}
                     AND first.position <= $3 ORDER BY first.position, first.key LIMIT $4"
            )
        };
        match self.db.engine() {
            Engine::Sqlite => format!(
                "SELECT waits.owner, waits.key, waits.position, waits.bytes FROM json_each($2) AS turn
                 CROSS JOIN {rows} AS waits ON waits.rowid IN ({})",
                of_owner("first.rowid", "turn.value")
            ),
            Engine::Postgres => format!(
                "SELECT waits.owner, waits.key, waits.position, waits.bytes
                 FROM json_array_elements_text(CAST($2 AS json)) AS turn(owner) CROSS JOIN LATERAL ({}) AS waits",
                of_owner("first.owner, first.key, first.position, first.bytes", "turn.owner")
            ),
        }
    }
}

/// The rows of a page: the first of each owner, then the second of each, and so on, up to the limits of a page. One always fits.
pub(super) fn by_turns(
    owners: &[String],
    mut rows: Vec<WaitingRow>,
    most: usize,
    bytes: i64,
) -> Vec<WaitingRow> {
    rows.sort_by(|one, other| (one.position, &one.key).cmp(&(other.position, &other.key)));
    let turns: HashMap<&str, usize> =
        owners.iter().enumerate().map(|(turn, owner)| (owner.as_str(), turn)).collect();
    let mut taken = vec![0_usize; owners.len()];
    let mut ranked: Vec<(usize, usize, WaitingRow)> = Vec::with_capacity(rows.len());
    for row in rows {
        let Some(turn) = turns.get(row.owner.as_str()).copied() else { continue };
        ranked.push((taken[turn], turn, row));
        taken[turn] += 1;
    }
    ranked.sort_by_key(|(rank, turn, _)| (*rank, *turn));
    let mut total = 0;
    let fitting = ranked.into_iter().map(|(.., row)| row).enumerate().take_while(|(index, row)| {
        total += row.bytes;
        *index == 0 || total <= bytes
    });
    fitting.map(|(_, row)| row).take(most).collect()
}
