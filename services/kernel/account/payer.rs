//! Who pays for what is kept.

use crate::{Aid, CallingAgent, Network};

/// An agent, and who pays with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Payer {
    aid: Aid,
    /// Where it is of another domain.
    domain: Option<String>,
    /// From where it was registered, as long as it is new.
    network: Option<Network>,
}

impl Payer {
    /// The calling agent, at a server of this domain.
    pub fn of(agent: &CallingAgent, own_issuer: &str) -> Payer {
        Payer::new(agent.aid.clone(), agent.network, own_issuer)
    }

    pub(super) fn new(aid: Aid, network: Option<Network>, own_issuer: &str) -> Payer {
        let domain = Some(aid.issuer()).filter(|issuer| *issuer != own_issuer).map(str::to_owned);
        Payer { aid, domain, network }
    }

    pub fn aid(&self) -> &Aid {
        &self.aid
    }

    /// The keys of its accounts that are sums of rows.
    pub(super) fn own_keys(&self) -> impl Iterator<Item = String> {
        [self.aid.to_string()].into_iter().chain(self.domain_key())
    }

    /// Its network has an account for each day that still counts.
    pub(super) fn network_keys(&self, today: Today) -> impl Iterator<Item = String> {
        let (days, network) = (today.day - today.days + 1..=today.day, self.network_key());
        days.filter_map(move |day| Some(on_day(network.as_deref()?, day)))
    }

    /// Its domain, where it is another one.
    pub fn domain(&self) -> Option<&str> {
        self.domain.as_deref()
    }

    /// From where it was registered, if it is new.
    pub fn network(&self) -> Option<Network> {
        self.network
    }

    pub(super) fn domain_key(&self) -> Option<String> {
        self.domain.as_ref().map(|domain| format!("{DOMAIN}{domain}"))
    }

    pub(super) fn network_key(&self) -> Option<String> {
        self.network.map(|network| format!("{NETWORK}{network}"))
    }
}

/// An AID has no colon, so no agent has the account of one of these.
pub(super) const DOMAIN: &str = "domain:";
pub(super) const NETWORK: &str = "network:";

/// The day that it is, counted since 1970, and how many days count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Today {
    pub day: i64,
    pub days: i64,
}

/// The account of a network for one day.
pub(super) fn on_day(network_key: &str, day: i64) -> String {
    format!("{network_key} {day}")
}

/// The key of a network without the day; other keys as they are.
pub(super) fn without_day(key: &str) -> &str {
    key.split_once(' ').map_or(key, |(key, _)| key)
}
