//! Messages with a ttl: in memory only, without a seq in the inbox, removed when they expire, when they are acknowledged, or
//! when the server is restarted.

use super::bounded::{BoundedRows, RowCost, RowLimits};
use super::shared_rows::{self, RowList, SharedRow, SharedRows};
use crate::store::stored_message::StoredMessage;
use kernel::Ids;
use parking_lot::Mutex;
use sqlx::AnyConnection;
use std::sync::Arc;

/// The kind of its lists on PostgreSQL, as it is stored.
pub(crate) const LIST: &str = "volatile";
/// What one inbox may have.
const MAX_ROWS: usize = 200;
const MAX_BYTES: usize = 4 << 20;

pub(crate) struct VolatileMessages<T> {
    pub limits: RowLimits,
    /// What all cursors of this process begin with.
    epoch: String,
    rows: Mutex<BoundedRows<i64, VolatileRow<T>>>,
}

#[derive(Clone, Debug)]
pub(crate) struct VolatileRow<T> {
    pub message_id: String,
    pub sender: String,
    pub created_at: i64,
    pub expires_at: i64,
    pub message: T,
}

#[derive(Debug)]
pub(crate) struct VolatilePage<T> {
    /// Each with its cursor, the oldest first.
    pub rows: Vec<(String, VolatileRow<T>)>,
    /// Where the next page begins; none if nothing was ever read.
    pub latest_cursor: Option<String>,
    pub has_more: bool,
    pub earliest_cursor: Option<String>,
    pub dropped_count: u64,
}

/// The cursor is of before a restart. The client drops it when it reads these words.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("volatile cursor epoch mismatch: the server was restarted since")]
pub(crate) struct OldEpoch;

impl<T: Clone> VolatileMessages<T> {
    pub fn new(ids: &Ids, total_bytes: usize) -> VolatileMessages<T> {
        let limits = RowLimits { rows: MAX_ROWS, bytes: MAX_BYTES, total_bytes };
        let (instance, epoch) = (hex::encode(ids.bytes::<4>()), hex::encode(ids.bytes::<4>()));
        let epoch = format!("v1:{instance}:{epoch}:");
        VolatileMessages { limits, epoch, rows: Mutex::new(BoundedRows::new(limits)) }
    }

    /// Gives the row its cursor.
    pub fn put(&self, inbox: i64, row: VolatileRow<T>, cost: RowCost) -> String {
        let id = self.rows.lock().put(&inbox, row.expires_at, cost, row);
        self.cursor(id)
    }

    /// What has not expired after a cursor, of one sender or of all.
    pub fn after(
        &self,
        inbox: i64,
        cursor: Option<&str>,
        sender: Option<&str>,
        now_ms: i64,
        limit: usize,
    ) -> Result<VolatilePage<T>, OldEpoch> {
        let cursor = cursor.filter(|cursor| !cursor.is_empty());
        let from = cursor.map_or(Ok(0), |cursor| self.row_id(cursor).ok_or(OldEpoch))?;
        let wanted = |row: &VolatileRow<T>| sender.is_none_or(|sender| row.sender == sender);

        let stored = self.rows.lock();
        let earliest = stored.after(&inbox, 0, now_ms).find(|(_, row)| wanted(row));
        let mut later = stored.after(&inbox, from, now_ms).filter(|(_, row)| wanted(row));
        let mut rows = Vec::new();
        for (id, row) in later.by_ref().take(limit) {
            rows.push((self.cursor(id), row.clone()));
        }
        Ok(VolatilePage {
            latest_cursor: rows.last().map(|(last, _)| last.clone()).or(cursor.map(str::to_owned)),
            has_more: later.next().is_some(),
            earliest_cursor: earliest.map(|(id, _)| self.cursor(id)),
            dropped_count: stored.dropped(&inbox),
            rows,
        })
    }

    /// Who sent the rows, in the order of the oldest of each.
    pub fn senders(&self, inbox: i64, now_ms: i64) -> Vec<String> {
        let mut senders: Vec<String> = Vec::new();
        for (_, row) in self.rows.lock().after(&inbox, 0, now_ms) {
            if !senders.contains(&row.sender) {
                senders.push(row.sender.clone());
            }
        }
        senders
    }

    pub fn remove_inbox(&self, inbox: i64) {
        self.rows.lock().remove_key(&inbox);
    }

    /// Removes exactly the rows named, by cursor or by message id. Gives how many there were, and how many were not found.
    pub fn ack(&self, inbox: i64, cursors: &[String], message_ids: &[String]) -> (usize, usize) {
        let mut stored = self.rows.lock();
        let (mut accepted, mut expired) = (0, 0);
        for cursor in cursors {
            match self.row_id(cursor).and_then(|id| stored.remove(&inbox, id)) {
                Some(_) => accepted += 1,
                None => expired += 1,
            }
        }
        for message_id in message_ids {
            let named = |row: &VolatileRow<T>| row.message_id == *message_id;
            let rows = stored.after(&inbox, 0, i64::MIN).filter(|(_, row)| named(row));
            let ids: Vec<u64> = rows.map(|(id, _)| id).collect();
            match ids.is_empty() {
                true => expired += 1,
                false => accepted += 1,
            }
            for id in ids {
                stored.remove(&inbox, id);
            }
        }
        (accepted, expired)
    }

    pub fn remove_expired(&self, now_ms: i64) {
        self.rows.lock().remove_expired(now_ms);
    }

    /// The ids of an inbox's rows, expired or not.
    pub fn row_ids(&self, inbox: i64) -> Vec<u64> {
        self.rows.lock().after(&inbox, 0, i64::MIN).map(|(id, _)| id).collect()
    }

    /// All digits are written, so that cursors sort as text, too.
    pub fn cursor(&self, row_id: u64) -> String {
        format!("{}{row_id:020}", self.epoch)
    }

    fn row_id(&self, cursor: &str) -> Option<u64> {
        cursor.strip_prefix(&self.epoch)?.parse().ok()
    }
}

impl VolatileMessages<Arc<StoredMessage>> {
    /// On PostgreSQL: an inbox as all processes together have it.
    pub async fn copy(shared: &SharedRows, connection: &mut AnyConnection, inbox: i64) -> sqlx::Result<Self> {
        let key = inbox.to_string();
        let row = |row: &SharedRow| {
            let message = StoredMessage::read(0, &row.data).ok()?;
            let (message_id, sender) = (message.message_id.clone(), message.from.to_string());
            Some(VolatileRow { message_id, sender, created_at: message.at, expires_at: row.until, message })
        };
        let list = RowList { kind: LIST, key: &key };
        let rows = Mutex::new(shared_rows::copy(connection, list, &inbox, row).await?);
        Ok(VolatileMessages { limits: RowLimits::OF_A_COPY, epoch: shared.epoch.clone(), rows })
    }

    /// On PostgreSQL: only for its cursors.
    pub fn empty(shared: &SharedRows) -> Self {
        let (limits, epoch) = (RowLimits::OF_A_COPY, shared.epoch.clone());
        VolatileMessages { limits, epoch, rows: Mutex::new(BoundedRows::new(limits)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::{Aid, BytesOwner};

    fn empty() -> VolatileMessages<&'static str> {
        VolatileMessages::new(&Ids::default(), 64 << 20)
    }

    fn put(volatile: &VolatileMessages<&'static str>, sender: &str, id: &str, expires_at: i64) -> String {
        let (message_id, sender) = (id.to_owned(), sender.to_owned());
        let owner = BytesOwner::Agent(Aid::parse(&format!("{sender}.aid.pub")).unwrap());
        let row = VolatileRow { message_id, sender, created_at: 0, expires_at, message: "hi" };
        volatile.put(1, row, RowCost { owner, bytes: 10 })
    }

    fn ids(page: &VolatilePage<&'static str>) -> Vec<String> {
        page.rows.iter().map(|(_, row)| row.message_id.clone()).collect()
    }

    #[test]
    fn pages_follow_the_cursor_until_nothing_is_left() {
        let volatile = empty();
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
    fn a_cursor_of_before_a_restart_is_refused() {
        let (before, now) = (empty(), empty());
        let old = put(&before, "alice", "m-1", 100);
        put(&now, "alice", "m-2", 100);
        assert_eq!(now.after(1, Some(&old), None, 0, 9).err(), Some(OldEpoch));
        assert_eq!(now.after(1, Some("nonsense"), None, 0, 9).err(), Some(OldEpoch));
        assert_eq!(now.ack(1, &[old], &[]), (0, 1));
        assert_eq!(now.senders(1, 0), ["alice"]);
    }

    #[test]
    fn time_ends_a_row_and_so_does_an_ack() {
        let volatile = empty();
        put(&volatile, "alice", "m-1", 10);
        let second = put(&volatile, "alice", "m-2", 100);
        put(&volatile, "carol", "m-3", 100);
        assert_eq!(volatile.senders(1, 10), ["alice", "carol"]);
        assert_eq!(ids(&volatile.after(1, None, Some("alice"), 10, 9).unwrap()), ["m-2"]);
        let names = [second.clone(), second];
        assert_eq!(volatile.ack(1, &names, &["m-3".to_owned(), "m-4".to_owned()]), (2, 2));
        assert_eq!((volatile.senders(1, 10).len(), volatile.senders(1, 9)), (0, vec!["alice".to_owned()]));
        volatile.remove_expired(10);
        assert!(volatile.senders(1, 0).is_empty());
    }

    #[test]
    fn the_two_hundred_and_first_row_drops_the_first() {
        let volatile = empty();
        for n in 0..201 {
            put(&volatile, "alice", &format!("m-{n}"), 100);
        }
        let page = volatile.after(1, None, None, 0, 500).unwrap();
        assert_eq!((page.rows.len(), page.dropped_count), (200, 1));
        assert_eq!(page.rows[0].1.message_id, "m-1");
    }
}
