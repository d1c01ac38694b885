//! The prekeys of clients of the first generation, and the replay guard by which they notice a repetition.

use kernel::{Aid, Db, DeviceId};
use proto_schemas::requests::message::e2ee::{AgentPrekey, PutPrekey};
use ring::digest;
use sqlx::{Any, Transaction};
use std::sync::atomic::{AtomicU64, Ordering};

/// How long the replay guard remembers a message…
const GUARD_MS: i64 = 86_400_000;
/// … and how many it remembers for one agent. Of more, the oldest are forgotten.
const MOST_GUARDED: i64 = 10_000;
/// How often an agent's rows are counted: once in so many calls, of whoever makes it. Whoever calls most is counted most.
const TRIM_EVERY: u64 = 64;
/// How many rows are removed at once.
const REMOVE_ROWS: i64 = 500;

pub(crate) struct Prekeys {
    db: Db,
    most_guarded: i64,
    guarded: AtomicU64,
}

/// A row in the order of the members of [`AgentPrekey`]. The device is empty for clients that predate devices.
type PrekeyRow = (String, String, String, Option<i64>, String, Option<String>);

impl Prekeys {
    pub fn new(db: Db) -> Prekeys {
        Prekeys { db, most_guarded: MOST_GUARDED, guarded: AtomicU64::new(0) }
    }

    /// A device has one prekey: the last one it gave.
    pub async fn put(&self, aid: &Aid, device: &DeviceId, prekey: &PutPrekey, now: i64) -> sqlx::Result<()> {
        let mut tx = self.db.begin().await?;
        sqlx::query(
            "INSERT INTO prekey (aid, device, prekey_id, public_key, signature, created_at, cert_fingerprint, stored_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (aid, device) DO UPDATE
             SET prekey_id = excluded.prekey_id, public_key = excluded.public_key, signature = excluded.signature,
                 created_at = excluded.created_at, cert_fingerprint = excluded.cert_fingerprint,
                 stored_at = excluded.stored_at",
        )
        .bind(aid.as_str())
        .bind(device.as_str())
        .bind(prekey.prekey_id.as_str())
        .bind(prekey.public_key.as_str())
        .bind(prekey.signature.as_str())
        .bind(prekey.created_at)
        .bind(prekey.cert_fingerprint.as_deref())
        .bind(now)
        .execute(&mut *tx)
        .await?;
        self.db.commit(tx).await
    }

    /// The prekeys of all devices, the latest first.
    pub async fn of(&self, aid: &Aid) -> sqlx::Result<Vec<AgentPrekey>> {
        let rows: Vec<PrekeyRow> = sqlx::query_as(
            "SELECT prekey_id, public_key, signature, created_at, device, cert_fingerprint
             FROM prekey WHERE aid = $1 ORDER BY stored_at DESC, device",
        )
        .bind(aid.as_str())
        .fetch_all(self.db.read())
        .await?;
        Ok(rows.into_iter().map(agent_prekey).collect())
    }

    /// Remembers a message. Gives true if it is remembered already.
    pub async fn guard(&self, guard: &ReplayKey, now: i64) -> sqlx::Result<bool> {
        let mut tx = self.db.begin().await?;
        // With each new row a few expired ones are removed, so that the table has the rows of one day.
        sqlx::query(
            "DELETE FROM replay_guard
             WHERE key IN (SELECT key FROM replay_guard WHERE at <= $1 ORDER BY at LIMIT 8)",
        )
        .bind(now - GUARD_MS)
        .execute(&mut *tx)
        .await?;
        let inserted = sqlx::query(
            "INSERT INTO replay_guard (key, at, owner) VALUES ($1, $2, $4)
             ON CONFLICT (key) DO UPDATE SET at = excluded.at WHERE replay_guard.at <= $3",
        )
        .bind(guard.key.as_str())
        .bind(now)
        .bind(now - GUARD_MS)
        .bind(guard.owner.as_str())
        .execute(&mut *tx)
        .await?;
        if self.guarded.fetch_add(1, Ordering::Relaxed).is_multiple_of(TRIM_EVERY) {
            self.trim(&mut tx, &guard.owner).await?;
        }
        self.db.commit(tx).await?;
        Ok(inserted.rows_affected() == 0)
    }

    pub async fn is_guarded(&self, guard: &ReplayKey, now: i64) -> sqlx::Result<bool> {
        let found: Option<i64> = sqlx::query_scalar("SELECT at FROM replay_guard WHERE key = $1 AND at > $2")
            .bind(guard.key.as_str())
            .bind(now - GUARD_MS)
            .fetch_optional(self.db.read())
            .await?;
        Ok(found.is_some())
    }

    /// Forgets the oldest rows of an agent that are too many.
    async fn trim(&self, tx: &mut Transaction<'static, Any>, owner: &Aid) -> sqlx::Result<()> {
        sqlx::query(
            "DELETE FROM replay_guard WHERE key IN (
                 SELECT key FROM replay_guard WHERE owner = $1 ORDER BY at DESC LIMIT $2 OFFSET $3)",
        )
        .bind(owner.as_str())
        .bind(REMOVE_ROWS)
        .bind(self.most_guarded)
        .execute(&mut **tx)
        .await?;
        Ok(())
    }

    /// Removes what is older than a day, for when nobody adds to it.
    pub async fn remove_expired(&self, now: i64) -> sqlx::Result<()> {
        loop {
            let query = sqlx::query(
                "DELETE FROM replay_guard
                 WHERE key IN (SELECT key FROM replay_guard WHERE at <= $1 ORDER BY at LIMIT $2)",
            );
            let query = query.bind(now - GUARD_MS).bind(REMOVE_ROWS);
            let gone = query.execute(self.db.write_alone()).await?;
            if gone.rows_affected() < REMOVE_ROWS as u64 {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }
}

fn agent_prekey(row: PrekeyRow) -> AgentPrekey {
    let (prekey_id, public_key, signature, created_at, device, cert_fingerprint) = row;
    let device_id = Some(device).filter(|device| !device.is_empty());
    AgentPrekey { prekey_id, public_key, signature, created_at, device_id, cert_fingerprint }
}

/// One message as one device got it.
pub(crate) struct ReplayKey {
    key: String,
    owner: Aid,
}

impl ReplayKey {
    pub fn new(aid: &Aid, device: &DeviceId, sender: &Aid, message_id: &str) -> ReplayKey {
        let mut hash = digest::Context::new(&digest::SHA256);
        // Names hold no zero byte, and the id is the last.
        for text in [aid.as_str(), device.as_str(), sender.as_str(), message_id] {
            hash.update(text.as_bytes());
            hash.update(&[0]);
        }
        ReplayKey { key: hex::encode(&hash.finish().as_ref()[..16]), owner: aid.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MessageService;
    use testing::TestWorld;

    #[tokio::test]
    async fn the_oldest_rows_of_an_agent_are_forgotten_for_later_ones() {
        let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
        let service = MessageService::open(&test.world, &Default::default()).await.unwrap();
        let db = service.store.db().clone();
        let keys = Prekeys { most_guarded: 10, ..Prekeys::new(db) };
        let (alice, bob) = (Aid::parse("alice.aid.pub").unwrap(), Aid::parse("bobb.aid.pub").unwrap());
        let guard = |of: &Aid, id: i64| ReplayKey::new(of, &DeviceId::default(), &bob, &format!("m-{id}"));
        keys.guard(&guard(&bob, 0), 1).await.unwrap();
        // The first call counted, and so does the one after sixty-three more.
        for id in 0..64 {
            assert!(!keys.guard(&guard(&alice, id), 2 + id).await.unwrap());
        }
        assert!(keys.is_guarded(&guard(&alice, 63), 100).await.unwrap());
        assert!(!keys.is_guarded(&guard(&alice, 3), 100).await.unwrap());
        assert!(keys.is_guarded(&guard(&bob, 0), 100).await.unwrap(), "those of others stay");
        keys.remove_expired(100 + GUARD_MS).await.unwrap();
        assert!(!keys.is_guarded(&guard(&bob, 0), 100).await.unwrap());
    }
}
