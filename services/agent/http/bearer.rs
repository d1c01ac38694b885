//! Who sends a request: whom the gateway has authenticated, or the agent whose own token it has.

use crate::AgentService;
use crate::agents::{hash_of, is_agent_token};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use kernel::{Aid, Caller, DeviceId, Generation, RpcError, Session, SlotId, TokenKind};
use std::net::Ipv4Addr;

impl AgentService {
    /// None if nobody is known. The gateway leaves a token to us that it does not know.
    pub(super) async fn http_caller(
        &self,
        caller: Caller,
        headers: &HeaderMap,
    ) -> Result<Option<Caller>, RpcError> {
        if caller.agent().is_ok() {
            return Ok(Some(caller));
        }
        let Some(token) = bearer(headers).filter(|token| is_agent_token(token)) else { return Ok(None) };
        let Some(aid) = self.store.aid_of_token(&hash_of(token)).await? else { return Ok(None) };
        let session = Session {
            aid: Aid::parse(&aid).map_err(RpcError::internal)?,
            device: DeviceId::default(),
            slot: SlotId::default(),
            connection: 0,
            address: Ipv4Addr::UNSPECIFIED.into(),
            connected_at_ms: self.clock.now_ms(),
            generation: Generation::default(),
            trace: None,
        };
        Ok(Some(Caller::Token(session, TokenKind::Agent)))
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
