//! The roots of other operators, and the signed lists that name them.

use super::super::Error;
use super::Store;
use sqlx::{Any, Transaction};

/// Roots the list may hold besides ours, with those that were removed.
pub(crate) const MOST_ROOTS: usize = 100;

/// How often a change is tried again when another process published a list meanwhile.
const TRIES: usize = 8;

/// The root of another operator.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct TrustRoot {
    pub fingerprint: String,
    pub pem: String,
    /// What it is trusted for, with spaces between; empty if nobody was asked when it was added.
    pub domains: String,
    pub added_at: i64,
    pub removed_at: Option<i64>,
}

/// What the list should say of a root from now on.
pub(crate) enum RootChange<'a> {
    Add(&'a TrustRoot),
    Remove {
        fingerprint: &'a str,
        at: i64,
    },
    /// Nothing; the list is only due to be signed again.
    Renew,
}

pub(crate) enum RootChangeOutcome {
    /// A list with the change was published.
    Published,
    /// The list had it already.
    Unchanged,
    Full,
}

/// A list that is signed and not published yet: when it is due, and its text.
pub(crate) struct SignedTrustList {
    pub next_update: i64,
    pub document: String,
}

impl Store {
    /// The newest list of trusted roots: its version, when it is due, and its text.
    pub async fn trust_list(&self) -> sqlx::Result<Option<(i64, i64, String)>> {
        sqlx::query_as("SELECT version, next_update, document FROM trust_lists ORDER BY version DESC LIMIT 1")
            .fetch_optional(self.db.read())
            .await
    }

    /// All roots of other operators, with those that were removed.
    pub async fn trust_roots(&self) -> sqlx::Result<Vec<TrustRoot>> {
        sqlx::query_as("SELECT fingerprint, pem, domains, added_at, removed_at FROM trust_roots ORDER BY added_at, fingerprint")
            .fetch_all(self.db.read())
            .await
    }

    /// Changes the roots and publishes the list with the change, both or neither.
    pub async fn change_roots(
        &self,
        change: &RootChange<'_>,
        sign: impl Fn(i64, &[TrustRoot]) -> SignedTrustList,
    ) -> Result<RootChangeOutcome, Error> {
        for _ in 0..TRIES {
            let mut tx = self.db.begin().await?;
            match apply(&mut tx, change).await? {
                RootChangeOutcome::Published => {}
                other => return Ok(other),
            }
            // The version is read before the roots: a process that commits between the two gets the version that we want, so
            // our insert fails and we begin again with what it wrote.
            let version = next_version(&mut tx).await?;
            let draft = sign(version, &all(&mut tx).await?);
            if publish(&mut tx, version, &draft).await? {
                self.db.commit(tx).await?;
                return Ok(RootChangeOutcome::Published);
            }
        }
        Err(Error::TrustListContended)
    }
}

async fn apply(
    tx: &mut Transaction<'static, Any>,
    change: &RootChange<'_>,
) -> sqlx::Result<RootChangeOutcome> {
    let changed = match change {
        RootChange::Add(root) => {
            let RootChangeOutcome::Published = make_space(tx, root).await? else {
                return Ok(RootChangeOutcome::Full);
            };
            sqlx::query(
                "INSERT INTO trust_roots (fingerprint, pem, added_at, domains) VALUES ($1, $2, $3, $4)
                 ON CONFLICT (fingerprint) DO UPDATE
                     SET removed_at = NULL, added_at = excluded.added_at, domains = excluded.domains
                 WHERE trust_roots.removed_at IS NOT NULL OR trust_roots.domains <> excluded.domains",
            )
            .bind(root.fingerprint.as_str())
            .bind(root.pem.as_str())
            .bind(root.added_at)
            .bind(root.domains.as_str())
            .execute(&mut **tx)
            .await?
            .rows_affected()
        }
        RootChange::Remove { fingerprint, at } => sqlx::query(
            "UPDATE trust_roots SET removed_at = $2 WHERE fingerprint = $1 AND removed_at IS NULL",
        )
        .bind(*fingerprint)
        .bind(*at)
        .execute(&mut **tx)
        .await?
        .rows_affected(),
        RootChange::Renew => 1,
    };
    Ok(if changed == 0 { RootChangeOutcome::Unchanged } else { RootChangeOutcome::Published })
}

/// A new root replaces the one that was removed first, and never one that is trusted.
async fn make_space(tx: &mut Transaction<'static, Any>, new: &TrustRoot) -> sqlx::Result<RootChangeOutcome> {
    let roots = all(tx).await?;
    if roots.len() < MOST_ROOTS || roots.iter().any(|root| root.fingerprint == new.fingerprint) {
        return Ok(RootChangeOutcome::Published);
    }
    let gone = roots.iter().filter(|root| root.removed_at.is_some()).min_by_key(|root| root.removed_at);
    let Some(gone) = gone else { return Ok(RootChangeOutcome::Full) };
    sqlx::query("DELETE FROM trust_roots WHERE fingerprint = $1")
        .bind(gone.fingerprint.as_str())
        .execute(&mut **tx)
        .await?;
    Ok(RootChangeOutcome::Published)
}

async fn all(tx: &mut Transaction<'static, Any>) -> sqlx::Result<Vec<TrustRoot>> {
    sqlx::query_as(
        "SELECT fingerprint, pem, domains, added_at, removed_at FROM trust_roots ORDER BY added_at, fingerprint",
    )
    .fetch_all(&mut **tx)
    .await
}

async fn next_version(tx: &mut Transaction<'static, Any>) -> sqlx::Result<i64> {
    let last: i64 = sqlx::query_scalar("SELECT COALESCE(MAX(version), CAST(0 AS BIGINT)) FROM trust_lists")
        .fetch_one(&mut **tx)
        .await?;
    Ok(last + 1)
}

/// False if another process published this version first.
async fn publish(
    tx: &mut Transaction<'static, Any>,
    version: i64,
    draft: &SignedTrustList,
) -> sqlx::Result<bool> {
    let published = sqlx::query(
        "INSERT INTO trust_lists (version, next_update, document) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    )
    .bind(version)
    .bind(draft.next_update)
    .bind(draft.document.as_str())
    .execute(&mut **tx)
    .await?;
    Ok(published.rows_affected() == 1)
}
