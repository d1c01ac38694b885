//! The two functions in the database that store messages, `post` and `post_numbered`: their parameters, what they return, and
//! how they fail.

use super::with_seqs::BatchWithSeqs;
use super::without_seqs::BatchWithoutSeqs;
use sqlx::AnyConnection;

/// The SQLSTATE of `post` when an agent's devices are not those a message was addressed to.
const DEVICES_CHANGED: &str = "AU001";
/// Those of PostgreSQL when a seq or a key already exists, and when there is no head that fits.
const UNIQUE_VIOLATION: &str = "23505";
const NOT_NULL_VIOLATION: &str = "23502";
/// The constraint that keeps a seq from being given twice.
const SEQ_CONSTRAINT: &str = "letter_place";

/// What `post` returns.
pub(super) enum Inserted {
    /// The seq of each inbox entry.
    Seqs(Vec<i64>),
    /// The ids of the messages that were stored before; the others were not stored.
    Duplicates(Vec<i64>),
}

pub(super) async fn insert(
    connection: &mut AnyConnection,
    batch: BatchWithoutSeqs,
) -> sqlx::Result<Inserted> {
    let (what, numbers): (i64, Option<String>) =
        sqlx::query_as("SELECT what, numbers FROM post($1, $2, $3, $4, $5, $6, $7, $8)")
            .bind(batch.at)
            .bind(batch.keys)
            .bind(batch.senders)
            .bind(batch.texts)
            .bind(batch.firsts)
            .bind(batch.rests)
            .bind(batch.entries)
            .bind(batch.heads)
            .fetch_one(connection)
            .await?;
    let numbers = numbers.unwrap_or_default();
    let numbers = numbers.split_terminator(',').map(str::parse).collect::<Result<_, _>>();
    let numbers = numbers.map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
    Ok(if what == 0 { Inserted::Seqs(numbers) } else { Inserted::Duplicates(numbers) })
}

pub(super) async fn insert_with_seqs(
    connection: &mut AnyConnection,
    batch: &BatchWithSeqs,
) -> sqlx::Result<()> {
    let [inboxes, seqs, changes, messages] = batch.columns();
    sqlx::query("SELECT post_numbered($1, $2, $3, $4, $5, $6, $7, $8)")
        .bind(batch.at)
        .bind(batch.keys.as_str())
        .bind(batch.senders.as_str())
        .bind(batch.texts.as_str())
        .bind(inboxes)
        .bind(seqs)
        .bind(changes)
        .bind(messages)
        .execute(connection)
        .await?;
    Ok(())
}

/// The devices of a recipient are not those a message was addressed to.
pub(super) fn is_devices_changed(error: &sqlx::Error) -> bool {
    has_code(error, DEVICES_CHANGED)
}

/// Why messages cannot be stored with the seqs they were given.
pub(super) enum InsertRefused {
    /// The seqs are not the next ones, or a recipient has other devices by now.
    Seqs,
    /// One of the messages was stored before.
    Duplicate,
}

pub(super) fn refused(error: &sqlx::Error) -> Option<InsertRefused> {
    match error.as_database_error()?.constraint() {
        _ if has_code(error, NOT_NULL_VIOLATION) => Some(InsertRefused::Seqs),
        Some(SEQ_CONSTRAINT) => Some(InsertRefused::Seqs),
        _ if has_code(error, UNIQUE_VIOLATION) => Some(InsertRefused::Duplicate),
        _ => None,
    }
}

/// Whether the next try may succeed: another commit was in the way (a deadlock, the same message at the same moment), or the
/// connection broke.
pub(super) fn may_succeed_later(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => true,
        _ => ["40001", "40P01", UNIQUE_VIOLATION, "57P01", "57P02", "57P03"]
            .iter()
            .any(|code| has_code(error, code)),
    }
}

fn has_code(error: &sqlx::Error, code: &str) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|found| found == code)
}
