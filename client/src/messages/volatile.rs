//! Messages without a seq: they are known by a cursor, and the server deletes them when it is acknowledged.

use std::collections::{HashSet, VecDeque};

/// How many cursors are remembered. A pull and an event may both bring a message, close together.
const REMEMBERED: usize = 4096;

#[derive(Default)]
pub(crate) struct VolatileCursors {
    known: HashSet<String>,
    in_order: VecDeque<String>,
    /// Those that were handed out and are to be acknowledged.
    to_acknowledge: Vec<String>,
}

impl VolatileCursors {
    /// Whether this cursor comes for the first time.
    pub(crate) fn is_new(&mut self, cursor: &str) -> bool {
        if !self.known.insert(cursor.to_owned()) {
            return false;
        }
        self.in_order.push_back(cursor.to_owned());
        if self.in_order.len() > REMEMBERED
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }

    pub(crate) fn handed_out(&mut self, cursor: Option<&str>) {
        self.to_acknowledge.extend(cursor.map(str::to_owned));
    }

    pub(crate) fn unacknowledged(&self) -> &[String] {
        &self.to_acknowledge
    }

    /// The first so many are acknowledged.
    pub(crate) fn acknowledged(&mut self, many: usize) {
        self.to_acknowledge.drain(..many);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_new_once_and_memory_is_bounded() {
        let mut volatile = VolatileCursors::default();
        assert!(volatile.is_new("a") && !volatile.is_new("a"));
        for n in 0..REMEMBERED * 2 {
            assert!(volatile.is_new(&n.to_string()));
        }
        assert_eq!((volatile.known.len(), volatile.in_order.len()), (REMEMBERED, REMEMBERED));
    }
}
