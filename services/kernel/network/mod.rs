//! Addresses of clients and the networks around them, as every limit by address counts them.
//!
//! An IPv6 client can use each address of its /64, so a /64 is one address. A client that has a /56 or a /48 has many of those: all of
//! a /56 have the limits of 4 addresses, all of a /48 those of 16. Of IPv4 an address is one address; some limits have a second one for
//! the /24. A limit is an [`AddressLimit`], which has no way to leave the networks out.

mod counts;

pub use counts::{AddressCounts, CountedAddress};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// How many addresses the networks of IPv6 count as.
const ADDRESSES_OF_56: u32 = 4;
const ADDRESSES_OF_48: u32 = 16;

/// A range of addresses: `192.0.2.0/24`. A single one is written without its prefix length, too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network(IpNet);

/// What one address may have, and the networks around it. The number has the unit of the limit: sockets, calls per minute.
#[derive(Clone, Copy, Debug)]
pub struct AddressLimit {
    per_address: u32,
    /// Of an IPv4 /24 or an IPv6 /56, where the limit has a number for them.
    per_network: Option<u32>,
}

impl Network {
    /// What counts as one address: an IPv4 address, or the /64 of an IPv6 address.
    pub fn of_one(address: IpAddr) -> Network {
        Network::around(address, 32, 64)
    }

    /// What one customer of a provider often has: the /24 of an IPv4 address, the /56 of an IPv6 address.
    pub fn of_customer(address: IpAddr) -> Network {
        Network::around(address, 24, 56)
    }

    /// Whether it counts as one address.
    pub fn is_one(self) -> bool {
        self == Network::of_one(self.first())
    }

    pub fn first(self) -> IpAddr {
        self.0.addr()
    }

    pub fn contains(self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    fn around(address: IpAddr, v4_bits: u8, v6_bits: u8) -> Network {
        let address = address.to_canonical();
        let bits = if address.is_ipv4() { v4_bits } else { v6_bits };
        Network(IpNet::new(address, bits).unwrap_or_else(|_| address.into()).trunc())
    }
}

/// Whether it is a loopback, private or link-local address, which does not say who has it: many clients may, or a proxy of the operator.
pub fn is_private_address(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    }
}

impl AddressLimit {
    pub fn per_address(most: u32) -> AddressLimit {
        AddressLimit { per_address: most, per_network: None }
    }

    /// With another number for an IPv4 /24, which has none otherwise, and for an IPv6 /56, which has that of 4 addresses otherwise.
    pub fn per_network(self, most: u32) -> AddressLimit {
        AddressLimit { per_network: Some(most), ..self }
    }

    /// What an address may have, an IPv4 /24 or IPv6 /56, and an IPv6 /48.
    pub fn numbers(self) -> [u32; 3] {
        let of_56 = self.per_network.unwrap_or(self.per_address.saturating_mul(ADDRESSES_OF_56));
        [self.per_address, of_56, self.per_address.saturating_mul(ADDRESSES_OF_48).max(of_56)]
    }

    /// The networks for which an address counts, each with what it may have, the narrowest first. In the order of
    /// [`numbers`](Self::numbers), of which an IPv4 address has the first one or two.
    ///
    /// A limit asks them in this order and stops at the first that refuses: what one address is refused does not count for
    /// others of its network.
    pub fn networks(self, address: IpAddr) -> impl Iterator<Item = (Network, u32)> {
        let levels = match (address.to_canonical(), self.per_network) {
            (IpAddr::V6(_), _) => 3,
            (IpAddr::V4(_), Some(_)) => 2,
            (IpAddr::V4(_), None) => 1,
        };
        let networks =
            [Network::of_one(address), Network::of_customer(address), Network::around(address, 0, 48)];
        networks.into_iter().zip(self.numbers()).take(levels)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let single = || text.parse::<IpAddr>().ok().map(|address| IpNet::from(address.to_canonical()));
        let network = text.parse::<IpNet>().ok().or_else(single);
        let network = network.ok_or_else(|| {
            format!("{text:?} is not an address or network: write 192.0.2.7, or 192.0.2.0/24")
        })?;
        Ok(Network(network.trunc()))
    }
}

impl TryFrom<String> for Network {
    type Error = String;
    fn try_from(text: String) -> Result<Network, String> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> String {
        network.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.prefix_len() == self.0.max_prefix_len() {
            true => self.0.addr().fmt(f),
            false => self.0.fmt(f),
        }
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(limit: AddressLimit, address: &str) -> Vec<String> {
        let networks = limit.networks(address.parse().unwrap());
        networks.map(|(network, most)| format!("{network}: {most}")).collect()
    }

    #[test]
    fn a_64_is_one_address_a_56_has_the_limits_of_4_and_a_48_of_16() {
        let limit = AddressLimit::per_address(10);
        let of_v6 = ["2001:db8:1:203::/64: 10", "2001:db8:1:200::/56: 40", "2001:db8:1::/48: 160"];
        assert_eq!(shown(limit, "2001:db8:1:203:4:5:6:7"), of_v6);
        assert_eq!(shown(limit, "192.0.2.7"), ["192.0.2.7: 10"]);
        assert_eq!(shown(limit, "::ffff:192.0.2.7"), ["192.0.2.7: 10"], "however a socket writes it");
    }

    #[test]
    fn a_limit_may_have_a_number_for_the_24_and_the_56() {
        let limit = AddressLimit::per_address(10).per_network(20);
        assert_eq!(shown(limit, "192.0.2.7"), ["192.0.2.7: 10", "192.0.2.0/24: 20"]);
        assert_eq!(shown(limit, "2001:db8::7")[1..], ["2001:db8::/56: 20", "2001:db8::/48: 160"]);
        let wide = AddressLimit::per_address(10).per_network(500);
        assert_eq!(wide.numbers(), [10, 500, 500], "a /48 never has less than one of its parts");
    }

    #[test]
    fn networks_are_read_as_operators_write_them() {
        let contains = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        assert!(contains("10.0.0.7/8", "10.9.9.9") && !contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("10.0.0.7", "::ffff:10.0.0.7") && !contains("10.0.0.7", "10.0.0.8"));
        assert!(contains("2001:db8::/32", "2001:db8:9::1") && !contains("2001:db8::/32", "10.0.0.1"));
        assert_eq!("10.0.0.7/8".parse::<Network>().unwrap().to_string(), "10.0.0.0/8");
        for bad in ["", "10.0.0", "10.0.0.0/33", "host", "2001:db8::/129"] {
            assert!(bad.parse::<Network>().unwrap_err().contains("192.0.2.0/24"), "{bad}");
        }
    }
}
