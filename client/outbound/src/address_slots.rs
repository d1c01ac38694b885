//! How many requests go to one address at once.

use super::is_public;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// What counts as one address: an IPv4 address, or a /64 of IPv6. In private networks each port counts on its own, because one machine
/// has many servers there.
type OneAddress = (IpAddr, u16);

/// Counts the requests to each address.
#[derive(Debug)]
pub struct AddressSlots {
    most: usize,
    busy: Mutex<HashMap<OneAddress, usize>>,
}

/// A request to an address, until it is dropped.
#[derive(Debug)]
pub(super) struct AddressSlot {
    slots: Arc<AddressSlots>,
    address: OneAddress,
}

impl AddressSlots {
    pub fn new(most: usize) -> Arc<AddressSlots> {
        Arc::new(AddressSlots { most, busy: Mutex::default() })
    }

    /// `None` while as many requests go to the address as may.
    pub(super) fn take(self: &Arc<AddressSlots>, address: SocketAddr) -> Option<AddressSlot> {
        let address = one_address(address);
        let mut busy = self.busy.lock();
        let count = busy.get(&address).copied().unwrap_or_default();
        if count >= self.most {
            return None;
        }
        busy.insert(address, count + 1);
        Some(AddressSlot { slots: self.clone(), address })
    }
}

impl Drop for AddressSlot {
    fn drop(&mut self) {
        let mut busy = self.slots.busy.lock();
        if let Some(count) = busy.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                busy.remove(&self.address);
            }
        }
    }
}

fn one_address(address: SocketAddr) -> OneAddress {
    match address.ip() {
        ip if !is_public(ip) => (ip, address.port()),
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_none() => {
            let [a, b, c, d, ..] = ip.segments();
            (Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into(), 0)
        }
        ip => (ip.to_canonical(), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_at_once_whatever_its_port() {
        let slots = AddressSlots::new(2);
        let take = |text: &str| slots.take(text.parse().unwrap());
        let held = [take("8.8.8.8:443"), take("[::ffff:8.8.8.8]:8443")];
        assert!(held.iter().all(Option::is_some) && take("8.8.8.8:80").is_none());
        assert!(take("8.8.4.4:443").is_some(), "another address");
        let networks = [take("[2606:4700::1]:443"), take("[2606:4700::ffff:1]:443")];
        assert!(networks.iter().all(Option::is_some) && take("[2606:4700::2]:443").is_none());
        assert!(take("[2606:4700:0:1::2]:443").is_some(), "another network");
        let private = [take("127.0.0.1:1"), take("127.0.0.1:1")];
        assert!(private.iter().all(Option::is_some) && take("127.0.0.1:1").is_none());
        assert!(take("127.0.0.1:2").is_some(), "another server of this machine");
        drop(held);
        assert!(take("8.8.8.8:80").is_some());
        drop((networks, private));
        assert!(slots.busy.lock().is_empty());
    }
}
