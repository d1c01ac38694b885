//! Who is calling, as each way in knows it, and which methods such a caller has.

use super::limits::AgentLimit;
use super::signer::KnownSigner;
use kernel::{Aid, CallerKind, MethodRefused, RpcError};
use proto_schemas::Method;
use std::net::IpAddr;

pub enum CallSource<'a> {
    /// A socket, or a request over HTTP, that has not said who it is.
    Unauthenticated { address: IpAddr, connected: bool },
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
        self.kind().check(method).map_err(|refused| refused.error(name))?;
        method.ok_or_else(|| MethodRefused::NotFound.error(name))
    }

    fn kind(&self) -> CallerKind<'static> {
        match self {
            CallSource::Unauthenticated { connected, .. } => {
                CallerKind::Unauthenticated { connected: *connected }
            }
            CallSource::Session { .. } => CallerKind::Session,
            CallSource::Token { .. } => CallerKind::Token,
            CallSource::ForeignAgent => CallerKind::ForeignAgent,
            CallSource::ForeignService => CallerKind::ForeignService,
            CallSource::Operator => CallerKind::Operator,
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
            CallSource::Unauthenticated { address, .. }
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
