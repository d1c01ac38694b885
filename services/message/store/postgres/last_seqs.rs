//! The last seq of each inbox as this process knows it. Another process may have given more since: the commit finds that out,
//! because a seq cannot be stored twice.

use kernel::Cache;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many are known. One that was evicted is unknown, so the next commit for its inbox has the database read it. If an older
/// commit puts an older seq afterwards, that is as if another process had given the ones in between.
const MAX_INBOXES: usize = 200_000;
/// How many commits have the database read the last seqs after one that was wrong: another process writes to the same
/// inboxes, and a commit that fails costs more than one that reads.
const PAUSE: usize = 16;

pub(crate) struct LastSeqs {
    /// An entry stays while its seq is taken, so that taking and putting it back allocates nothing.
    known: Mutex<Cache<i64, Option<i64>>>,
    pause: AtomicUsize,
}

impl Default for LastSeqs {
    fn default() -> LastSeqs {
        LastSeqs { known: Mutex::new(Cache::new(MAX_INBOXES)), pause: AtomicUsize::default() }
    }
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
        inboxes.map(|inbox| known.get_mut(&inbox)?.take()).collect()
    }

    pub fn put(&self, inbox: i64, seq: i64) {
        let mut known = self.known.lock();
        let last = known.get_or_insert_with(inbox, || None);
        *last = (*last).max(Some(seq));
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
    fn an_evicted_one_is_unknown_and_the_others_stay() {
        let last_seqs = LastSeqs::default();
        for inbox in 0..=MAX_INBOXES as i64 {
            last_seqs.put(inbox, 5);
        }
        assert_eq!(last_seqs.take([0].into_iter()), None);
        assert_eq!(last_seqs.take([1, 2].into_iter()), Some(vec![5, 5]));
        last_seqs.put(0, 9);
        assert_eq!(last_seqs.take([0].into_iter()), Some(vec![9]));
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
