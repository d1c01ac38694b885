//! The prekeys of clients of the first generation, and the replay guard by which they notice a repetition.

use crate::kernel::{Aid, Db, DeviceId};
use ring::digest;
use serde::{Deserialize, Serialize};

/// How long the replay guard remembers a message.
const GUARD_MS: i64 = 86_400_000;

pub(crate) struct Prekeys {
    db: Db,
}

/// A key that others encrypt to, and its signature. Returned exactly as it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, sqlx::FromRow)]
pub(crate) struct Prekey {
    pub prekey_id: String,
    pub public_key: String,
    pub signature: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<i64>,
    /// Empty for clients that predate devices.
    #[serde(rename = "device_id", default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_fingerprint: Option<String>,
}

impl Prekeys {
    pub fn new(db: Db) -> Prekeys {
        Prekeys { db }
    }

    /// A device has one prekey: the last one it gave.
    pub async fn put(&self, aid: &Aid, prekey: &Prekey, now: i64) -> sqlx::Result<()> {
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
        .bind(prekey.device.as_str())
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
    pub async fn of(&self, aid: &Aid) -> sqlx::Result<Vec<Prekey>> {
        sqlx::query_as(
            "SELECT prekey_id, public_key, signature, created_at, device, cert_fingerprint
             FROM prekey WHERE aid = $1 ORDER BY stored_at DESC, device",
        )
        .bind(aid.as_str())
        .fetch_all(self.db.read())
        .await
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
            "INSERT INTO replay_guard (key, at) VALUES ($1, $2)
             ON CONFLICT (key) DO UPDATE SET at = excluded.at WHERE replay_guard.at <= $3",
        )
        .bind(guard.0.as_str())
        .bind(now)
        .bind(now - GUARD_MS)
        .execute(&mut *tx)
        .await?;
        self.db.commit(tx).await?;
        Ok(inserted.rows_affected() == 0)
    }

    pub async fn is_guarded(&self, guard: &ReplayKey, now: i64) -> sqlx::Result<bool> {
        let found: Option<i64> = sqlx::query_scalar("SELECT at FROM replay_guard WHERE key = $1 AND at > $2")
            .bind(guard.0.as_str())
            .bind(now - GUARD_MS)
            .fetch_optional(self.db.read())
            .await?;
        Ok(found.is_some())
    }
}

/// One message as one device got it.
pub(crate) struct ReplayKey(String);

impl ReplayKey {
    pub fn new(aid: &Aid, device: &DeviceId, sender: &Aid, message_id: &str) -> ReplayKey {
        let mut hash = digest::Context::new(&digest::SHA256);
        // Names hold no zero byte, and the id is the last.
        for text in [aid.as_str(), device.as_str(), sender.as_str(), message_id] {
            hash.update(text.as_bytes());
            hash.update(&[0]);
        }
        ReplayKey(hex::encode(&hash.finish().as_ref()[..16]))
    }
}
