//! The last seq of each inbox as this process knows it. Another process may have given more since: the commit finds that out,
//! because a seq cannot be stored twice.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many are known before all are cleared and read again.
const MAX_INBOXES: usize = 200_000;
/// How many commits have the database read the last seqs after one that was wrong: another process writes to the same
/// inboxes, and a commit that fails costs more than one that reads.
const PAUSE: usize = 16;

#[derive(Default)]
pub(crate) struct LastSeqs {
    known: Mutex<HashMap<i64, i64>>,
    pause: AtomicUsize,
}

impl LastSeqs {
    /// The last seqs of these inboxes, if all are known. They are removed until the commit they are for has succeeded: if its
    /// answer is lost, nobody knows what they are.
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
        if known.len() >= MAX_INBOXES {
            known.clear();
        }
        let last = known.entry(inbox).or_default();
        *last = seq.max(*last);
    }

    /// Another process had given those seqs.
    pub fn were_wrong(&self) {
        self.pause.store(PAUSE, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_unknown_until_it_is_put_back_and_then_the_highest_counts() {
        let last_seqs = LastSeqs::default();
        last_seqs.put(1, 5);
        last_seqs.put(2, 7);
        last_seqs.put(1, 4);
        assert_eq!(last_seqs.take([1, 2].into_iter()), Some(vec![5, 7]));
        assert_eq!(last_seqs.take([1].into_iter()), None);
    }

    #[test]
    fn after_a_wrong_one_the_database_reads_them_for_a_while() {
        let last_seqs = LastSeqs::default();
        last_seqs.put(1, 5);
        last_seqs.were_wrong();
        for _ in 0..PAUSE {
            assert_eq!(last_seqs.take([1].into_iter()), None);
        }
        assert_eq!(last_seqs.take([1].into_iter()), Some(vec![5]));
    }
}
