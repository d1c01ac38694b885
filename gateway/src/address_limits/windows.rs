//! How often something may happen to an address within a time, counted after it has happened.

use super::AddressRefusal;
use super::recent_keys::MOST_KEYS;
use kernel::{AddressLimit, Cache, Network};
use parking_lot::Mutex;
use std::net::IpAddr;
use std::time::{Duration, Instant};

pub struct AddressWindows {
    limit: AddressLimit,
    window: Duration,
    counts: Mutex<Cache<Network, WindowCount>>,
}

#[derive(Clone, Copy)]
struct WindowCount {
    since: Instant,
    count: u32,
}

impl AddressWindows {
    /// Each address and each network has windows of its own, which begin with what is counted first.
    pub fn new(limit: AddressLimit, window: Duration) -> AddressWindows {
        let most_networks = limit.numbers().len() * MOST_KEYS;
        AddressWindows { limit, window, counts: Mutex::new(Cache::new(most_networks)) }
    }

    /// Whether less was counted than the limit. Nothing is counted.
    pub fn within(&self, address: IpAddr, now: Instant) -> Result<(), AddressRefusal> {
        let counts = self.counts.lock();
        for (network, most) in self.limit.networks(address) {
            if let Some(counted) = counts.peek(&network)
                && let Some(wait) = counted.left(self.window, now)
                && counted.count >= most
            {
                return Err(AddressRefusal { network, wait });
            }
        }
        Ok(())
    }

    pub fn count(&self, address: IpAddr, now: Instant) {
        let mut counts = self.counts.lock();
        for (network, _) in self.limit.networks(address) {
            let counted = counts.get_or_insert_with(network, || WindowCount { since: now, count: 0 });
            if counted.left(self.window, now).is_none() {
                *counted = WindowCount { since: now, count: 0 };
            }
            counted.count = counted.count.saturating_add(1);
        }
    }

    /// Forgets those that were counted longest ago, up to the first one whose window is not over.
    pub fn forget_quiet(&self, now: Instant) {
        self.counts.lock().remove_oldest_while(|counted| counted.left(self.window, now).is_none());
    }
}

impl WindowCount {
    /// How much of its window is left.
    fn left(&self, window: Duration, now: Instant) -> Option<Duration> {
        window.checked_sub(now.saturating_duration_since(self.since)).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_window_ends_and_only_so_many_addresses_are_remembered() {
        let windows = AddressWindows::new(AddressLimit::per_address(1), MINUTE);
        let (now, address) = (Instant::now(), IpAddr::from([10, 0, 0, 1]));
        windows.count(address, now);
        assert_eq!(windows.within(address, now + MINUTE / 2).unwrap_err().wait, MINUTE / 2);
        assert_eq!(windows.within(address, now + MINUTE), Ok(()));
        windows.forget_quiet(now + MINUTE / 2);
        assert_eq!(windows.counts.lock().len(), 1);
        windows.forget_quiet(now + MINUTE);
        assert_eq!(windows.counts.lock().len(), 0);
        for n in 0..4 * MOST_KEYS {
            windows.count(IpAddr::from(u32::try_from(n).unwrap().to_be_bytes()), now);
        }
        assert_eq!(windows.counts.lock().len(), 3 * MOST_KEYS);
    }
}
