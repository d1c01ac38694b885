//! Failed logins, refreshes and hellos, by address and by the network around it.
//!
//! What succeeds is never counted: any number of agents may log in from one address. Whoever fails too often waits for the end
//! of its minute, and until then is refused before anything is looked up or verified for it. Sessions, and connecting with a
//! token, do not notice.

use super::limits::{network, too_fast};
use super::recent_keys::MOST_KEYS;
use crate::config::LimitsConfig;
use kernel::{Cache, RpcError, codes};
use parking_lot::Mutex;
use proto_schemas::{Method, RateClass};
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);

pub struct LoginFailures {
    addresses: FailureCounts,
    prefixes: FailureCounts,
}

struct FailureCounts {
    most: u32,
    counts: Mutex<Cache<IpAddr, FailureCount>>,
}

#[derive(Clone, Copy)]
struct FailureCount {
    since: Instant,
    failures: u32,
}

impl LoginFailures {
    pub(super) fn new(config: &LimitsConfig) -> LoginFailures {
        LoginFailures {
            addresses: FailureCounts::new(config.login_failures_per_minute),
            prefixes: FailureCounts::new(config.login_failures_per_prefix),
        }
    }

    /// Whether an address may try; the error says how long to wait. Nothing is counted.
    pub fn within(&self, address: IpAddr) -> Result<(), RpcError> {
        let now = Instant::now();
        self.addresses
            .within(network(address), now)
            .map_err(|wait| too_fast("failed logins from this address", wait))?;
        self.prefixes
            .within(prefix(address), now)
            .map_err(|wait| too_fast("failed logins from the network of this address", wait))
    }

    /// Counts an error, if it means that the caller did not prove what it claimed.
    pub fn count_error(&self, address: IpAddr, error: &RpcError) {
        let failed = [
            codes::CERT_OR_NONCE_INVALID,
            codes::SIGNATURE_INVALID,
            codes::NOT_REGISTERED,
            codes::CERT_REVOKED,
        ];
        if failed.iter().any(|code| code.code == error.code()) {
            self.count(address);
        }
    }

    /// Counts the answer to a call that proves who somebody is, if it is a failure.
    pub(super) fn count_answer(&self, address: IpAddr, method: &Method, outcome: Result<&str, &RpcError>) {
        /// A refresh token that cannot be used is not an error of the call.
        #[derive(Deserialize)]
        struct RefreshOutcome {
            success: Option<bool>,
        }
        match outcome {
            Err(error) => self.count_error(address, error),
            Ok(result) if method.name == "auth.refresh_token" => {
                let refused = serde_json::from_str(result)
                    .is_ok_and(|RefreshOutcome { success }| success == Some(false));
                if refused {
                    self.count(address);
                }
            }
            Ok(_) => {}
        }
    }

    fn count(&self, address: IpAddr) {
        let now = Instant::now();
        self.addresses.count(network(address), now);
        self.prefixes.count(prefix(address), now);
    }

    pub(super) fn forget_quiet(&self) {
        let now = Instant::now();
        self.addresses.forget_quiet(now);
        self.prefixes.forget_quiet(now);
    }
}

/// Whether the calls of a class prove who somebody is, so that their failures are counted.
pub(super) fn is_login_class(class: &RateClass) -> bool {
    matches!(class.name, "auth.login" | "auth.refresh")
}

impl FailureCounts {
    fn new(most: u32) -> FailureCounts {
        FailureCounts { most, counts: Mutex::new(Cache::new(MOST_KEYS)) }
    }

    fn within(&self, from: IpAddr, now: Instant) -> Result<(), Duration> {
        match self.counts.lock().peek(&from).and_then(|count| Some((count, count.left(now)?))) {
            Some((count, left)) if count.failures >= self.most => Err(left),
            _ => Ok(()),
        }
    }

    fn count(&self, from: IpAddr, now: Instant) {
        let mut counts = self.counts.lock();
        match counts.get_mut(&from) {
            Some(count) if count.left(now).is_some() => count.failures = count.failures.saturating_add(1),
            Some(count) => *count = FailureCount { since: now, failures: 1 },
            None => counts.insert(from, FailureCount { since: now, failures: 1 }),
        }
    }

    fn forget_quiet(&self, now: Instant) {
        self.counts.lock().remove_oldest_while(|count| count.left(now).is_none());
    }
}

impl FailureCount {
    /// How much of its minute is left.
    fn left(&self, now: Instant) -> Option<Duration> {
        MINUTE.checked_sub(now.saturating_duration_since(self.since)).filter(|left| !left.is_zero())
    }
}

/// The network that one customer of a provider often has: a /24 of IPv4, a /48 of IPv6.
fn prefix(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, 0))
        }
        IpAddr::V6(v6) => {
            let [a, b, c, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn failures(text: &str) -> LoginFailures {
        LoginFailures::new(&Config::parse(text, &crate::config::test_services()).unwrap().limits)
    }

    fn forged() -> RpcError {
        RpcError::plain(codes::SIGNATURE_INVALID)
    }

    #[test]
    fn an_address_that_fails_too_often_waits_and_others_do_not() {
        let failures = failures("limits.login_failures_per_minute = 2");
        let (attacker, other) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        for _ in 0..2 {
            failures.within(attacker).unwrap();
            failures.count_error(attacker, &forged());
        }
        let refused = failures.within(attacker).unwrap_err();
        assert_eq!(refused.code(), codes::RATE_LIMITED.code);
        assert!(
            refused.data("retry_after_ms").and_then(serde_json::Value::as_u64).is_some_and(|ms| ms > 1000)
        );
        failures.within(other).unwrap();
    }

    #[test]
    fn a_network_pays_for_all_its_addresses() {
        let failures = failures("limits.login_failures_per_prefix = 3");
        for last in 1..=3 {
            failures.count_error([10, 0, 0, last].into(), &forged());
        }
        assert!(failures.within([10, 0, 0, 200].into()).is_err());
        failures.within([10, 0, 1, 1].into()).unwrap();
        for last in 1..=3 {
            failures.count_error(format!("2001:db8:0:{last}::1").parse().unwrap(), &forged());
        }
        assert!(failures.within("2001:db8:0:9::1".parse().unwrap()).is_err());
        failures.within("2001:db8:1::1".parse().unwrap()).unwrap();
    }

    #[test]
    fn successes_and_our_own_faults_are_not_counted() {
        let failures = failures("limits.login_failures_per_minute = 1");
        let address = [10, 0, 0, 1].into();
        let (login, refresh) = ("auth.aid_login2", "auth.refresh_token");
        let method = |name| proto_schemas::find(name).unwrap();
        for code in [codes::UNAVAILABLE, codes::INTERNAL, codes::RATE_LIMITED, codes::INVALID_PARAMS] {
            failures.count_answer(address, method(login), Err(&RpcError::plain(code)));
        }
        failures.count_answer(address, method(login), Ok("{}"));
        failures.count_answer(address, method(refresh), Ok(r#"{"success":true}"#));
        failures.within(address).unwrap();
        failures.count_answer(address, method(refresh), Ok(r#"{"success":false}"#));
        assert!(failures.within(address).is_err());
    }

    #[test]
    fn a_minute_ends_and_only_so_many_addresses_are_remembered() {
        let counts = FailureCounts::new(1);
        let (now, address) = (Instant::now(), IpAddr::from([10, 0, 0, 1]));
        counts.count(address, now);
        assert_eq!(counts.within(address, now + MINUTE / 2), Err(MINUTE / 2));
        assert_eq!(counts.within(address, now + MINUTE), Ok(()));
        counts.forget_quiet(now + MINUTE / 2);
        assert_eq!(counts.counts.lock().len(), 1);
        counts.forget_quiet(now + MINUTE);
        assert_eq!(counts.counts.lock().len(), 0);
        for n in 0..MOST_KEYS + 10 {
            counts.count(IpAddr::from(u32::try_from(n).unwrap().to_be_bytes()), now);
        }
        assert_eq!(counts.counts.lock().len(), MOST_KEYS);
    }
}
