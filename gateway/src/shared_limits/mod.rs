//! Limits that all sockets share. When one is reached, nobody is refused who has just come: whoever holds most gives up what it has
//! held for longest.

mod handshakes;

pub use handshakes::{HandshakeLimits, HandshakeSlot, Handshakes};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The network of an address: the /24 of an IPv4 address, the /64 of an IPv6 address.
pub fn prefix_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, 0))
        }
        IpAddr::V6(v6) => {
            let s = v6.segments();
            IpAddr::V6(Ipv6Addr::new(s[0], s[1], s[2], s[3], 0, 0, 0, 0))
        }
    }
}
