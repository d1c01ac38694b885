//! Who sends a request: whoever has its token, or nobody we know.

use crate::admission::{AgentLimit, CallSource, KnownSigner, is_invalid_token};
use crate::gateway::GatewayState;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use kernel::{BytesOwner, Caller, CallingAgent, RpcError, TokenCaller, TracedCall};
use std::net::IpAddr;
use std::sync::Arc;

pub(super) struct HttpCaller {
    address: IpAddr,
    token: Option<Box<VerifiedCaller>>,
}

struct VerifiedCaller {
    caller: TokenCaller,
    /// That of the agent, for an access token.
    limit: Option<Arc<AgentLimit>>,
    signer: KnownSigner,
}

/// What the token of a request says.
pub(super) enum Authenticated {
    Caller(HttpCaller),
    /// There is one, and it is not valid.
    InvalidToken,
}

impl HttpCaller {
    pub fn unauthenticated(address: IpAddr) -> HttpCaller {
        HttpCaller { address, token: None }
    }

    /// Asks whoever gave the token of a request for whom it was made, if it has one.
    pub async fn authenticate(
        gateway: &GatewayState,
        address: IpAddr,
        headers: &HeaderMap,
    ) -> Result<Authenticated, RpcError> {
        let Some(token) = bearer(headers) else {
            return Ok(Authenticated::Caller(HttpCaller::unauthenticated(address)));
        };
        let caller = match gateway.admission.authenticate(token, address).await {
            Ok(caller) => caller,
            Err(error) if is_invalid_token(&error) => return Ok(Authenticated::InvalidToken),
            Err(error) => return Err(error),
        };
        let agent = caller.agent.as_ref().filter(|_| caller.is_access());
        let limit = agent.map(|agent| gateway.admission.limits.agent(&agent.aid));
        let token = Some(Box::new(VerifiedCaller { caller, limit, signer: KnownSigner::default() }));
        Ok(Authenticated::Caller(HttpCaller { address, token }))
    }

    pub fn is_known(&self) -> bool {
        self.token.is_some()
    }

    /// Whether it is an agent by its access token.
    pub fn is_logged_in(&self) -> bool {
        self.token.as_ref().is_some_and(|token| token.caller.is_access())
    }

    /// Who is calling, for admission.
    pub fn source(&self) -> CallSource<'_> {
        let address = self.address;
        match self.token.as_deref() {
            None => CallSource::Unauthenticated { address, connected: false },
            Some(VerifiedCaller { caller, limit, signer }) => {
                CallSource::Token { token: caller, address, limit: limit.as_deref(), signer }
            }
        }
    }

    /// Who is calling, for a service.
    pub fn caller(&self, trace: Option<Arc<TracedCall>>) -> Caller {
        let Some(token) = &self.token else { return Caller::Unauthenticated(Some(self.address)) };
        let agent = token.caller.agent.as_ref().map(|agent| CallingAgent { trace, ..agent.clone() });
        Caller::Token(TokenCaller { agent, ..token.caller.clone() })
    }

    /// Who pays for the bytes that it sends: as for frames, a network where it is no agent.
    pub fn owner(&self) -> BytesOwner {
        let agent = self.token.as_ref().and_then(|token| token.caller.agent.as_ref());
        let network = || BytesOwner::of_address(self.address);
        agent.map_or_else(network, |agent| BytesOwner::Agent(agent.aid.clone()))
    }
}

pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
