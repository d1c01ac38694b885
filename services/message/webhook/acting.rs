//! As which device an agent acts over HTTP: as that of its webhook, if it gets its messages there.

use crate::{Error, MessageService};
use kernel::{Aid, Caller, CallingAgent, DeviceId, RpcError, TokenCaller, codes};
use std::borrow::Cow;

impl MessageService {
    /// The calling agent with the device that it acts as: that of its connection, or over HTTP that of its webhook. Agents without
    /// one have no device there, so what belongs to a device needs a connection.
    pub(crate) async fn acting_agent<'a>(&self, caller: &'a Caller) -> Result<Cow<'a, CallingAgent>, Error> {
        let Some(agent) = agent_of_token(caller) else { return Ok(Cow::Borrowed(caller.connected_agent()?)) };
        match self.has_webhook(&agent.aid).await? {
            true => Ok(Cow::Owned(as_webhook(agent))),
            false => {
                let sentence = "this method needs a WebSocket connection; over HTTP it is only for agents \
                                with the connection mode webhook whose key has agreed to the URL";
                Err(RpcError::new(codes::INVALID_REQUEST, sentence).into())
            }
        }
    }

    /// The caller with the device that it sends as. Over HTTP, agents without a webhook send without a device.
    pub(crate) async fn with_device(&self, caller: Caller) -> Result<Caller, Error> {
        match agent_of_token(&caller) {
            Some(agent) if self.has_webhook(&agent.aid).await? => {
                Ok(Caller::Token(TokenCaller::access(as_webhook(agent))))
            }
            _ => Ok(caller),
        }
    }

    async fn has_webhook(&self, aid: &Aid) -> sqlx::Result<bool> {
        Ok(self.is_ours(aid) && self.inboxes.of_webhook(aid).await?.is_some())
    }
}

/// The agent that calls over HTTP by the token of its login.
fn agent_of_token(caller: &Caller) -> Option<&CallingAgent> {
    caller.token().filter(|token| token.is_access())?.agent.as_ref()
}

fn as_webhook(agent: &CallingAgent) -> CallingAgent {
    CallingAgent { device: DeviceId::webhook(), ..agent.clone() }
}
