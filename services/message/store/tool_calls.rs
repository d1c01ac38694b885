//! The counts of tool calls, read and written in the transaction of the messages that they are about.
//!
//! A transaction without a tool call asks nothing here. On SQLite one task writes. On PostgreSQL the row of a sender stays
//! locked from when it is read until the commit, so that the counts of several processes are one.

pub(crate) mod window;

use super::bind::json;
use super::stored_message::StoredMessage;
use super::write::{CountChange, CountOutcome, NewMessage, ToolCallCount, Write};
use kernel::{Aid, Db, Engine};
use sqlx::{Any, Transaction};
use std::collections::{BTreeMap, BTreeSet};
use window::{TOOL_CALL_WINDOW_MS, ToolCallWindow};

/// Rows removed in one statement: a commit that waits for it waits no longer than for another commit.
const REMOVE_ROWS: i64 = 500;

/// The counts of the senders of one transaction, and what it changes about them.
#[derive(Default)]
pub(crate) struct ToolCallWindows {
    windows: BTreeMap<String, ToolCallWindow>,
    changed: BTreeSet<String>,
}

/// The senders whose tool calls these writes count.
pub(crate) fn senders(writes: &[Write]) -> BTreeSet<&str> {
    let mut senders = BTreeSet::new();
    for write in writes {
        match write {
            Write::Send(new, _) if new.tool_call => senders.insert(new.message.from.as_str()),
            Write::Count(count) => senders.insert(count.from.as_str()),
            Write::Send(..) | Write::Ack(_) | Write::Recall(_) => false,
        };
    }
    senders
}

impl ToolCallWindows {
    /// On SQLite, where nobody else changes them before the commit.
    pub async fn read(db: &Db, senders: &BTreeSet<&str>) -> sqlx::Result<ToolCallWindows> {
        if senders.is_empty() {
            return Ok(ToolCallWindows::default());
        }
        let rows: Vec<(String, String)> = sqlx::query_as(
            "SELECT sender, calls FROM tool_call WHERE sender IN (SELECT value FROM json_each($1))",
        )
        .bind(json(senders))
        .fetch_all(db.read())
        .await?;
        Ok(ToolCallWindows::of(rows))
    }

    /// On PostgreSQL. A sender without a row gets one, because only a row can be locked; and all in one order, so that two
    /// transactions never wait for each other.
    pub async fn lock(
        tx: &mut Transaction<'static, Any>,
        senders: &BTreeSet<&str>,
    ) -> sqlx::Result<ToolCallWindows> {
        let rows: Vec<(String, String)> = sqlx::query_as(
            "INSERT INTO tool_call (sender, calls, last)
             SELECT v, '', 0 FROM json_array_elements_text(CAST($1 AS JSON)) AS v ORDER BY 1
             ON CONFLICT (sender) DO UPDATE SET last = tool_call.last RETURNING sender, calls",
        )
        .bind(json(senders))
        .fetch_all(&mut **tx)
        .await?;
        Ok(ToolCallWindows::of(rows))
    }

    fn of(rows: Vec<(String, String)>) -> ToolCallWindows {
        let windows = rows.into_iter().map(|(sender, calls)| (sender, ToolCallWindow::read(&calls)));
        ToolCallWindows { windows: windows.collect(), changed: BTreeSet::new() }
    }

    /// Counts a message if it is a tool call. Where there are too many already, says after how long it may be sent again.
    pub fn refuses(&mut self, new: &NewMessage) -> Option<i64> {
        if new.tool_call { self.count(&new.message) } else { None }
    }

    /// The same for a message that is a tool call.
    pub fn count(&mut self, message: &StoredMessage) -> Option<i64> {
        let outcome = self.window(&message.from).count(message.at, None);
        match self.noted(&message.from, outcome) {
            CountOutcome::TooMany { retry_after_ms } => Some(retry_after_ms),
            CountOutcome::Counted | CountOutcome::CountedBefore | CountOutcome::Removed => None,
        }
    }

    pub fn change(&mut self, count: &ToolCallCount) -> CountOutcome {
        let window = self.window(&count.from);
        let outcome = match count.change {
            CountChange::Add { at } => window.count(at, Some(count.key)),
            CountChange::Remove => {
                window.remove(count.key);
                CountOutcome::Removed
            }
        };
        self.noted(&count.from, outcome)
    }

    fn window(&mut self, sender: &Aid) -> &mut ToolCallWindow {
        self.windows.entry(sender.to_string()).or_default()
    }

    /// Remembers what has to be written.
    fn noted(&mut self, sender: &Aid, outcome: CountOutcome) -> CountOutcome {
        if matches!(outcome, CountOutcome::Counted | CountOutcome::Removed) {
            self.changed.insert(sender.to_string());
        }
        outcome
    }

    pub fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    pub async fn write(&self, tx: &mut Transaction<'static, Any>, engine: Engine) -> sqlx::Result<()> {
        if !self.is_changed() {
            return Ok(());
        }
        let changed = self.windows.iter().filter(|(sender, _)| self.changed.contains(*sender));
        let rows: Vec<(&str, String, i64)> =
            changed.map(|(sender, window)| (sender.as_str(), window.text(), window.last())).collect();
        let query = match engine {
            Engine::Sqlite => sqlx::query(
                "INSERT INTO tool_call (sender, calls, last)
                 SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each($1) WHERE true
                 ON CONFLICT (sender) DO UPDATE SET calls = excluded.calls, last = excluded.last",
            ),
            Engine::Postgres => sqlx::query(
                "UPDATE tool_call AS t SET calls = v ->> 1, last = CAST(v ->> 2 AS BIGINT)
                 FROM json_array_elements(CAST($1 AS JSON)) AS v WHERE t.sender = v ->> 0",
            ),
        };
        query.bind(json(&rows)).execute(&mut **tx).await?;
        Ok(())
    }
}

/// Removes the rows of agents whose last tool call is no longer counted. On PostgreSQL rows that are locked stay: their agents
/// are about to send more, and nobody waits for this.
pub(crate) async fn remove_quiet(db: &Db, now: i64) -> sqlx::Result<()> {
    loop {
        let query = match db.engine() {
            Engine::Sqlite => sqlx::query(
                "DELETE FROM tool_call
                 WHERE sender IN (SELECT sender FROM tool_call WHERE last <= $1 ORDER BY last LIMIT $2)",
            ),
            Engine::Postgres => sqlx::query(
                "DELETE FROM tool_call WHERE sender = ANY(ARRAY(
                     SELECT sender FROM tool_call WHERE last <= $1 ORDER BY last LIMIT $2 FOR UPDATE SKIP LOCKED))",
            ),
        };
        let before = now - TOOL_CALL_WINDOW_MS;
        let gone = query.bind(before).bind(REMOVE_ROWS).execute(db.write_alone()).await?;
        if gone.rows_affected() < REMOVE_ROWS as u64 {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}
