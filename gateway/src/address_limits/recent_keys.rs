//! The memory of limits that count by address, by name or by both. Everybody can invent names, so there is an end to how many
//! are remembered: the one that was counted longest ago is forgotten for a new one, entry by entry.

use governor::clock::DefaultClock;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::ShrinkableKeyedStateStore;
use governor::{Quota, RateLimiter};
use kernel::Cache;
use parking_lot::Mutex;
use std::hash::Hash;

/// How many keys one limit remembers: of a few hundred bytes each at most.
pub(super) const MOST_KEYS: usize = 65_536;

/// A rate for each key, of which the most recent are remembered.
pub type KeyedRates<K> = RateLimiter<K, RecentKeys<K>, DefaultClock>;

pub fn keyed_rates<K: Hash + Eq + Clone>(quota: Quota) -> KeyedRates<K> {
    RateLimiter::new(quota, RecentKeys(Mutex::new(Cache::new(MOST_KEYS))), DefaultClock::default())
}

/// The state of each key, in the order in which they were counted.
pub struct RecentKeys<K: Hash + Eq>(Mutex<Cache<K, Nanos>>);

impl<K: Hash + Eq + Clone> StateStore for RecentKeys<K> {
    type Key = K;

    fn measure_and_replace<T, F, E>(&self, key: &K, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut states = self.0.lock();
        if let Some(state) = states.get_mut(key) {
            let (outcome, next) = decide(Some(*state))?;
            *state = next;
            return Ok(outcome);
        }
        let (outcome, next) = decide(None)?;
        states.insert(key.clone(), next);
        Ok(outcome)
    }
}

impl<K: Hash + Eq + Clone> ShrinkableKeyedStateStore<K> for RecentKeys<K> {
    /// Those that were counted longest ago, up to the first one that still matters.
    fn retain_recent(&self, drop_below: Nanos) {
        self.0.lock().remove_oldest_while(|state| *state < drop_below);
    }

    fn len(&self) -> usize {
        self.0.lock().len()
    }

    fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;

    fn per_minute(rate: u32) -> Quota {
        Quota::per_minute(NonZeroU32::new(rate).unwrap())
    }

    #[test]
    fn each_key_has_a_rate_of_its_own() {
        let rates: KeyedRates<u32> = keyed_rates(per_minute(2));
        assert!(rates.check_key(&1).is_ok() && rates.check_key(&1).is_ok());
        assert!(rates.check_key(&1).is_err());
        assert!(rates.check_key(&2).is_ok());
    }

    #[test]
    fn only_so_many_keys_are_remembered_and_the_most_recent_are() {
        let rates: KeyedRates<usize> = keyed_rates(per_minute(1));
        for key in 0..MOST_KEYS + 1000 {
            assert!(rates.check_key(&key).is_ok());
        }
        assert_eq!(rates.len(), MOST_KEYS);
        assert!(rates.check_key(&(MOST_KEYS + 999)).is_err(), "it was counted");
        assert!(rates.check_key(&0).is_ok(), "it was forgotten");
        rates.retain_recent();
        assert_eq!(rates.len(), MOST_KEYS, "a minute is not over");
    }
}
