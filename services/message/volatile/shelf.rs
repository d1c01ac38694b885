//! What is kept in memory for a while and for each: bounded in rows and bytes, and in bytes for all together.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::ops::Bound;

pub(in crate::message) struct Limits {
    /// Of one shelf.
    pub rows: usize,
    pub bytes: usize,
    /// Of all shelves.
    pub total_bytes: usize,
}

/// One shelf for each key. Every row has a number that only grows, over all shelves.
pub(in crate::message) struct Shelves<K, V> {
    limits: Limits,
    last: u64,
    bytes: usize,
    /// Whose row each number is: the oldest of all goes first when there is too much.
    order: BTreeMap<u64, K>,
    shelves: HashMap<K, Shelf<V>>,
}

struct Shelf<V> {
    rows: BTreeMap<u64, Held<V>>,
    bytes: usize,
    /// Rows that had to go before their time, while this shelf held anything at all.
    dropped: u64,
}

struct Held<V> {
    bytes: usize,
    until: i64,
    value: V,
}

impl<K: Hash + Eq + Clone, V> Shelves<K, V> {
    pub fn new(limits: Limits) -> Shelves<K, V> {
        Shelves { limits, last: 0, bytes: 0, order: BTreeMap::new(), shelves: HashMap::new() }
    }

    /// Puts a row that lives until a time, and gives its number. What must go for it is the oldest, dead or alive.
    pub fn put(&mut self, key: &K, until: i64, bytes: usize, value: V) -> u64 {
        self.last += 1;
        let number = self.last;
        let shelf = self.shelves.entry(key.clone()).or_insert_with(Shelf::empty);
        shelf.rows.insert(number, Held { bytes, until, value });
        shelf.bytes += bytes;
        self.order.insert(number, key.clone());
        self.bytes += bytes;

        while let Some(oldest) = self.shelves.get(key).and_then(|shelf| shelf.excess(&self.limits)) {
            self.drop_early(key, oldest);
        }
        while self.bytes > self.limits.total_bytes {
            let Some((&oldest, key)) = self.order.first_key_value() else { break };
            let key = key.clone();
            self.drop_early(&key, oldest);
        }
        number
    }

    /// Puts a row that has its number already, and was weighed before.
    pub fn restore(&mut self, key: &K, number: u64, until: i64, value: V) {
        let shelf = self.shelves.entry(key.clone()).or_insert_with(Shelf::empty);
        shelf.rows.insert(number, Held { bytes: 0, until, value });
        self.order.insert(number, key.clone());
    }

    /// Says how many had to go before those that were restored.
    pub fn set_dropped(&mut self, key: &K, dropped: u64) {
        if let Some(shelf) = self.shelves.get_mut(key) {
            shelf.dropped = dropped;
        }
    }

    /// The rows of a key that are alive, after a number, the oldest first.
    pub fn after(&self, key: &K, number: u64, now: i64) -> impl Iterator<Item = (u64, &V)> {
        let rows = self
            .shelves
            .get(key)
            .into_iter()
            .flat_map(move |shelf| shelf.rows.range((Bound::Excluded(number), Bound::Unbounded)));
        rows.filter(move |(_, held)| held.until > now).map(|(number, held)| (*number, &held.value))
    }

    pub fn dropped(&self, key: &K) -> u64 {
        self.shelves.get(key).map_or(0, |shelf| shelf.dropped)
    }

    pub fn remove(&mut self, key: &K, number: u64) -> Option<V> {
        let shelf = self.shelves.get_mut(key)?;
        let held = shelf.rows.remove(&number)?;
        shelf.bytes -= held.bytes;
        self.bytes -= held.bytes;
        self.order.remove(&number);
        Some(held.value)
    }

    /// Removes whatever is dead, and the shelves that are empty.
    pub fn purge(&mut self, now: i64) {
        let dead = |shelf: &Shelf<V>| -> Vec<u64> {
            shelf.rows.iter().filter(|(_, held)| held.until <= now).map(|(number, _)| *number).collect()
        };
        let all: Vec<(K, Vec<u64>)> =
            self.shelves.iter().map(|(key, shelf)| (key.clone(), dead(shelf))).collect();
        for (key, numbers) in all {
            for number in numbers {
                self.remove(&key, number);
            }
        }
        self.shelves.retain(|_, shelf| !shelf.rows.is_empty());
    }

    fn drop_early(&mut self, key: &K, number: u64) {
        self.remove(key, number);
        if let Some(shelf) = self.shelves.get_mut(key) {
            shelf.dropped += 1;
        }
    }
}

impl<V> Shelf<V> {
    fn empty() -> Shelf<V> {
        Shelf { rows: BTreeMap::new(), bytes: 0, dropped: 0 }
    }

    /// The row to drop, if there is one too many.
    fn excess(&self, limits: &Limits) -> Option<u64> {
        let full = self.rows.len() > limits.rows || self.bytes > limits.bytes;
        self.rows.keys().next().copied().filter(|_| full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn alive(shelves: &Shelves<u8, char>, key: u8, now: i64) -> String {
        shelves.after(&key, 0, now).map(|(_, value)| *value).collect()
    }

    #[test]
    fn the_oldest_go_first_and_are_counted() {
        let mut shelves = Shelves::new(Limits { rows: 3, bytes: 100, total_bytes: 150 });
        for value in "abcd".chars() {
            shelves.put(&1, 10, 10, value);
        }
        assert_eq!((alive(&shelves, 1, 0).as_str(), shelves.dropped(&1)), ("bcd", 1));
        shelves.put(&1, 10, 85, 'e');
        assert_eq!((alive(&shelves, 1, 0).as_str(), shelves.dropped(&1)), ("de", 3));
        shelves.put(&2, 10, 60, 'f');
        assert_eq!((alive(&shelves, 1, 0).as_str(), alive(&shelves, 2, 0).as_str()), ("e", "f"));
    }

    #[test]
    fn what_is_dead_is_not_shown_and_goes_at_the_next_purge() {
        let mut shelves = Shelves::new(Limits { rows: 3, bytes: 100, total_bytes: 150 });
        shelves.put(&1, 10, 1, 'a');
        shelves.put(&1, 20, 1, 'b');
        assert_eq!(alive(&shelves, 1, 10), "b");
        shelves.purge(10);
        assert_eq!((shelves.bytes, shelves.order.len()), (1, 1));
        shelves.purge(20);
        assert!(shelves.shelves.is_empty() && shelves.bytes == 0 && shelves.order.is_empty());
    }

    proptest! {
        #[test]
        fn bounds_hold_whatever_comes(
            puts in prop::collection::vec((0u8..4, 0i64..20, 0usize..120), 1..60),
        ) {
            let mut shelves = Shelves::new(Limits { rows: 5, bytes: 100, total_bytes: 250 });
            for (now, (key, life, bytes)) in (0i64..).zip(puts) {
                shelves.put(&key, now + life, bytes, 'x');
                if now % 7 == 0 {
                    shelves.purge(now);
                }
                let held = |shelf: &Shelf<char>| shelf.rows.values().map(|held| held.bytes).sum::<usize>();
                prop_assert!(shelves.bytes <= 250);
                prop_assert_eq!(shelves.bytes, shelves.shelves.values().map(held).sum::<usize>());
                prop_assert_eq!(shelves.order.len(), shelves.shelves.values().map(|s| s.rows.len()).sum::<usize>());
                for shelf in shelves.shelves.values() {
                    prop_assert!(shelf.rows.len() <= 5 && shelf.bytes <= 100 && shelf.bytes == held(shelf));
                }
            }
        }
    }
}
