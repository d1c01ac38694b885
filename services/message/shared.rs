//! On PostgreSQL: what is kept for a while and for each, where all processes find it. Rows are read as they are and then
//! treated as those in memory are.

use super::volatile::shelf::{Limits, Shelves};
use crate::kernel::{Db, Engine};
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, Transaction};
use std::hash::Hash;

pub(super) struct Shared {
    db: Db,
    /// What all volatile cursors begin with.
    pub epoch: String,
}

/// One shelf.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub kind: &'static str,
    pub key: &'a str,
}

/// What is put on it.
pub(super) struct Item<'a> {
    pub name: &'a str,
    pub until: i64,
    pub bytes: usize,
    pub data: String,
}

#[derive(sqlx::FromRow)]
pub(super) struct Row {
    pub number: i64,
    pub until: i64,
    pub data: String,
}

impl Shared {
    /// On SQLite nobody else is there, and memory does.
    pub async fn open(db: &Db) -> sqlx::Result<Option<Shared>> {
        if db.engine() == Engine::Sqlite {
            return Ok(None);
        }
        let epoch: String = sqlx::query_scalar("SELECT epoch FROM life").fetch_one(db.read()).await?;
        Ok(Some(Shared { db: db.clone(), epoch: format!("v1:{epoch}:") }))
    }

    /// A transaction that nobody else changes this shelf beside.
    pub async fn lock(&self, place: Place<'_>) -> sqlx::Result<Transaction<'static, Any>> {
        let mut tx = self.db.write().await?;
        sqlx::query("SELECT CAST(pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 0)) AS TEXT)")
            .bind(place.kind)
            .bind(place.key)
            .execute(&mut *tx)
            .await?;
        Ok(tx)
    }

    /// A connection for looking.
    pub async fn look(&self) -> sqlx::Result<PoolConnection<Any>> {
        self.db.read().acquire().await
    }
}

/// All rows of a shelf, or those of one name, the oldest first.
pub(super) async fn rows(
    connection: &mut AnyConnection,
    place: Place<'_>,
    name: Option<&str>,
) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as(
        "SELECT number, until, data FROM shelf WHERE kind = $1 AND key = $2 AND ($3 = '' OR name = $3)
         ORDER BY number",
    )
    .bind(place.kind)
    .bind(place.key)
    .bind(name.unwrap_or_default())
    .fetch_all(connection)
    .await
}

/// A copy of a shelf in memory; what cannot be read is left out.
pub(super) async fn copy<K: Hash + Eq + Clone, V>(
    connection: &mut AnyConnection,
    place: Place<'_>,
    (key, limits): (&K, Limits),
    read: impl Fn(&Row) -> Option<V>,
) -> sqlx::Result<Shelves<K, V>> {
    let mut shelves = Shelves::new(limits);
    for row in rows(&mut *connection, place, None).await? {
        if let Some(value) = read(&row) {
            shelves.restore(key, row.number.unsigned_abs(), row.until, value);
        }
    }
    let dropped: Option<i64> =
        sqlx::query_scalar("SELECT dropped FROM shelf_dropped WHERE kind = $1 AND key = $2")
            .bind(place.kind)
            .bind(place.key)
            .fetch_optional(connection)
            .await?;
    shelves.set_dropped(key, dropped.unwrap_or_default().unsigned_abs());
    Ok(shelves)
}

/// Puts a row on a shelf and gives its number.
pub(super) async fn put(
    tx: &mut Transaction<'static, Any>,
    place: Place<'_>,
    item: Item<'_>,
    limits: &Limits,
    now: i64,
) -> sqlx::Result<u64> {
    let number: i64 = sqlx::query_scalar("SELECT shelve($1, $2, $3, $4, $5, $6, $7, $8, $9)")
        .bind(place.kind)
        .bind(place.key)
        .bind(item.name)
        .bind(item.until)
        .bind(item.bytes as i64)
        .bind(item.data)
        .bind(limits.rows as i64)
        .bind(limits.bytes as i64)
        .bind(now)
        .fetch_one(&mut **tx)
        .await?;
    Ok(number.unsigned_abs())
}

pub(super) async fn remove(
    tx: &mut Transaction<'static, Any>,
    place: Place<'_>,
    numbers: &[u64],
) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM shelf WHERE kind = $1 AND key = $2 AND number = ANY(CAST($3 AS BIGINT[]))")
        .bind(place.kind)
        .bind(place.key)
        .bind(super::sheet::array(numbers))
        .execute(&mut **tx)
        .await?;
    Ok(())
}
