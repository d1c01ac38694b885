//! How often an address may do something.

use super::AddressRefusal;
use super::recent_keys::{KeyedRates, keyed_rates};
use governor::Quota;
use governor::clock::{Clock as _, DefaultClock};
use kernel::{AddressLimit, Network};
use std::hash::Hash;
use std::net::IpAddr;

/// A rate for each address and the networks around it; where a second key is given, for each of that, too.
pub struct AddressRates<K: Hash + Eq + Clone = ()> {
    limit: AddressLimit,
    /// In the order of [`AddressLimit::numbers`].
    rates: [KeyedRates<(Network, K)>; 3],
}

impl<K: Hash + Eq + Clone> AddressRates<K> {
    /// The quota is made from each of the numbers of the limit.
    pub fn new(limit: AddressLimit, quota: impl Fn(u32) -> Quota) -> AddressRates<K> {
        AddressRates { limit, rates: limit.numbers().map(|most| keyed_rates(quota(most))) }
    }

    /// Counts once.
    pub fn check(&self, address: IpAddr, key: &K) -> Result<(), AddressRefusal> {
        for ((network, _), rate) in self.limit.networks(address).zip(&self.rates) {
            rate.check_key(&(network, key.clone())).map_err(|until| AddressRefusal {
                network,
                wait: until.wait_time_from(DefaultClock::default().now()),
            })?;
        }
        Ok(())
    }

    /// The limit that is counted, for a count over all gateways.
    pub fn limit(&self) -> AddressLimit {
        self.limit
    }

    /// Forgets what has been quiet.
    pub fn forget_quiet(&self) {
        self.rates.iter().for_each(KeyedRates::retain_recent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;

    #[test]
    fn what_one_address_is_refused_does_not_count_for_others_of_its_network() {
        let quota = |most| Quota::per_hour(NonZeroU32::new(most).unwrap());
        let rates = AddressRates::new(AddressLimit::per_address(2), quota);
        let check = |address: &str, key: u8| rates.check(address.parse().unwrap(), &key);
        for n in 0..10 {
            assert_eq!(check("2001:db8::1", 1).is_ok(), n < 2);
        }
        assert!(check("2001:db8::2", 2).is_ok(), "another key");
        for n in 1..4 {
            let other = format!("2001:db8:0:{n}::1");
            assert!(check(&other, 1).is_ok() && check(&other, 1).is_ok(), "{other}");
        }
        let refused = check("2001:db8:0:9::1", 1).unwrap_err();
        assert_eq!(
            (refused.network.to_string().as_str(), refused.whose()),
            ("2001:db8::/56", "the network of this address")
        );
        assert!(check("2001:db8:0:100::1", 1).is_ok(), "another /56");
        assert!((0..9).all(|last| check(&format!("192.0.2.{last}"), 1).is_ok()), "no number for the /24");
        assert_eq!(check("192.0.2.1", 1).and(check("192.0.2.1", 1)).unwrap_err().whose(), "this address");
    }
}
