//! The inboxes of each agent: one for each of its devices, cached once they were read.

use super::Store;
use kernel::{Aid, Bus, Cache, Db, DeviceId, Engine, Presence, World};
use parking_lot::Mutex;
use sqlx::{Any, Transaction};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How many agents' inboxes are cached. A list that was evicted is read again. A change is counted whether its list is cached or
/// not, so what was read before it is not cached after it.
const MAX_AGENTS: usize = 100_000;
/// How long a list is cached on PostgreSQL, where another process may remove a device, or give one that it removed another
/// inbox. It announces that; if nobody hears it, a device may be shown the inbox that it had for so long.
const MAX_AGE: Duration = Duration::from_secs(30);
/// Beyond that a list is still used by whoever asked whether it is cached a moment ago.
const MOMENT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(crate) struct Inbox {
    pub id: i64,
    pub device: DeviceId,
    /// Not yet for an inbox that was made before the agent's first device connected.
    pub joined: bool,
    /// When its device was last seen, give or take an hour.
    pub seen_at: i64,
    /// How often the agent's devices had changed when this was read; 0 on SQLite, where nobody else changes them.
    pub changes: i64,
    /// A webhook reads by it.
    pub webhook: bool,
    pub spk: Option<Spk>,
}

/// The signed prekey that others encrypt to, for one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spk {
    pub id: String,
    pub key: String,
    pub signature: String,
    /// In seconds, as it was signed.
    pub timestamp: i64,
}

pub(crate) type InboxList = Arc<[Inbox]>;

pub(crate) struct Inboxes {
    pub(super) db: Db,
    pub(super) store: Arc<Store>,
    pub(super) presence: Presence,
    pub(super) bus: Bus,
    /// How many devices an agent has.
    pub(super) most_devices: usize,
    cache: Mutex<InboxCache>,
}

struct InboxCache {
    /// Each with the time it was read.
    agents: Cache<Aid, (InboxList, Instant)>,
    /// Counts the removals, so that what was read before a change is not cached after it.
    changes: u64,
}

#[derive(sqlx::FromRow)]
struct InboxRow {
    id: i64,
    device: String,
    joined_at: Option<i64>,
    seen_at: i64,
    spk_id: Option<String>,
    spk_pk: Option<String>,
    spk_signature: Option<String>,
    spk_timestamp: Option<i64>,
    changes: i64,
    webhook: i64,
}

impl Inboxes {
    pub fn open(world: &World, store: Arc<Store>, most_devices: usize) -> Arc<Inboxes> {
        let inboxes = Arc::new(Inboxes {
            db: store.db().clone(),
            store,
            presence: world.presence.clone(),
            bus: world.bus.clone(),
            most_devices,
            cache: Mutex::new(InboxCache { agents: Cache::new(MAX_AGENTS), changes: 0 }),
        });
        let listening = Arc::downgrade(&inboxes);
        world.bus.listen(move |event| {
            if let Some(inboxes) = listening.upgrade() {
                inboxes.on_event(event);
            }
        });
        inboxes
    }

    /// All inboxes of an agent, the oldest first. Empty for whoever never connected and never got a message.
    pub async fn of(&self, aid: &Aid) -> sqlx::Result<InboxList> {
        match self.db.engine() {
            Engine::Sqlite => self.cached(aid).await,
            Engine::Postgres => self.read(aid).await,
        }
    }

    /// The same as far as this process knows. On PostgreSQL another process may have added a device since: whatever is decided
    /// from this has to be checked in its commit (`DeviceChanges`).
    pub async fn cached(&self, aid: &Aid) -> sqlx::Result<InboxList> {
        match self.cached_within(aid, MAX_AGE + MOMENT) {
            Some(inboxes) => Ok(inboxes),
            None => self.read(aid).await,
        }
    }

    /// Whether a message to this agent can be addressed without asking anybody: it has devices, and they are cached.
    pub fn is_cached(&self, aid: &Aid) -> bool {
        self.cached_within(aid, MAX_AGE).is_some_and(|inboxes| inboxes.iter().any(|inbox| inbox.joined))
    }

    /// On SQLite whatever is cached is true.
    fn cached_within(&self, aid: &Aid, age: Duration) -> Option<InboxList> {
        let mut cache = self.cache.lock();
        let (inboxes, read_at) = cache.agents.get(aid)?;
        let fresh = self.db.engine() == Engine::Sqlite || read_at.elapsed() < age;
        fresh.then(|| inboxes.clone())
    }

    async fn read(&self, aid: &Aid) -> sqlx::Result<InboxList> {
        let (changes, read_at) = (self.cache.lock().changes, Instant::now());
        let query = match self.db.engine() {
            Engine::Sqlite => sqlx::query_as(
                "SELECT id, device, joined_at, seen_at, spk_id, spk_pk, spk_signature, spk_timestamp, 0 AS changes, webhook
                 FROM inbox WHERE aid = $1 ORDER BY id",
            ),
            Engine::Postgres => sqlx::query_as(
                "SELECT id, device, joined_at, seen_at, spk_id, spk_pk, spk_signature, spk_timestamp, head.changes, webhook
                 FROM inbox JOIN head ON head.inbox = inbox.id WHERE aid = $1 ORDER BY id",
            ),
        };
        let rows: Vec<InboxRow> = query.bind(aid.as_str()).fetch_all(self.db.read()).await?;
        let inboxes: InboxList = rows.into_iter().filter_map(Inbox::read).collect();
        // An agent without any is not cached: it may be registered before its next message.
        let mut cache = self.cache.lock();
        if !inboxes.is_empty() && cache.changes == changes {
            cache.agents.insert(aid.clone(), (inboxes.clone(), read_at));
        }
        Ok(inboxes)
    }

    pub async fn find(&self, aid: &Aid, device: &DeviceId) -> sqlx::Result<Option<Inbox>> {
        let of = |known: &InboxList| known.iter().find(|inbox| inbox.device == *device).cloned();
        // One that was removed is not that of a device in use, or not for longer than a list is cached.
        match of(&self.cached(aid).await?) {
            Some(inbox) => Ok(Some(inbox)),
            None => Ok(of(&self.of(aid).await?)),
        }
    }

    /// Stores the newest signed prekey of a device; an older one is ignored.
    pub async fn put_spk(&self, aid: &Aid, device: &DeviceId, spk: &Spk) -> sqlx::Result<()> {
        let held = self.find(aid, device).await?.and_then(|inbox| inbox.spk);
        if held.is_some_and(|held| held == *spk || held.timestamp > spk.timestamp) {
            return Ok(());
        }
        let mut tx = self.lock_agent(aid).await?;
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
        self.count_change(&mut tx, aid).await?;
        self.db.commit(tx).await?;
        self.forget(aid);
        Ok(())
    }

    /// On PostgreSQL: messages that were addressed from an older list will not be stored.
    pub(super) async fn count_change(
        &self,
        tx: &mut Transaction<'static, Any>,
        aid: &Aid,
    ) -> sqlx::Result<()> {
        if self.db.engine() == Engine::Postgres {
            sqlx::query("SELECT CAST(devices_changed($1) AS TEXT)")
                .bind(aid.as_str())
                .execute(&mut **tx)
                .await?;
        }
        Ok(())
    }

    pub fn forget(&self, aid: &Aid) {
        let mut cache = self.cache.lock();
        cache.agents.remove(aid);
        cache.changes += 1;
    }

    /// A transaction in which nobody else adds or changes inboxes of this agent. On SQLite there is one writer anyway.
    pub(super) async fn lock_agent(&self, aid: &Aid) -> sqlx::Result<Transaction<'static, Any>> {
        let mut tx = self.db.begin().await?;
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
    fn read(row: InboxRow) -> Option<Inbox> {
        let spk = match (row.spk_id, row.spk_pk, row.spk_signature, row.spk_timestamp) {
            (Some(id), Some(key), Some(signature), Some(timestamp)) => {
                Some(Spk { id, key, signature, timestamp })
            }
            _ => None,
        };
        let device = DeviceId::parse(&row.device).ok()?;
        Some(Inbox {
            id: row.id,
            device,
            joined: row.joined_at.is_some(),
            seen_at: row.seen_at,
            changes: row.changes,
            webhook: row.webhook != 0,
            spk,
        })
    }
}
