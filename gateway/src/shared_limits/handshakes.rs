//! Sockets that have not finished their TLS and HTTP handshake: so many from one address, from one network, and all together.
//!
//! A newcomer is never refused. If its address has its share, the oldest of that address goes; else, if its network has, the
//! oldest of the address there that has most; else, if all slots are taken, the oldest of the address that has most of all. Those
//! that have said nothing at all go before those that have begun to speak.

use super::prefix_of;
use kernel::EvictionSignal;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub struct HandshakeLimits {
    pub most: usize,
    pub per_address: usize,
    pub per_prefix: usize,
}

pub struct Handshakes {
    limits: HandshakeLimits,
    slots: Mutex<HandshakeSlots>,
}

/// One handshake, counted until this is dropped, or until it is evicted.
pub struct HandshakeSlot {
    handshakes: Arc<Handshakes>,
    address: IpAddr,
    id: u64,
}

#[derive(Default)]
struct HandshakeSlots {
    next: u64,
    count: usize,
    addresses: HashMap<IpAddr, AddressSlots>,
    prefixes: HashMap<IpAddr, PrefixSlots>,
    /// How many each address has, fewest first.
    ranking: BTreeSet<(usize, IpAddr)>,
}

/// Oldest first.
#[derive(Default)]
struct AddressSlots {
    silent: BTreeMap<u64, Arc<EvictionSignal>>,
    speaking: BTreeMap<u64, Arc<EvictionSignal>>,
}

#[derive(Default)]
struct PrefixSlots {
    count: usize,
    ranking: BTreeSet<(usize, IpAddr)>,
}

impl Handshakes {
    pub fn new(limits: HandshakeLimits) -> Arc<Handshakes> {
        Arc::new(Handshakes { limits, slots: Mutex::default() })
    }

    /// Whether the next one from there costs another one its slot. Those that have spoken should have said so before.
    pub fn are_full(&self, address: IpAddr) -> bool {
        self.slots.lock().pays(address.to_canonical(), self.limits).is_some()
    }

    /// Takes a slot, if need be from another, which learns it by its signal.
    pub fn begin(self: &Arc<Handshakes>, address: IpAddr, signal: &Arc<EvictionSignal>) -> HandshakeSlot {
        let address = address.to_canonical();
        let mut slots = self.slots.lock();
        let evicted = slots.pays(address, self.limits).and_then(|pays| slots.remove_oldest(pays));
        let id = slots.add(address, signal.clone());
        drop(slots);
        if let Some(evicted) = evicted {
            evicted.evict();
        }
        HandshakeSlot { handshakes: self.clone(), address, id }
    }
}

impl HandshakeSlot {
    /// Says that the other side has begun to speak.
    pub fn spoke(&self) {
        let mut slots = self.handshakes.slots.lock();
        if let Some(of_address) = slots.addresses.get_mut(&self.address)
            && let Some(signal) = of_address.silent.remove(&self.id)
        {
            of_address.speaking.insert(self.id, signal);
        }
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.handshakes.slots.lock().remove(self.address, self.id);
    }
}

impl AddressSlots {
    fn count(&self) -> usize {
        self.silent.len() + self.speaking.len()
    }
}

impl HandshakeSlots {
    /// The address that has to give up a slot for a newcomer.
    fn pays(&self, address: IpAddr, limits: HandshakeLimits) -> Option<IpAddr> {
        if self.addresses.get(&address).map_or(0, AddressSlots::count) >= limits.per_address {
            return Some(address);
        }
        let of_prefix = self.prefixes.get(&prefix_of(address));
        let most = match of_prefix.filter(|of_prefix| of_prefix.count >= limits.per_prefix) {
            Some(of_prefix) => of_prefix.ranking.last(),
            None if self.count >= limits.most => self.ranking.last(),
            None => None,
        };
        most.map(|(_, address)| *address)
    }

    fn add(&mut self, address: IpAddr, signal: Arc<EvictionSignal>) -> u64 {
        let id = self.next;
        self.next += 1;
        let of_address = self.addresses.entry(address).or_default();
        let before = of_address.count();
        of_address.silent.insert(id, signal);
        self.recount(address, before, before + 1);
        id
    }

    fn remove_oldest(&mut self, address: IpAddr) -> Option<Arc<EvictionSignal>> {
        let of_address = self.addresses.get(&address)?;
        let (id, _) =
            of_address.silent.first_key_value().or_else(|| of_address.speaking.first_key_value())?;
        let id = *id;
        self.remove(address, id)
    }

    fn remove(&mut self, address: IpAddr, id: u64) -> Option<Arc<EvictionSignal>> {
        let of_address = self.addresses.get_mut(&address)?;
        let before = of_address.count();
        let removed = of_address.silent.remove(&id).or_else(|| of_address.speaking.remove(&id))?;
        self.recount(address, before, before - 1);
        Some(removed)
    }

    /// Keeps the counts and rankings after the slots of an address have become one more or one less.
    fn recount(&mut self, address: IpAddr, before: usize, after: usize) {
        self.count = self.count - before + after;
        let prefix = prefix_of(address);
        let of_prefix = self.prefixes.entry(prefix).or_default();
        of_prefix.count = of_prefix.count - before + after;
        for ranking in [&mut self.ranking, &mut of_prefix.ranking] {
            ranking.remove(&(before, address));
            if after > 0 {
                ranking.insert((after, address));
            }
        }
        if of_prefix.count == 0 {
            self.prefixes.remove(&prefix);
        }
        if after == 0 {
            self.addresses.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handshakes(most: usize, per_address: usize, per_prefix: usize) -> Arc<Handshakes> {
        Handshakes::new(HandshakeLimits { most, per_address, per_prefix })
    }

    fn begin(handshakes: &Arc<Handshakes>, address: &str) -> (HandshakeSlot, Arc<EvictionSignal>) {
        let signal = Arc::<EvictionSignal>::default();
        (handshakes.begin(address.parse().unwrap(), &signal), signal)
    }

    #[test]
    fn an_address_with_its_share_loses_its_own_oldest_silent_one() {
        let handshakes = handshakes(100, 3, 100);
        let (oldest, speaks) = begin(&handshakes, "192.0.2.1");
        oldest.spoke();
        let (_second, silent) = begin(&handshakes, "192.0.2.1");
        assert!(!handshakes.are_full("192.0.2.1".parse().unwrap()), "two of three");
        let (_third, later) = begin(&handshakes, "192.0.2.1");
        assert!(handshakes.are_full("192.0.2.1".parse().unwrap()));
        assert!(!handshakes.are_full("192.0.2.2".parse().unwrap()), "another address has its own share");
        let (_other, elsewhere) = begin(&handshakes, "192.0.2.2");
        let (_fourth, _) = begin(&handshakes, "192.0.2.1");
        let evicted = [&speaks, &silent, &later, &elsewhere].map(|signal| signal.is_evicted());
        assert_eq!(evicted, [false, true, false, false]);
    }

    #[test]
    fn a_network_and_the_whole_lose_what_the_largest_address_has() {
        let handshakes = handshakes(5, 100, 3);
        let (_a, single) = begin(&handshakes, "192.0.2.1");
        let (_b, first) = begin(&handshakes, "192.0.2.2");
        let (_c, second) = begin(&handshakes, "192.0.2.2");
        let (_d, _) = begin(&handshakes, "192.0.2.3");
        let evicted = [&single, &first, &second].map(|signal| signal.is_evicted());
        assert_eq!(evicted, [false, true, false], "the /24 was full");
        let (_e, of_network) = begin(&handshakes, "2001:db8::1");
        let (_f, _) = begin(&handshakes, "2001:db8::1");
        assert!(!of_network.is_evicted(), "five of five");
        let (_g, _) = begin(&handshakes, "198.51.100.1");
        assert!(of_network.is_evicted(), "all were taken, and nobody else had two");
    }

    #[test]
    fn nothing_is_kept_of_those_who_left() {
        let handshakes = handshakes(2, 2, 2);
        let kept: Vec<_> = (1..9).map(|n| begin(&handshakes, &format!("192.0.2.{n}"))).collect();
        assert_eq!(handshakes.slots.lock().count, 2);
        drop(kept);
        let slots = handshakes.slots.lock();
        assert_eq!((slots.count, slots.ranking.len()), (0, 0));
        assert!(slots.addresses.is_empty() && slots.prefixes.is_empty());
    }
}
