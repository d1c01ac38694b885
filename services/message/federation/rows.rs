//! The rows of the outbox, and statements that change many of them at once and count them.

use crate::store::bind::json;
use crate::store::stored_message::MessageKey;
use kernel::{Aid, Db, DeviceId, Engine, SlotId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::{Any, Transaction};
use std::collections::{BTreeMap, HashSet};

/// Longer than a batch may take.
pub(super) const LEASE_MS: i64 = 30_000;
/// A message that comes while its domain cannot be reached has the domain tried again at least this soon.
const DEMAND_MS: i64 = 5000;

/// A message that is to wait for its domain.
pub(super) struct NewOutboxRow {
    pub key: MessageKey,
    pub issuer: String,
    pub nth: i64,
    pub at: i64,
    pub expires_at: i64,
    pub ttl_until: Option<i64>,
    /// When it may have arrived already.
    pub tried: Option<i64>,
    pub data: String,
}

/// A message that waits for its domain.
#[derive(sqlx::FromRow)]
pub(super) struct OutboxRow {
    pub key: String,
    pub nth: i64,
    pub ttl_until: Option<i64>,
    pub data: String,
}

/// The `data` of a row: who sends the message, and its parameters without their ttl.
#[derive(Serialize, Deserialize)]
pub(super) struct OutboxData {
    pub caller_aid: Aid,
    pub device_id: DeviceId,
    pub slot_id: SlotId,
    pub params: Box<RawValue>,
}

/// The right to deliver to a domain. Each lease of a domain has the next fence, so that a process whose lease ran out cannot
/// change anything.
pub(in super::super) struct Lease {
    pub issuer: String,
    pub fence: i64,
    pub attempts: i64,
}

/// Returns for each whether it is new.
pub(super) async fn insert(db: &Db, mut rows: Vec<NewOutboxRow>) -> sqlx::Result<Vec<bool>> {
    let order: Vec<String> = rows.iter().map(|row| row.key.text()).collect();
    // In the same order in every process, so that two of them never wait for each other.
    rows.sort_by_key(|row| row.key.text());
    let values: Vec<_> = rows
        .iter()
        .map(|row| {
            let bytes = row.data.len() as i64 + 256;
            (
                row.key.text(),
                &row.issuer,
                row.nth,
                row.at,
                row.expires_at,
                row.ttl_until,
                bytes,
                &row.data,
                row.tried,
            )
        })
        .collect();
    let query = match db.engine() {
        Engine::Sqlite => sqlx::query_as(
            "INSERT INTO outbox (key, issuer, nth, at, expires_at, ttl_until, bytes, data, tried)
             SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
                    value ->> 8
             FROM json_each($1) WHERE true
             ON CONFLICT (key) DO NOTHING RETURNING key, issuer, bytes",
        ),
        Engine::Postgres => sqlx::query_as(
            "INSERT INTO outbox (key, issuer, nth, at, expires_at, ttl_until, bytes, data, tried)
             SELECT v ->> 0, v ->> 1, CAST(v ->> 2 AS BIGINT), CAST(v ->> 3 AS BIGINT), CAST(v ->> 4 AS BIGINT),
                    CAST(v ->> 5 AS BIGINT), CAST(v ->> 6 AS BIGINT), v ->> 7, CAST(v ->> 8 AS BIGINT)
             FROM json_array_elements(CAST($1 AS JSON)) AS v
             ON CONFLICT (key) DO NOTHING RETURNING key, issuer, bytes",
        ),
    };
    let mut tx = db.write().await?;
    let new: Vec<(String, String, i64)> = query.bind(json(&values)).fetch_all(&mut *tx).await?;
    let mut sums: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for (_, issuer, bytes) in &new {
        let sum = sums.entry(issuer).or_default();
        *sum = (sum.0 + 1, sum.1 + bytes);
    }
    let soon = rows.iter().map(|row| row.at).max().unwrap_or_default() + DEMAND_MS;
    for (issuer, (count, bytes)) in sums {
        count_in(&mut tx, issuer, (count, bytes), soon).await?;
    }
    tx.commit().await?;
    let mut new: HashSet<String> = new.into_iter().map(|(key, ..)| key).collect();
    Ok(order.iter().map(|key| new.remove(key)).collect())
}

async fn count_in(
    tx: &mut Transaction<'static, Any>,
    issuer: &str,
    (count, bytes): (i64, i64),
    soon: i64,
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO outbox_peer (issuer, waiting, bytes) VALUES ($1, $2, $3)
         ON CONFLICT (issuer) DO UPDATE
         SET waiting = outbox_peer.waiting + excluded.waiting, bytes = outbox_peer.bytes + excluded.bytes,
             next_try = CASE WHEN outbox_peer.next_try > $4 THEN $4 ELSE outbox_peer.next_try END",
    )
    .bind(issuer)
    .bind(count)
    .bind(bytes)
    .bind(soon)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Extends the lease, if it is still ours.
pub(super) async fn renew(tx: &mut Transaction<'static, Any>, lease: &Lease, now: i64) -> sqlx::Result<bool> {
    let held = sqlx::query("UPDATE outbox_peer SET leased_until = $3 WHERE issuer = $1 AND fence = $2")
        .bind(lease.issuer.as_str())
        .bind(lease.fence)
        .bind(now + LEASE_MS)
        .execute(&mut **tx)
        .await?;
    Ok(held.rows_affected() > 0)
}

/// Many keys as one parameter. PostgreSQL looks up the members of an array by the index, also with a plan that it made
/// while the table was small; for those of a list that is selected it may scan the whole table.
pub(super) fn list<S: AsRef<str> + Serialize>(engine: Engine, keys: &[S]) -> String {
    match engine {
        Engine::Sqlite => json(&keys),
        Engine::Postgres => keys.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(","),
    }
}

/// Removes those of these messages that come after `after`, with `untried` only those that were never sent. Returns the
/// keys and sizes of what was removed.
pub(super) async fn remove(
    tx: &mut Transaction<'static, Any>,
    engine: Engine,
    keys: &str,
    after: i64,
    untried: bool,
) -> sqlx::Result<Vec<(String, i64)>> {
    let query = match engine {
        Engine::Sqlite => sqlx::query_as(
            "DELETE FROM outbox WHERE key IN (SELECT value FROM json_each($1)) AND nth > $2
             AND (tried IS NULL OR $3 = 0) RETURNING key, bytes",
        ),
        Engine::Postgres => sqlx::query_as(
            "DELETE FROM outbox WHERE key = ANY(string_to_array($1, ',')) AND nth > $2
             AND (tried IS NULL OR $3 = 0) RETURNING key, bytes",
        ),
    };
    query.bind(keys).bind(after).bind(i64::from(untried)).fetch_all(&mut **tx).await
}

/// Keeps the counts of a domain in step with its rows.
pub(super) async fn count_out(
    tx: &mut Transaction<'static, Any>,
    issuer: &str,
    gone: &[(String, i64)],
    [delivered, refused, expired]: [i64; 3],
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE outbox_peer SET waiting = waiting - $2, bytes = bytes - $3, delivered = delivered + $4,
             refused = refused + $5, expired = expired + $6
         WHERE issuer = $1",
    )
    .bind(issuer)
    .bind(gone.len() as i64)
    .bind(gone.iter().map(|(_, bytes)| bytes).sum::<i64>())
    .bind(delivered)
    .bind(refused)
    .bind(expired)
    .execute(&mut **tx)
    .await?;
    Ok(())
}
