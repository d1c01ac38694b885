//! Bytes that the server holds for others: unfinished frames, and answers that nobody reads. All of them share one budget. When
//! it is exceeded, the owner that holds most loses what it has held for longest, until the rest fits.

use super::EvictionSignal;
use kernel::Aid;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// For whom bytes are held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BytesOwner {
    /// Whoever has not logged in is known by its network.
    Network(IpAddr),
    Agent(Aid),
}

pub struct ByteBudget {
    most: usize,
    held: Mutex<HeldByOwner>,
}

#[derive(Default)]
struct HeldByOwner {
    total: usize,
    next: u64,
    owners: HashMap<BytesOwner, OwnerBytes>,
}

#[derive(Default)]
struct OwnerBytes {
    bytes: usize,
    /// Oldest first.
    holders: BTreeMap<u64, HolderBytes>,
}

struct HolderBytes {
    bytes: usize,
    signal: Arc<EvictionSignal>,
}

/// Bytes that count until this is dropped, or until they are evicted.
pub struct HeldBytes {
    budget: Arc<ByteBudget>,
    owner: BytesOwner,
    id: u64,
    bytes: usize,
}

impl ByteBudget {
    pub fn new(most: usize) -> Arc<ByteBudget> {
        Arc::new(ByteBudget { most, held: Mutex::default() })
    }

    /// Counts bytes. If they exceed the budget, somebody is evicted by its signal: perhaps this one.
    pub fn hold(
        self: &Arc<ByteBudget>,
        owner: BytesOwner,
        bytes: usize,
        signal: &Arc<EvictionSignal>,
    ) -> HeldBytes {
        let mut held = self.held.lock();
        let id = held.next;
        held.next += 1;
        let of_owner = held.owners.entry(owner.clone()).or_default();
        of_owner.holders.insert(id, HolderBytes { bytes: 0, signal: signal.clone() });
        let evicted = held.resize(&owner, id, bytes, self.most);
        drop(held);
        evicted.iter().for_each(|signal| signal.evict());
        HeldBytes { budget: self.clone(), owner, id, bytes }
    }

    /// Whether an owner could hold so many bytes more without being the one that has to give something up.
    fn has_space(&self, held: &HeldByOwner, owner: &BytesOwner, more: usize) -> bool {
        let own = held.owners.get(owner).map_or(0, |owner| owner.bytes) + more;
        held.total + more <= self.most
            || held.owners.iter().any(|(other, of)| other != owner && of.bytes > own)
    }

    /// What is held now.
    #[cfg(test)]
    pub fn total(&self) -> usize {
        self.held.lock().total
    }
}

impl HeldBytes {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn resize(&mut self, bytes: usize) {
        let evicted = self.budget.held.lock().resize(&self.owner, self.id, bytes, self.budget.most);
        self.bytes = bytes;
        evicted.iter().for_each(|signal| signal.evict());
    }

    /// Counts so many bytes more, unless their owner would have to give something up for them: then it is this.
    pub fn try_add(&mut self, more: usize) -> bool {
        let mut held = self.budget.held.lock();
        if !self.budget.has_space(&held, &self.owner, more) {
            return false;
        }
        self.bytes += more;
        let evicted = held.resize(&self.owner, self.id, self.bytes, self.budget.most);
        drop(held);
        evicted.iter().for_each(|signal| signal.evict());
        true
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.budget.held.lock().remove(&self.owner, self.id);
    }
}

impl HeldByOwner {
    /// Those that have to go. What was evicted before is not counted again.
    fn resize(&mut self, owner: &BytesOwner, id: u64, bytes: usize, most: usize) -> Vec<Arc<EvictionSignal>> {
        let Some(of_owner) = self.owners.get_mut(owner) else { return Vec::new() };
        let Some(holder) = of_owner.holders.get_mut(&id) else { return Vec::new() };
        of_owner.bytes = of_owner.bytes - holder.bytes + bytes;
        self.total = self.total - holder.bytes + bytes;
        holder.bytes = bytes;
        let mut evicted = Vec::new();
        while self.total > most
            && let Some(signal) = self.evict()
        {
            evicted.push(signal);
        }
        evicted
    }

    /// The oldest of the owner that holds most. Owners are few: each of them holds kilobytes of a budget of megabytes.
    fn evict(&mut self) -> Option<Arc<EvictionSignal>> {
        let largest = self.owners.iter().max_by_key(|(_, owner)| owner.bytes);
        let (owner, id) = largest.and_then(|(owner, of_owner)| {
            let (id, _) = of_owner.holders.first_key_value()?;
            Some((owner.clone(), *id))
        })?;
        self.remove(&owner, id)
    }

    fn remove(&mut self, owner: &BytesOwner, id: u64) -> Option<Arc<EvictionSignal>> {
        let of_owner = self.owners.get_mut(owner)?;
        let holder = of_owner.holders.remove(&id)?;
        of_owner.bytes -= holder.bytes;
        self.total -= holder.bytes;
        if of_owner.holders.is_empty() {
            self.owners.remove(owner);
        }
        Some(holder.signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(n: u8) -> BytesOwner {
        BytesOwner::Network([192, 0, 2, n].into())
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
        assert!(budget.held.lock().owners.is_empty());
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
        let network = |last: u8| BytesOwner::Network([192, 0, 2, last].into());
        let mut large = budget.hold(network(1), 0, &signal);
        assert!(large.try_add(90) && !large.try_add(20), "it would have to give something up");
        assert_eq!((budget.total(), signal.is_evicted()), (90, false));
        let mut small = budget.hold(network(2), 0, &other);
        assert!(small.try_add(20), "somebody else holds more");
        assert_eq!((budget.total(), signal.is_evicted(), other.is_evicted()), (20, true, false));
    }
}
