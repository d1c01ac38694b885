//! `agent.test_webhook`: sends a signed request to the webhook of an agent, and says what came back.

use crate::callers::calling_aid;
use crate::sending::{WebhookTarget, failure};
use crate::{AgentService, Error};
use kernel::{Caller, RpcError, codes};
use proto_schemas::requests::agent::{TestWebhook, TestedWebhook};
use std::sync::Arc;
use tokio::time::Instant;

const PING: &str = r#"{"type":"ping","version":"v1"}"#;

impl AgentService {
    /// It counts among the requests to webhooks of its owner, and nothing is stored of it.
    pub(crate) async fn test_webhook(
        self: Arc<Self>,
        caller: Caller,
        TestWebhook { id }: TestWebhook,
    ) -> Result<TestedWebhook, Error> {
        let owner = calling_aid(&caller)?;
        let agent = self.store.agent(&id).await?.ok_or(Error::NoAgentRecord(id))?;
        if agent.owner != owner.as_str() {
            return Err(Error::NotOwner(agent.id));
        }
        let (Some(url), Some(secret)) = (&agent.webhook_url, &agent.webhook_secret) else {
            return Err(Error::Bad("the agent has no webhook_url"));
        };
        let slot = self.outboxes.slot_for_test(&agent.id, &agent.owner);
        let Some(_slot) = slot else {
            let sentence = "too many webhook requests are in progress, try again in a moment";
            return Err(RpcError::new(codes::UNAVAILABLE, sentence).into());
        };
        let (delivery_id, began) = (self.ids.time_ordered(self.clock.now_ms()), Instant::now());
        let target = WebhookTarget { agent_id: &agent.id, url, secret };
        let answer = self.post(target, &delivery_id, PING.to_owned()).await;
        Ok(TestedWebhook {
            delivery_id,
            accepted: failure(&answer).is_none(),
            status: answer.as_ref().ok().map(|answer| i64::from(answer.status)),
            error: failure(&answer),
            duration_ms: i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX),
        })
    }
}
