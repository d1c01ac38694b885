//! The task that sends deliveries to webhooks: many at once, of each agent one at a time, five attempts each.

use super::signature::signature;
use crate::store::outbox::{AttemptEnd, DeliveryRow};
use crate::{AgentService, Error};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kernel::{RpcError, await_polling};
use outbound::{OutboundClient, OutboundUrl};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Requests that run at once. One that hangs takes one of them for ten seconds.
const AT_ONCE: usize = 32;
/// How often it looks when nothing wakes it.
const EVERY: Duration = Duration::from_secs(1);
/// Longer than a request may take.
const LEASE_MS: i64 = 30_000;
/// How long to wait before each attempt.
const WAITS_MS: [i64; 5] = [0, 1_000, 5_000, 30_000, 300_000];
/// What is kept of a reason.
const MOST_ERROR: usize = 300;

/// A request to a webhook.
#[derive(Clone, Debug)]
pub(crate) struct WebhookRequest {
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

/// The status of the answer, or why there is none.
pub(crate) type WebhookAnswer = Pin<Box<dyn Future<Output = Result<u16, String>> + Send>>;

pub(crate) trait WebhookSender: Send + Sync {
    fn post(&self, post: WebhookRequest) -> WebhookAnswer;
}

/// Sends over the network.
pub(crate) struct HttpsSender {
    client: Arc<OutboundClient>,
    allow_private: bool,
}

impl HttpsSender {
    pub fn new(allow_private: bool) -> anyhow::Result<HttpsSender> {
        Ok(HttpsSender { client: Arc::new(OutboundClient::new(allow_private)?), allow_private })
    }
}

impl WebhookSender for HttpsSender {
    fn post(&self, post: WebhookRequest) -> WebhookAnswer {
        let (client, allow_private) = (self.client.clone(), self.allow_private);
        Box::pin(async move {
            // Checked again: the setting may be another one than when the URL was stored.
            let url = OutboundUrl::parse(&post.url, allow_private).map_err(|error| error.to_string())?;
            client.post(&url, &post.headers, post.body).await.map_err(|error| error.to_string())
        })
    }
}

impl AgentService {
    /// Runs until the server stops.
    pub(crate) async fn deliver_webhooks(&self) {
        let mut running = FuturesUnordered::new();
        loop {
            // The attempts that run store how they ended, as this stores that it has taken more.
            let (due, ended) = await_polling(self.take_due(AT_ONCE - running.len()), &mut running).await;
            match due {
                Ok(due) => running.extend(due.into_iter().map(|delivery| self.attempt(delivery))),
                Err(error) => tracing::warn!("webhooks are called later: {}", RpcError::from(error)),
            }
            if !ended.is_empty() {
                continue; // The next delivery of the same agent may be due.
            }
            tokio::select! {
                Some(()) = running.next(), if !running.is_empty() => {}
                () = self.wake.webhooks.notified() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }

    /// Attempts everything whose time has come, once; returns how many that were.
    #[cfg(test)]
    pub(crate) async fn deliver_due(&self) -> Result<usize, Error> {
        let due = self.take_due(AT_ONCE).await?;
        let attempts = due.into_iter().map(|delivery| self.attempt(delivery));
        Ok(futures_util::future::join_all(attempts).await.len())
    }

    async fn take_due(&self, most: usize) -> Result<Vec<DeliveryRow>, Error> {
        let now = self.clock.now_ms();
        match i64::try_from(most) {
            Ok(most) if most > 0 => Ok(self.store.take_deliveries(now, now + LEASE_MS, most).await?),
            _ => Ok(Vec::new()),
        }
    }

    async fn attempt(&self, delivery: DeliveryRow) {
        if let Err(error) = self.try_attempt(&delivery).await {
            // It stays taken for a while, and is attempted again then.
            tracing::warn!("a delivery to a webhook could not be stored: {}", RpcError::from(error));
        }
    }

    async fn try_attempt(&self, delivery: &DeliveryRow) -> Result<(), Error> {
        let Some(agent) = self.store.agent(&delivery.agent_id).await? else { return Ok(()) };
        let timestamp = self.clock.now_seconds();
        let answer = match (agent.webhook_url, &agent.webhook_secret) {
            (Some(url), Some(secret)) => {
                let headers = vec![
                    ("x-hashee-signature", signature(secret, timestamp, &delivery.id, &delivery.body)),
                    ("x-hashee-timestamp", timestamp.to_string()),
                    ("x-hashee-delivery-id", delivery.id.clone()),
                    ("x-hashee-agent-id", agent.id.clone()),
                ];
                Some(self.sender.post(WebhookRequest { url, headers, body: delivery.body.clone() }).await)
            }
            _ => None,
        };
        let now = self.clock.now_ms();
        let end = match answer {
            Some(answer) => after_attempt(delivery.attempts + 1, answer, now),
            None => AttemptEnd::Dead { error: "the agent has no webhook any more".to_owned() },
        };
        if let AttemptEnd::Dead { error } = &end {
            tracing::info!(aid = agent.aid.as_str(), "an event was not delivered to a webhook: {error}");
        }
        self.store.end_attempt(delivery, &end, now).await?;
        Ok(())
    }
}

/// What follows from the answer to the nth attempt.
fn after_attempt(attempt: i64, answer: Result<u16, String>, now: i64) -> AttemptEnd {
    let error = match answer {
        Ok(200..=299) => return AttemptEnd::Delivered,
        Ok(status) => format!("it was answered with {status}"),
        Err(error) => error.chars().take(MOST_ERROR).collect(),
    };
    let wait = usize::try_from(attempt).ok().and_then(|attempt| WAITS_MS.get(attempt));
    match wait {
        Some(wait) => AttemptEnd::Again { at: now + wait, error },
        None => AttemptEnd::Dead { error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_attempts_with_longer_and_longer_waits() {
        let ends: Vec<AttemptEnd> = (1..=5).map(|attempt| after_attempt(attempt, Ok(500), 10)).collect();
        let error = || "it was answered with 500".to_owned();
        let again = |wait: i64| AttemptEnd::Again { at: 10 + wait, error: error() };
        assert_eq!(
            ends,
            [again(1_000), again(5_000), again(30_000), again(300_000), AttemptEnd::Dead { error: error() }]
        );
        for status in [200, 204, 299] {
            assert_eq!(after_attempt(5, Ok(status), 0), AttemptEnd::Delivered);
        }
        for status in [100, 302, 404, 503] {
            assert!(matches!(after_attempt(1, Ok(status), 0), AttemptEnd::Again { .. }), "{status}");
        }
        let long = after_attempt(5, Err("x".repeat(1000)), 0);
        assert_eq!(long, AttemptEnd::Dead { error: "x".repeat(300) });
    }
}
