//! Signed calls that were executed: the same signature is not accepted a second time.
//!
//! A signature is kept from the moment its call begins, so that of two copies that come at the same moment one is executed.
//! A call that was refused has changed nothing: clients send it again with the same signature, and then it is executed. One
//! whose outcome is not known counts as executed.

use kernel::{Aid, RpcError, codes};
use parking_lot::Mutex;
use ring::digest;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The most signatures that are kept of one agent, and of all. Beyond that the oldest are forgotten: of the agent, or of those
/// that have most. Only the owner of a key can make new ones, so nobody else gets rid of an old one this way.
const PER_AGENT: usize = 8 << 10;
const TOTAL: usize = 1 << 20;

/// When a call was signed, in unix seconds, and what tells its signature from all others.
pub(super) type SignatureKey = (i64, [u8; 16]);

#[derive(Debug, Default)]
pub(super) struct ExecutedCalls(Mutex<KeptSignatures>);

#[derive(Debug, Default)]
struct KeptSignatures {
    agents: HashMap<Aid, BTreeSet<SignatureKey>>,
    total: usize,
}

/// A signed call that is being executed.
#[derive(Debug)]
pub struct SignatureClaim {
    calls: Arc<ExecutedCalls>,
    aid: Aid,
    key: SignatureKey,
}

impl SignatureClaim {
    /// Says that the call was refused. If nobody does, it counts as executed.
    pub fn failed(&self, error: &RpcError) {
        let timed_out = error.data("kind").is_some_and(|kind| kind == codes::HANDLER_TIMEOUT.kind().as_str());
        if !timed_out {
            self.calls.0.lock().remove(&self.aid, &self.key);
        }
    }
}

impl ExecutedCalls {
    /// Begins a call of an agent; `None` if its signature was used before. Signatures from before `oldest` are not accepted any
    /// more, and forgotten.
    pub fn begin(self: &Arc<Self>, aid: &Aid, key: SignatureKey, oldest: i64) -> Option<SignatureClaim> {
        let new = self.0.lock().add(aid, key, oldest);
        new.then(|| SignatureClaim { calls: self.clone(), aid: aid.clone(), key })
    }

    /// Forgets what is too old to be accepted.
    pub fn forget_before(&self, oldest: i64) {
        let mut kept = self.0.lock();
        let KeptSignatures { agents, total } = &mut *kept;
        agents.retain(|_, signatures| {
            *total -= forget_old(signatures, oldest);
            !signatures.is_empty()
        });
    }
}

impl KeptSignatures {
    /// Says whether it is new.
    fn add(&mut self, aid: &Aid, key: SignatureKey, oldest: i64) -> bool {
        if self.total >= TOTAL {
            self.halve_largest();
        }
        let signatures = self.agents.entry(aid.clone()).or_default();
        if signatures.contains(&key) {
            return false;
        }
        self.total -= forget_old(signatures, oldest);
        if signatures.len() >= PER_AGENT && signatures.pop_first().is_some() {
            self.total -= 1;
        }
        signatures.insert(key);
        self.total += 1;
        true
    }

    fn remove(&mut self, aid: &Aid, key: &SignatureKey) {
        let Some(signatures) = self.agents.get_mut(aid) else { return };
        if signatures.remove(key) {
            self.total -= 1;
        }
        if signatures.is_empty() {
            self.agents.remove(aid);
        }
    }

    /// Forgets the older half of the signatures of every agent that has more than half as many as the one with most.
    fn halve_largest(&mut self) {
        let most = self.agents.values().map(BTreeSet::len).max().unwrap_or_default();
        let KeptSignatures { agents, total } = self;
        agents.retain(|_, signatures| {
            if signatures.len() * 2 > most {
                for _ in 0..signatures.len().div_ceil(2) {
                    signatures.pop_first();
                    *total -= 1;
                }
            }
            !signatures.is_empty()
        });
    }
}

/// Gives how many were forgotten.
fn forget_old(signatures: &mut BTreeSet<SignatureKey>, oldest: i64) -> usize {
    let before = signatures.len();
    while signatures.first().is_some_and(|(signed_at, _)| *signed_at < oldest) {
        signatures.pop_first();
    }
    before - signatures.len()
}

/// What tells a signature from all others. Whoever sees an ECDSA signature (r, s) can write (r, -s), which is valid as well:
/// what was signed and r are the same in both.
pub(super) fn signature_key(signed_at: i64, signed: &str, der: &[u8]) -> SignatureKey {
    let mut hash = digest::Context::new(&digest::SHA256);
    hash.update(signed.as_bytes());
    hash.update(first_integer(der).unwrap_or(der));
    let mut key = [0; 16];
    key.copy_from_slice(&hash.finish().as_ref()[..16]);
    (signed_at, key)
}

/// The r of a signature, which is a sequence of two integers. Those of P-256 and P-384 have lengths of one byte.
fn first_integer(der: &[u8]) -> Option<&[u8]> {
    let length = usize::from(*der.get(3)?);
    der.get(4..4 + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alice() -> Aid {
        Aid::parse("alice.agents.localhost").unwrap()
    }

    fn key(signed_at: i64, number: u128) -> SignatureKey {
        (signed_at, number.to_be_bytes())
    }

    #[test]
    fn a_signature_is_accepted_once_and_again_after_a_refusal() {
        let calls = Arc::new(ExecutedCalls::default());
        let begin = || calls.begin(&alice(), key(100, 1), 0);
        let claim = begin().unwrap();
        assert!(begin().is_none(), "while it is being executed");
        claim.failed(&RpcError::plain(codes::NOT_FOUND));
        assert!(calls.0.lock().agents.is_empty());
        drop(begin().unwrap());
        assert!(begin().is_none());
        assert!(calls.begin(&alice(), key(100, 2), 0).is_some(), "another one");
    }

    #[test]
    fn a_call_whose_outcome_is_not_known_counts_as_executed() {
        let calls = Arc::new(ExecutedCalls::default());
        drop(calls.begin(&alice(), key(100, 1), 0));
        assert!(calls.begin(&alice(), key(100, 1), 0).is_none());
        let claim = calls.begin(&alice(), key(100, 2), 0).unwrap();
        claim.failed(&RpcError::plain(codes::HANDLER_TIMEOUT));
        assert!(calls.begin(&alice(), key(100, 2), 0).is_none());
    }

    #[test]
    fn what_is_too_old_is_forgotten_and_one_agent_is_not_all() {
        let calls = Arc::new(ExecutedCalls::default());
        for number in 0..PER_AGENT as u128 + 10 {
            assert!(calls.begin(&alice(), key(100, number), 0).is_some());
        }
        assert_eq!(calls.0.lock().total, PER_AGENT);
        let carol = Aid::parse("carol.agents.localhost").unwrap();
        assert!(calls.begin(&carol, key(150, 1), 0).is_some());
        calls.forget_before(101);
        assert_eq!(calls.0.lock().total, 1);
        assert!(calls.begin(&carol, key(150, 1), 101).is_none());
        assert!(calls.begin(&carol, key(160, 2), 151).is_some());
        assert_eq!(calls.0.lock().total, 1, "and while others are added");
    }

    #[test]
    fn whoever_has_most_loses_the_older_half() {
        let mut kept = KeptSignatures::default();
        let carol = Aid::parse("carol.agents.localhost").unwrap();
        for number in 0..10u8 {
            kept.add(&alice(), key(i64::from(number), u128::from(number)), 0);
        }
        kept.add(&carol, key(0, 1), 0);
        kept.halve_largest();
        assert_eq!((kept.total, kept.agents[&carol].len()), (6, 1));
        assert_eq!(kept.agents[&alice()].first().map(|(signed_at, _)| *signed_at), Some(5));
    }

    #[test]
    fn the_second_number_of_a_signature_does_not_count() {
        let [one, other] = [3u8, 4].map(|s| [0x30, 6, 2, 1, 9, 2, 1, s]);
        assert_eq!(signature_key(1, "text", &one), signature_key(1, "text", &other));
        assert_ne!(signature_key(1, "text", &one), signature_key(1, "other text", &one));
        assert_ne!(signature_key(1, "text", &one), signature_key(1, "text", &[0x30, 6, 2, 1, 8, 2, 1, 3]));
    }
}
