//! How many of something an address has at a time.

use super::{AddressLimit, Network};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

pub struct AddressCounts {
    limit: AddressLimit,
    counts: Mutex<HashMap<Network, u32>>,
}

/// One of them, counted for its address and the networks around that until this is dropped.
pub struct CountedAddress {
    counts: Arc<AddressCounts>,
    address: IpAddr,
}

impl AddressCounts {
    pub fn new(limit: AddressLimit) -> Arc<AddressCounts> {
        Arc::new(AddressCounts { limit, counts: Mutex::default() })
    }

    /// One more for an address, unless it or a network around it has as many as it may have.
    pub fn take(self: &Arc<AddressCounts>, address: IpAddr) -> Option<CountedAddress> {
        let mut counts = self.counts.lock();
        let networks = || self.limit.networks(address);
        if networks().any(|(network, most)| counts.get(&network).is_some_and(|count| *count >= most)) {
            return None;
        }
        for (network, _) in networks() {
            *counts.entry(network).or_default() += 1;
        }
        Some(CountedAddress { counts: self.clone(), address })
    }

    /// Whether nothing is counted.
    pub fn is_empty(&self) -> bool {
        self.counts.lock().is_empty()
    }
}

impl Drop for CountedAddress {
    fn drop(&mut self) {
        let mut counts = self.counts.counts.lock();
        for (network, _) in self.counts.limit.networks(self.address) {
            if let Some(count) = counts.get_mut(&network) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&network);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_its_networks_are_full_apart_and_nothing_stays_counted() {
        let counts = AddressCounts::new(AddressLimit::per_address(1));
        let take = |address: &str| counts.take(address.parse().unwrap());
        let mut held: Vec<_> = (0..4).filter_map(|n| take(&format!("2001:db8:0:{n}::1"))).collect();
        assert_eq!(held.len(), 4);
        assert!(take("2001:db8:0:0:9::9").is_none(), "the /64 has one");
        assert!(take("2001:db8:0:5::1").is_none(), "the /56 has four");
        held.extend((1..4).flat_map(|n| (0..4).filter_map(move |m| take(&format!("2001:db8:0:{n}0{m}::1")))));
        assert_eq!(held.len(), 16);
        assert!(take("2001:db8:0:900::1").is_none(), "the /48 has sixteen");
        assert!(take("2001:db8:1::1").is_some() && take("192.0.2.1").is_some());
        drop(held);
        assert!(counts.is_empty());
    }
}
