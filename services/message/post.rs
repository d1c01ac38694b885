//! The two functions that store messages on PostgreSQL: what they are told, what they say, and how they fail.

use super::numbered::Numbered;
use super::sheet::Sheet;
use sqlx::AnyConnection;

/// What `post` says when an agent's devices are not those a message was addressed to.
const CHANGED: &str = "AU001";
/// What PostgreSQL says when a number or a name is taken, and when there is no head that fits.
const UNIQUE: &str = "23505";
const NOT_NULL: &str = "23502";
/// What keeps a number from being given twice.
const PLACE: &str = "message_place";

/// What `post` says.
pub(super) enum Posted {
    /// The number of each place.
    Numbered(Vec<i64>),
    /// The messages that were stored before; the others were not stored.
    Known(Vec<i64>),
}

pub(super) async fn call(connection: &mut AnyConnection, sheet: Sheet) -> sqlx::Result<Posted> {
    let (what, numbers): (i64, Option<String>) =
        sqlx::query_as("SELECT what, numbers FROM post($1, $2, $3, $4, $5, $6, $7, $8)")
            .bind(sheet.at)
            .bind(sheet.keys)
            .bind(sheet.senders)
            .bind(sheet.texts)
            .bind(sheet.firsts)
            .bind(sheet.rests)
            .bind(sheet.places)
            .bind(sheet.heads)
            .fetch_one(connection)
            .await?;
    let numbers = numbers.unwrap_or_default();
    let numbers = numbers.split_terminator(',').map(str::parse).collect::<Result<_, _>>();
    let numbers = numbers.map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
    Ok(if what == 0 { Posted::Numbered(numbers) } else { Posted::Known(numbers) })
}

pub(super) async fn call_numbered(connection: &mut AnyConnection, sheet: &Numbered) -> sqlx::Result<()> {
    let [inboxes, seqs, changes, messages] = sheet.columns();
    sqlx::query("SELECT post_numbered($1, $2, $3, $4, $5, $6, $7, $8)")
        .bind(sheet.at)
        .bind(sheet.keys.as_str())
        .bind(sheet.senders.as_str())
        .bind(sheet.texts.as_str())
        .bind(inboxes)
        .bind(seqs)
        .bind(changes)
        .bind(messages)
        .execute(connection)
        .await?;
    Ok(())
}

impl Posted {
    /// For messages whose names nobody can have used before.
    pub fn numbers(self) -> sqlx::Result<Vec<i64>> {
        match self {
            Posted::Numbered(numbers) => Ok(numbers),
            Posted::Known(_) => Err(sqlx::Error::RowNotFound),
        }
    }
}

/// The devices of a recipient are not those a message was addressed to.
pub(super) fn devices_changed(error: &sqlx::Error) -> bool {
    has_code(error, CHANGED)
}

/// The messages cannot be stored as they are numbered.
pub(super) enum Refused {
    /// The numbers are not the next ones, or a recipient has other devices by now.
    Numbers,
    /// One of them was stored before.
    Name,
}

pub(super) fn refused(error: &sqlx::Error) -> Option<Refused> {
    match error.as_database_error()?.constraint() {
        _ if has_code(error, NOT_NULL) => Some(Refused::Numbers),
        Some(PLACE) => Some(Refused::Numbers),
        _ if has_code(error, UNIQUE) => Some(Refused::Name),
        _ => None,
    }
}

/// Whether the next try may go better: others were in the way (a deadlock, the same message at the same moment), or the
/// connection broke.
pub(super) fn passes(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => true,
        _ => ["40001", "40P01", UNIQUE, "57P01", "57P02", "57P03"].iter().any(|code| has_code(error, code)),
    }
}

fn has_code(error: &sqlx::Error, code: &str) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|found| found == code)
}
