//! A Bloom filter over the messages that were sent: for nearly every new one it says "not sent before" without a query.

use crate::store::stored_message::MessageKey;
use parking_lot::Mutex;

/// 64 bytes, which a processor reads at once; a message sets four bits of them.
type FilterBlock = [u64; 8];
/// 4 MiB: at two million messages one in two hundred is looked up in vain, at a hundred million all are.
const BLOCKS: usize = 1 << 16;

/// What was sent in this period and in the one before. A message is not stored for longer than a period.
#[derive(Default)]
pub(crate) struct SeenFilter(Mutex<Periods>);

#[derive(Default)]
struct Periods {
    now: Vec<FilterBlock>,
    before: Vec<FilterBlock>,
    /// Until everything that is stored was added, any message may have been sent before.
    complete: bool,
    since: i64,
}

impl SeenFilter {
    pub fn add(&self, keys: impl Iterator<Item = MessageKey>) {
        let mut periods = self.0.lock();
        for key in keys {
            set(&mut periods.now, key);
        }
    }

    /// Whether it may have been sent before.
    pub fn may_contain(&self, key: MessageKey) -> bool {
        let periods = self.0.lock();
        !periods.complete || contains(&periods.now, key) || contains(&periods.before, key)
    }

    pub fn complete(&self, now: i64) {
        let mut periods = self.0.lock();
        (periods.complete, periods.since) = (true, now);
    }

    /// Begins a new period when this one has lasted long enough.
    pub fn rotate(&self, now: i64, period: i64) {
        let mut periods = self.0.lock();
        if periods.complete && now - periods.since >= period {
            periods.before = std::mem::take(&mut periods.now);
            periods.since = now;
        }
    }
}

/// A block, and a word and a bit in it for each of four bytes.
fn bits(key: MessageKey) -> (usize, [(usize, u64); 4]) {
    let [a, b, c, d, e, f, g, h] = key.rest();
    let bit = |word: u8, bit: u8| (usize::from(word % 8), 1_u64 << (bit % 64));
    let block = key.number() as u64 as usize % BLOCKS;
    (block, [bit(a, b), bit(c, d), bit(e, f), bit(g, h)])
}

fn set(blocks: &mut Vec<FilterBlock>, key: MessageKey) {
    if blocks.is_empty() {
        *blocks = vec![[0; 8]; BLOCKS];
    }
    let (block, bits) = bits(key);
    for (word, bit) in bits {
        blocks[block][word] |= bit;
    }
}

fn contains(blocks: &[FilterBlock], key: MessageKey) -> bool {
    let (block, bits) = bits(key);
    blocks.get(block).is_some_and(|block| bits.iter().all(|(word, bit)| block[*word] & bit != 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::Aid;

    fn key(name: &str) -> MessageKey {
        MessageKey::new(&Aid::parse("alice.aid.pub").unwrap(), name)
    }

    #[test]
    fn what_was_added_is_always_contained_and_little_else() {
        let filter = SeenFilter::default();
        assert!(filter.may_contain(key("x")), "before it is complete it excludes nothing");
        filter.complete(0);
        filter.add((0..10_000).map(|n| key(&format!("m{n}"))));
        assert!((0..10_000).all(|n| filter.may_contain(key(&format!("m{n}")))));
        let wrong = (0..10_000).filter(|n| filter.may_contain(key(&format!("other{n}")))).count();
        assert!(wrong < 100, "{wrong} of 10000");
    }

    #[test]
    fn a_period_is_contained_during_the_next_one() {
        let filter = SeenFilter::default();
        filter.complete(0);
        filter.add([key("old")].into_iter());
        filter.rotate(99, 100);
        filter.rotate(100, 100);
        assert!(filter.may_contain(key("old")));
        filter.rotate(200, 100);
        assert!(!filter.may_contain(key("old")));
    }
}
