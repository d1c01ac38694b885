//! Relays of other domains that are being carried out: all of a frame in one task, and with one timer.

use super::seen::{AnswerText, RelayClaim};
use crate::federation::Federation;
use kernel::{PendingAnswer, RpcError, catch_panic, codes};
use proto_schemas::Method;
use serde_json::value::RawValue;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep_until};

/// How a relay ended.
pub enum RelayReply {
    /// What the method answered, a result or an error, as it is written.
    Answered(AnswerText),
    /// It never reached a service.
    Refused(RpcError),
}

/// When a frame was received: the clocks are read once for all of its relays.
pub struct FrameTime {
    pub at: Instant,
    pub ms: i64,
}

/// One received relay, until it has ended.
pub struct InboundRelay {
    pub relay_id: Arc<str>,
    step: RelayStep,
}

enum RelayStep {
    Running(RelayTask),
    /// The same relay was received before and is being carried out.
    Duplicate(oneshot::Receiver<AnswerText>),
    Ended(RelayReply),
}

/// The call of a service that carries out a relay.
pub struct RelayTask {
    pub method: &'static Method,
    pub claim: RelayClaim,
    pub answering: PendingAnswer,
    pub until: Instant,
}

impl InboundRelay {
    pub fn new(relay_id: Arc<str>, task: RelayTask) -> InboundRelay {
        InboundRelay { relay_id, step: RelayStep::Running(task) }
    }

    pub fn duplicate(relay_id: Arc<str>, answer: oneshot::Receiver<AnswerText>) -> InboundRelay {
        InboundRelay { relay_id, step: RelayStep::Duplicate(answer) }
    }

    pub fn ended(relay_id: Arc<str>, reply: RelayReply) -> InboundRelay {
        InboundRelay { relay_id, step: RelayStep::Ended(reply) }
    }

    fn until(&self) -> Option<Instant> {
        match &self.step {
            RelayStep::Running(task) => Some(task.until),
            RelayStep::Duplicate(_) | RelayStep::Ended(_) => None,
        }
    }

    /// Whether it has ended.
    fn poll(&mut self, fed: &Federation, now: &FrameTime, cx: &mut Context<'_>) -> bool {
        let outcome = match &mut self.step {
            RelayStep::Ended(_) => return true,
            RelayStep::Duplicate(answer) => {
                let Poll::Ready(answer) = Pin::new(answer).poll(cx) else { return false };
                let reply = answer.map_or_else(|_| RelayReply::Refused(dropped()), RelayReply::Answered);
                self.step = RelayStep::Ended(reply);
                return true;
            }
            RelayStep::Running(task) => {
                match catch_panic(task.method.name, || Ok(task.answering.as_mut().poll(cx))) {
                    Ok(Poll::Pending) => return false,
                    Ok(Poll::Ready(outcome)) => outcome.map(|answer| answer.result),
                    Err(error) => Err(error),
                }
            }
        };
        self.end(fed, now, outcome);
        true
    }

    fn end(&mut self, fed: &Federation, now: &FrameTime, outcome: Result<Box<RawValue>, RpcError>) {
        let text = match &outcome {
            Ok(result) => success(&self.relay_id, result.get()),
            Err(error) => failure(&self.relay_id, error, ""),
        };
        let before = std::mem::replace(&mut self.step, RelayStep::Ended(RelayReply::Answered(text.clone())));
        let RelayStep::Running(RelayTask { method, claim, .. }) = before else { return };
        let error = outcome.err();
        let code = error.as_ref().map_or(0, RpcError::code);
        fed.metrics.answered(fed.metrics.method(method.name), code, now.at.elapsed().as_secs_f64());
        // A failure that may be retried must not be remembered as the answer.
        match error.is_some_and(|error| error.data("retryable").is_some_and(|retryable| retryable == true)) {
            true => claim.failed(&text),
            false => claim.answered(&text, now.ms),
        }
    }

    fn end_timed_out(&mut self, fed: &Federation, now: &FrameTime) {
        if let RelayStep::Running(task) = &self.step {
            let sentence =
                format!("rpc handler timeout: {} missed the deadline of the relay", task.method.name);
            self.end(fed, now, Err(RpcError::new(codes::HANDLER_TIMEOUT, sentence)));
        }
    }

    /// How it ended. Only called after that.
    pub fn into_reply(self) -> RelayReply {
        match self.step {
            RelayStep::Ended(reply) => reply,
            RelayStep::Running(_) | RelayStep::Duplicate(_) => RelayReply::Refused(dropped()),
        }
    }
}

/// The relay was dropped before it was answered, so it may be sent again.
fn dropped() -> RpcError {
    RpcError::new(codes::UNAVAILABLE, "the relay was dropped before it was answered")
}

/// Carries out all of them concurrently. Polled once, they have begun in their order.
pub async fn run_all(fed: &Federation, mut relays: Vec<InboundRelay>, now: FrameTime) -> Vec<InboundRelay> {
    let mut clock: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| poll_all(fed, &mut relays, &now, &mut clock, cx)).await;
    relays
}

fn poll_all(
    fed: &Federation,
    relays: &mut [InboundRelay],
    now: &FrameTime,
    clock: &mut Option<Pin<Box<Sleep>>>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    loop {
        let mut left = false;
        for relay in &mut *relays {
            left |= !relay.poll(fed, now, cx);
        }
        let Some(next) = relays.iter().filter_map(InboundRelay::until).min() else {
            return if left { Poll::Pending } else { Poll::Ready(()) };
        };
        let clock = clock.get_or_insert_with(|| Box::pin(sleep_until(next)));
        if clock.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let late = Instant::now();
        relays.iter_mut().filter(|relay| relay.until().is_some_and(|until| until <= late)).for_each(
            |relay| {
                relay.end_timed_out(fed, now);
            },
        );
        if let Some(next) = relays.iter().filter_map(InboundRelay::until).min() {
            clock.as_mut().reset(next);
        }
    }
}

impl RelayReply {
    /// As one item of a batch.
    pub fn item(self, relay_id: &str) -> AnswerText {
        match self {
            RelayReply::Answered(text) => text,
            RelayReply::Refused(error) => failure(relay_id, &error, "\"refused\":true,"),
        }
    }
}

pub fn success(relay_id: &str, result: &str) -> AnswerText {
    let mut text = String::with_capacity(relay_id.len() + result.len() + 40);
    for part in ["{\"relay_id\":\"", relay_id, "\",\"ok\":true,\"result\":", result, "}"] {
        text.push_str(part);
    }
    text.into()
}

/// `mark` tells a refusal of this gateway from an error of the method.
fn failure(relay_id: &str, error: &RpcError, mark: &str) -> AnswerText {
    let relay_id = serde_json::to_string(relay_id).unwrap_or_default();
    let error = serde_json::to_string(error).unwrap_or_else(|_| "{}".to_owned());
    format!("{{\"relay_id\":{relay_id},\"ok\":false,{mark}\"error\":{error}}}").into()
}
