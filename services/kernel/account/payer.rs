//! Who pays for what is kept.

use crate::{Aid, CallingAgent, Network};
use proto_schemas::AidError;

/// An agent and who pays with it, or a tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Payer {
    account: OwnAccount,
    /// Where it is an agent of another domain.
    domain: Option<String>,
    /// From where it was registered, as long as it is new.
    network: Option<Network>,
}

/// Whose account it is. Agents and tenants are ordered by their keys, as the store takes their accounts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OwnAccount {
    Agent(Aid),
    /// With its key, `tenant:NAME`.
    Tenant(String),
}

impl Payer {
    /// The calling agent, at a server of this domain.
    pub fn of(agent: &CallingAgent, own_issuer: &str) -> Payer {
        Payer::new(agent.aid.clone(), agent.network, own_issuer)
    }

    /// A tenant of a service: somebody who is no agent. It has no domain and no network, and a share of its own
    /// ([`TenantShares`](super::TenantShares)).
    pub fn tenant(name: &str) -> Payer {
        Payer { account: OwnAccount::Tenant(format!("{TENANT}{name}")), domain: None, network: None }
    }

    pub(super) fn new(aid: Aid, network: Option<Network>, own_issuer: &str) -> Payer {
        let domain = Some(aid.issuer()).filter(|issuer| *issuer != own_issuer).map(str::to_owned);
        Payer { account: OwnAccount::Agent(aid), domain, network }
    }

    /// Who has this key in the column of a table that says who pays.
    pub(super) fn of_key(key: &str, own_issuer: &str) -> Result<Payer, AidError> {
        match key.strip_prefix(TENANT) {
            Some(name) => Ok(Payer::tenant(name)),
            None => Ok(Payer::new(Aid::parse(key)?, None, own_issuer)),
        }
    }

    /// What the column of a table has that says who pays: an AID, or `tenant:NAME`.
    pub fn key(&self) -> &str {
        match &self.account {
            OwnAccount::Agent(aid) => aid.as_str(),
            OwnAccount::Tenant(key) => key,
        }
    }

    /// The agent, if it is one.
    pub fn aid(&self) -> Option<&Aid> {
        match &self.account {
            OwnAccount::Agent(aid) => Some(aid),
            OwnAccount::Tenant(_) => None,
        }
    }

    /// The name of the tenant, if it is one.
    pub fn tenant_name(&self) -> Option<&str> {
        match &self.account {
            OwnAccount::Agent(_) => None,
            OwnAccount::Tenant(key) => key.strip_prefix(TENANT),
        }
    }

    /// The keys of its accounts that are sums of rows.
    pub(super) fn own_keys(&self) -> impl Iterator<Item = String> {
        [self.key().to_owned()].into_iter().chain(self.domain_key())
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
pub(super) const TENANT: &str = "tenant:";

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
    match key.split_once(' ') {
        Some((network, _)) if key.starts_with(NETWORK) => network,
        _ => key,
    }
}
