//! Every SQL statement of `agent.*`.
//!
//! A write of a document takes the next position before it reads. On PostgreSQL this locks the counter until the commit, so positions
//! are committed in their order and without gaps, and what a write reads after that no other write can change: condition and write
//! are one step. On SQLite there is one writer.
//!
//! Who locks several things takes the row of a registered agent first, then the account of who pays, then the counter.

pub(super) mod agents;
pub(super) mod attempts;
pub(super) mod keeping;
pub(super) mod relations;

use kernel::{Account, AccountFull, ChargeError, Db, Payer, Tally};
use sqlx::{Any, Transaction};
use std::sync::Arc;

/// What must hold of the stored document for a write to happen.
pub(super) enum Condition {
    Always,
    /// There is none.
    Absent,
    /// There is one.
    Present,
    /// It is one of those with these ETags.
    Is(Vec<String>),
}

/// What became of a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AgentMdWrite {
    Written,
    /// The same document was stored already, at this time.
    Unchanged(i64),
    /// The condition did not hold.
    Refused,
    /// What is stored is signed, and what was to replace it is not.
    Unsigned,
    /// There was nothing to remove.
    Absent,
    /// Its agent keeps too much already.
    Full(AccountFull),
}

/// A document that was checked and is to be stored.
pub(super) struct NewAgentMd<'a> {
    pub aid: &'a str,
    pub content: &'a str,
    pub etag: &'a str,
    pub signed: bool,
    pub now: i64,
    pub payer: Payer,
}

/// What is known of a stored document without reading it.
#[derive(sqlx::FromRow)]
struct StoredVersion {
    etag: String,
    updated_at: i64,
    signed: i64,
}

/// A change as it is read, with the document if there is one, and what the agent's manifest says.
#[derive(Clone, Debug, Default, sqlx::FromRow)]
pub(super) struct ChangeRow {
    pub position: i64,
    pub aid: String,
    pub op: String,
    pub updated_at: i64,
    pub content: Option<String>,
    pub signed: Option<i64>,
    pub manifest_version: Option<i64>,
    pub manifest_hash: Option<String>,
    pub manifest_facts: Option<String>,
}

pub(super) struct Store {
    db: Db,
    tally: Arc<Tally>,
    pub account: Account,
}

impl Condition {
    /// What the headers of a write ask for.
    pub fn of(if_match: Option<&str>, if_none_match: Option<&str>) -> Condition {
        match (if_match.map(str::trim), if_none_match.map(str::trim)) {
            (Some("*"), _) => Condition::Present,
            (Some(etags), _) => Condition::Is(etags.split(',').map(|etag| etag.trim().to_owned()).collect()),
            (None, Some("*")) => Condition::Absent,
            (None, _) => Condition::Always,
        }
    }

    fn holds(&self, stored: Option<&str>) -> bool {
        match (self, stored) {
            (Condition::Always, _) => true,
            (Condition::Absent, stored) => stored.is_none(),
            (Condition::Present, stored) => stored.is_some(),
            (Condition::Is(etags), Some(stored)) => etags.iter().any(|etag| etag == stored),
            (Condition::Is(_), None) => false,
        }
    }
}

impl Store {
    pub fn new(db: Db, tally: Arc<Tally>, account: Account) -> Store {
        Store { db, tally, account }
    }

    pub fn db(&self) -> &Db {
        &self.db
    }

    pub async fn get(&self, aid: &str) -> sqlx::Result<Option<(String, String, i64)>> {
        sqlx::query_as("SELECT content, etag, updated_at FROM agent_md WHERE aid = $1")
            .bind(aid)
            .fetch_optional(self.db.read())
            .await
    }

    /// Compare and swap.
    pub async fn put(&self, new: &NewAgentMd<'_>, condition: &Condition) -> sqlx::Result<AgentMdWrite> {
        let commit = async {
            let mut tx = self.db.write().await?;
            let charge = self.account.before(&mut tx, new.payer.clone()).await?;
            let position = next_position(&mut tx).await?;
            let stored = version(&mut tx, new.aid).await?;
            if !condition.holds(stored.as_ref().map(|stored| stored.etag.as_str())) {
                return Ok(AgentMdWrite::Refused);
            }
            if let Some(stored) = stored {
                if stored.etag == new.etag {
                    return Ok(AgentMdWrite::Unchanged(stored.updated_at));
                }
                // A stolen token must not be enough to take the place of what the key of the agent vouches for.
                if stored.signed != 0 && !new.signed {
                    return Ok(AgentMdWrite::Unsigned);
                }
            }
            sqlx::query(
                "INSERT INTO agent_md (aid, content, etag, updated_at, signed) VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (aid) DO UPDATE SET content = excluded.content, etag = excluded.etag,
                     updated_at = excluded.updated_at, signed = excluded.signed",
            )
            .bind(new.aid)
            .bind(new.content)
            .bind(new.etag)
            .bind(new.now)
            .bind(i64::from(new.signed))
            .execute(&mut *tx)
            .await?;
            record(&mut tx, position, new.aid, "upsert", new.now).await?;
            match self.account.charge(&mut tx, charge).await {
                Ok(()) => {}
                Err(ChargeError::Full(full)) => return Ok(AgentMdWrite::Full(full)),
                Err(ChargeError::Store(error)) => return Err(error),
            }
            tx.commit().await?;
            Ok(AgentMdWrite::Written)
        };
        self.tally.time(commit).await
    }

    pub async fn delete(&self, aid: &str, now: i64, condition: &Condition) -> sqlx::Result<AgentMdWrite> {
        let commit = async {
            let mut tx = self.db.write().await?;
            let position = next_position(&mut tx).await?;
            let Some(stored) = version(&mut tx, aid).await? else { return Ok(AgentMdWrite::Absent) };
            if !condition.holds(Some(&stored.etag)) {
                return Ok(AgentMdWrite::Refused);
            }
            sqlx::query("DELETE FROM agent_md WHERE aid = $1").bind(aid).execute(&mut *tx).await?;
            record(&mut tx, position, aid, "delete", now).await?;
            tx.commit().await?;
            Ok(AgentMdWrite::Written)
        };
        self.tally.time(commit).await
    }

    /// The position of the last change.
    pub async fn head(&self) -> sqlx::Result<i64> {
        sqlx::query_scalar("SELECT value FROM agent_state WHERE name = 'position'")
            .fetch_one(self.db.read())
            .await
    }

    /// The changes after one position and up to another, each with the document and the manifest as they are now: one statement
    /// reads all tables at one moment, so an `upsert` has its document.
    pub async fn changes(&self, after: i64, until: i64, limit: i64) -> sqlx::Result<Vec<ChangeRow>> {
        sqlx::query_as::<Any, ChangeRow>(
            "SELECT c.position, c.aid, c.op, c.updated_at, m.content, m.signed, a.manifest_version, a.manifest_hash,
                 a.manifest_facts
             FROM agent_change c LEFT JOIN agent_md m ON m.aid = c.aid
                 LEFT JOIN agent a ON a.aid = m.aid AND a.manifest_version > 0
             WHERE c.position > $1 AND c.position <= $2 ORDER BY c.position LIMIT $3",
        )
        .bind(after)
        .bind(until)
        .bind(limit)
        .fetch_all(self.db.read())
        .await
    }
}

/// A write that ends without a commit gives it back.
async fn next_position(tx: &mut Transaction<'static, Any>) -> sqlx::Result<i64> {
    sqlx::query_scalar("UPDATE agent_state SET value = value + 1 WHERE name = 'position' RETURNING value")
        .fetch_one(&mut **tx)
        .await
}

async fn version(tx: &mut Transaction<'static, Any>, aid: &str) -> sqlx::Result<Option<StoredVersion>> {
    sqlx::query_as::<Any, StoredVersion>("SELECT etag, updated_at, signed FROM agent_md WHERE aid = $1")
        .bind(aid)
        .fetch_optional(&mut **tx)
        .await
}

/// The manifest of an agent has changed: whoever reads the changes reads its document again, if it has one.
pub(super) async fn touch_document(tx: &mut Transaction<'static, Any>, aid: &str) -> sqlx::Result<bool> {
    let position = next_position(tx).await?;
    let Some(stored) = version(tx, aid).await? else { return Ok(false) };
    record(tx, position, aid, "upsert", stored.updated_at).await?;
    Ok(true)
}

/// The last change of an agent is in the place of the one before it.
async fn record(
    tx: &mut Transaction<'static, Any>,
    position: i64,
    aid: &str,
    op: &str,
    now: i64,
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO agent_change (position, aid, op, updated_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (aid) DO UPDATE
         SET position = excluded.position, op = excluded.op, updated_at = excluded.updated_at",
    )
    .bind(position)
    .bind(aid)
    .bind(op)
    .bind(now)
    .execute(&mut **tx)
    .await?;
    Ok(())
}
