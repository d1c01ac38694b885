//! The limits that namespaces declare for some of their methods and routes, beside that of all calls.

use super::limits::{network, now, per_minute, too_fast};
use super::recent_keys::{KeyedRates, keyed_rates};
use crate::config::LimitsConfig;
use governor::Quota;
use kernel::{Aid, Bus, RpcError};
use proto_schemas::{RateClass, RateKey};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::net::IpAddr;
use std::num::NonZeroU32;

pub struct RateClasses {
    classes: Vec<ClassLimit>,
    /// What is counted is counted over all gateways, too.
    bus: Bus,
}

struct ClassLimit {
    class: &'static RateClass,
    per_minute: u32,
    limiter: KeyedRates<String>,
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
            ClassLimit { class, per_minute: rate, limiter: keyed_rates(quota(class, rate)) }
        };
        RateClasses { classes: all.map(limit).collect(), bus: bus.clone() }
    }

    /// Counts a call of this class; the error says how long to wait.
    pub async fn within(&self, class: &RateClass, subject: RateSubject<'_>) -> Result<(), RpcError> {
        let Some(limit) = self.classes.iter().find(|limit| limit.class == class) else { return Ok(()) };
        // Who cannot be counted is not: a login without a valid AID is refused by its service.
        let Some(key) = subject.key(class.by) else { return Ok(()) };
        let what = format!("calls of {}", what(class));
        let counted = limit.limiter.check_key(&key);
        counted.map_err(|until| too_fast(&what, until.wait_time_from(now())))?;
        let counted = self.bus.count(&format!("{}:{key}", class.name), limit.per_minute).await;
        counted.map_err(|wait| too_fast(&what, wait))
    }

    /// Forgets what has been quiet, so that the tables do not grow with everyone ever seen.
    pub fn forget_quiet(&self) {
        self.classes.iter().for_each(|limit| limit.limiter.retain_recent());
    }
}

/// What is accepted at once is never more than what is accepted in a minute.
fn quota(class: &RateClass, rate: u32) -> Quota {
    let quota = per_minute(rate);
    match class.burst.and_then(|burst| NonZeroU32::new(burst.min(rate))) {
        Some(burst) => quota.allow_burst(burst),
        None => quota,
    }
}

/// The class and whom it counts, for the error: "auth.register from this address".
fn what(class: &RateClass) -> String {
    let whose = match class.by {
        RateKey::Agent => "of this agent",
        RateKey::Address => "from this address",
        RateKey::AddressAndAid => "for this agent from this address",
    };
    format!("{} {whose}", class.name)
}

impl RateSubject<'_> {
    fn key(self, by: RateKey) -> Option<String> {
        #[derive(Deserialize)]
        struct NamedAid {
            aid: Aid,
        }
        Some(match by {
            RateKey::Agent => self.subject.map_or_else(|| network(self.address).to_string(), Cow::into_owned),
            RateKey::Address => network(self.address).to_string(),
            RateKey::AddressAndAid => {
                let params = self.params.map_or("{}", RawValue::get);
                let NamedAid { aid } = serde_json::from_str(params).ok()?;
                format!("{}:{aid}", network(self.address))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use governor::RateLimiter;
    use governor::clock::FakeRelativeClock;
    use serde_json::json;
    use serde_json::value::to_raw_value;
    use std::time::Duration;

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

    #[test]
    fn a_burst_is_accepted_at_once_and_the_rest_over_the_minute() {
        let query = class("search.query");
        assert_eq!((query.per_minute, query.burst), (300, Some(20)));
        let clock = FakeRelativeClock::default();
        let limiter = RateLimiter::direct_with_clock(quota(query, query.per_minute), clock.clone());
        let accepted = || std::iter::from_fn(|| limiter.check().ok()).count();
        assert_eq!(accepted(), 20);
        clock.advance(Duration::from_millis(200));
        assert_eq!(accepted(), 1, "five a second");
        clock.advance(Duration::from_secs(60));
        assert_eq!(accepted(), 20, "a burst does not grow while nobody calls");
    }

    #[test]
    fn without_a_burst_a_whole_minute_may_come_at_once_and_a_burst_is_never_more_than_that() {
        let all = |class: &RateClass, rate| quota(class, rate).burst_size().get();
        assert_eq!(all(class("search.sync"), 30), 30);
        assert_eq!(all(class("search.query"), 6), 6, "the operator accepts fewer than the burst");
    }
}
