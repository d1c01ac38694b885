//! One message for a webhook: how it is sent, and what follows when it is not accepted.

use super::webhooks::{BUSY_WAIT, WebhookTarget, failure};
use crate::store::agents::{self, AgentRow};
use crate::store::attempts::MessageAttempts;
use crate::{AgentService, Error};
use kernel::{Aid, Caller, Clock, NewOutboxRow, sha256};
use outbound::{OutboundAnswer, OutboundError};
use proto_schemas::requests::message::webhook::{Ack, NextMessage};
use serde::Serialize;
use serde_json::value::RawValue;
use std::time::{Duration, UNIX_EPOCH};

/// How long to wait after each failure; the last wait is that after all others, too.
const WAITS: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(300)];
/// After so many failures in a row an agent counts as unreachable.
const UNREACHABLE_AFTER: i64 = 5;
/// The longest and the shortest wait that a webhook can ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
/// A message is skipped that its webhook has answered so often, for so long, but never with 2xx.
const HOPELESS_ANSWERS: i64 = 10;
const HOPELESS_MS: i64 = 3_600_000;

/// What became of a message, and of the turn that it was sent in.
#[derive(Debug)]
pub(crate) enum AttemptEnd {
    /// The next one is sent.
    Accepted,
    /// The turn is over, and the rest follows.
    Later,
    /// As many requests go to its address as may.
    Busy(Duration),
    Failed {
        error: String,
        retry_in: Duration,
    },
}

/// The messages of one AID that are sent one after the other.
pub(crate) struct MessageTurn<'a> {
    service: &'a AgentService,
    aid: &'a Aid,
    agent: &'a AgentRow,
    target: WebhookTarget<'a>,
    made: Option<MessageAttempts>,
    is_unreachable: bool,
}

/// The body of a request.
#[derive(Serialize)]
struct MessageBody<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    version: &'static str,
    agent_id: &'a str,
    message: &'a RawValue,
}

/// What is listed of a message that was skipped: which one it was, and nothing of what it says.
#[derive(Serialize)]
struct SkippedMessage<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    version: &'static str,
    agent_id: &'a str,
    message_id: &'a str,
    seq: i64,
}

impl<'a> MessageTurn<'a> {
    /// `None` where messages are sent nowhere, because the key of the AID has agreed to another URL.
    pub async fn begin(
        service: &'a AgentService,
        aid: &'a Aid,
        agent: &'a AgentRow,
    ) -> Result<Option<MessageTurn<'a>>, Error> {
        let (Some(url), Some(secret)) = (agent.messages_url(), agent.webhook_secret.as_deref()) else {
            return Ok(None);
        };
        Ok(Some(MessageTurn {
            service,
            aid,
            agent,
            target: WebhookTarget { agent_id: &agent.id, url, secret },
            made: service.store.message_attempts(aid.as_str()).await?,
            is_unreachable: agent.webhook_unreachable != 0,
        }))
    }

    /// Sends a message once.
    pub async fn attempt(&mut self, next: &NextMessage) -> Result<AttemptEnd, Error> {
        let id = delivery_id(next.sent_at, self.aid, next.seq);
        let body = serde_json::to_string(&MessageBody {
            kind: &next.kind,
            version: "v1",
            agent_id: &self.agent.id,
            message: &next.message,
        });
        let body = body.map_err(kernel::RpcError::internal)?;
        let answer = self.service.post(self.target, &id, body).await;
        if matches!(answer, Err(OutboundError::Busy)) {
            return Ok(AttemptEnd::Busy(BUSY_WAIT));
        }
        match failure(&answer) {
            None => self.accepted(next).await,
            Some(error) => self.failed(next, &id, answer.ok(), error).await,
        }
    }

    async fn accepted(&mut self, next: &NextMessage) -> Result<AttemptEnd, Error> {
        self.acknowledge(next.seq, None).await?;
        if self.is_unreachable {
            self.service.store.set_webhook_unreachable(&self.agent.id, false).await?;
            self.is_unreachable = false;
        }
        Ok(AttemptEnd::Accepted)
    }

    async fn failed(
        &mut self,
        next: &NextMessage,
        id: &str,
        answer: Option<OutboundAnswer>,
        error: String,
    ) -> Result<AttemptEnd, Error> {
        let (store, now) = (&self.service.store, self.service.clock.now_ms());
        let agent = store.agent(&self.agent.id).await?;
        if agent.as_ref().and_then(AgentRow::messages_url) != Some(self.target.url) {
            // Meanwhile it is another URL, which has not failed yet.
            return Ok(AttemptEnd::Later);
        }
        let made = counted(self.made, next.seq, answer.is_some(), now);
        self.made = Some(made);
        if is_hopeless(&made, now) {
            return self.skip(next, id, made.attempts, &error).await;
        }
        store.set_message_attempts(self.aid.as_str(), &made).await?;
        if made.attempts >= UNREACHABLE_AFTER && !self.is_unreachable {
            store.set_webhook_unreachable(&self.agent.id, true).await?;
            self.is_unreachable = true;
            tracing::info!(aid = %self.aid, "messages are not delivered to a webhook: {error}");
        }
        let asked = answer.and_then(|answer| asked_wait(&answer, &self.service.clock));
        Ok(AttemptEnd::Failed { error, retry_in: asked.unwrap_or_else(|| wait_after(made.attempts)) })
    }

    /// Goes on with the next message, so that one which the webhook cannot take does not hold up all others.
    async fn skip(
        &mut self,
        next: &NextMessage,
        id: &str,
        attempts: i64,
        reason: &str,
    ) -> Result<AttemptEnd, Error> {
        let skipped = SkippedMessage {
            kind: &next.kind,
            version: "v1",
            agent_id: &self.agent.id,
            message_id: &next.message_id,
            seq: next.seq,
        };
        let row = NewOutboxRow {
            key: id.to_owned(),
            destination: self.agent.id.clone(),
            position: 0,
            owner: self.agent.owner.clone(),
            created_at: next.sent_at,
            expires_at: None,
            tried_at: None,
            data: serde_json::to_string(&skipped).map_err(kernel::RpcError::internal)?,
        };
        let mut tx = self.service.store.begin().await?;
        if agents::lock(&mut tx, &self.agent.id).await?.is_some() {
            self.service.outboxes.webhooks.keep_given_up(&mut tx, &row, reason, attempts).await?;
        }
        self.service.store.commit(tx).await?;
        tracing::info!(aid = %self.aid, "a message is skipped that a webhook did not accept: {reason}");
        self.acknowledge(next.seq, Some(true)).await?;
        Ok(AttemptEnd::Accepted)
    }

    /// The message is done with.
    async fn acknowledge(&mut self, seq: i64, skipped: Option<bool>) -> Result<(), Error> {
        let ack = Ack { aid: self.aid.clone(), seq, skipped };
        self.service.mesh.ask(Caller::service("agent"), &ack).await?;
        if self.made.take().is_some() {
            self.service.store.remove_message_attempts(self.aid.as_str()).await?;
        }
        Ok(())
    }
}

/// With one attempt more. Those at another message do not count.
fn counted(made: Option<MessageAttempts>, seq: i64, is_answered: bool, now: i64) -> MessageAttempts {
    let before = made.filter(|made| made.seq == seq).unwrap_or(MessageAttempts { seq, ..Default::default() });
    MessageAttempts {
        seq,
        attempts: before.attempts + 1,
        answers: before.answers + i64::from(is_answered),
        first_answer_at: before.first_answer_at.or(is_answered.then_some(now)),
    }
}

/// Where nothing answers, nothing is skipped.
fn is_hopeless(made: &MessageAttempts, now: i64) -> bool {
    let since = made.first_answer_at.unwrap_or(now);
    made.answers >= HOPELESS_ANSWERS && now - since >= HOPELESS_MS
}

fn wait_after(attempts: i64) -> Duration {
    let last = WAITS.len() - 1;
    WAITS[usize::try_from(attempts - 1).unwrap_or_default().min(last)]
}

/// How long the webhook wants to be left alone: in seconds, or until a date.
fn asked_wait(answer: &OutboundAnswer, clock: &Clock) -> Option<Duration> {
    let text = answer.retry_after.as_deref()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let now = UNIX_EPOCH + Duration::from_millis(u64::try_from(clock.now_ms()).ok()?);
            httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default()
        }
    };
    Some(wait.clamp(SHORTEST_WAIT, LONGEST_WAIT))
}

/// The same for the same message, however often it is sent: a UUID of version 7 of the message's time and a hash.
fn delivery_id(sent_at: i64, aid: &Aid, seq: i64) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&sha256(format!("{aid}\n{seq}").as_bytes())[..16]);
    bytes[..6].copy_from_slice(&sent_at.to_be_bytes()[2..]);
    bytes[6] = 0x70 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    let text = hex::encode(bytes);
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_id_is_that_of_its_message() {
        let aid = Aid::parse("alice.aid.net").unwrap();
        let id = delivery_id(0x0123_4567_89ab, &aid, 7);
        assert_eq!((id.len(), &id[..15]), (36, "01234567-89ab-7"));
        assert!(matches!(id.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{id}");
        assert_eq!(id, delivery_id(0x0123_4567_89ab, &aid, 7));
        assert_ne!(id, delivery_id(0x0123_4567_89ab, &aid, 8));
        assert_ne!(id, delivery_id(0x0123_4567_89ab, &Aid::parse("bobby.aid.net").unwrap(), 7));
    }

    #[test]
    fn waits_grow_to_five_minutes_and_stay_there() {
        let waits: Vec<u64> = (1..=6).map(|attempts| wait_after(attempts).as_secs()).collect();
        assert_eq!(waits, [1, 5, 30, 300, 300, 300]);
    }

    #[test]
    fn a_message_is_hopeless_after_ten_answers_over_an_hour_and_never_without_answers() {
        let mut made = None;
        for minute in 0..60 {
            let one = counted(made, 3, true, minute * 60_000);
            assert!(!is_hopeless(&one, minute * 60_000), "minute {minute}");
            made = Some(one);
        }
        assert!(is_hopeless(&counted(made, 3, true, HOPELESS_MS), HOPELESS_MS));
        assert!(!is_hopeless(&counted(made, 4, true, HOPELESS_MS), HOPELESS_MS), "another message");
        let mut silent = None;
        for hour in 0..20 {
            silent = Some(counted(silent, 3, false, hour * HOPELESS_MS));
        }
        let few = counted(silent, 3, true, 20 * HOPELESS_MS);
        assert_eq!((few.attempts, few.answers), (21, 1));
        assert!(!is_hopeless(&few, 30 * HOPELESS_MS));
    }

    #[test]
    fn a_webhook_may_ask_for_a_wait_of_up_to_an_hour() {
        let clock = Clock::manual(1_794_701_761_000);
        let asked = |text: &str| {
            let answer = OutboundAnswer { status: 503, retry_after: Some(text.to_owned()) };
            asked_wait(&answer, &clock).map(|wait| wait.as_secs())
        };
        let in_two_minutes = UNIX_EPOCH + Duration::from_secs(1_794_701_761 + 120);
        assert_eq!(asked(&httpdate::fmt_http_date(in_two_minutes)), Some(120));
        assert_eq!(asked("90"), Some(90));
        assert_eq!((asked("0"), asked("86400")), (Some(1), Some(3600)));
        assert_eq!((asked("soon"), asked("-1"), asked("1.5")), (None, None, None));
    }
}
