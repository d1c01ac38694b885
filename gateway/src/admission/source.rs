//! Who is calling, as each way in knows it, and which methods such a caller has.

use super::limits::AgentLimit;
use super::signer::KnownSigner;
use kernel::{Aid, RpcError, codes};
use proto_schemas::{Access, Method};
use std::net::IpAddr;

pub enum CallSource<'a> {
    /// A socket, or a request over HTTP, that has not said who it is.
    Unauthenticated { address: IpAddr },
    /// A session on a WebSocket.
    Session { aid: &'a Aid, address: IpAddr, limit: &'a AgentLimit, signer: &'a KnownSigner },
    /// An agent over HTTP, by its token: it has no session and no connection.
    Token { aid: &'a Aid, address: IpAddr, limit: &'a AgentLimit, signer: &'a KnownSigner },
    /// An agent of another domain, over the peer link of its gateway, which has its session.
    ForeignAgent,
    /// A service of another domain in its own name, likewise.
    ForeignService,
    /// Who has access to the data folder of this server.
    Operator,
}

impl<'a> CallSource<'a> {
    /// The method, if this kind of caller can ever call it.
    pub fn find(&self, name: &str) -> Result<&'static Method, RpcError> {
        let method = proto_schemas::find(name);
        let own = method.filter(|method| self.may_call(method));
        match (self, method, own) {
            (CallSource::Token { .. }, Some(method), Some(_)) if method.needs_connection => {
                Err(needs_connection(method.name))
            }
            (_, _, Some(method)) => Ok(method),
            // The same for every method, so that nobody learns which ones there are.
            (CallSource::Unauthenticated { .. }, ..) => Err(RpcError::new(
                codes::NOT_INITIALIZED,
                "log in first: only registration, login and auth.connect are answered before that",
            )),
            _ => Err(not_found(name)),
        }
    }

    /// Whether this kind of caller can ever call it.
    pub fn may_call(&self, method: &Method) -> bool {
        match self {
            CallSource::Unauthenticated { .. } => method.access == Access::Public && !method.notification,
            CallSource::Session { .. } => method.access.is_for_agents(),
            CallSource::Token { .. } => method.access.is_for_agents() && !method.notification,
            CallSource::ForeignAgent => method.federation.is_some_and(|rule| rule.agents),
            CallSource::ForeignService => method.federation.is_some_and(|rule| rule.services),
            CallSource::Operator => method.access != Access::Peer && !method.notification,
        }
    }

    /// The limit of all calls of an agent. Other domains have limits of their own, and sockets without a session have a
    /// number of calls.
    pub(super) fn limit(&self) -> Option<&'a AgentLimit> {
        match self {
            CallSource::Session { limit, .. } | CallSource::Token { limit, .. } => Some(limit),
            _ => None,
        }
    }

    pub(super) fn address(&self) -> Option<IpAddr> {
        match self {
            CallSource::Unauthenticated { address }
            | CallSource::Session { address, .. }
            | CallSource::Token { address, .. } => Some(*address),
            _ => None,
        }
    }

    pub(super) fn aid(&self) -> Option<&'a Aid> {
        match self {
            CallSource::Session { aid, .. } | CallSource::Token { aid, .. } => Some(aid),
            _ => None,
        }
    }

    /// Whose signature a signed call must have.
    pub(super) fn signer(&self) -> Option<(&'a Aid, &'a KnownSigner)> {
        match self {
            CallSource::Session { aid, signer, .. } | CallSource::Token { aid, signer, .. } => {
                Some((aid, signer))
            }
            _ => None,
        }
    }
}

/// The error for a method that means nothing over HTTP.
pub fn needs_connection(name: &str) -> RpcError {
    let sentence = format!("{name} needs a WebSocket: over HTTP there is no connection");
    RpcError::new(codes::INVALID_REQUEST, sentence)
}

pub(super) fn not_found(name: &str) -> RpcError {
    let name: String = name.chars().take(80).collect();
    RpcError::new(codes::METHOD_NOT_FOUND, format!("method not found: {name}"))
}
