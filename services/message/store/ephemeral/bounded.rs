//! Rows in memory, by key: bounded in rows and bytes for each key, and in bytes for all together.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::ops::Bound;

pub(crate) struct RowLimits {
    /// Of one key.
    pub rows: usize,
    pub bytes: usize,
    /// Of all keys.
    pub total_bytes: usize,
}

/// Every row has an id that only grows, over all keys.
pub(crate) struct BoundedRows<K, V> {
    limits: RowLimits,
    last: u64,
    bytes: usize,
    /// The key of each row: the oldest of all is dropped first when there are too many bytes.
    order: BTreeMap<u64, K>,
    keys: HashMap<K, KeyRows<V>>,
}

struct KeyRows<V> {
    rows: BTreeMap<u64, BoundedRow<V>>,
    bytes: usize,
    /// Rows that were dropped before their time, since this key last had none.
    dropped: u64,
}

struct BoundedRow<V> {
    bytes: usize,
    until: i64,
    value: V,
}

impl<K: Hash + Eq + Clone, V> BoundedRows<K, V> {
    pub fn new(limits: RowLimits) -> BoundedRows<K, V> {
        BoundedRows { limits, last: 0, bytes: 0, order: BTreeMap::new(), keys: HashMap::new() }
    }

    /// Adds a row that expires at `until`, and gives its id. Where there are too many then, the oldest are dropped, expired
    /// or not.
    pub fn put(&mut self, key: &K, until: i64, bytes: usize, value: V) -> u64 {
        self.last += 1;
        let id = self.last;
        let rows = self.keys.entry(key.clone()).or_insert_with(KeyRows::empty);
        rows.rows.insert(id, BoundedRow { bytes, until, value });
        rows.bytes += bytes;
        self.order.insert(id, key.clone());
        self.bytes += bytes;

        while let Some(oldest) = self.keys.get(key).and_then(|rows| rows.excess(&self.limits)) {
            self.drop_oldest(key, oldest);
        }
        while self.bytes > self.limits.total_bytes {
            let Some((&oldest, key)) = self.order.first_key_value() else { break };
            let key = key.clone();
            self.drop_oldest(&key, oldest);
        }
        id
    }

    /// Adds a row that has its id already, from a store that bounds it itself.
    pub fn restore(&mut self, key: &K, id: u64, until: i64, value: V) {
        let rows = self.keys.entry(key.clone()).or_insert_with(KeyRows::empty);
        rows.rows.insert(id, BoundedRow { bytes: 0, until, value });
        self.order.insert(id, key.clone());
    }

    /// How many were dropped before those that were restored.
    pub fn set_dropped(&mut self, key: &K, dropped: u64) {
        if let Some(rows) = self.keys.get_mut(key) {
            rows.dropped = dropped;
        }
    }

    /// The rows of a key after an id that have not expired, the oldest first.
    pub fn after(&self, key: &K, id: u64, now: i64) -> impl Iterator<Item = (u64, &V)> {
        let rows = self
            .keys
            .get(key)
            .into_iter()
            .flat_map(move |rows| rows.rows.range((Bound::Excluded(id), Bound::Unbounded)));
        rows.filter(move |(_, row)| row.until > now).map(|(id, row)| (*id, &row.value))
    }

    pub fn dropped(&self, key: &K) -> u64 {
        self.keys.get(key).map_or(0, |rows| rows.dropped)
    }

    pub fn remove(&mut self, key: &K, id: u64) -> Option<V> {
        let rows = self.keys.get_mut(key)?;
        let row = rows.rows.remove(&id)?;
        rows.bytes -= row.bytes;
        self.bytes -= row.bytes;
        self.order.remove(&id);
        Some(row.value)
    }

    /// Removes what has expired, and the keys that have no rows.
    pub fn remove_expired(&mut self, now: i64) {
        let expired = |rows: &KeyRows<V>| -> Vec<u64> {
            rows.rows.iter().filter(|(_, row)| row.until <= now).map(|(id, _)| *id).collect()
        };
        let all: Vec<(K, Vec<u64>)> =
            self.keys.iter().map(|(key, rows)| (key.clone(), expired(rows))).collect();
        for (key, ids) in all {
            for id in ids {
                self.remove(&key, id);
            }
        }
        self.keys.retain(|_, rows| !rows.rows.is_empty());
    }

    fn drop_oldest(&mut self, key: &K, id: u64) {
        self.remove(key, id);
        if let Some(rows) = self.keys.get_mut(key) {
            rows.dropped += 1;
        }
    }
}

impl<V> KeyRows<V> {
    fn empty() -> KeyRows<V> {
        KeyRows { rows: BTreeMap::new(), bytes: 0, dropped: 0 }
    }

    /// The row to drop, if there is one too many.
    fn excess(&self, limits: &RowLimits) -> Option<u64> {
        let full = self.rows.len() > limits.rows || self.bytes > limits.bytes;
        self.rows.keys().next().copied().filter(|_| full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testing::cases;

    fn live(bounded: &BoundedRows<u8, char>, key: u8, now: i64) -> String {
        bounded.after(&key, 0, now).map(|(_, value)| *value).collect()
    }

    #[test]
    fn the_oldest_are_dropped_first_and_counted() {
        let mut bounded = BoundedRows::new(RowLimits { rows: 3, bytes: 100, total_bytes: 150 });
        for value in "abcd".chars() {
            bounded.put(&1, 10, 10, value);
        }
        assert_eq!((live(&bounded, 1, 0).as_str(), bounded.dropped(&1)), ("bcd", 1));
        bounded.put(&1, 10, 85, 'e');
        assert_eq!((live(&bounded, 1, 0).as_str(), bounded.dropped(&1)), ("de", 3));
        bounded.put(&2, 10, 60, 'f');
        assert_eq!((live(&bounded, 1, 0).as_str(), live(&bounded, 2, 0).as_str()), ("e", "f"));
    }

    #[test]
    fn what_has_expired_is_not_shown_and_is_removed_later() {
        let mut bounded = BoundedRows::new(RowLimits { rows: 3, bytes: 100, total_bytes: 150 });
        bounded.put(&1, 10, 1, 'a');
        bounded.put(&1, 20, 1, 'b');
        assert_eq!(live(&bounded, 1, 10), "b");
        bounded.remove_expired(10);
        assert_eq!((bounded.bytes, bounded.order.len()), (1, 1));
        bounded.remove_expired(20);
        assert!(bounded.keys.is_empty() && bounded.bytes == 0 && bounded.order.is_empty());
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn bounds_hold_whatever_comes(
            puts in prop::collection::vec((0u8..4, 0i64..20, 0usize..120), 1..60),
        ) {
            let mut bounded = BoundedRows::new(RowLimits { rows: 5, bytes: 100, total_bytes: 250 });
            for (now, (key, ttl, bytes)) in (0i64..).zip(puts) {
                bounded.put(&key, now + ttl, bytes, 'x');
                if now % 7 == 0 {
                    bounded.remove_expired(now);
                }
                let row = |rows: &KeyRows<char>| rows.rows.values().map(|row| row.bytes).sum::<usize>();
                prop_assert!(bounded.bytes <= 250);
                prop_assert_eq!(bounded.bytes, bounded.keys.values().map(row).sum::<usize>());
                prop_assert_eq!(bounded.order.len(), bounded.keys.values().map(|s| s.rows.len()).sum::<usize>());
                for rows in bounded.keys.values() {
                    prop_assert!(rows.rows.len() <= 5 && rows.bytes <= 100 && rows.bytes == row(rows));
                }
            }
        }
    }
}
