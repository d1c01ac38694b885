//! What is stored from each agent and for each agent, within the time that messages are stored: the accounts of messages.
//!
//! They are counted in memory before a message is stored, and written to the table every few seconds, by the time they were
//! stored; other processes are heard of then, too (decision 27). So several processes, or a crash, may let somebody have as
//! much more as can be sent in these seconds, and no commit waits for a row that all messages of an agent would share.

pub(crate) mod limits;
mod listing;

use super::bind::json;
use kernel::{
    AccountFull, Accounts, Aid, ChangedLimits, Db, Disk, DiskSpace, Engine, HeldNow, Kept, Payer, World,
};
use limits::{QuotaLimits, QuotaSide};
use parking_lot::Mutex;
use std::collections::HashMap;

/// How many accounts are counted on each side between two writes; more are not counted until the next one.
const MAX_ACCOUNTS: usize = 100_000;
/// How many rows go into one statement.
const CHUNK: usize = 256;
/// In how many steps the time that messages are stored passes.
const BUCKETS: i64 = 24;
const REMOVE_ROWS: i64 = 500;
const DAY_MS: i64 = 86_400_000;

pub(crate) struct Quotas {
    db: Db,
    limits: QuotaLimits,
    accounts: Accounts,
    disk: Disk,
    changed: ChangedLimits,
    retention_ms: i64,
    bucket_ms: i64,
    counted: Mutex<CountedMessages>,
}

/// The counts of each side, by the name of an agent, a domain or a network.
#[derive(Default)]
struct CountedMessages([HashMap<Box<str>, CountedAccount>; QuotaSide::ALL.len()]);

#[derive(Clone, Copy, Debug, Default)]
struct CountedAccount {
    /// What the table had when it was last read.
    stored: Kept,
    /// What came since, and is not in the table yet.
    pending: Kept,
}

impl Quotas {
    pub async fn open(
        db: &Db,
        limits: QuotaLimits,
        world: &World,
        retention_ms: i64,
    ) -> sqlx::Result<Quotas> {
        let bucket_ms = (retention_ms / BUCKETS).max(1000);
        let (accounts, disk) = (world.accounts.clone(), world.disk.clone());
        let (db, changed) = (db.clone(), ChangedLimits::new(db));
        changed.read().await?;
        Ok(Quotas { db, limits, accounts, disk, changed, retention_ms, bucket_ms, counted: Mutex::default() })
    }

    /// Counts a message, or says why it must not be stored. Without a recipient it is stored for no inbox of this domain.
    pub fn reserve(&self, payer: &Payer, to: Option<&Aid>, more: Kept) -> Result<(), AccountFull> {
        let (sender, network) = (payer.key(), payer.network().map(|network| network.to_string()));
        let given = self.changed.of(sender);
        let elsewhere = payer.aid().map_or(0, |aid| self.accounts.elsewhere("message", aid));
        let mut counted = self.counted.lock();
        let held = HeldNow {
            own: counted.of(QuotaSide::Sender, sender),
            elsewhere,
            domain: payer.domain().map(|domain| counted.of(QuotaSide::Domain, domain)),
            network: network.as_deref().map(|network| counted.of(QuotaSide::Network, network)),
            space_is_low: self.disk.space() != DiskSpace::Enough,
        };
        let inbox = to.map(|to| (to, counted.of(QuotaSide::Inbox, to.as_str())));
        // After a while less of it is stored.
        let later = |full| AccountFull { retry_after_ms: Some(self.bucket_ms), ..full };
        self.limits.check(payer, given, held, inbox, more).map_err(later)?;
        counted.add_all(payer, network.as_deref(), to, more);
        Ok(())
    }

    /// It was not stored after all.
    pub fn release(&self, payer: &Payer, to: Option<&Aid>, less: Kept) {
        let network = payer.network().map(|network| network.to_string());
        let less = Kept { bytes: -less.bytes, rows: -less.rows };
        self.counted.lock().add_all(payer, network.as_deref(), to, less);
    }

    /// Writes what was counted since the last time, reads what the table has by now, and tells other services of it.
    pub async fn write(&self, now: i64) -> sqlx::Result<()> {
        self.changed.read().await?;
        for side in QuotaSide::ALL {
            let counted: Vec<(Box<str>, Kept)> = {
                let counted = self.counted.lock();
                let accounts = counted.side(side).iter();
                accounts.map(|(name, account)| (name.clone(), account.pending)).collect()
            };
            for counted in counted.chunks(CHUNK) {
                self.write_some(side, counted, now).await?;
                tokio::task::yield_now().await;
            }
        }
        self.tell_others();
        Ok(())
    }

    /// The agents that have much are all in memory.
    fn tell_others(&self) {
        let much = self.accounts.much();
        let counted = self.counted.lock();
        let senders = counted.side(QuotaSide::Sender).iter();
        let large =
            senders.map(|(name, account)| (name, account.total().bytes)).filter(|(_, bytes)| *bytes >= much);
        let large = large.filter_map(|(name, bytes)| Some((Aid::parse(name).ok()?, bytes))).collect();
        drop(counted);
        self.accounts.tell("message", large);
    }

    async fn write_some(&self, side: QuotaSide, counted: &[(Box<str>, Kept)], now: i64) -> sqlx::Result<()> {
        let mut rows: Vec<(&str, i64, i64)> = counted
            .iter()
            .filter(|(_, kept)| *kept != Kept::default())
            .map(|(name, kept)| (&**name, kept.bytes, kept.rows))
            .collect();
        // In one order in every process: two of them never wait for each other.
        rows.sort_unstable();
        if !rows.is_empty() {
            let query = match self.db.engine() {
                Engine::Sqlite => sqlx::query(
                    "INSERT INTO stored_bytes (kind, aid, bucket, bytes, kept_rows)
                     SELECT $1, value ->> 0, $2, value ->> 1, value ->> 2 FROM json_each($3) WHERE true
                     ON CONFLICT (kind, aid, bucket) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes,
                         kept_rows = stored_bytes.kept_rows + excluded.kept_rows",
                ),
                Engine::Postgres => sqlx::query(
                    "INSERT INTO stored_bytes (kind, aid, bucket, bytes, kept_rows)
                     SELECT CAST($1 AS TEXT), v ->> 0, CAST($2 AS BIGINT), CAST(v ->> 1 AS BIGINT), CAST(v ->> 2 AS BIGINT)
                     FROM json_array_elements(CAST($3 AS JSON)) AS v
                     ON CONFLICT (kind, aid, bucket) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes,
                         kept_rows = stored_bytes.kept_rows + excluded.kept_rows",
                ),
            };
            let bucket = now - now.rem_euclid(self.bucket_ms);
            let query = query.bind(side.name()).bind(bucket).bind(json(&rows));
            self.db.counted(query.execute(self.db.write_alone())).await?;
        }
        // Before anything else can fail: what is in the table must not be written again.
        {
            let mut all = self.counted.lock();
            for (name, written) in counted {
                if let Some(account) = all.side_mut(side).get_mut(name) {
                    let Kept { bytes, rows } = *written;
                    account.pending = account.pending.plus(Kept { bytes: -bytes, rows: -rows });
                    account.stored = account.stored.plus(*written);
                }
            }
        }
        let totals = self.totals(side, counted, now).await?;
        let mut all = self.counted.lock();
        for (name, _) in counted {
            let Some(account) = all.side_mut(side).get_mut(name) else { continue };
            account.stored = totals.get(&**name).copied().unwrap_or_default();
            // Whoever has little is read again when it sends again; so memory has only those with much, and the table the rest.
            let given = self.changed.of(name);
            if account.pending == Kept::default() && self.limits.is_little(side, given, account.stored) {
                all.side_mut(side).remove(name);
            }
        }
        Ok(())
    }

    async fn totals(
        &self,
        side: QuotaSide,
        counted: &[(Box<str>, Kept)],
        now: i64,
    ) -> sqlx::Result<HashMap<String, Kept>> {
        let query = match self.db.engine() {
            Engine::Sqlite => sqlx::query_as(
                "SELECT aid, CAST(SUM(bytes) AS BIGINT), CAST(SUM(kept_rows) AS BIGINT) FROM stored_bytes
                 WHERE kind = $1 AND bucket > $2 AND aid IN (SELECT value FROM json_each($3)) GROUP BY aid",
            ),
            Engine::Postgres => sqlx::query_as(
                "SELECT aid, CAST(SUM(bytes) AS BIGINT), CAST(SUM(kept_rows) AS BIGINT) FROM stored_bytes
                 WHERE kind = $1 AND bucket > $2
                     AND aid = ANY(ARRAY(SELECT json_array_elements_text(CAST($3 AS JSON)))) GROUP BY aid",
            ),
        };
        let names: Vec<&str> = counted.iter().map(|(name, _)| &**name).collect();
        let query = query.bind(side.name()).bind(self.oldest(side, now)).bind(json(&names));
        let rows: Vec<(String, i64, i64)> = query.fetch_all(self.db.read()).await?;
        Ok(rows.into_iter().map(|(name, bytes, rows)| (name, Kept { bytes, rows })).collect())
    }

    /// Rows up to this one count no more: their messages were removed since. What new agents of a network stored counts for some days,
    /// whether it was removed or not.
    fn oldest(&self, side: QuotaSide, now: i64) -> i64 {
        let days = i64::from(self.accounts.settings().new_agent_days);
        let ms = match side {
            QuotaSide::Network => self.retention_ms.max(days * DAY_MS),
            QuotaSide::Sender | QuotaSide::Inbox | QuotaSide::Domain => self.retention_ms,
        };
        now - ms - self.bucket_ms
    }

    pub async fn remove_old(&self, now: i64) -> sqlx::Result<()> {
        for side in QuotaSide::ALL {
            self.remove_old_of(side, now).await?;
        }
        Ok(())
    }

    async fn remove_old_of(&self, side: QuotaSide, now: i64) -> sqlx::Result<()> {
        loop {
            let query = sqlx::query(
                "DELETE FROM stored_bytes WHERE (kind, aid, bucket) IN (
                     SELECT kind, aid, bucket FROM stored_bytes WHERE bucket <= $1 AND kind = $3 ORDER BY bucket LIMIT $2)",
            );
            let query = query.bind(self.oldest(side, now)).bind(REMOVE_ROWS).bind(side.name());
            let gone = query.execute(self.db.write_alone()).await?;
            if gone.rows_affected() < REMOVE_ROWS as u64 {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }
}

impl CountedMessages {
    fn side(&self, side: QuotaSide) -> &HashMap<Box<str>, CountedAccount> {
        &self.0[side as usize]
    }

    fn side_mut(&mut self, side: QuotaSide) -> &mut HashMap<Box<str>, CountedAccount> {
        &mut self.0[side as usize]
    }

    fn of(&self, side: QuotaSide, name: &str) -> Kept {
        self.side(side).get(name).map_or_else(Kept::default, CountedAccount::total)
    }

    fn add_all(&mut self, payer: &Payer, network: Option<&str>, to: Option<&Aid>, more: Kept) {
        let counts = [
            (QuotaSide::Sender, Some(payer.key())),
            (QuotaSide::Inbox, to.map(Aid::as_str)),
            (QuotaSide::Domain, payer.domain()),
            (QuotaSide::Network, network),
        ];
        for (side, name) in counts {
            if let Some(name) = name {
                self.add(side, name, more);
            }
        }
    }

    fn add(&mut self, side: QuotaSide, name: &str, more: Kept) {
        let accounts = self.side_mut(side);
        if let Some(counted) = accounts.get_mut(name) {
            counted.pending = counted.pending.plus(more);
        } else if accounts.len() < MAX_ACCOUNTS {
            accounts.insert(name.into(), CountedAccount { stored: Kept::default(), pending: more });
        }
    }
}

impl CountedAccount {
    fn total(&self) -> Kept {
        self.stored.plus(self.pending)
    }
}
