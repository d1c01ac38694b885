//! Folds of logs that somebody may ask about again: a client that polls reads only what is new.

use crate::model::result::ResultFold;
use kernel::Cache;
use parking_lot::Mutex;
use std::sync::Arc;

/// How many folds are remembered, and how large one of them may be: 32 MiB in all.
const MOST: usize = 128;
const MOST_BYTES: usize = 256 << 10;

/// A run, and the command that is asked about.
type FoldKey = (String, Option<String>);

#[derive(Clone)]
pub(crate) struct KnownFolds(Arc<Mutex<Cache<FoldKey, KnownFold>>>);

/// What a log says up to a seq. It stays true, because a log only grows.
#[derive(Clone)]
pub(super) struct KnownFold {
    pub fold: ResultFold,
    pub after_seq: i64,
}

impl Default for KnownFolds {
    fn default() -> KnownFolds {
        KnownFolds(Arc::new(Mutex::new(Cache::new(MOST))))
    }
}

impl KnownFolds {
    pub(super) fn get(&self, run: &str, command: Option<&str>) -> KnownFold {
        let known = self.0.lock().get(&key(run, command)).cloned();
        known.unwrap_or_else(|| KnownFold { fold: ResultFold::new(command), after_seq: 0 })
    }

    /// A fold that is smaller than one page is read again as fast as it is remembered.
    pub(super) fn keep(&self, run: &str, command: Option<&str>, known: &KnownFold) {
        if known.after_seq < super::PAGE || known.fold.bytes() > MOST_BYTES {
            return;
        }
        let mut folds = self.0.lock();
        if folds.peek(&key(run, command)).is_none_or(|before| before.after_seq < known.after_seq) {
            folds.insert(key(run, command), known.clone());
        }
    }
}

fn key(run: &str, command: Option<&str>) -> FoldKey {
    (run.to_owned(), command.map(str::to_owned))
}
