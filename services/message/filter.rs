//! Whether a message may have been sent before: "surely not" without asking the disk, for nearly every one.

use super::stored_message::Key;
use parking_lot::Mutex;

/// 64 bytes, what a processor reads at once; four bits of them say yes.
type Block = [u64; 8];
/// 4 MiB: one in two hundred is asked about in vain at two million messages, and all are at a hundred million.
const BLOCKS: usize = 1 << 16;

/// What was sent in this period and in the one before. Messages do not live longer than a period.
#[derive(Default)]
pub(super) struct Filter(Mutex<Periods>);

#[derive(Default)]
struct Periods {
    now: Vec<Block>,
    before: Vec<Block>,
    /// Until all that is stored was added, nothing is sure.
    complete: bool,
    since: i64,
}

impl Filter {
    pub fn add(&self, keys: impl Iterator<Item = Key>) {
        let mut periods = self.0.lock();
        for key in keys {
            set(&mut periods.now, key);
        }
    }

    /// Whether it may have been sent before.
    pub fn may_hold(&self, key: Key) -> bool {
        let periods = self.0.lock();
        !periods.complete || holds(&periods.now, key) || holds(&periods.before, key)
    }

    pub fn complete(&self, now: i64) {
        let mut periods = self.0.lock();
        (periods.complete, periods.since) = (true, now);
    }

    /// Begins a new period when this one has lasted long enough.
    pub fn turn(&self, now: i64, period: i64) {
        let mut periods = self.0.lock();
        if periods.complete && now - periods.since >= period {
            periods.before = std::mem::take(&mut periods.now);
            periods.since = now;
        }
    }
}

/// A block, and a word and a bit in it for each of four bytes.
fn place(key: Key) -> (usize, [(usize, u64); 4]) {
    let [a, b, c, d, e, f, g, h] = key.rest();
    let bit = |word: u8, bit: u8| (usize::from(word % 8), 1_u64 << (bit % 64));
    let block = key.number() as u64 as usize % BLOCKS;
    (block, [bit(a, b), bit(c, d), bit(e, f), bit(g, h)])
}

fn set(blocks: &mut Vec<Block>, key: Key) {
    if blocks.is_empty() {
        *blocks = vec![[0; 8]; BLOCKS];
    }
    let (block, bits) = place(key);
    for (word, bit) in bits {
        blocks[block][word] |= bit;
    }
}

fn holds(blocks: &[Block], key: Key) -> bool {
    let (block, bits) = place(key);
    blocks.get(block).is_some_and(|block| bits.iter().all(|(word, bit)| block[*word] & bit != 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Aid;

    fn key(name: &str) -> Key {
        Key::new(&Aid::parse("alice.aid.pub").unwrap(), name)
    }

    #[test]
    fn what_was_added_is_never_denied_and_little_else_is_claimed() {
        let filter = Filter::default();
        assert!(filter.may_hold(key("x")), "before it is complete nothing is sure");
        filter.complete(0);
        filter.add((0..10_000).map(|n| key(&format!("m{n}"))));
        assert!((0..10_000).all(|n| filter.may_hold(key(&format!("m{n}")))));
        let claimed = (0..10_000).filter(|n| filter.may_hold(key(&format!("other{n}")))).count();
        assert!(claimed < 100, "{claimed} of 10000");
    }

    #[test]
    fn a_period_is_remembered_for_another_one() {
        let filter = Filter::default();
        filter.complete(0);
        filter.add([key("old")].into_iter());
        filter.turn(99, 100);
        filter.turn(100, 100);
        assert!(filter.may_hold(key("old")));
        filter.turn(200, 100);
        assert!(!filter.may_hold(key("old")));
    }
}
