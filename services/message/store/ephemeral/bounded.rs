//! Rows in memory, by key: bounded in rows and bytes for each key, and in bytes for all together. Where there is one too many,
//! the owner that has most pays with its oldest: a sender cannot make the messages of others go.

use kernel::{BytesOwner, Holdings};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::ops::Bound;

#[derive(Clone, Copy, Debug)]
pub(crate) struct RowLimits {
    /// Of one key.
    pub rows: usize,
    pub bytes: usize,
    /// Of all keys.
    pub total_bytes: usize,
}

impl RowLimits {
    /// A copy of rows that are bounded elsewhere.
    pub const OF_A_COPY: RowLimits =
        RowLimits { rows: usize::MAX, bytes: usize::MAX, total_bytes: usize::MAX };
}

/// What a row costs, and whom.
pub(crate) struct RowCost {
    pub owner: BytesOwner,
    pub bytes: usize,
}

/// Every row has an id that only grows, over all keys.
pub(crate) struct BoundedRows<K, V> {
    limits: RowLimits,
    /// The rows that this process bounds, by who pays for them.
    held: Holdings<K>,
    keys: HashMap<K, KeyRows<V>>,
}

struct KeyRows<V> {
    rows: BTreeMap<u64, BoundedRow<V>>,
    bytes: usize,
    /// Rows that were dropped before their time, since this key last had none.
    dropped: u64,
}

struct BoundedRow<V> {
    /// None if it was restored from a store that bounds it itself.
    cost: Option<RowCost>,
    until: i64,
    value: V,
}

impl<K: Hash + Eq + Clone, V> BoundedRows<K, V> {
    pub fn new(limits: RowLimits) -> BoundedRows<K, V> {
        BoundedRows { limits, held: Holdings::new(limits.total_bytes), keys: HashMap::new() }
    }

    /// Adds a row that expires at `until`, and gives its id. Where there are too many then, rows are dropped, expired or not:
    /// perhaps this one.
    pub fn put(&mut self, key: &K, until: i64, cost: RowCost, value: V) -> u64 {
        let id = self.held.add(&cost.owner, cost.bytes, key.clone());
        let rows = self.keys.entry(key.clone()).or_insert_with(KeyRows::empty);
        rows.bytes += cost.bytes;
        rows.rows.insert(id, BoundedRow { cost: Some(cost), until, value });

        while let Some(excess) = self.keys.get(key).and_then(|rows| rows.excess(&self.limits)) {
            self.drop_row(key, excess);
        }
        while let Some((excess, key)) = self.held.evict() {
            self.drop_row(&key, excess);
        }
        id
    }

    /// Adds a row that has its id already, from a store that bounds it itself.
    pub fn restore(&mut self, key: &K, id: u64, until: i64, value: V) {
        let rows = self.keys.entry(key.clone()).or_insert_with(KeyRows::empty);
        rows.rows.insert(id, BoundedRow { cost: None, until, value });
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
        if let Some(cost) = &row.cost {
            rows.bytes -= cost.bytes;
            self.held.remove(&cost.owner, id);
        }
        Some(row.value)
    }

    pub fn remove_key(&mut self, key: &K) {
        let ids: Vec<u64> =
            self.keys.get(key).into_iter().flat_map(|rows| rows.rows.keys().copied()).collect();
        for id in ids {
            self.remove(key, id);
        }
        self.keys.remove(key);
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

    fn drop_row(&mut self, key: &K, id: u64) {
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

    /// The row to drop, if there is one too many: the oldest of the owner that has most of these, in rows or in bytes. Among
    /// equals it is the oldest of all.
    fn excess(&self, limits: &RowLimits) -> Option<u64> {
        let too_many = self.rows.len() > limits.rows;
        if !too_many && self.bytes <= limits.bytes {
            return None;
        }
        let mut shares: HashMap<&BytesOwner, (usize, u64)> = HashMap::new();
        for (id, row) in &self.rows {
            let Some(cost) = &row.cost else { continue };
            let (share, _oldest) = shares.entry(&cost.owner).or_insert((0, *id));
            *share += if too_many { 1 } else { cost.bytes };
        }
        let largest = shares.into_values().max_by_key(|(share, oldest)| (*share, Reverse(*oldest)));
        largest.map(|(_, oldest)| oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testing::cases;

    const LIMITS: RowLimits = RowLimits { rows: 3, bytes: 100, total_bytes: 150 };

    fn cost(owner: u8, bytes: usize) -> RowCost {
        RowCost { owner: BytesOwner::of_address([192, 0, owner, 1].into()), bytes }
    }

    fn live(bounded: &BoundedRows<u8, char>, key: u8, now: i64) -> String {
        bounded.after(&key, 0, now).map(|(_, value)| *value).collect()
    }

    #[test]
    fn the_oldest_of_one_owner_are_dropped_first_and_counted() {
        let mut bounded = BoundedRows::new(LIMITS);
        for value in "abcd".chars() {
            bounded.put(&1, 10, cost(1, 10), value);
        }
        assert_eq!((live(&bounded, 1, 0).as_str(), bounded.dropped(&1)), ("bcd", 1));
        bounded.put(&1, 10, cost(1, 85), 'e');
        assert_eq!((live(&bounded, 1, 0).as_str(), bounded.dropped(&1)), ("de", 3));
        bounded.put(&2, 10, cost(2, 60), 'f');
        assert_eq!((live(&bounded, 1, 0).as_str(), live(&bounded, 2, 0).as_str()), ("e", "f"));
    }

    #[test]
    fn a_flood_of_one_owner_leaves_the_rows_of_another() {
        let mut bounded = BoundedRows::new(LIMITS);
        bounded.put(&1, 10, cost(1, 10), 'a');
        for value in "bcdefgh".chars() {
            bounded.put(&1, 10, cost(2, 10), value);
        }
        assert_eq!(live(&bounded, 1, 0), "agh", "in the rows of one key");
        for key in 2..9 {
            bounded.put(&key, 10, cost(3, 40), 'x');
        }
        assert_eq!(live(&bounded, 1, 0), "agh", "in the bytes of all keys");
        assert_eq!((2..9).map(|key| live(&bounded, key, 0)).collect::<String>(), "xxx");
    }

    #[test]
    fn among_equals_the_oldest_is_dropped() {
        let mut bounded = BoundedRows::new(LIMITS);
        for (owner, value) in (0..).zip("abcd".chars()) {
            bounded.put(&1, 10, cost(owner, 10), value);
        }
        assert_eq!(live(&bounded, 1, 0), "bcd");
    }

    #[test]
    fn a_key_that_is_removed_holds_nothing() {
        let mut bounded = BoundedRows::new(LIMITS);
        for (key, value) in [(1, 'a'), (1, 'b'), (2, 'c')] {
            bounded.put(&key, 10, cost(1, 10), value);
        }
        bounded.remove_key(&1);
        assert_eq!((live(&bounded, 1, 0).as_str(), live(&bounded, 2, 0).as_str()), ("", "c"));
        assert_eq!(bounded.held.total(), 10);
    }

    #[test]
    fn what_has_expired_is_not_shown_and_is_removed_later() {
        let mut bounded = BoundedRows::new(LIMITS);
        bounded.put(&1, 10, cost(1, 1), 'a');
        bounded.put(&1, 20, cost(1, 1), 'b');
        assert_eq!(live(&bounded, 1, 10), "b");
        bounded.remove_expired(10);
        assert_eq!(bounded.held.total(), 1);
        bounded.remove_expired(20);
        assert!(bounded.keys.is_empty() && bounded.held.total() == 0);
    }

    /// The bytes of the rows of one key.
    fn bytes(rows: &KeyRows<char>) -> usize {
        rows.rows.values().filter_map(|row| row.cost.as_ref()).map(|cost| cost.bytes).sum()
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn bounds_hold_whatever_comes(
            puts in prop::collection::vec((0u8..4, 0u8..3, 0i64..20, 0usize..120), 1..60),
        ) {
            let mut bounded = BoundedRows::new(RowLimits { rows: 5, bytes: 100, total_bytes: 250 });
            for (now, (key, owner, ttl, size)) in (0i64..).zip(puts) {
                bounded.put(&key, now + ttl, cost(owner, size), 'x');
                if now % 7 == 0 {
                    bounded.remove_expired(now);
                }
                prop_assert!(bounded.held.total() <= 250);
                prop_assert_eq!(bounded.held.total(), bounded.keys.values().map(bytes).sum::<usize>());
                for rows in bounded.keys.values() {
                    prop_assert!(rows.rows.len() <= 5 && rows.bytes <= 100 && rows.bytes == bytes(rows));
                }
            }
        }
    }
}
