//! `agent.verify_token`: whose an agent token is.

use super::tokens::{hash_of, is_agent_token};
use crate::{AgentService, Error};
use kernel::{Aid, Caller, RpcError, codes};
use proto_schemas::ServiceToken;
use proto_schemas::requests::agent::VerifyToken;
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn verify_token(
        self: Arc<Self>,
        _: Caller,
        VerifyToken { token }: VerifyToken,
    ) -> Result<ServiceToken, Error> {
        let known = match is_agent_token(&token) {
            true => self.store.agent_of_token(&hash_of(&token)).await?,
            false => None,
        };
        let Some((id, aid)) = known else { return Err(RpcError::plain(codes::TOKEN_INVALID).into()) };
        let aid = Aid::parse(&aid).map_err(RpcError::internal)?;
        Ok(ServiceToken { subject: id, aid: Some(aid), payer: None })
    }
}
