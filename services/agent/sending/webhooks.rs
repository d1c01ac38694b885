//! Sends deliveries to webhooks: many at once, few of one owner and to one address, of each agent one at a time, five attempts each.

use super::signature::signature;
use crate::AgentService;
use crate::settings::WebhookSettings;
use kernel::{OutboxPage, OutboxRow, OutboxSender, PageOutcome, RowEnd};
use outbound::{AddressRequests, OutboundAnswer, OutboundClient, OutboundError, OutboundUrl};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// How long a webhook waits for its next turn to whose address enough requests go now.
pub(super) const BUSY_WAIT: Duration = Duration::from_secs(1);
/// What is kept of a reason.
const MOST_ERROR: usize = 300;

/// A request to a webhook.
#[derive(Clone, Debug)]
pub(crate) struct WebhookRequest {
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

/// The answer, or why there is none.
pub(crate) type WebhookAnswer = Pin<Box<dyn Future<Output = Result<OutboundAnswer, OutboundError>> + Send>>;

/// Where the requests to an agent's webhook go, and what signs them.
#[derive(Clone, Copy)]
pub(crate) struct WebhookTarget<'a> {
    pub agent_id: &'a str,
    pub url: &'a str,
    pub secret: &'a str,
}

pub(crate) trait WebhookSender: Send + Sync {
    fn post(&self, post: WebhookRequest) -> WebhookAnswer;
}

/// Sends over the network.
pub(crate) struct HttpsSender {
    client: Arc<OutboundClient>,
    allow_private: bool,
}

impl HttpsSender {
    pub fn new(settings: &WebhookSettings) -> anyhow::Result<HttpsSender> {
        let (allow_private, requests) =
            (settings.allow_private, AddressRequests::new(settings.requests_per_address));
        Ok(HttpsSender { client: Arc::new(OutboundClient::new(allow_private, requests)?), allow_private })
    }
}

impl WebhookSender for HttpsSender {
    fn post(&self, post: WebhookRequest) -> WebhookAnswer {
        let (client, allow_private) = (self.client.clone(), self.allow_private);
        Box::pin(async move {
            // Checked again: the setting may be another one than when the URL was stored.
            let url = OutboundUrl::parse(&post.url, allow_private)
                .map_err(|error| OutboundError::Network(error.to_string()))?;
            client.post(&url, &post.headers, post.body).await
        })
    }
}

/// Sends the rows of the outbox of webhooks.
pub(crate) struct WebhookDeliveries(pub Arc<AgentService>);

impl OutboxSender for WebhookDeliveries {
    async fn send(&self, page: OutboxPage) -> sqlx::Result<PageOutcome> {
        let Some(row) = page.rows.first() else { return Ok(PageOutcome::default()) };
        self.0.attempt(&page.destination, row, page.last_attempt).await
    }
}

impl AgentService {
    /// Calls the webhook of an agent, and stores whether it can be reached.
    async fn attempt(&self, agent_id: &str, row: &OutboxRow, last: bool) -> sqlx::Result<PageOutcome> {
        let given_up = |reason: &str| PageOutcome::settled(row.settled(RowEnd::GivenUp(reason.to_owned())));
        let Some(agent) = self.store.agent(agent_id).await? else {
            return Ok(given_up("the agent was removed"));
        };
        let (Some(url), Some(secret)) = (&agent.webhook_url, &agent.webhook_secret) else {
            self.store.set_webhook_unreachable(agent_id, true).await?;
            return Ok(given_up("the agent no longer has a webhook"));
        };
        let target = WebhookTarget { agent_id: &agent.id, url, secret };
        let answer = self.post(target, &row.key, row.data.clone()).await;
        if matches!(answer, Err(OutboundError::Busy)) {
            return Ok(PageOutcome::postponed(BUSY_WAIT));
        }
        let Some(error) = failure(&answer) else {
            self.store.set_webhook_unreachable(agent_id, false).await?;
            return Ok(PageOutcome::settled(row.settled(RowEnd::Delivered)));
        };
        if last {
            self.store.set_webhook_unreachable(agent_id, true).await?;
            tracing::info!(aid = agent.aid, "an event was not delivered to a webhook: {error}");
        }
        Ok(PageOutcome::failed(error))
    }

    /// Sends one signed request.
    pub(crate) async fn post(
        &self,
        target: WebhookTarget<'_>,
        delivery_id: &str,
        body: String,
    ) -> Result<OutboundAnswer, OutboundError> {
        let timestamp = self.clock.now_seconds();
        let headers = vec![
            ("x-hashee-signature", signature(target.secret, timestamp, delivery_id, &body)),
            ("x-hashee-timestamp", timestamp.to_string()),
            ("x-hashee-delivery-id", delivery_id.to_owned()),
            ("x-hashee-agent-id", target.agent_id.to_owned()),
        ];
        self.sender.post(WebhookRequest { url: target.url.to_owned(), headers, body }).await
    }
}

/// Why an answer does not count as delivered.
pub(crate) fn failure(answer: &Result<OutboundAnswer, OutboundError>) -> Option<String> {
    match answer {
        Ok(OutboundAnswer { status: 200..=299, .. }) => None,
        Ok(OutboundAnswer { status, .. }) => Some(format!("it was answered with {status}")),
        Err(error) => {
            tracing::debug!("a webhook cannot be called: {error}");
            Some(error.for_owner().chars().take(MOST_ERROR).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_status_of_success_is_a_delivery_and_a_reason_is_short() {
        for status in [200, 204, 299] {
            assert_eq!(failure(&Ok(OutboundAnswer { status, ..Default::default() })), None);
        }
        for status in [100, 302, 404, 503] {
            let answer = Ok(OutboundAnswer { status, ..Default::default() });
            assert_eq!(failure(&answer), Some(format!("it was answered with {status}")));
        }
        assert_eq!(failure(&Err(OutboundError::Network("x".repeat(1000)))), Some("x".repeat(300)));
    }
}
