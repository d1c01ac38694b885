//! Who calls a method.

use super::access::CallerKind;
use crate::trace::TracedCall;
use crate::{Aid, DeviceId, RpcError, SlotId, codes};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;

/// Who calls. Built only from an authenticated connection, by another service, or for the operator; never from what a
/// client wrote into its parameters.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Caller {
    /// A connection that proved its AID.
    Agent(Session),
    /// An agent over HTTP, by its token. It has no connection, so no event reaches it: `connection` is 0, and device and
    /// slot are empty.
    Token(Session, TokenKind),
    /// An agent of another domain, vouched for by the gateway of that domain, where its session is.
    Foreign(Session, Relayed),
    /// A service of another domain in its own name, vouched for by the gateway of that domain.
    ForeignService { service: String, relayed: Relayed },
    /// A connection that has not logged in.
    Unauthenticated,
    /// Another service, or the gateway itself.
    Service(String),
    /// The same while it answers a call that came from another domain, for what it asks of others because of that call.
    ServiceForRelay { service: String, relayed: Relayed },
    /// Who has access to the data folder of this server.
    Operator,
}

/// What a token was given for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// The access token of a login: whatever the agent may do without a connection.
    Access,
    /// The token that the owner of an agent was given for it: the agent reads what concerns it, and changes nothing.
    Agent,
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

/// What the gateway knows of an authenticated connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    pub aid: Aid,
    pub device: DeviceId,
    pub slot: SlotId,
    pub connection: u64,
    /// The address that the connection comes from.
    pub address: IpAddr,
    pub connected_at_ms: i64,
    /// Which messages the client can read and how it catches up.
    pub generation: Generation,
    /// The trace of this call, if the client asked for one. Between processes it travels beside the session: it belongs to one
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

impl Caller {
    pub fn service(name: &str) -> Caller {
        Caller::Service(name.to_owned())
    }

    /// The caller of what a service asks of others because of a call that it answers. The service speaks for itself; where
    /// the call came from another domain, that is not lost.
    pub fn service_because_of(name: &str, cause: &Caller) -> Caller {
        match cause.relayed() {
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
            | Caller::Unauthenticated
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
            | Caller::Unauthenticated
            | Caller::Service(_)
            | Caller::Operator => None,
        }
    }

    /// The session of the caller, or an error for callers that have none here. For what belongs to a connection or to the
    /// device behind it.
    pub fn session(&self) -> Result<&Session, RpcError> {
        match self {
            Caller::Token(..) => {
                Err(RpcError::new(codes::INVALID_REQUEST, "this method needs a WebSocket connection"))
            }
            _ => self.agent(),
        }
    }

    /// The calling agent of this domain, over a connection or by its token.
    pub fn agent(&self) -> Result<&Session, RpcError> {
        match self {
            Caller::Agent(session) | Caller::Token(session, _) => Ok(session),
            _ => Err(RpcError::new(codes::UNAUTHENTICATED, "this method needs a logged-in agent")),
        }
    }

    /// The calling agent, of this domain or another.
    pub fn speaker(&self) -> Result<&Session, RpcError> {
        match self {
            Caller::Foreign(session, _) => Ok(session),
            _ => self.agent(),
        }
    }

    /// The trace of the call, if its client asked for one.
    pub(super) fn trace(&self) -> Option<Arc<TracedCall>> {
        match self {
            Caller::Agent(session) | Caller::Token(session, _) | Caller::Foreign(session, _) => {
                session.trace.clone()
            }
            Caller::ForeignService { .. }
            | Caller::Unauthenticated
            | Caller::Service(_)
            | Caller::ServiceForRelay { .. }
            | Caller::Operator => None,
        }
    }

    /// What decides which methods it has.
    pub fn kind(&self) -> CallerKind<'_> {
        match self {
            Caller::Agent(_) => CallerKind::Session,
            Caller::Token(..) => CallerKind::Token,
            Caller::Foreign(..) => CallerKind::ForeignAgent,
            Caller::ForeignService { .. } => CallerKind::ForeignService,
            Caller::Unauthenticated => CallerKind::Unauthenticated { connected: true },
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

    fn session() -> Session {
        Session {
            aid: Aid::parse("alice.aid.net").unwrap(),
            device: DeviceId::default(),
            slot: SlotId::default(),
            connection: 0,
            address: [0, 0, 0, 0].into(),
            connected_at_ms: 0,
            generation: Generation::default(),
            trace: None,
        }
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
            ("ca.revoked_agents", &["agent"][..]),
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
        let first = Caller::service_because_of("group", &foreign);
        // A service that asks another service of this domain does not lose it either.
        let second = Caller::service_because_of("message", &first);
        for (caller, name) in [(first, "group"), (second, "message")] {
            assert_eq!(caller.service_name(), Some(name));
            assert_eq!(caller.relayed().map(|relayed| relayed.depth), Some(1));
        }
        for cause in [Caller::Agent(session()), Caller::service("message"), Caller::Unauthenticated] {
            let caller = Caller::service_because_of("message", &cause);
            assert!(matches!(caller, Caller::Service(service) if service == "message"));
        }
    }
}
