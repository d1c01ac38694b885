//! Messages between the two agents of a pair: each keeps as many sends in flight to the other.

use std::time::Instant;

use super::super::random::SplitMix64;
use super::frames::{TEXT, call};
use super::pair::{PairRequest, PairSide, PairWork};

/// Durable `message.send`, the payload as long as what is said in a task.
pub(super) struct PairSends {
    aids: [String; 2],
    depth: usize,
    random: SplitMix64,
    until: Instant,
}

impl PairSends {
    /// Give each pair a seed of its own, or they write the same message ids.
    pub(super) fn new(aids: [String; 2], depth: usize, seed: u64) -> Self {
        Self { aids, depth, random: SplitMix64::new(seed), until: Instant::now() }
    }

    /// Nothing is sent after this moment.
    pub(super) fn end_at(&mut self, until: Instant) {
        self.until = until;
    }
}

impl PairWork for PairSends {
    const KINDS: usize = 1;

    fn depth(&self) -> usize {
        self.depth
    }

    fn request(&mut self, number: usize, now: Instant) -> Option<PairRequest> {
        if now >= self.until {
            return None;
        }
        let (side, [first, second]) = (sender(number), &self.aids);
        let to = match side {
            PairSide::First => second,
            PairSide::Second => first,
        };
        // The ids of the SDKs have no order, so those of the bench have none, either.
        let (high, low) = (self.random.next(), self.random.next());
        let params = format!(
            r#"{{"to":"{to}","payload":{{"type":"text","text":"{TEXT}"}},"message_id":"m-{high:016x}{low:016x}","need_render":true}}"#
        );
        Some(PairRequest { side, kind: 0, frame: call(number, "message.send", &params) })
    }

    fn answered(&mut self, number: usize, _result: &str) -> anyhow::Result<[u64; 2]> {
        Ok(match sender(number) {
            PairSide::First => [0, 1],
            PairSide::Second => [1, 0],
        })
    }
}

/// Who makes the call with this number.
fn sender(number: usize) -> PairSide {
    if number.is_multiple_of(2) { PairSide::First } else { PairSide::Second }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::*;

    #[test]
    fn each_sends_to_the_other() {
        let aids = ["alice", "bob"].map(str::to_owned);
        let mut sends = PairSends::new(aids, 2, 1);
        let now = Instant::now();
        sends.end_at(now + Duration::from_secs(1));
        for (number, side, to) in [(0, PairSide::First, "bob"), (1, PairSide::Second, "alice")] {
            let request = sends.request(number, now).unwrap();
            let frame: Value = serde_json::from_str(&request.frame).unwrap();
            assert_eq!((request.side, &frame["params"]["to"]), (side, &Value::from(to)));
            assert_eq!(frame["params"]["payload"]["text"], TEXT);
        }
    }
}
