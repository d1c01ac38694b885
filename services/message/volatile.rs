//! Messages with a time to live: in memory only, without a number in the inbox, gone when their time is up, when they are
//! acknowledged, or when the server is restarted.

pub(super) mod shelf;

use super::Error;
use super::shared::{self, Place, Shared};
use super::store::read;
use super::stored_message::StoredMessage;
use crate::kernel::Ids;
use parking_lot::Mutex;
use shelf::{Limits, Shelves};
use sqlx::AnyConnection;
use std::sync::Arc;

pub(super) const LIMITS: Limits = Limits { rows: 200, bytes: 4 << 20, total_bytes: 64 << 20 };

pub(super) struct Volatile<T> {
    /// What all cursors of this life of the server begin with.
    epoch: String,
    shelves: Mutex<Shelves<i64, VolatileRow<T>>>,
}

#[derive(Clone, Debug)]
pub(super) struct VolatileRow<T> {
    pub message_id: String,
    pub sender: String,
    pub created_at: i64,
    pub expires_at: i64,
    pub message: T,
}

#[derive(Debug)]
pub(super) struct VolatilePage<T> {
    /// Each with its cursor, the oldest first.
    pub rows: Vec<(String, VolatileRow<T>)>,
    /// Where the next page begins; none if nothing was ever read.
    pub latest_cursor: Option<String>,
    pub has_more: bool,
    pub earliest_cursor: Option<String>,
    pub dropped_count: u64,
}

/// The cursor is of an earlier life of the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OldEpoch;

impl From<OldEpoch> for Error {
    fn from(OldEpoch: OldEpoch) -> Error {
        Error::OldEpoch
    }
}

impl<T: Clone> Volatile<T> {
    pub fn new(ids: &Ids) -> Volatile<T> {
        let (instance, epoch) = (hex::encode(ids.bytes::<4>()), hex::encode(ids.bytes::<4>()));
        Volatile { epoch: format!("v1:{instance}:{epoch}:"), shelves: Mutex::new(Shelves::new(LIMITS)) }
    }

    /// Gives the row its cursor. `bytes` is what it weighs.
    pub fn put(&self, inbox: i64, row: VolatileRow<T>, bytes: usize) -> String {
        let number = self.shelves.lock().put(&inbox, row.expires_at, bytes, row);
        self.cursor(number)
    }

    /// What is still alive after a cursor, of one sender or of all.
    pub fn after(
        &self,
        inbox: i64,
        cursor: Option<&str>,
        sender: Option<&str>,
        now_ms: i64,
        limit: usize,
    ) -> Result<VolatilePage<T>, OldEpoch> {
        let cursor = cursor.filter(|cursor| !cursor.is_empty());
        let from = cursor.map_or(Ok(0), |cursor| self.number(cursor).ok_or(OldEpoch))?;
        let wanted = |row: &VolatileRow<T>| sender.is_none_or(|sender| row.sender == sender);

        let shelves = self.shelves.lock();
        let earliest = shelves.after(&inbox, 0, now_ms).find(|(_, row)| wanted(row));
        let mut later = shelves.after(&inbox, from, now_ms).filter(|(_, row)| wanted(row));
        let mut rows = Vec::new();
        for (number, row) in later.by_ref().take(limit) {
            rows.push((self.cursor(number), row.clone()));
        }
        Ok(VolatilePage {
            latest_cursor: rows.last().map(|(last, _)| last.clone()).or(cursor.map(str::to_owned)),
            has_more: later.next().is_some(),
            earliest_cursor: earliest.map(|(number, _)| self.cursor(number)),
            dropped_count: shelves.dropped(&inbox),
            rows,
        })
    }

    /// Whose rows are waiting, in the order of their oldest.
    pub fn senders(&self, inbox: i64, now_ms: i64) -> Vec<String> {
        let mut senders: Vec<String> = Vec::new();
        for (_, row) in self.shelves.lock().after(&inbox, 0, now_ms) {
            if !senders.contains(&row.sender) {
                senders.push(row.sender.clone());
            }
        }
        senders
    }

    /// Takes away exactly the rows named, by cursor or by message id. Gives how many there were, and how many names
    /// meant nothing any more.
    pub fn ack(&self, inbox: i64, cursors: &[String], ids: &[String]) -> (usize, usize) {
        let mut shelves = self.shelves.lock();
        let (mut accepted, mut expired) = (0, 0);
        for cursor in cursors {
            match self.number(cursor).and_then(|number| shelves.remove(&inbox, number)) {
                Some(_) => accepted += 1,
                None => expired += 1,
            }
        }
        for id in ids {
            let named = |row: &VolatileRow<T>| row.message_id == *id;
            let rows = shelves.after(&inbox, 0, i64::MIN).filter(|(_, row)| named(row));
            let numbers: Vec<u64> = rows.map(|(number, _)| number).collect();
            match numbers.is_empty() {
                true => expired += 1,
                false => accepted += 1,
            }
            for number in numbers {
                shelves.remove(&inbox, number);
            }
        }
        (accepted, expired)
    }

    pub fn purge(&self, now_ms: i64) {
        self.shelves.lock().purge(now_ms);
    }

    /// The numbers of an inbox, dead or alive.
    pub fn numbers(&self, inbox: i64) -> Vec<u64> {
        self.shelves.lock().after(&inbox, 0, i64::MIN).map(|(number, _)| number).collect()
    }

    /// All digits are written, so that cursors sort as text, too.
    pub fn cursor(&self, number: u64) -> String {
        format!("{}{number:020}", self.epoch)
    }

    fn number(&self, cursor: &str) -> Option<u64> {
        cursor.strip_prefix(&self.epoch)?.parse().ok()
    }
}

impl Volatile<Arc<StoredMessage>> {
    /// On PostgreSQL: an inbox as all processes together have it.
    pub async fn copy(shared: &Shared, connection: &mut AnyConnection, inbox: i64) -> sqlx::Result<Self> {
        let key = inbox.to_string();
        let row = |row: &shared::Row| {
            let message = read(0, &row.data).ok()?;
            let (message_id, sender) = (message.message_id.clone(), message.from.to_string());
            Some(VolatileRow { message_id, sender, created_at: message.at, expires_at: row.until, message })
        };
        let place = Place { kind: "volatile", key: &key };
        let shelves = shared::copy(connection, place, (&inbox, LIMITS), row).await?;
        Ok(Volatile { epoch: shared.epoch.clone(), shelves: Mutex::new(shelves) })
    }

    /// On PostgreSQL: only for its cursors.
    pub fn empty(shared: &Shared) -> Self {
        Volatile { epoch: shared.epoch.clone(), shelves: Mutex::new(Shelves::new(LIMITS)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(volatile: &Volatile<&'static str>, sender: &str, id: &str, expires_at: i64) -> String {
        let (message_id, sender) = (id.to_owned(), sender.to_owned());
        volatile.put(1, VolatileRow { message_id, sender, created_at: 0, expires_at, message: "hi" }, 10)
    }

    fn ids(page: &VolatilePage<&'static str>) -> Vec<String> {
        page.rows.iter().map(|(_, row)| row.message_id.clone()).collect()
    }

    #[test]
    fn pages_follow_the_cursor_until_nothing_is_left() {
        let volatile = Volatile::new(&Ids::default());
        for id in ["m-1", "m-2", "m-3"] {
            put(&volatile, "alice", id, 100);
        }
        let first = volatile.after(1, None, None, 0, 2).unwrap();
        assert_eq!((ids(&first), first.has_more), (vec!["m-1".to_owned(), "m-2".to_owned()], true));
        let second = volatile.after(1, first.latest_cursor.as_deref(), None, 0, 2).unwrap();
        assert_eq!((ids(&second), second.has_more), (vec!["m-3".to_owned()], false));
        assert!(second.latest_cursor > first.latest_cursor);
        assert_eq!(second.earliest_cursor, Some(first.rows[0].0.clone()));
        let end = volatile.after(1, second.latest_cursor.as_deref(), None, 0, 2).unwrap();
        assert_eq!((end.rows.len(), end.latest_cursor), (0, second.latest_cursor));
        assert!(volatile.after(2, Some(""), None, 0, 2).unwrap().rows.is_empty(), "another inbox");
    }

    #[test]
    fn a_cursor_of_an_earlier_life_is_told_apart() {
        let (before, now) = (Volatile::new(&Ids::default()), Volatile::new(&Ids::default()));
        let old = put(&before, "alice", "m-1", 100);
        put(&now, "alice", "m-2", 100);
        assert_eq!(now.after(1, Some(&old), None, 0, 9).err(), Some(OldEpoch));
        assert_eq!(now.after(1, Some("nonsense"), None, 0, 9).err(), Some(OldEpoch));
        assert_eq!(now.ack(1, &[old], &[]), (0, 1));
        assert_eq!(now.senders(1, 0), ["alice"]);
    }

    #[test]
    fn time_ends_a_row_and_so_does_an_ack() {
        let volatile = Volatile::new(&Ids::default());
        put(&volatile, "alice", "m-1", 10);
        let second = put(&volatile, "alice", "m-2", 100);
        put(&volatile, "carol", "m-3", 100);
        assert_eq!(volatile.senders(1, 10), ["alice", "carol"]);
        assert_eq!(ids(&volatile.after(1, None, Some("alice"), 10, 9).unwrap()), ["m-2"]);
        let names = [second.clone(), second];
        assert_eq!(volatile.ack(1, &names, &["m-3".to_owned(), "m-4".to_owned()]), (2, 2));
        assert_eq!((volatile.senders(1, 10).len(), volatile.senders(1, 9)), (0, vec!["alice".to_owned()]));
        volatile.purge(10);
        assert!(volatile.senders(1, 0).is_empty());
    }

    #[test]
    fn the_two_hundred_and_first_row_costs_the_first() {
        let volatile = Volatile::new(&Ids::default());
        for n in 0..201 {
            put(&volatile, "alice", &format!("m-{n}"), 100);
        }
        let page = volatile.after(1, None, None, 0, 500).unwrap();
        assert_eq!((page.rows.len(), page.dropped_count), (200, 1));
        assert_eq!(page.rows[0].1.message_id, "m-1");
    }
}
