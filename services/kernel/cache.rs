//! What was looked up and may be needed again: a bounded number of entries, of which the one that was used longest ago makes
//! space for a new one.
//!
//! A cache has no lock of its own: its owner has one already, or needs to change something else under it. An entry may be
//! evicted by any insertion, so whatever is decided from a cache must also be right without its entries.

use lru::LruCache;
use std::borrow::Borrow;
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::time::Duration;
use tokio::time::Instant;

/// The entries that were used last. Looking one up takes no allocation, and memory is taken only for entries that exist.
#[derive(Debug)]
pub struct Cache<K: Hash + Eq, V>(LruCache<K, V>);

impl<K: Hash + Eq, V> Cache<K, V> {
    /// With at most this many entries, and at least one.
    pub fn new(most: usize) -> Cache<K, V> {
        Cache(LruCache::sparse(NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN)))
    }

    /// The value of a key, which counts as used now.
    pub fn get<Q>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.0.get(key)
    }

    /// The value of a key, to be changed. It counts as used now.
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.0.get_mut(key)
    }

    /// The value of a key, or a new one. It counts as used now.
    pub fn get_or_insert_with(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        self.0.get_or_insert_mut(key, value)
    }

    /// The value of a key, which does not count as used.
    pub fn peek<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.0.peek(key)
    }

    /// Replaces the value of the key, if it has one. Otherwise the entry that was used longest ago is evicted if the cache is full.
    pub fn insert(&mut self, key: K, value: V) {
        self.0.put(key, value);
    }

    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.0.pop(key)
    }

    /// Looks at every entry, and removes those for which this is false.
    pub fn retain(&mut self, mut stays: impl FnMut(&V) -> bool) {
        self.0.retain(|_, value| stays(value));
    }

    /// Removes entries, the one that was used longest ago first, up to the first one for which this is false.
    pub fn remove_oldest_while(&mut self, mut is_over: impl FnMut(&V) -> bool) {
        while self.0.peek_lru().is_some_and(|(_, value)| is_over(value)) {
            self.0.pop_lru();
        }
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A [`Cache`] whose entries are true for a time only.
#[derive(Debug)]
pub struct ExpiringCache<K: Hash + Eq, V> {
    /// Each with the time when it expires.
    entries: Cache<K, (Instant, V)>,
    ttl: Duration,
}

impl<K: Hash + Eq, V> ExpiringCache<K, V> {
    pub fn new(most: usize, ttl: Duration) -> ExpiringCache<K, V> {
        ExpiringCache { entries: Cache::new(most), ttl }
    }

    /// The value of a key, if it has not expired.
    pub fn get<Q>(&mut self, key: &Q, now: Instant) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.entries.get(key).filter(|(until, _)| now < *until).map(|(_, value)| value)
    }

    /// `now` is the time at which the value was known to be true.
    pub fn insert(&mut self, key: K, value: V, now: Instant) {
        self.entries.insert(key, (now + self.ttl, value));
    }

    pub fn remove<Q>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.entries.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testing::cases;

    #[test]
    fn one_entry_is_evicted_for_a_new_one_and_it_is_the_one_used_longest_ago() {
        let mut cache = Cache::new(3);
        for key in ["a", "b", "c"] {
            cache.insert(key, 1);
        }
        assert_eq!(cache.get("a"), Some(&1));
        assert_eq!(cache.peek("b"), Some(&1), "a look without a use");
        cache.insert("d", 1);
        assert_eq!((cache.peek("a"), cache.peek("b"), cache.len()), (Some(&1), None, 3));
        cache.insert("c", 2);
        assert_eq!((cache.peek("c"), cache.len()), (Some(&2), 3), "replaced, and nothing is evicted");
        *cache.get_or_insert_with("e", || 5) += 1;
        assert_eq!((cache.peek("e"), cache.peek("a")), (Some(&6), None));
        *cache.get_mut("d").unwrap() = 7;
        assert_eq!((cache.remove("d"), cache.remove("d")), (Some(7), None));
    }

    #[test]
    fn entries_are_removed_from_the_oldest_on() {
        let mut cache = Cache::new(10);
        for (key, value) in [(1, 10), (2, 20), (3, 5), (4, 40)] {
            cache.insert(key, value);
        }
        cache.remove_oldest_while(|value| *value < 15);
        assert_eq!((cache.len(), cache.peek(&3)), (3, Some(&5)), "up to the first that stays");
        cache.retain(|value| *value > 30);
        assert_eq!((cache.len(), cache.peek(&4)), (1, Some(&40)));
        cache.remove_oldest_while(|_| true);
        assert!(cache.is_empty());
    }

    #[test]
    fn an_entry_expires() {
        let (mut cache, start) = (ExpiringCache::new(2, Duration::from_secs(60)), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        cache.insert("a", 1, start);
        assert_eq!(cache.get("a", after(59)), Some(&1));
        assert_eq!(cache.get("a", after(60)), None);
        cache.insert("a", 2, after(60));
        assert_eq!(cache.get("a", after(119)), Some(&2));
        cache.insert("b", 3, after(60));
        cache.insert("c", 4, after(60));
        assert_eq!(cache.get("a", after(61)), None, "evicted");
        assert_eq!(cache.get("b", after(61)), Some(&3));
        cache.remove("b");
        assert_eq!(cache.get("b", after(61)), None);
    }

    proptest! {
        #![proptest_config(cases(256))]

        /// The last keys that were used are there, whatever was done, and no others.
        #[test]
        fn the_last_used_are_kept(most in 1_usize..6, steps in prop::collection::vec((0_u8..10, any::<bool>()), 0..100)) {
            let (mut cache, mut used): (_, Vec<u8>) = (Cache::new(most), Vec::new());
            for (key, inserts) in steps {
                let held = used.iter().position(|other| *other == key);
                match inserts {
                    true => cache.insert(key, key),
                    false => prop_assert_eq!(cache.get(&key).copied(), held.map(|_| key)),
                }
                if inserts || held.is_some() {
                    used.retain(|other| *other != key);
                    used.push(key);
                }
                if used.len() > most {
                    used.remove(0);
                }
                prop_assert_eq!(cache.len(), used.len());
                prop_assert!(used.iter().all(|key| cache.peek(key) == Some(key)));
            }
        }
    }
}
