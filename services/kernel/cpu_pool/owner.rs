//! For whom something is computed.

use crate::{Aid, Caller, Network};
use std::net::IpAddr;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CpuOwner {
    Agent(Aid),
    /// Agents and services of another domain: it can invent as many as it likes.
    Domain(String),
    /// Who has a token that a service gave, and no agent: the operator has decided that there is such a token, so only turns are taken.
    Token(String),
    /// Who has not logged in. An IPv6 /64 is one address.
    Address(Network),
    /// Nobody else.
    Server,
}

impl CpuOwner {
    /// Who has not logged in.
    pub fn of_address(address: IpAddr) -> CpuOwner {
        CpuOwner::Address(Network::of_one(address))
    }

    /// The caller, or what it belongs to.
    pub fn of(caller: &Caller) -> CpuOwner {
        match caller {
            Caller::Agent(agent) => CpuOwner::Agent(agent.aid.clone()),
            Caller::Token(token) => match &token.agent {
                Some(agent) => CpuOwner::Agent(agent.aid.clone()),
                None => CpuOwner::Token(token.payer().into_owned()),
            },
            Caller::Foreign(_, relayed)
            | Caller::ForeignService { relayed, .. }
            | Caller::ServiceForRelay { relayed, .. } => CpuOwner::Domain(relayed.from_issuer.clone()),
            Caller::Unauthenticated(_) | Caller::Service(_) | Caller::Operator => CpuOwner::Server,
        }
    }

    /// Whether it has so much time a minute. Who has not logged in is limited by the rates of logins; what the server computes for
    /// itself is not limited.
    pub(super) fn has_time_limit(&self) -> bool {
        matches!(self, CpuOwner::Agent(_) | CpuOwner::Domain(_))
    }
}
