//! Who calls a method.

use super::access::CallerKind;
use crate::trace::TracedCall;
use crate::{Aid, DeviceId, Network, RpcError, SlotId, codes};
use proto_schemas::ACCESS_TOKEN;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

/// Who calls. Built only from an authenticated connection, by another service, or for the operator; never from what a
/// client wrote into its parameters.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Caller {
    /// A connection that proved its AID.
    Agent(CallingAgent),
    /// Whoever has a token, over HTTP.
    Token(TokenCaller),
    /// An agent of another domain, vouched for by the gateway of that domain, where its session is.
    Foreign(CallingAgent, Relayed),
    /// A service of another domain in its own name, vouched for by the gateway of that domain.
    ForeignService { service: String, relayed: Relayed },
    /// Who has not logged in, with its address where it is known.
    Unauthenticated(Option<IpAddr>),
    /// Another service, or the gateway itself.
    Service(String),
    /// The same while it answers a call that came from another domain, for what it asks of others because of that call.
    ServiceForRelay { service: String, relayed: Relayed },
    /// Who has access to the data folder of this server.
    Operator,
}

/// Who has a token, as the service that gave it says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TokenCaller {
    /// What the token is for: `access` is that of a login, the others are declared by the namespaces that give them.
    pub kind: Cow<'static, str>,
    /// Need not be an agent.
    pub subject: String,
    /// The agent, where it is one. It has no connection, so no event reaches it: `connection` is 0, and device and slot are empty.
    pub agent: Option<CallingAgent>,
    /// Who pays for what it holds and computes, where that is not the subject.
    pub payer: Option<String>,
}

/// How a call came from another domain.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Relayed {
    /// The domain that proved itself on the peer link.
    pub from_issuer: String,
    pub relay_id: String,
    /// How many relays led to this one: 0 if it was started by a client of that domain.
    pub depth: u8,
}

/// The agent that calls, with its session where it has one here.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallingAgent {
    pub aid: Aid,
    pub device: DeviceId,
    pub slot: SlotId,
    /// 0 without a connection here.
    pub connection: u64,
    /// The address that the call comes from; unspecified where it came from another domain.
    pub address: IpAddr,
    pub connected_at_ms: i64,
    /// From where the agent was registered, as long as it is new: new agents of one network share what they may keep.
    #[serde(default)]
    pub network: Option<Network>,
    /// Which messages the client can read and how it catches up.
    pub generation: Generation,
    /// The trace of this call, if the client asked for one. Between processes it travels beside the agent: it belongs to one
    /// call only.
    #[serde(skip)]
    pub trace: Option<Arc<TracedCall>>,
}

/// What a client declared in the `capabilities` of `auth.connect`, as far as the server treats it differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Generation {
    /// Reads plain messages, and encrypted ones of the first kind.
    #[default]
    First,
    /// Catches up by `message.v2.pull` with one cursor for everything.
    Second,
    /// Catches up sender by sender: it asks `message.peers`.
    Peer,
}

impl CallingAgent {
    /// One that has no connection here.
    pub fn without_session(aid: Aid, address: IpAddr) -> CallingAgent {
        CallingAgent {
            aid,
            device: DeviceId::default(),
            slot: SlotId::default(),
            connection: 0,
            address,
            connected_at_ms: 0,
            network: None,
            generation: Generation::default(),
            trace: None,
        }
    }
}

impl TokenCaller {
    /// The agent of an access token.
    pub fn access(agent: CallingAgent) -> TokenCaller {
        TokenCaller {
            kind: ACCESS_TOKEN.into(),
            subject: agent.aid.to_string(),
            agent: Some(agent),
            payer: None,
        }
    }

    pub fn is_access(&self) -> bool {
        self.kind == ACCESS_TOKEN
    }

    /// Who pays for what it holds and computes: an agent, or what the service of the token says.
    pub fn payer(&self) -> Cow<'_, str> {
        match (&self.agent, &self.payer) {
            (Some(agent), _) => Cow::Borrowed(agent.aid.as_str()),
            (None, Some(payer)) => Cow::Borrowed(payer),
            (None, None) => Cow::Owned(format!("{}:{}", self.kind, self.subject)),
        }
    }
}

impl Caller {
    pub fn service(name: &str) -> Caller {
        Caller::Service(name.to_owned())
    }

    /// A service that asks something of others in a call that it answers. The service speaks for itself; where that call came from
    /// another domain, that is not lost.
    pub fn service_in_call(name: &str, answered: &Caller) -> Caller {
        match answered.relayed() {
            Some(relayed) => Caller::ServiceForRelay { service: name.to_owned(), relayed: relayed.clone() },
            None => Caller::service(name),
        }
    }

    /// The name of the calling service, if a service of this domain calls.
    pub fn service_name(&self) -> Option<&str> {
        match self {
            Caller::Service(service) | Caller::ServiceForRelay { service, .. } => Some(service),
            Caller::Agent(_)
            | Caller::Token(..)
            | Caller::Foreign(..)
            | Caller::ForeignService { .. }
            | Caller::Unauthenticated(_)
            | Caller::Operator => None,
        }
    }

    /// The relay that led to this call, if it came from another domain.
    pub fn relayed(&self) -> Option<&Relayed> {
        match self {
            Caller::Foreign(_, relayed)
            | Caller::ForeignService { relayed, .. }
            | Caller::ServiceForRelay { relayed, .. } => Some(relayed),
            Caller::Agent(_)
            | Caller::Token(..)
            | Caller::Unauthenticated(_)
            | Caller::Service(_)
            | Caller::Operator => None,
        }
    }

    /// The calling agent, or an error for callers without a session here. For what belongs to a connection or to the device behind
    /// it.
    pub fn connected_agent(&self) -> Result<&CallingAgent, RpcError> {
        match self {
            Caller::Token(_) => {
                Err(RpcError::new(codes::INVALID_REQUEST, "this method needs a WebSocket connection"))
            }
            _ => self.local_agent(),
        }
    }

    /// The calling agent of this domain, over a connection or by its token.
    pub fn local_agent(&self) -> Result<&CallingAgent, RpcError> {
        match self {
            Caller::Agent(agent) | Caller::Token(TokenCaller { agent: Some(agent), .. }) => Ok(agent),
            _ => Err(RpcError::new(codes::UNAUTHENTICATED, "this method needs a logged-in agent")),
        }
    }

    /// The calling agent, of this domain or another.
    pub fn calling_agent(&self) -> Result<&CallingAgent, RpcError> {
        match self {
            Caller::Foreign(agent, _) => Ok(agent),
            _ => self.local_agent(),
        }
    }

    /// Where the call comes from: that of a client of this server.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Caller::Unauthenticated(address) => *address,
            _ => self.local_agent().ok().map(|agent| agent.address),
        }
    }

    /// The token that the call came with, if it did.
    pub fn token(&self) -> Option<&TokenCaller> {
        match self {
            Caller::Token(token) => Some(token),
            _ => None,
        }
    }

    /// The trace of the call, if its client asked for one.
    pub(super) fn trace(&self) -> Option<Arc<TracedCall>> {
        self.calling_agent().ok()?.trace.clone()
    }

    /// What decides which methods it has.
    pub fn kind(&self) -> CallerKind<'_> {
        match self {
            Caller::Agent(_) => CallerKind::Session,
            Caller::Token(token) => CallerKind::Token(&token.kind),
            Caller::Foreign(..) => CallerKind::ForeignAgent,
            Caller::ForeignService { .. } => CallerKind::ForeignService,
            Caller::Unauthenticated(_) => CallerKind::Unauthenticated { connected: true },
            Caller::Service(service) | Caller::ServiceForRelay { service, .. } => {
                CallerKind::Service(service)
            }
            Caller::Operator => CallerKind::Operator,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> CallingAgent {
        CallingAgent::without_session(Aid::parse("alice.aid.net").unwrap(), [0, 0, 0, 0].into())
    }

    fn relayed(depth: u8) -> Relayed {
        Relayed { from_issuer: "aid.net".to_owned(), relay_id: "r-1".to_owned(), depth }
    }

    #[test]
    fn an_internal_method_is_for_the_services_that_its_schema_lists() {
        let may = |name: &str, service: &str| {
            let method = proto_schemas::find(name).unwrap();
            let in_relay = Caller::ServiceForRelay { service: service.to_owned(), relayed: relayed(0) };
            let may = Caller::service(service).kind().has(method);
            assert_eq!(in_relay.kind().has(method), may, "{service} calls {name}");
            assert!(Caller::Operator.kind().has(method), "the operator calls {name}");
            may
        };
        for (method, listed) in [
            ("ca.issue_cert", &["auth"][..]),
            ("ca.rekey_cert", &["auth"][..]),
            ("ca.add_trust_root", &[][..]),
            ("ca.ended_agents", &["agent", "auth", "message", "search", "task"][..]),
            ("auth.verify_token", &["gateway"][..]),
            ("message.session_opened", &["gateway"][..]),
        ] {
            for service in ["auth", "ca", "agent", "message", "search", "task", "gateway", "test", ""] {
                let own = proto_schemas::find(method).unwrap().namespace.service == service;
                assert_eq!(may(method, service), own || listed.contains(&service), "{service}, {method}");
            }
        }
        assert!(may("message.send", "search") && may("auth.create_aid", "search"), "these are not internal");
    }

    #[test]
    fn what_a_service_asks_because_of_a_relay_is_known_to_come_from_it() {
        let foreign = Caller::ForeignService { service: "search".to_owned(), relayed: relayed(1) };
        let first = Caller::service_in_call("group", &foreign);
        // A service that asks another service of this domain does not lose it either.
        let second = Caller::service_in_call("message", &first);
        for (caller, name) in [(first, "group"), (second, "message")] {
            assert_eq!(caller.service_name(), Some(name));
            assert_eq!(caller.relayed().map(|relayed| relayed.depth), Some(1));
        }
        for cause in [Caller::Agent(session()), Caller::service("message"), Caller::Unauthenticated(None)] {
            let caller = Caller::service_in_call("message", &cause);
            assert!(matches!(caller, Caller::Service(service) if service == "message"));
        }
    }
}
