//! What is known of tasks of other domains in which agents of ours take part.

use super::row::{aid, task_id};
use super::stub_row::{CHANGED_STUB, StubKey, StubRow, WRITTEN_STUB, WrittenStub};
use super::{Store, terminal_states};
use kernel::json_rows as json;
use kernel::{Aid, Engine};
use proto_schemas::requests::task::TaskId;
use sqlx::{Any, AnyConnection, AssertSqlSafe};
use std::collections::{BTreeMap, BTreeSet};

/// What is stored of the tasks of one domain for one agent.
const MOST_STUBS: i64 = 10_000;

/// What was stored of what another domain told.
#[derive(Debug, Default)]
pub(crate) struct StubsWritten {
    /// The version that was known before, of those that may be told of; 0 of a new one.
    pub known: BTreeMap<StubKey, i64>,
    /// Those that are not taken: the id is one of ours, another domain told of it first, or there are too many.
    pub refused: BTreeSet<TaskId>,
}

#[derive(sqlx::FromRow)]
struct KnownStub {
    aid: String,
    task_id: String,
    home_issuer: String,
    version: i64,
}

impl Store {
    /// Stores what one domain told, as far as it is newer than what is known. One transaction at a time does this for an agent, so
    /// that two that tell of the same task see each other.
    pub async fn write_stubs(&self, home: &str, rows: &[StubRow], now: i64) -> sqlx::Result<StubsWritten> {
        let mut tx = self.begin().await?;
        if self.engine() == Engine::Postgres {
            let agents = rows.iter().map(|row| row.key.aid.clone()).collect();
            self.lock_agents(&mut tx, &agents).await?;
        }
        let mut written =
            StubsWritten { refused: self.own_tasks(&mut tx, rows).await?, ..Default::default() };
        let known = self.known_stubs(&mut tx, rows).await?;
        let mut wanted: BTreeMap<&StubKey, &StubRow> = BTreeMap::new();
        for row in rows {
            let (home_issuer, version) =
                known.get(&row.key).map_or((home, 0), |(home, version)| (home.as_str(), *version));
            if home_issuer != home {
                written.refused.insert(row.key.task_id.clone());
            }
            if !written.refused.contains(&row.key.task_id) {
                written.known.insert(row.key.clone(), version);
                let newest = wanted.get(&row.key).map_or(version, |other| other.version);
                if row.version > newest {
                    wanted.insert(&row.key, row);
                }
            }
        }
        self.make_space(&mut tx, home, &mut wanted, &mut written).await?;
        let stubs: Vec<WrittenStub<'_>> =
            wanted.values().map(|row| WrittenStub::of(row, home, now)).collect();
        if !stubs.is_empty() {
            let conflict = format!("(aid, task_id) {}", json::replace(&CHANGED_STUB));
            let text = json::insert(self.engine(), 1, "task_stub", &WRITTEN_STUB, &conflict);
            sqlx::query(AssertSqlSafe(text))
                .bind(json::rows_text(self.engine(), &WRITTEN_STUB, &stubs)?)
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
        Ok(written)
    }

    /// Those of these ids that are tasks of this domain.
    async fn own_tasks(&self, tx: &mut AnyConnection, rows: &[StubRow]) -> sqlx::Result<BTreeSet<TaskId>> {
        let ids: BTreeSet<&TaskId> = rows.iter().map(|row| &row.key.task_id).collect();
        let given = json::texts(self.engine(), 1);
        let text = format!("SELECT id FROM task WHERE id IN {given}");
        let own: Vec<String> =
            sqlx::query_scalar(AssertSqlSafe(text)).bind(json::text(&ids)?).fetch_all(tx).await?;
        own.into_iter().map(task_id).collect()
    }

    /// The home and the version of those that are known.
    async fn known_stubs(
        &self,
        tx: &mut AnyConnection,
        rows: &[StubRow],
    ) -> sqlx::Result<BTreeMap<StubKey, (String, i64)>> {
        let keys: BTreeSet<&StubKey> = rows.iter().map(|row| &row.key).collect();
        let columns = [("aid", "TEXT"), ("task_id", "TEXT")];
        let given = json::rows(self.engine(), 1, &columns);
        let text = format!(
            "SELECT task_stub.aid, task_stub.task_id, home_issuer, version FROM {given} CROSS JOIN task_stub
             WHERE task_stub.aid = given.aid AND task_stub.task_id = given.task_id"
        );
        let known: Vec<KnownStub> = sqlx::query_as::<Any, KnownStub>(AssertSqlSafe(text))
            .bind(json::rows_text(self.engine(), &columns, &keys)?)
            .fetch_all(tx)
            .await?;
        let read = |row: KnownStub| {
            let key = StubKey { aid: aid(&row.aid)?, task_id: task_id(row.task_id)? };
            Ok((key, (row.home_issuer, row.version)))
        };
        known.into_iter().map(read).collect()
    }

    /// An agent has so many tasks of one domain at most: for a new one those go that ended the longest ago, and where none has
    /// ended the new one is refused.
    async fn make_space(
        &self,
        tx: &mut AnyConnection,
        home: &str,
        wanted: &mut BTreeMap<&StubKey, &StubRow>,
        written: &mut StubsWritten,
    ) -> sqlx::Result<()> {
        let mut new: BTreeMap<&Aid, Vec<&StubKey>> = BTreeMap::new();
        for key in wanted.keys().copied().filter(|key| written.known.get(*key) == Some(&0)) {
            new.entry(&key.aid).or_default().push(key);
        }
        for (aid, mut keys) in new {
            let stored: i64 =
                sqlx::query_scalar("SELECT COUNT(*) FROM task_stub WHERE aid = $1 AND home_issuer = $2")
                    .bind(aid.as_str())
                    .bind(home)
                    .fetch_one(&mut *tx)
                    .await?;
            let mut too_many = stored + keys.len() as i64 - MOST_STUBS;
            if too_many <= 0 {
                continue;
            }
            let ended = terminal_states();
            let text = format!(
                "DELETE FROM task_stub WHERE (aid, task_id) IN
                     (SELECT aid, task_id FROM task_stub WHERE aid = $1 AND home_issuer = $2 AND status IN ({ended})
                      ORDER BY changed_at LIMIT $3)"
            );
            let removed = sqlx::query(AssertSqlSafe(text))
                .bind(aid.as_str())
                .bind(home)
                .bind(too_many)
                .execute(&mut *tx)
                .await?;
            too_many -= i64::try_from(removed.rows_affected()).unwrap_or(i64::MAX);
            for _ in 0..too_many {
                let Some(key) = keys.pop() else { break };
                wanted.remove(key);
                written.known.remove(key);
                written.refused.insert(key.task_id.clone());
            }
        }
        Ok(())
    }

    /// Where the tasks of other domains are that this agent takes part in, of those with these ids.
    pub async fn homes(&self, aid: &Aid, tasks: &BTreeSet<TaskId>) -> sqlx::Result<BTreeMap<TaskId, String>> {
        let given = json::texts(self.engine(), 2);
        let text =
            format!("SELECT task_id, home_issuer FROM task_stub WHERE aid = $1 AND task_id IN {given}");
        let rows: Vec<(String, String)> = sqlx::query_as(AssertSqlSafe(text))
            .bind(aid.as_str())
            .bind(json::text(tasks)?)
            .fetch_all(self.db.read())
            .await?;
        rows.into_iter().map(|(id, home)| Ok((task_id(id)?, home))).collect()
    }

    /// The domain that has the task does not know it any more.
    pub async fn remove_stub(&self, aid: &Aid, task: &TaskId, home: &str) -> sqlx::Result<()> {
        let write = sqlx::query("DELETE FROM task_stub WHERE aid = $1 AND task_id = $2 AND home_issuer = $3")
            .bind(aid.as_str())
            .bind(task.as_str())
            .bind(home)
            .execute(self.db.write_alone());
        self.db.counted(write).await?;
        Ok(())
    }
}
