//! How many bytes are stored from each agent and for each agent, within the time that messages are stored.
//!
//! They are counted in memory before a message is stored, and written to the table every few seconds, by the time they were
//! stored; other processes are heard of then, too (decision 27). So several processes, or a crash, may let somebody have as
//! much more as can be sent in these seconds, and no commit waits for a row that all messages of an agent would share.

pub(crate) mod limits;

use super::bind::json;
use kernel::{Aid, Db, Engine};
use limits::{LITTLE, QuotaExceeded, QuotaLimits, QuotaSide};
use parking_lot::Mutex;
use std::collections::HashMap;

/// How many agents are counted on each side between two writes; more are not counted until the next one.
const MAX_AGENTS: usize = 100_000;
/// How many rows go into one statement.
const CHUNK: usize = 256;
/// In how many steps the time that messages are stored passes.
const BUCKETS: i64 = 24;
const REMOVE_ROWS: i64 = 500;

pub(crate) struct Quotas {
    db: Db,
    limits: QuotaLimits,
    retention_ms: i64,
    bucket_ms: i64,
    counted: Mutex<CountedBytes>,
}

#[derive(Default)]
struct CountedBytes {
    senders: HashMap<Aid, AgentBytes>,
    inboxes: HashMap<Aid, AgentBytes>,
}

#[derive(Clone, Copy, Debug, Default)]
struct AgentBytes {
    /// What the table had when it was last read.
    stored: i64,
    /// What came since, and is not in the table yet.
    pending: i64,
}

impl Quotas {
    pub fn new(db: Db, limits: QuotaLimits, retention_ms: i64) -> Quotas {
        let bucket_ms = (retention_ms / BUCKETS).max(1000);
        Quotas { db, limits, retention_ms, bucket_ms, counted: Mutex::default() }
    }

    /// Counts a message, or says why it must not be stored. Without a recipient it is stored for no inbox of this domain.
    pub fn reserve(&self, from: &Aid, to: Option<&Aid>, bytes: usize) -> Result<(), QuotaExceeded> {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut counted = self.counted.lock();
        let of = |map: &HashMap<Aid, AgentBytes>, aid: &Aid| map.get(aid).map_or(0, AgentBytes::total);
        let sent = of(&counted.senders, from);
        let received = to.map_or(0, |to| of(&counted.inboxes, to));
        let Some(side) = self.limits.decide(sent, received, bytes) else {
            add(&mut counted.senders, from, bytes);
            if let Some(to) = to {
                add(&mut counted.inboxes, to, bytes);
            }
            return Ok(());
        };
        let retry_after_ms = self.bucket_ms;
        Err(match (side, to) {
            (QuotaSide::Inbox, Some(to)) => {
                QuotaExceeded::Inbox { aid: to.clone(), limit: self.limits.inbox_bytes, retry_after_ms }
            }
            _ => QuotaExceeded::Sender { aid: from.clone(), limit: self.limits.sender_bytes, retry_after_ms },
        })
    }

    /// It was not stored after all.
    pub fn release(&self, from: &Aid, to: Option<&Aid>, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut counted = self.counted.lock();
        add(&mut counted.senders, from, -bytes);
        if let Some(to) = to {
            add(&mut counted.inboxes, to, -bytes);
        }
    }

    /// Writes what was counted since the last time, and reads what the table has by now.
    pub async fn write(&self, now: i64) -> sqlx::Result<()> {
        for side in [QuotaSide::Sender, QuotaSide::Inbox] {
            let counted: Vec<(Aid, i64)> = {
                let mut counted = self.counted.lock();
                let agents = counted.side(side).iter();
                agents.map(|(aid, bytes)| (aid.clone(), bytes.pending)).collect()
            };
            for counted in counted.chunks(CHUNK) {
                self.write_some(side, counted, now).await?;
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    async fn write_some(&self, side: QuotaSide, counted: &[(Aid, i64)], now: i64) -> sqlx::Result<()> {
        let mut rows: Vec<(&str, i64)> = counted
            .iter()
            .filter(|(_, bytes)| *bytes != 0)
            .map(|(aid, bytes)| (aid.as_str(), *bytes))
            .collect();
        // In one order in every process: two of them never wait for each other.
        rows.sort_unstable();
        if !rows.is_empty() {
            let query = match self.db.engine() {
                Engine::Sqlite => sqlx::query(
                    "INSERT INTO stored_bytes (kind, aid, bucket, bytes)
                     SELECT $1, value ->> 0, $2, value ->> 1 FROM json_each($3) WHERE true
                     ON CONFLICT (kind, aid, bucket) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes",
                ),
                Engine::Postgres => sqlx::query(
                    "INSERT INTO stored_bytes (kind, aid, bucket, bytes)
                     SELECT CAST($1 AS TEXT), v ->> 0, CAST($2 AS BIGINT), CAST(v ->> 1 AS BIGINT)
                     FROM json_array_elements(CAST($3 AS JSON)) AS v
                     ON CONFLICT (kind, aid, bucket) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes",
                ),
            };
            let bucket = now - now.rem_euclid(self.bucket_ms);
            let query = query.bind(side.name()).bind(bucket).bind(json(&rows));
            self.db.counted(query.execute(self.db.write_alone())).await?;
        }
        // Before anything else can fail: what is in the table must not be written again.
        {
            let mut all = self.counted.lock();
            for (aid, written) in counted {
                if let Some(bytes) = all.side(side).get_mut(aid) {
                    bytes.pending -= written;
                    bytes.stored += written;
                }
            }
        }
        let totals = self.totals(side, counted, now).await?;
        let kept = self.limits.of(side) / LITTLE;
        let mut all = self.counted.lock();
        for (aid, _) in counted {
            let Some(bytes) = all.side(side).get_mut(aid) else { continue };
            bytes.stored = totals.get(aid.as_str()).copied().unwrap_or(0);
            // Whoever has little is read again when it sends again; so memory has only those with much, and the table the rest.
            if bytes.pending == 0 && bytes.stored <= kept {
                all.side(side).remove(aid);
            }
        }
        Ok(())
    }

    async fn totals(
        &self,
        side: QuotaSide,
        counted: &[(Aid, i64)],
        now: i64,
    ) -> sqlx::Result<HashMap<String, i64>> {
        let query = match self.db.engine() {
            Engine::Sqlite => sqlx::query_as(
                "SELECT aid, CAST(SUM(bytes) AS BIGINT) FROM stored_bytes
                 WHERE kind = $1 AND bucket > $2 AND aid IN (SELECT value FROM json_each($3)) GROUP BY aid",
            ),
            Engine::Postgres => sqlx::query_as(
                "SELECT aid, CAST(SUM(bytes) AS BIGINT) FROM stored_bytes
                 WHERE kind = $1 AND bucket > $2
                     AND aid = ANY(ARRAY(SELECT json_array_elements_text(CAST($3 AS JSON)))) GROUP BY aid",
            ),
        };
        let aids: Vec<&str> = counted.iter().map(|(aid, _)| aid.as_str()).collect();
        let query = query.bind(side.name()).bind(self.oldest(now)).bind(json(&aids));
        let rows: Vec<(String, i64)> = query.fetch_all(self.db.read()).await?;
        Ok(rows.into_iter().collect())
    }

    /// Rows up to this one count messages that were removed since.
    fn oldest(&self, now: i64) -> i64 {
        now - self.retention_ms - self.bucket_ms
    }

    pub async fn remove_old(&self, now: i64) -> sqlx::Result<()> {
        loop {
            let query = sqlx::query(
                "DELETE FROM stored_bytes WHERE (kind, aid, bucket) IN (
                     SELECT kind, aid, bucket FROM stored_bytes WHERE bucket <= $1 ORDER BY bucket LIMIT $2)",
            );
            let query = query.bind(self.oldest(now)).bind(REMOVE_ROWS);
            let gone = query.execute(self.db.write_alone()).await?;
            if gone.rows_affected() < REMOVE_ROWS as u64 {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }
}

impl CountedBytes {
    fn side(&mut self, side: QuotaSide) -> &mut HashMap<Aid, AgentBytes> {
        match side {
            QuotaSide::Sender => &mut self.senders,
            QuotaSide::Inbox => &mut self.inboxes,
        }
    }
}

impl AgentBytes {
    fn total(&self) -> i64 {
        self.stored.saturating_add(self.pending)
    }
}

fn add(agents: &mut HashMap<Aid, AgentBytes>, aid: &Aid, bytes: i64) {
    if let Some(counted) = agents.get_mut(aid) {
        counted.pending = counted.pending.saturating_add(bytes);
    } else if agents.len() < MAX_AGENTS {
        agents.insert(aid.clone(), AgentBytes { stored: 0, pending: bytes });
    }
}
