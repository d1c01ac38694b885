//! Delivers messages to webhooks: those of one AID in the order of their seqs, one request at a time.
//!
//! A message stays in its inbox until the webhook has accepted it, which moves the cursor of the device `webhook`. A process that ends
//! between the answer and the cursor leaves the message to the next one, which sends it again under the same delivery id.

use super::attempts::{AttemptEnd, MessageTurn};
use crate::outboxes::DEVICE;
use crate::store::agents::AgentRow;
use crate::{AgentService, Error};
use kernel::{Aid, Caller, OutboxPage, OutboxRow, OutboxSender, PageOutcome, RowEnd, RpcError};
use proto_schemas::requests::message::webhook::{Next, NextMessage, PutDevice, RemoveDevice};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long the messages of one AID are delivered before others of its owner have their turn.
const TURN: Duration = Duration::from_secs(2);

/// Sends what the marks of the outbox of messages stand for.
pub(crate) struct MessageDeliveries(pub Arc<AgentService>);

impl OutboxSender for MessageDeliveries {
    async fn send(&self, page: OutboxPage) -> sqlx::Result<PageOutcome> {
        let all = |end: fn() -> RowEnd| PageOutcome {
            settled: page.rows.iter().map(|row| row.settled(end())).collect(),
            ..PageOutcome::default()
        };
        let Ok(aid) = Aid::parse(&page.destination) else { return Ok(all(|| RowEnd::Delivered)) };
        Ok(match self.0.take_turn(&aid, &page.rows).await {
            Ok(AttemptEnd::Accepted) => all(|| RowEnd::Delivered),
            Ok(AttemptEnd::Later) => all(|| RowEnd::Part(String::new())),
            Ok(AttemptEnd::Busy(wait)) => PageOutcome::postponed(wait),
            Ok(AttemptEnd::Failed { error, retry_in }) => PageOutcome::failed_until(error, retry_in),
            Err(error) => {
                let error = RpcError::from(error);
                tracing::debug!(%aid, "messages for a webhook are sent later: {error}");
                PageOutcome::failed(error.to_string())
            }
        })
    }
}

impl AgentService {
    /// Makes or removes the device of an AID, as its agent is registered now, and delivers what is unread.
    async fn take_turn(&self, aid: &Aid, marks: &[OutboxRow]) -> Result<AttemptEnd, Error> {
        let agent = self.store.agent(aid.as_str()).await?.filter(AgentRow::has_webhook_device);
        let Some(agent) = agent else {
            self.mesh.ask(Caller::service("agent"), &RemoveDevice { aid: aid.clone() }).await?;
            return Ok(AttemptEnd::Accepted);
        };
        if marks.iter().any(|mark| mark.key == DEVICE) {
            self.put_device(aid).await?;
        }
        if let Some(key) = &agent.webhook_agreed_key
            && !self.is_current_key(aid, key).await?
        {
            self.store.end_agreement(&agent.id, key).await?;
            return Ok(AttemptEnd::Accepted);
        }
        let Some(mut turn) = MessageTurn::begin(self, aid, &agent).await? else {
            // Its key has not agreed to this URL: messages wait in the inbox of the device.
            return Ok(AttemptEnd::Accepted);
        };
        let until = Instant::now() + TURN;
        while Instant::now() < until {
            let Some(next) = self.next_message(aid).await? else { return Ok(AttemptEnd::Accepted) };
            match turn.attempt(&next).await? {
                AttemptEnd::Accepted => {}
                end => return Ok(end),
            }
        }
        Ok(AttemptEnd::Later)
    }

    async fn put_device(&self, aid: &Aid) -> Result<(), Error> {
        self.mesh.ask(Caller::service("agent"), &PutDevice { aid: aid.clone() }).await?;
        Ok(())
    }

    async fn next_message(&self, aid: &Aid) -> Result<Option<NextMessage>, Error> {
        let wanted = Next { aid: aid.clone() };
        let found = self.mesh.ask(Caller::service("agent"), &wanted).await?;
        if found.device {
            return Ok(found.next);
        }
        self.put_device(aid).await?;
        Ok(self.mesh.ask(Caller::service("agent"), &wanted).await?.next)
    }
}
