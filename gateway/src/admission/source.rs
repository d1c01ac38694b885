//! Who is calling, as each way in knows it, and which methods such a caller has.

use super::limits::{AgentLimit, within_agent_rate};
use super::signer::KnownSigner;
use kernel::{Aid, CallerKind, RpcError, TokenCaller};
use std::borrow::Cow;
use std::net::IpAddr;

pub enum CallSource<'a> {
    /// A socket, or a request over HTTP, that has not said who it is.
    Unauthenticated { address: IpAddr, connected: bool },
    /// A session on a WebSocket.
    Session { aid: &'a Aid, address: IpAddr, limit: &'a AgentLimit, signer: &'a KnownSigner },
    /// Whoever has a token, over HTTP: it has no session and no connection. The limit is that of its agent; other tokens have been
    /// counted when they were verified.
    Token { token: &'a TokenCaller, address: IpAddr, limit: Option<&'a AgentLimit>, signer: &'a KnownSigner },
    /// An agent of another domain, over the peer link of its gateway, which has its session.
    ForeignAgent { limit: &'a ForeignLimit<'a> },
    /// A service of another domain in its own name, likewise.
    ForeignService { limit: &'a ForeignLimit<'a> },
    /// Who has access to the data folder of this server.
    Operator,
}

/// Counts a call of another domain.
pub type ForeignLimit<'a> = dyn Fn() -> Result<(), RpcError> + Sync + 'a;

impl<'a> CallSource<'a> {
    pub(super) fn kind(&self) -> CallerKind<'a> {
        match self {
            CallSource::Unauthenticated { connected, .. } => {
                CallerKind::Unauthenticated { connected: *connected }
            }
            CallSource::Session { .. } => CallerKind::Session,
            CallSource::Token { token, .. } => CallerKind::Token(&token.kind),
            CallSource::ForeignAgent { .. } => CallerKind::ForeignAgent,
            CallSource::ForeignService { .. } => CallerKind::ForeignService,
            CallSource::Operator => CallerKind::Operator,
        }
    }

    /// Counts one of all calls of the caller. Sockets without a session have a number of calls, and the operator may make any.
    pub(super) fn within_rate(&self) -> Result<(), RpcError> {
        match self {
            CallSource::Session { limit, .. } | CallSource::Token { limit: Some(limit), .. } => {
                within_agent_rate(limit)
            }
            CallSource::ForeignAgent { limit } | CallSource::ForeignService { limit } => limit(),
            CallSource::Token { limit: None, .. }
            | CallSource::Unauthenticated { .. }
            | CallSource::Operator => Ok(()),
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

    /// Whom the rate of a class counts: an agent is the same over its sessions and its access tokens.
    pub(super) fn subject(&self) -> Option<Cow<'a, str>> {
        match self {
            CallSource::Session { aid, .. } => Some(Cow::Borrowed(aid.as_str())),
            CallSource::Token { token, .. } if token.is_access() => Some(Cow::Borrowed(&token.subject)),
            CallSource::Token { token, .. } => Some(Cow::Owned(format!("{}:{}", token.kind, token.subject))),
            _ => None,
        }
    }

    /// Who pays for what the call holds: that of a token may be another than its subject.
    pub(super) fn payer(&self) -> Option<Cow<'a, str>> {
        match self {
            CallSource::Token { token, .. } => Some(token.payer()),
            _ => self.subject(),
        }
    }

    /// Whose signature a signed call must have.
    pub(super) fn signer(&self) -> Option<(&'a Aid, &'a KnownSigner)> {
        match self {
            CallSource::Session { aid, signer, .. } => Some((aid, signer)),
            CallSource::Token { token, signer, .. } if token.is_access() => {
                Some((&token.agent.as_ref()?.aid, signer))
            }
            _ => None,
        }
    }
}
