//! The keys of other domains' authorities, as they were seen first.

use super::Store;
use sqlx::{Any, Transaction};

/// Domains below one root whose keys are kept, and domains in all.
pub(crate) const MOST_PINS_OF_A_ROOT: i64 = 500;
pub(crate) const MOST_PINS: i64 = 5_000;

/// The key of the authority of another domain.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct IssuerPin {
    pub domain: String,
    pub spki_fingerprint: String,
    pub root: String,
    pub seen_at: i64,
}

impl Store {
    pub async fn issuer_pins(&self) -> sqlx::Result<Vec<IssuerPin>> {
        sqlx::query_as("SELECT domain, spki_fingerprint, root, seen_at FROM issuer_pins ORDER BY domain")
            .fetch_all(self.db.read())
            .await
    }

    /// The key that counts for the domain: the one that was there, or this one. None if there is no space for it.
    pub async fn pin_issuer(&self, pin: &IssuerPin) -> sqlx::Result<Option<String>> {
        let mut tx = self.db.begin().await?;
        if let Some(kept) = kept(&mut tx, &pin.domain).await? {
            return Ok(Some(kept));
        }
        let (of_root, all): (i64, i64) = sqlx::query_as(
            "SELECT CAST(COALESCE(SUM(CASE WHEN root = $1 THEN 1 ELSE 0 END), 0) AS BIGINT), CAST(COUNT(*) AS BIGINT)
             FROM issuer_pins",
        )
        .bind(pin.root.as_str())
        .fetch_one(&mut *tx)
        .await?;
        if of_root >= MOST_PINS_OF_A_ROOT || all >= MOST_PINS {
            return Ok(None);
        }
        // Another process may keep a key for the domain meanwhile: then that one counts.
        sqlx::query(
            "INSERT INTO issuer_pins (domain, spki_fingerprint, root, seen_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT DO NOTHING",
        )
        .bind(pin.domain.as_str())
        .bind(pin.spki_fingerprint.as_str())
        .bind(pin.root.as_str())
        .bind(pin.seen_at)
        .execute(&mut *tx)
        .await?;
        let counts = kept(&mut tx, &pin.domain).await?;
        self.db.commit(tx).await?;
        Ok(counts)
    }

    /// Forgets the key of a domain, and gives it back if there was one.
    pub async fn unpin_issuer(&self, domain: &str) -> sqlx::Result<Option<String>> {
        let mut tx = self.db.begin().await?;
        let Some(gone) = kept(&mut tx, domain).await? else { return Ok(None) };
        sqlx::query("DELETE FROM issuer_pins WHERE domain = $1").bind(domain).execute(&mut *tx).await?;
        self.db.commit(tx).await?;
        Ok(Some(gone))
    }
}

async fn kept(tx: &mut Transaction<'static, Any>, domain: &str) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar("SELECT spki_fingerprint FROM issuer_pins WHERE domain = $1")
        .bind(domain)
        .fetch_optional(&mut **tx)
        .await
}
