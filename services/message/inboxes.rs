//! The inboxes of each agent: one for each of its devices, known by heart once they were asked for.

use crate::kernel::{Aid, Db, DeviceId, Engine};
use parking_lot::Mutex;
use sqlx::{Any, Transaction};
use std::collections::HashMap;
use std::sync::Arc;

/// How many agents are known by heart before all are forgotten and asked for again.
const MOST: usize = 100_000;

#[derive(Clone, Debug)]
pub(super) struct Inbox {
    pub id: i64,
    pub device: DeviceId,
    /// An inbox nobody joined yet waits for the agent's first device.
    pub joined: bool,
    /// How often the agent's devices had changed when this was read; 0 on SQLite, where nobody else changes them.
    pub changes: i64,
    pub spk: Option<Spk>,
}

/// The signed key that others encrypt to, for one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spk {
    pub id: String,
    pub key: String,
    pub signature: String,
    /// In seconds, as it was signed.
    pub timestamp: i64,
}

pub(super) type Known = Arc<[Inbox]>;

pub(super) struct Inboxes {
    db: Db,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    known: HashMap<Aid, Known>,
    /// Counts what was forgotten, so that an answer read before a change is not remembered after it.
    changes: u64,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    device: String,
    joined_at: Option<i64>,
    spk_id: Option<String>,
    spk_pk: Option<String>,
    spk_signature: Option<String>,
    spk_timestamp: Option<i64>,
    changes: i64,
}

impl Inboxes {
    pub fn new(db: Db) -> Inboxes {
        Inboxes { db, memory: Mutex::default() }
    }

    /// All inboxes of an agent, the oldest first. Empty for whoever never connected and never got a message.
    pub async fn of(&self, aid: &Aid) -> sqlx::Result<Known> {
        match self.db.engine() {
            Engine::Sqlite => self.remembered(aid).await,
            Engine::Postgres => self.read(aid).await,
        }
    }

    /// The same as far as this process knows. On PostgreSQL another one may have let a device in since; what is
    /// decided from this has to be compared in its commit.
    pub async fn remembered(&self, aid: &Aid) -> sqlx::Result<Known> {
        let known = self.memory.lock().known.get(aid).cloned();
        match known {
            Some(known) => Ok(known),
            None => self.read(aid).await,
        }
    }

    /// Whether nobody has to be asked for them.
    pub fn knows(&self, aid: &Aid) -> bool {
        self.memory.lock().known.contains_key(aid)
    }

    async fn read(&self, aid: &Aid) -> sqlx::Result<Known> {
        let changes = self.memory.lock().changes;
        let query = match self.db.engine() {
            Engine::Sqlite => sqlx::query_as(
                "SELECT id, device, joined_at, spk_id, spk_pk, spk_signature, spk_timestamp, 0 AS changes
                 FROM inbox WHERE aid = $1 ORDER BY id",
            ),
            Engine::Postgres => sqlx::query_as(
                "SELECT id, device, joined_at, spk_id, spk_pk, spk_signature, spk_timestamp, head.changes
                 FROM inbox JOIN head ON head.inbox = inbox.id WHERE aid = $1 ORDER BY id",
            ),
        };
        let rows: Vec<Row> = query.bind(aid.as_str()).fetch_all(self.db.read()).await?;
        let inboxes: Known = rows.into_iter().filter_map(Inbox::read).collect();
        // Nothing is remembered of an agent without one: the next message may come with its registration.
        let mut memory = self.memory.lock();
        if !inboxes.is_empty() && memory.changes == changes {
            if memory.known.len() >= MOST {
                memory.known.clear();
            }
            memory.known.insert(aid.clone(), inboxes.clone());
        }
        Ok(inboxes)
    }

    pub async fn find(&self, aid: &Aid, device: &DeviceId) -> sqlx::Result<Option<Inbox>> {
        let of = |known: &Known| known.iter().find(|inbox| inbox.device == *device).cloned();
        // Whoever has an inbox keeps it.
        match of(&self.remembered(aid).await?) {
            Some(inbox) => Ok(Some(inbox)),
            None => Ok(of(&self.of(aid).await?)),
        }
    }

    /// Gives a device its inbox. The first device of an agent takes over what came before it had any.
    pub async fn join(&self, aid: &Aid, device: &DeviceId, now: i64) -> sqlx::Result<()> {
        if self.remembered(aid).await?.iter().any(|inbox| inbox.joined && inbox.device == *device) {
            return Ok(());
        }
        let mut tx = self.alone(aid).await?;
        let waiting = sqlx::query(
            "UPDATE inbox SET device = $2, joined_at = $3 WHERE aid = $1 AND device = '' AND joined_at IS NULL",
        )
        .bind(aid.as_str())
        .bind(device.as_str())
        .bind(now)
        .execute(&mut *tx)
        .await?;
        if waiting.rows_affected() == 0 {
            sqlx::query(
                "INSERT INTO inbox (aid, device, joined_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            )
            .bind(aid.as_str())
            .bind(device.as_str())
            .bind(now)
            .execute(&mut *tx)
            .await?;
        }
        self.changed(&mut tx, aid).await?;
        tx.commit().await?;
        self.forget(aid);
        Ok(())
    }

    /// Makes an inbox for an agent that has no device yet, unless it has got one meanwhile.
    pub async fn wait_for_first(&self, aid: &Aid) -> sqlx::Result<Known> {
        let mut tx = self.alone(aid).await?;
        sqlx::query(
            "INSERT INTO inbox (aid, device, joined_at)
             SELECT $1, '', NULL WHERE NOT EXISTS (SELECT 1 FROM inbox WHERE aid = $2)",
        )
        .bind(aid.as_str())
        .bind(aid.as_str())
        .execute(&mut *tx)
        .await?;
        self.changed(&mut tx, aid).await?;
        tx.commit().await?;
        self.forget(aid);
        self.of(aid).await
    }

    /// Keeps the newest signed key of a device; an older one is ignored.
    pub async fn put_spk(&self, aid: &Aid, device: &DeviceId, spk: &Spk) -> sqlx::Result<()> {
        let held = self.find(aid, device).await?.and_then(|inbox| inbox.spk);
        if held.is_some_and(|held| held == *spk || held.timestamp > spk.timestamp) {
            return Ok(());
        }
        let mut tx = self.alone(aid).await?;
        sqlx::query(
            "UPDATE inbox SET spk_id = $3, spk_pk = $4, spk_signature = $5, spk_timestamp = $6
             WHERE aid = $1 AND device = $2 AND (spk_timestamp IS NULL OR spk_timestamp <= $6)",
        )
        .bind(aid.as_str())
        .bind(device.as_str())
        .bind(spk.id.as_str())
        .bind(spk.key.as_str())
        .bind(spk.signature.as_str())
        .bind(spk.timestamp)
        .execute(&mut *tx)
        .await?;
        self.changed(&mut tx, aid).await?;
        tx.commit().await?;
        self.forget(aid);
        Ok(())
    }

    /// On PostgreSQL: messages addressed from an older memory will not be stored.
    async fn changed(&self, tx: &mut Transaction<'static, Any>, aid: &Aid) -> sqlx::Result<()> {
        if self.db.engine() == Engine::Postgres {
            sqlx::query("SELECT CAST(devices_changed($1) AS TEXT)")
                .bind(aid.as_str())
                .execute(&mut **tx)
                .await?;
        }
        Ok(())
    }

    pub fn forget(&self, aid: &Aid) {
        let mut memory = self.memory.lock();
        memory.known.remove(aid);
        memory.changes += 1;
    }

    /// A transaction that nobody else makes inboxes of this agent beside. On SQLite there is one writer anyway.
    async fn alone(&self, aid: &Aid) -> sqlx::Result<Transaction<'static, Any>> {
        let mut tx = self.db.write().await?;
        if self.db.engine() == Engine::Postgres {
            sqlx::query("SELECT CAST(pg_advisory_xact_lock(hashtext($1)) AS TEXT)")
                .bind(aid.as_str())
                .execute(&mut *tx)
                .await?;
        }
        Ok(tx)
    }
}

impl Inbox {
    /// A row whose device cannot be read was not written by us.
    fn read(row: Row) -> Option<Inbox> {
        let spk = match (row.spk_id, row.spk_pk, row.spk_signature, row.spk_timestamp) {
            (Some(id), Some(key), Some(signature), Some(timestamp)) => {
                Some(Spk { id, key, signature, timestamp })
            }
            _ => None,
        };
        let device = DeviceId::parse(&row.device).ok()?;
        Some(Inbox { id: row.id, device, joined: row.joined_at.is_some(), changes: row.changes, spk })
    }
}
