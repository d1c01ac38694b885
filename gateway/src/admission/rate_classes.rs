//! The limits that namespaces declare for some of their methods and routes, beside that of all calls.

use super::limits::{now, per_minute, too_fast};
use crate::address_limits::{AddressRates, AddressRefusal, KeyedRates, keyed_rates};
use crate::config::LimitsConfig;
use governor::Quota;
use kernel::{AddressLimit, Aid, Bus, RpcError, is_private_address};
use proto_schemas::{RateClass, RateKey};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_hours(24);

pub struct RateClasses {
    classes: Vec<ClassLimit>,
    /// What is counted is counted over all gateways, too.
    bus: Bus,
}

struct ClassLimit {
    class: &'static RateClass,
    per_minute: u32,
    subjects: KeyedRates<String>,
    /// Of callers that are known by their address, with the AID they name where that is counted, too.
    addresses: AddressRates<Option<Aid>>,
    /// For public addresses.
    per_day: Option<AddressRates<Option<Aid>>>,
}

/// Whom a call is counted for, as far as it is known.
#[derive(Clone)]
pub struct RateSubject<'a> {
    pub address: IpAddr,
    pub subject: Option<Cow<'a, str>>,
    pub params: Option<&'a RawValue>,
}

impl RateClasses {
    pub fn new(config: &LimitsConfig, bus: &Bus) -> RateClasses {
        let all = proto_schemas::namespaces().iter().flat_map(|namespace| namespace.rates);
        let limit = |class: &'static RateClass| {
            let rate = config.per_minute(class);
            ClassLimit {
                class,
                per_minute: rate,
                subjects: keyed_rates(quota(class, rate, rate)),
                addresses: AddressRates::new(AddressLimit::per_address(rate), |most| {
                    quota(class, rate, most)
                }),
                per_day: config.per_day(class).map(|limit| AddressRates::new(limit, per_day)),
            }
        };
        RateClasses { classes: all.map(limit).collect(), bus: bus.clone() }
    }

    /// Counts a call of this class; the error says how long to wait.
    pub async fn within(&self, class: &RateClass, subject: RateSubject<'_>) -> Result<(), RpcError> {
        let Some(limit) = self.classes.iter().find(|limit| limit.class == class) else { return Ok(()) };
        match subject.key(class.by) {
            // Who cannot be counted is not: a login without a valid AID is refused by its service.
            None => Ok(()),
            Some(CountedKey::Subject(subject)) => limit.count_subject(&self.bus, &subject).await,
            Some(CountedKey::Address(address, aid)) => limit.count_address(&self.bus, address, aid).await,
        }
    }

    /// Forgets what has been quiet, so that the tables do not grow with everyone ever seen.
    pub fn forget_quiet(&self) {
        for limit in &self.classes {
            limit.subjects.retain_recent();
            limit.addresses.forget_quiet();
            limit.per_day.iter().for_each(AddressRates::forget_quiet);
        }
    }
}

impl ClassLimit {
    async fn count_subject(&self, bus: &Bus, subject: &String) -> Result<(), RpcError> {
        let refused = |wait| too_fast(&format!("calls of {} of this agent", self.class.name), wait);
        self.subjects.check_key(subject).map_err(|until| refused(until.wait_time_from(now())))?;
        let counted = bus.count(&format!("{}:{subject}", self.class.name), self.per_minute, MINUTE).await;
        counted.map_err(refused)
    }

    /// By minute and, where that is limited, by day: what is refused by minute does not count for the day.
    async fn count_address(&self, bus: &Bus, address: IpAddr, aid: Option<Aid>) -> Result<(), RpcError> {
        let what = if aid.is_some() { " for this agent" } else { "" };
        let refused = |refusal: AddressRefusal| {
            too_fast(&format!("calls of {}{what} from {}", self.class.name, refusal.whose()), refusal.wait)
        };
        self.count_within(bus, MINUTE, &self.addresses, address, &aid).await.map_err(refused)?;
        match self.per_day.as_ref().filter(|_| !is_private_address(address)) {
            Some(per_day) => self.count_within(bus, DAY, per_day, address, &aid).await.map_err(refused),
            None => Ok(()),
        }
    }

    /// In this process, and then over all gateways.
    async fn count_within(
        &self,
        bus: &Bus,
        time: Duration,
        rates: &AddressRates<Option<Aid>>,
        address: IpAddr,
        aid: &Option<Aid>,
    ) -> Result<(), AddressRefusal> {
        rates.check(address, aid)?;
        let aid = aid.as_ref().map(Aid::as_str).unwrap_or_default();
        for (network, most) in rates.limit().networks(address) {
            let key = format!("{}:{}:{network}:{aid}", self.class.name, time.as_secs());
            let counted = bus.count(&key, most, time).await;
            counted.map_err(|wait| AddressRefusal { network, wait })?;
        }
        Ok(())
    }
}

/// Whose calls are counted together.
enum CountedKey {
    Subject(String),
    Address(IpAddr, Option<Aid>),
}

/// The quota of an address or agent, or of a network that has a multiple of its rate. What is accepted at once is never more than what
/// is accepted in a minute.
fn quota(class: &RateClass, rate: u32, most: u32) -> Quota {
    let quota = per_minute(most);
    let burst = class.burst.map(|burst| burst.min(rate).saturating_mul(most / rate.max(1)));
    match burst.and_then(NonZeroU32::new) {
        Some(burst) => quota.allow_burst(burst),
        None => quota,
    }
}

/// A whole day's may come at once.
fn per_day(most: u32) -> Quota {
    let most = NonZeroU32::new(most).unwrap_or(NonZeroU32::MIN);
    Quota::with_period(DAY / most.get()).map_or(Quota::per_hour(most), |quota| quota.allow_burst(most))
}

impl RateSubject<'_> {
    fn key(self, by: RateKey) -> Option<CountedKey> {
        #[derive(Deserialize)]
        struct NamedAid {
            aid: Aid,
        }
        Some(match (by, self.subject) {
            (RateKey::Agent, Some(subject)) => CountedKey::Subject(subject.into_owned()),
            (RateKey::Agent, None) | (RateKey::Address, _) => CountedKey::Address(self.address, None),
            (RateKey::AddressAndAid, _) => {
                let params = self.params.map_or("{}", RawValue::get);
                let NamedAid { aid } = serde_json::from_str(params).ok()?;
                CountedKey::Address(self.address, Some(aid))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{CallSource, KnownSigner};
    use crate::config::Config;
    use governor::RateLimiter;
    use governor::clock::FakeRelativeClock;
    use kernel::TokenCaller;
    use serde_json::json;
    use serde_json::value::to_raw_value;

    fn class(name: &str) -> &'static RateClass {
        let mut all = proto_schemas::namespaces().iter().flat_map(|namespace| namespace.rates);
        all.find(|class| class.name == name).unwrap()
    }

    #[tokio::test]
    async fn each_class_counts_whom_it_says() {
        let config = Config::parse(
            "limits.logins_per_minute = 1\nlimits.registrations_per_minute = 1",
            &crate::config::test_services(),
        )
        .unwrap();
        let classes = RateClasses::new(&config.limits, &Bus::local());
        let (alice, bob) = ("alice.aid.pub", "bobb.aid.pub");
        let params = |aid: &str| to_raw_value(&json!({ "aid": aid })).unwrap();
        let within = async |name: &str, last: u8, aid: &str| {
            let params = params(aid);
            let subject =
                RateSubject { address: [10, 0, 0, last].into(), subject: None, params: Some(&params) };
            classes.within(class(name), subject).await.is_ok()
        };
        assert!(within("auth.register", 1, alice).await);
        assert!(!within("auth.register", 1, bob).await, "one address");
        assert!(within("auth.register", 2, alice).await);
        assert!(within("auth.login", 1, alice).await);
        assert!(!within("auth.login", 1, alice).await);
        assert!(within("auth.login", 1, bob).await, "another name");
        assert!(within("auth.login", 2, alice).await, "another address");
        assert!(within("auth.login", 1, "no aid").await && within("auth.login", 1, "no aid").await);
    }

    #[tokio::test]
    async fn a_class_by_agent_counts_a_token_by_its_subject_and_not_by_its_address() {
        let config = Config::parse("", &crate::config::test_services()).unwrap();
        let classes = RateClasses::new(&config.limits, &Bus::local());
        let (class, signer) = (class("search.query"), KnownSigner::default());
        assert_eq!((class.by, class.burst), (RateKey::Agent, Some(20)));
        let accepted = async |kind: &'static str, subject: &str, last: u8| {
            let token =
                TokenCaller { kind: kind.into(), subject: subject.to_owned(), agent: None, payer: None };
            let address = [10, 0, 0, last].into();
            let source = CallSource::Token { token: &token, address, limit: None, signer: &signer };
            let subject = RateSubject { address, subject: source.subject(), params: None };
            classes.within(class, subject).await.is_ok()
        };
        for _ in 0..20 {
            assert!(accepted("tenant", "acme", 1).await);
        }
        assert!(!accepted("tenant", "acme", 1).await);
        assert!(!accepted("tenant", "acme", 2).await, "from another address it is the same tenant");
        assert!(accepted("tenant", "other", 1).await, "another one of the same address");
        assert!(accepted("admin", "acme", 1).await, "another kind with the same name");
    }

    #[test]
    fn a_burst_is_accepted_at_once_and_the_rest_over_the_minute() {
        let query = class("search.query");
        assert_eq!((query.per_minute, query.burst), (300, Some(20)));
        let clock = FakeRelativeClock::default();
        let limiter =
            RateLimiter::direct_with_clock(quota(query, query.per_minute, query.per_minute), clock.clone());
        let accepted = || std::iter::from_fn(|| limiter.check().ok()).count();
        assert_eq!(accepted(), 20);
        clock.advance(Duration::from_millis(200));
        assert_eq!(accepted(), 1, "five a second");
        clock.advance(Duration::from_secs(60));
        assert_eq!(accepted(), 20, "a burst does not grow while nobody calls");
    }

    #[test]
    fn without_a_burst_a_whole_minute_may_come_at_once_and_a_burst_is_never_more_than_that() {
        let all = |class: &RateClass, rate| quota(class, rate, rate).burst_size().get();
        assert_eq!(all(class("search.sync"), 30), 30);
        assert_eq!(all(class("search.query"), 6), 6, "the operator accepts fewer than the burst");
    }

    #[tokio::test]
    async fn public_addresses_and_their_networks_register_so_many_a_day() {
        let settings = "limits.registrations_per_day = 2\nlimits.registrations_per_day_per_prefix = 3";
        let config = Config::parse(settings, &crate::config::test_services()).unwrap();
        let classes = RateClasses::new(&config.limits, &Bus::local());
        let registers = async |address: &str| {
            let subject = RateSubject { address: address.parse().unwrap(), subject: None, params: None };
            classes.within(class("auth.register"), subject).await
        };
        for (client, beside, elsewhere) in [
            ("198.51.100.7", "198.51.100.8", "198.51.101.7"),
            ("2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:100::1"),
        ] {
            registers(client).await.unwrap();
            registers(client).await.unwrap();
            let refused = registers(client).await.unwrap_err();
            let wait = refused.data("retry_after_ms").and_then(serde_json::Value::as_u64).unwrap();
            assert!((43_000_000..43_200_001).contains(&wait), "half a day: {wait}");
            registers(beside).await.unwrap();
            assert!(registers(beside).await.unwrap_err().to_string().contains("network"));
            registers(elsewhere).await.unwrap();
        }
        for address in ["127.0.0.1", "10.0.0.1", "::1", "fd00::1", "169.254.0.1"] {
            for _ in 0..10 {
                registers(address).await.unwrap();
            }
        }
    }
}
