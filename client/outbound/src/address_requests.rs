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
pub struct AddressRequests {
    most: usize,
    busy: Mutex<HashMap<OneAddress, usize>>,
}

/// A request to an address, until it is dropped.
#[derive(Debug)]
pub(super) struct AddressRequest {
    requests: Arc<AddressRequests>,
    address: OneAddress,
}

impl AddressRequests {
    pub fn new(most: usize) -> Arc<AddressRequests> {
        Arc::new(AddressRequests { most, busy: Mutex::default() })
    }

    /// `None` while as many requests go to the address as may.
    pub(super) fn begin(self: &Arc<AddressRequests>, address: SocketAddr) -> Option<AddressRequest> {
        let address = one_address(address);
        let mut busy = self.busy.lock();
        let count = busy.get(&address).copied().unwrap_or_default();
        if count >= self.most {
            return None;
        }
        busy.insert(address, count + 1);
        Some(AddressRequest { requests: self.clone(), address })
    }
}

impl Drop for AddressRequest {
    fn drop(&mut self) {
        let mut busy = self.requests.busy.lock();
        if let Some(count) = busy.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                busy.remove(&self.address);
            }
        }
    }
}

fn one_address(address: SocketAddr) -> OneAddress {
    match address.ip().to_canonical() {
        ip if !is_public(ip) => (ip, address.port()),
        IpAddr::V6(ip) => match ip.segments() {
            // An IPv4 address behind a translator: they all have one prefix.
            [0x64, 0xff9b, 0, 0, 0, 0, ..] => (ip.into(), 0),
            [a, b, c, d, ..] => (Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into(), 0),
        },
        ip => (ip, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_at_once_whatever_its_port() {
        let requests = AddressRequests::new(2);
        let begin = |text: &str| requests.begin(text.parse().unwrap());
        let held = [begin("8.8.8.8:443"), begin("[::ffff:8.8.8.8]:8443")];
        assert!(held.iter().all(Option::is_some) && begin("8.8.8.8:80").is_none());
        assert!(begin("8.8.4.4:443").is_some(), "another address");
        let networks = [begin("[2606:4700::1]:443"), begin("[2606:4700::ffff:1]:443")];
        assert!(networks.iter().all(Option::is_some) && begin("[2606:4700::2]:443").is_none());
        assert!(begin("[2606:4700:0:1::2]:443").is_some(), "another network");
        let translated = [begin("[64:ff9b::808:808]:443"), begin("[64:ff9b::808:808]:443")];
        assert!(translated.iter().all(Option::is_some) && begin("[64:ff9b::808:404]:443").is_some());
        let private = [begin("127.0.0.1:1"), begin("127.0.0.1:1")];
        assert!(private.iter().all(Option::is_some) && begin("127.0.0.1:1").is_none());
        assert!(begin("127.0.0.1:2").is_some(), "another server of this machine");
        drop(held);
        assert!(begin("8.8.8.8:80").is_some());
        drop((networks, translated, private));
        assert!(requests.busy.lock().is_empty());
    }
}
