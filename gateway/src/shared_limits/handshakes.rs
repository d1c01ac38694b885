//! Sockets that have not finished their TLS and HTTP handshake: so many from one address, from the networks around it, and all together.
//!
//! A newcomer is never refused. If its address has its share, the oldest of that address goes; else, if a network around it has, the
//! oldest of the address there that has most; else, if all slots are taken, the oldest of the address that has most of all. Those
//! that have said nothing at all go before those that have begun to speak.

use kernel::{AddressLimit, EvictionSignal, Network};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub struct HandshakeLimits {
    pub most: usize,
    pub by_address: AddressLimit,
}

pub struct Handshakes(Mutex<HandshakeSlots>);

/// One handshake, counted until this is dropped, or until it is evicted.
pub struct HandshakeSlot {
    handshakes: Arc<Handshakes>,
    address: Network,
    id: u64,
}

struct HandshakeSlots {
    limits: HandshakeLimits,
    next: u64,
    addresses: HashMap<Network, AddressSlots>,
    all: NetworkSlots,
    /// Of the addresses, and of the networks around them.
    networks: HashMap<Network, NetworkSlots>,
}

/// Oldest first.
#[derive(Default)]
struct AddressSlots {
    silent: BTreeMap<u64, Arc<EvictionSignal>>,
    speaking: BTreeMap<u64, Arc<EvictionSignal>>,
}

#[derive(Default)]
struct NetworkSlots {
    count: usize,
    /// How many each address in it has, fewest first.
    ranking: BTreeSet<(usize, Network)>,
}

impl Handshakes {
    pub fn new(limits: HandshakeLimits) -> Arc<Handshakes> {
        Arc::new(Handshakes(Mutex::new(HandshakeSlots {
            limits,
            next: 0,
            addresses: HashMap::new(),
            all: NetworkSlots::default(),
            networks: HashMap::new(),
        })))
    }

    /// Whether the next one from there costs another one its slot. Those that have spoken should have said so before.
    pub fn are_full(&self, address: IpAddr) -> bool {
        self.0.lock().pays(address).is_some()
    }

    /// Takes a slot, if need be from another, which learns it by its signal.
    pub fn begin(self: &Arc<Handshakes>, address: IpAddr, signal: &Arc<EvictionSignal>) -> HandshakeSlot {
        let mut slots = self.0.lock();
        let evicted = slots.pays(address).and_then(|pays| slots.remove_oldest(pays));
        let address = Network::of_one(address);
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
        let mut slots = self.handshakes.0.lock();
        if let Some(of_address) = slots.addresses.get_mut(&self.address)
            && let Some(signal) = of_address.silent.remove(&self.id)
        {
            of_address.speaking.insert(self.id, signal);
        }
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.handshakes.0.lock().remove(self.address, self.id);
    }
}

impl AddressSlots {
    fn count(&self) -> usize {
        self.silent.len() + self.speaking.len()
    }
}

impl HandshakeSlots {
    /// The address that has to give up a slot for a newcomer.
    fn pays(&self, address: IpAddr) -> Option<Network> {
        let full = self.limits.by_address.networks(address).find_map(|(network, most)| {
            self.networks.get(&network).filter(|of_network| of_network.count >= most as usize)
        });
        let all_are_taken = self.all.count >= self.limits.most;
        let (_, largest) = full.or(all_are_taken.then_some(&self.all))?.ranking.last()?;
        Some(*largest)
    }

    fn add(&mut self, address: Network, signal: Arc<EvictionSignal>) -> u64 {
        let id = self.next;
        self.next += 1;
        let of_address = self.addresses.entry(address).or_default();
        let before = of_address.count();
        of_address.silent.insert(id, signal);
        self.recount(address, before, before + 1);
        id
    }

    fn remove_oldest(&mut self, address: Network) -> Option<Arc<EvictionSignal>> {
        let of_address = self.addresses.get(&address)?;
        let (id, _) =
            of_address.silent.first_key_value().or_else(|| of_address.speaking.first_key_value())?;
        let id = *id;
        self.remove(address, id)
    }

    fn remove(&mut self, address: Network, id: u64) -> Option<Arc<EvictionSignal>> {
        let of_address = self.addresses.get_mut(&address)?;
        let before = of_address.count();
        let removed = of_address.silent.remove(&id).or_else(|| of_address.speaking.remove(&id))?;
        self.recount(address, before, before - 1);
        Some(removed)
    }

    /// Keeps the counts and rankings after the slots of an address have become one more or one less.
    fn recount(&mut self, address: Network, before: usize, after: usize) {
        self.all.recount(address, before, after);
        for (network, _) in self.limits.by_address.networks(address.first()) {
            let of_network = self.networks.entry(network).or_default();
            of_network.recount(address, before, after);
            if of_network.count == 0 {
                self.networks.remove(&network);
            }
        }
        if after == 0 {
            self.addresses.remove(&address);
        }
    }
}

impl NetworkSlots {
    fn recount(&mut self, address: Network, before: usize, after: usize) {
        self.count = self.count - before + after;
        self.ranking.remove(&(before, address));
        if after > 0 {
            self.ranking.insert((after, address));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handshakes(most: usize, per_address: u32, per_network: u32) -> Arc<Handshakes> {
        let by_address = AddressLimit::per_address(per_address).per_network(per_network);
        Handshakes::new(HandshakeLimits { most, by_address })
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
        assert_eq!(handshakes.0.lock().all.count, 2);
        drop(kept);
        let slots = handshakes.0.lock();
        assert_eq!((slots.all.count, slots.all.ranking.len()), (0, 0));
        assert!(slots.addresses.is_empty() && slots.networks.is_empty());
    }

    #[test]
    fn a_64_is_one_address_and_a_48_has_sixteen_times_its_share() {
        let handshakes = handshakes(1000, 2, 8);
        let (_a, first) = begin(&handshakes, "2001:db8::1");
        let (_b, _) = begin(&handshakes, "2001:db8::2");
        let (_c, _) = begin(&handshakes, "2001:db8::3");
        assert!(first.is_evicted(), "the /64 had two");
        let addresses =
            (1..16).flat_map(|n| [format!("2001:db8:0:{n:x}00::1"), format!("2001:db8:0:{n:x}01::1")]);
        let _kept: Vec<_> = addresses.map(|address| begin(&handshakes, &address)).collect();
        assert!(handshakes.are_full("2001:db8:0:ff00::1".parse().unwrap()), "the /48 has 32");
        assert!(!handshakes.are_full("2001:db8:1::1".parse().unwrap()));
    }
}
