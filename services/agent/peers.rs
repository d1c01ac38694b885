//! Agents of other domains: a call about one goes to its domain, which has its manifest and what was granted to it.

use super::{AgentService, Error};
use kernel::{Aid, Caller, RpcError, codes, forward_for_agent};
use proto_schemas::Request;

impl AgentService {
    /// The answer of the domain of an agent, where that is another one and the agent is named by its AID. A call that came from
    /// another domain is never passed on to a third.
    pub(super) async fn at_its_domain<R: Request>(
        &self,
        caller: &Caller,
        id: &str,
        request: &R,
    ) -> Result<Option<R::Result>, Error> {
        let Some(aid) = Aid::parse(id).ok().filter(|aid| aid.issuer() != self.issuer) else {
            return Ok(None);
        };
        // An agent token is for what is here.
        let other_token = caller.token().is_some_and(|token| !token.is_access());
        let Some(agent) = caller.local_agent().ok().filter(|_| !other_token) else {
            return Err(Error::NoAgentRecord(id.to_owned()));
        };
        let issuer = aid.issuer();
        if !self.mesh.knows("gateway") {
            let sentence = format!("{issuer} is another domain, and cannot be reached from here");
            let error = RpcError::new(codes::FEDERATION_UNREACHABLE, sentence);
            return Err(error.with("retryable", false).into());
        }
        let forward = forward_for_agent(agent, issuer, R::METHOD, request)?;
        let answer = self.mesh.forward("agent", caller, forward).await?;
        let answer = serde_json::from_str(answer.get()).map_err(|error| {
            tracing::debug!(peer.issuer = issuer, "an answer of {issuer} cannot be read: {error}");
            RpcError::new(codes::FEDERATION_REFUSED, format!("the answer of {issuer} cannot be read"))
        })?;
        Ok(Some(answer))
    }
}
