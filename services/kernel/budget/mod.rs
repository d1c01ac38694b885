//! Bytes that the server holds for others: unfinished frames, answers that nobody reads. All of one kind share one budget. When it
//! is exceeded, the owner that holds most loses what it has held for longest, until the rest fits.

mod eviction_signal;
mod holdings;

pub use eviction_signal::EvictionSignal;
pub use holdings::Holdings;

use crate::Network;
use parking_lot::Mutex;
use proto_schemas::Aid;
use std::net::IpAddr;
use std::sync::Arc;

/// For whom bytes are held.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BytesOwner {
    /// A client that has not logged in is known by its network: an IPv4 /24, an IPv6 /56.
    Network(Network),
    Agent(Aid),
    /// All agents of another domain: its gateway can invent any number of them.
    Domain(Arc<str>),
}

impl BytesOwner {
    /// Who has not logged in.
    pub fn of_address(address: IpAddr) -> BytesOwner {
        BytesOwner::Network(Network::of_customer(address))
    }

    /// Who pays for what this agent sends to the agents of a domain.
    pub fn of_sender(sender: &Aid, own_issuer: &str) -> BytesOwner {
        match sender.issuer() {
            issuer if issuer == own_issuer => BytesOwner::Agent(sender.clone()),
            issuer => BytesOwner::Domain(issuer.into()),
        }
    }
}

/// A budget that tasks share. A task that holds bytes is told by its signal that it has to give them up.
pub struct ByteBudget(Mutex<Holdings<Arc<EvictionSignal>>>);

/// Bytes that count until this is dropped, or until they are evicted.
pub struct HeldBytes {
    budget: Arc<ByteBudget>,
    owner: BytesOwner,
    id: u64,
    bytes: usize,
}

impl ByteBudget {
    pub fn new(most: usize) -> Arc<ByteBudget> {
        Arc::new(ByteBudget(Mutex::new(Holdings::new(most))))
    }

    /// Counts bytes. If they exceed the budget, somebody is evicted by its signal: perhaps this one.
    pub fn hold(
        self: &Arc<ByteBudget>,
        owner: BytesOwner,
        bytes: usize,
        signal: &Arc<EvictionSignal>,
    ) -> HeldBytes {
        let id = self.change(|held| held.add(&owner, bytes, signal.clone()));
        HeldBytes { budget: self.clone(), owner, id, bytes }
    }

    /// What is held now.
    pub fn total(&self) -> usize {
        self.0.lock().total()
    }

    /// Signals are given after the lock is released.
    fn change<R>(&self, change: impl FnOnce(&mut Holdings<Arc<EvictionSignal>>) -> R) -> R {
        let mut held = self.0.lock();
        let result = change(&mut held);
        let evicted: Vec<_> = std::iter::from_fn(|| held.evict()).collect();
        drop(held);
        evicted.iter().for_each(|(_, signal)| signal.evict());
        result
    }
}

impl HeldBytes {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn resize(&mut self, bytes: usize) {
        self.bytes = bytes;
        self.budget.change(|held| held.resize(&self.owner, self.id, bytes));
    }

    /// Counts so many bytes more, unless their owner would have to give something up for them: then it is this.
    pub fn try_add(&mut self, more: usize) -> bool {
        self.budget.change(|held| {
            if !held.has_space(&self.owner, more) {
                return false;
            }
            self.bytes += more;
            held.resize(&self.owner, self.id, self.bytes);
            true
        })
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.budget.0.lock().remove(&self.owner, self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(n: u8) -> BytesOwner {
        BytesOwner::of_address([192, 0, n, 1].into())
    }

    #[test]
    fn who_holds_most_loses_its_oldest_and_what_is_dropped_is_free() {
        let budget = ByteBudget::new(100);
        let signals: [Arc<EvictionSignal>; 4] = Default::default();
        let first = budget.hold(network(1), 30, &signals[0]);
        let second = budget.hold(network(1), 30, &signals[1]);
        let mut other = budget.hold(network(2), 30, &signals[2]);
        assert!(!signals.iter().any(|signal| signal.is_evicted()), "90 of 100");
        other.resize(50);
        let evicted = signals.each_ref().map(|signal| signal.is_evicted());
        assert_eq!(evicted, [true, false, false, false], "the oldest of those who hold 60");
        assert_eq!(budget.total(), 80);
        drop(first);
        assert_eq!(budget.total(), 80, "it was given back already");
        drop((second, other));
        assert_eq!(budget.total(), 0);
    }

    #[test]
    fn what_is_larger_than_the_budget_evicts_itself() {
        let budget = ByteBudget::new(100);
        let signal = Arc::<EvictionSignal>::default();
        let mut held = budget.hold(network(1), 101, &signal);
        assert!(signal.is_evicted());
        held.resize(500);
        assert_eq!(budget.total(), 0);
    }

    #[test]
    fn who_holds_most_gets_no_more_and_others_do() {
        let (budget, signal) = (ByteBudget::new(100), Arc::<EvictionSignal>::default());
        let other = Arc::<EvictionSignal>::default();
        let mut large = budget.hold(network(1), 0, &signal);
        assert!(large.try_add(90) && !large.try_add(20), "it would have to give something up");
        assert_eq!((budget.total(), signal.is_evicted()), (90, false));
        let mut small = budget.hold(network(2), 0, &other);
        assert!(small.try_add(20), "somebody else holds more");
        assert_eq!((budget.total(), signal.is_evicted(), other.is_evicted()), (20, true, false));
    }

    #[test]
    fn agents_of_another_domain_pay_together() {
        let aid = |text: &str| Aid::parse(text).unwrap();
        let owner = |text: &str| BytesOwner::of_sender(&aid(text), "aid.pub");
        assert_eq!(owner("alice.aid.pub"), BytesOwner::Agent(aid("alice.aid.pub")));
        assert_eq!(owner("carol.south.test"), owner("dave.south.test"));
        assert_ne!(owner("carol.south.test"), owner("carol.north.test"));
    }
}
