//! On PostgreSQL: lists of rows that all processes share, in the table `shelf`. A list is copied into memory and then treated
//! like one that is only in memory.

use super::bounded::{BoundedRows, RowCost, RowLimits};
use crate::store::bind::array;
use kernel::{BytesOwner, Db, Engine};
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, Transaction};
use std::hash::Hash;

pub(crate) struct SharedRows {
    db: Db,
    /// What all volatile cursors begin with.
    pub epoch: String,
}

/// One list of rows. Its kind is stored: the words never change.
#[derive(Clone, Copy)]
pub(crate) struct RowList<'a> {
    pub kind: &'static str,
    pub key: &'a str,
}

/// A row to be added to a list.
pub(crate) struct NewSharedRow<'a> {
    pub name: &'a str,
    pub until: i64,
    pub cost: RowCost,
    pub data: String,
}

#[derive(sqlx::FromRow)]
pub(crate) struct SharedRow {
    #[sqlx(rename = "number")]
    pub id: i64,
    pub until: i64,
    pub data: String,
}

impl SharedRows {
    /// None on SQLite, where there is one process and memory is enough.
    pub async fn open(db: &Db) -> sqlx::Result<Option<SharedRows>> {
        if db.engine() == Engine::Sqlite {
            return Ok(None);
        }
        let epoch: String = sqlx::query_scalar("SELECT epoch FROM life").fetch_one(db.read()).await?;
        Ok(Some(SharedRows { db: db.clone(), epoch: format!("v1:{epoch}:") }))
    }

    /// A transaction in which nobody else changes this list.
    pub async fn lock(&self, list: RowList<'_>) -> sqlx::Result<Transaction<'static, Any>> {
        let mut tx = self.db.write().await?;
        sqlx::query("SELECT CAST(pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 0)) AS TEXT)")
            .bind(list.kind)
            .bind(list.key)
            .execute(&mut *tx)
            .await?;
        Ok(tx)
    }

    /// Removes a list with all of its rows.
    pub async fn remove_list(&self, list: RowList<'_>) -> sqlx::Result<()> {
        let mut tx = self.lock(list).await?;
        for statement in [
            "DELETE FROM shelf WHERE kind = $1 AND key = $2",
            "DELETE FROM shelf_dropped WHERE kind = $1 AND key = $2",
        ] {
            sqlx::query(statement).bind(list.kind).bind(list.key).execute(&mut *tx).await?;
        }
        tx.commit().await
    }

    /// A connection to read with.
    pub async fn reader(&self) -> sqlx::Result<PoolConnection<Any>> {
        self.db.read().acquire().await
    }
}

/// All rows of a list, or those of one name, the oldest first.
pub(crate) async fn rows(
    connection: &mut AnyConnection,
    list: RowList<'_>,
    name: Option<&str>,
) -> sqlx::Result<Vec<SharedRow>> {
    sqlx::query_as(
        "SELECT number, until, data FROM shelf WHERE kind = $1 AND key = $2 AND ($3 = '' OR name = $3)
         ORDER BY number",
    )
    .bind(list.kind)
    .bind(list.key)
    .bind(name.unwrap_or_default())
    .fetch_all(connection)
    .await
}

/// A copy of a list in memory; rows that cannot be read are left out.
pub(crate) async fn copy<K: Hash + Eq + Clone, V>(
    connection: &mut AnyConnection,
    list: RowList<'_>,
    key: &K,
    read: impl Fn(&SharedRow) -> Option<V>,
) -> sqlx::Result<BoundedRows<K, V>> {
    let mut copy = BoundedRows::new(RowLimits::OF_A_COPY);
    for row in rows(&mut *connection, list, None).await? {
        if let Some(value) = read(&row) {
            copy.restore(key, row.id.unsigned_abs(), row.until, value);
        }
    }
    let dropped: i64 = sqlx::query_scalar(
        "SELECT COALESCE((SELECT dropped FROM shelf_dropped WHERE kind = $1 AND key = $2), 0)
             + COALESCE((SELECT evicted FROM shelf_evicted WHERE kind = $1 AND key = $2), 0)",
    )
    .bind(list.kind)
    .bind(list.key)
    .fetch_one(connection)
    .await?;
    copy.set_dropped(key, dropped.unsigned_abs());
    Ok(copy)
}

/// Adds a row to a list and gives its id. When the transaction is committed, the database counts the row for its owner, and evicts what
/// is too much for all lists of this kind.
pub(crate) async fn insert(
    tx: &mut Transaction<'static, Any>,
    list: RowList<'_>,
    row: NewSharedRow<'_>,
    limits: &RowLimits,
    now: i64,
) -> sqlx::Result<u64> {
    let id: i64 = sqlx::query_scalar("SELECT shelve($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)")
        .bind(list.kind)
        .bind(list.key)
        .bind(row.name)
        .bind(payer(&row.cost.owner))
        .bind(row.until)
        .bind(row.cost.bytes as i64)
        .bind(row.data)
        .bind(limits.rows as i64)
        .bind(limits.bytes as i64)
        .bind(limits.total_bytes as i64)
        .bind(now)
        .fetch_one(&mut **tx)
        .await?;
    Ok(id.unsigned_abs())
}

pub(crate) async fn remove(
    tx: &mut Transaction<'static, Any>,
    list: RowList<'_>,
    ids: &[u64],
) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM shelf WHERE kind = $1 AND key = $2 AND number = ANY(CAST($3 AS BIGINT[]))")
        .bind(list.kind)
        .bind(list.key)
        .bind(array(ids))
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// An owner as it is stored: the words never change. A domain may have the name of an agent.
fn payer(owner: &BytesOwner) -> String {
    match owner {
        BytesOwner::Network(network) => format!("network {network}"),
        BytesOwner::Agent(aid) => format!("agent {aid}"),
        BytesOwner::Domain(issuer) => format!("domain {issuer}"),
    }
}
