//! What is asked often. Who asks sets one bit of 63 for a query, and many agents share a bit: the bits tell how many asked, at least,
//! and not who.

use crate::index::words::normalised;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};

/// Queries that wait to be stored.
const MOST_WAITING: usize = 1000;
/// Longer queries are suggested to nobody.
const MOST_CHARS: usize = 64;
/// So many agents must have asked the same before it is suggested to others.
const LEAST_ASKERS: u32 = 5;
/// Queries that can be suggested.
const MOST_SUGGESTED: usize = 10_000;

#[derive(Default)]
pub(crate) struct QueryStats {
    waiting: Mutex<HashMap<String, i64>>,
    /// By their texts, with how many asked.
    suggested: Mutex<BTreeMap<String, u32>>,
}

impl QueryStats {
    /// `asker` is a number that nobody can compute from an AID without the key of the store.
    pub fn add(&self, query: &str, asker: u64) {
        let query = normalised(query);
        if query.is_empty() || query.chars().count() > MOST_CHARS {
            return;
        }
        let mut waiting = self.waiting.lock();
        let known = waiting.len();
        if let Some(askers) = waiting.get_mut(&query) {
            *askers |= 1 << (asker % 63);
        } else if known < MOST_WAITING {
            waiting.insert(query, 1 << (asker % 63));
        }
    }

    pub fn take(&self) -> Vec<(String, i64)> {
        self.waiting.lock().drain().collect()
    }

    /// Replaces what is suggested by what was asked in the last days.
    pub fn set(&self, asked: Vec<(String, i64)>) {
        let mut askers: BTreeMap<String, i64> = BTreeMap::new();
        for (query, bits) in asked {
            *askers.entry(query).or_default() |= bits;
        }
        let often = askers.into_iter().map(|(query, bits)| (query, bits.count_ones()));
        let often = often.filter(|(_, askers)| *askers >= LEAST_ASKERS).take(MOST_SUGGESTED);
        *self.suggested.lock() = often.collect();
    }

    /// The most asked first.
    pub fn beginning_with(&self, prefix: &str) -> Vec<String> {
        let suggested = self.suggested.lock();
        let from = suggested.range(prefix.to_owned()..);
        let mut found: Vec<(&String, u32)> = from
            .take_while(|(query, _)| query.starts_with(prefix))
            .map(|(query, askers)| (query, *askers))
            .collect();
        found.sort_by(|(one, few), (other, many)| many.cmp(few).then(one.cmp(other)));
        found.into_iter().map(|(query, _)| query.clone()).take(20).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_suggested_when_five_have_asked_it() {
        let stats = QueryStats::default();
        for asker in [1, 2, 2, 3, 4 + 63] {
            stats.add(" Code  Review ", asker);
            stats.add(&"x".repeat(65), asker);
        }
        let four = stats.take();
        assert_eq!(four.len(), 1);
        stats.set(four.clone());
        assert!(stats.beginning_with("code").is_empty());
        stats.set(four.into_iter().chain([("code review".to_owned(), 1 << 40)]).collect());
        assert_eq!(stats.beginning_with("co"), ["code review"]);
        assert!(stats.beginning_with("cp").is_empty());
        assert!(stats.take().is_empty());
    }
}
