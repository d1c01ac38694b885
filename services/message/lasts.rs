//! The last number of each inbox as this process knows it, on PostgreSQL. Another process may have given more since: the
//! commit finds that out, because a number that is taken cannot be stored again.

use parking_lot::Mutex;
use std::collections::HashMap;

/// How many are known by heart before all are forgotten and asked for again.
const MOST: usize = 200_000;

/// What stands for a number that nobody here knows.
pub(super) const UNKNOWN: i64 = -1;

#[derive(Default)]
pub(super) struct Lasts(Mutex<HashMap<i64, i64>>);

impl Lasts {
    /// It is forgotten until the commit it is for has succeeded: of one that was lost on its way nothing is known.
    pub fn take(&self, inbox: i64) -> i64 {
        self.0.lock().remove(&inbox).unwrap_or(UNKNOWN)
    }

    pub fn put(&self, inbox: i64, seq: i64) {
        let mut lasts = self.0.lock();
        if lasts.len() >= MOST {
            lasts.clear();
        }
        let last = lasts.entry(inbox).or_default();
        *last = seq.max(*last);
    }
}
