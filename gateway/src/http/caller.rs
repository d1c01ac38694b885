//! Who sends a request: the agent whose token it has, or nobody we know.

use crate::admission::{AgentLimit, CallSource, KnownSigner};
use crate::gateway::GatewayState;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use kernel::{Caller, DeviceId, Generation, RpcError, Session, SlotId, TokenKind, TracedCall, codes};
use std::net::IpAddr;
use std::sync::Arc;

pub(super) enum HttpCaller {
    Unauthenticated { address: IpAddr },
    Agent { session: Session, limit: Arc<AgentLimit>, signer: KnownSigner },
}

/// What the token of a request says.
pub(super) enum Authenticated {
    Caller(HttpCaller),
    /// There is one, and it is not valid.
    InvalidToken,
}

impl HttpCaller {
    /// Asks `auth` for whom the token of a request was made, if it has one.
    pub async fn authenticate(
        gateway: &GatewayState,
        address: IpAddr,
        headers: &HeaderMap,
    ) -> Result<Authenticated, RpcError> {
        let Some(token) = bearer(headers) else {
            return Ok(Authenticated::Caller(HttpCaller::Unauthenticated { address }));
        };
        let aid = match gateway.admission.authenticate(token).await {
            Ok(aid) => aid,
            Err(error) if error.code() == codes::TOKEN_INVALID.code => {
                return Ok(Authenticated::InvalidToken);
            }
            Err(error) => return Err(error),
        };
        let limit = gateway.admission.limits.agent(&aid);
        let session = Session {
            aid,
            device: DeviceId::default(),
            slot: SlotId::default(),
            connection: 0,
            address,
            connected_at_ms: gateway.clock.now_ms(),
            generation: Generation::default(),
            trace: None,
        };
        let signer = KnownSigner::default();
        Ok(Authenticated::Caller(HttpCaller::Agent { session, limit, signer }))
    }

    pub fn is_agent(&self) -> bool {
        matches!(self, HttpCaller::Agent { .. })
    }

    /// Who is calling, for admission.
    pub fn source(&self) -> CallSource<'_> {
        match self {
            HttpCaller::Unauthenticated { address } => {
                CallSource::Unauthenticated { address: *address, connected: false }
            }
            HttpCaller::Agent { session, limit, signer } => {
                CallSource::Token { aid: &session.aid, address: session.address, limit, signer }
            }
        }
    }

    /// Who is calling, for a service.
    pub fn caller(&self, trace: Option<Arc<TracedCall>>) -> Caller {
        match self {
            HttpCaller::Unauthenticated { .. } => Caller::Unauthenticated,
            HttpCaller::Agent { session, .. } => {
                Caller::Token(Session { trace, ..session.clone() }, TokenKind::Access)
            }
        }
    }
}

pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
