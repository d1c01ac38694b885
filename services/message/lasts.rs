//! The last number of each inbox as this process knows it, on PostgreSQL. Another process may have given more since: the
//! commit finds that out, because a number that is taken cannot be stored again.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many are known by heart before all are forgotten and asked for again.
const MOST: usize = 200_000;
/// How many commits ask the database after one that was wrong: another process writes to the same inboxes, and a commit that
/// fails is dearer than one that asks.
const PAUSE: usize = 16;

#[derive(Default)]
pub(super) struct Lasts {
    known: Mutex<HashMap<i64, i64>>,
    pause: AtomicUsize,
}

impl Lasts {
    /// Of these inboxes, if all are known. They are forgotten until the commit they are for has succeeded: of one that
    /// was lost on its way nothing is known.
    pub fn take(&self, inboxes: impl Iterator<Item = i64>) -> Option<Vec<i64>> {
        let left = |pause: usize| pause.checked_sub(1);
        if self.pause.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok() {
            return None;
        }
        let mut known = self.known.lock();
        inboxes.map(|inbox| known.remove(&inbox)).collect()
    }

    pub fn put(&self, inbox: i64, seq: i64) {
        let mut known = self.known.lock();
        if known.len() >= MOST {
            known.clear();
        }
        let last = known.entry(inbox).or_default();
        *last = seq.max(*last);
    }

    /// What was known was not true any more.
    pub fn were_wrong(&self) {
        self.pause.store(PAUSE, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_unknown_until_it_is_put_back_and_then_the_highest_counts() {
        let lasts = Lasts::default();
        lasts.put(1, 5);
        lasts.put(2, 7);
        lasts.put(1, 4);
        assert_eq!(lasts.take([1, 2].into_iter()), Some(vec![5, 7]));
        assert_eq!(lasts.take([1].into_iter()), None);
    }

    #[test]
    fn after_a_wrong_one_the_database_is_asked_for_a_while() {
        let lasts = Lasts::default();
        lasts.put(1, 5);
        lasts.were_wrong();
        for _ in 0..PAUSE {
            assert_eq!(lasts.take([1].into_iter()), None);
        }
        assert_eq!(lasts.take([1].into_iter()), Some(vec![5]));
    }
}
