//! Relays of other domains that are being done: all of a frame in one task, and with one clock.

use super::Federation;
use super::seen::{Answer, Doing};
use proto_schemas::Method;
use serde_json::value::RawValue;
use services::kernel::{PendingAnswer, RpcError, catch_panic, codes};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep_until};

/// What a relay came to, as it is written.
pub enum Told {
    /// The method did its work, or said why not.
    Outcome(Answer),
    /// It never reached a service.
    Refused(RpcError),
}

/// When a frame came; one look at the clocks serves all of it.
pub struct Now {
    pub at: Instant,
    pub ms: i64,
}

/// One relay, until it has come to something.
pub struct Work {
    pub relay_id: Arc<str>,
    step: Step,
}

enum Step {
    Doing(Task),
    /// The same one came before and is being done.
    Again(oneshot::Receiver<Answer>),
    Told(Told),
}

/// What a service does for a relay.
pub struct Task {
    pub method: &'static Method,
    pub doing: Doing,
    pub answering: PendingAnswer,
    pub until: Instant,
}

impl Work {
    pub fn new(relay_id: Arc<str>, task: Task) -> Work {
        Work { relay_id, step: Step::Doing(task) }
    }

    pub fn again(relay_id: Arc<str>, answer: oneshot::Receiver<Answer>) -> Work {
        Work { relay_id, step: Step::Again(answer) }
    }

    pub fn told(relay_id: Arc<str>, told: Told) -> Work {
        Work { relay_id, step: Step::Told(told) }
    }

    fn until(&self) -> Option<Instant> {
        match &self.step {
            Step::Doing(task) => Some(task.until),
            Step::Again(_) | Step::Told(_) => None,
        }
    }

    /// Whether it has come to something.
    fn poll(&mut self, fed: &Federation, now: &Now, cx: &mut Context<'_>) -> bool {
        let outcome = match &mut self.step {
            Step::Told(_) => return true,
            Step::Again(answer) => {
                let Poll::Ready(answer) = Pin::new(answer).poll(cx) else { return false };
                let told =
                    answer.map_or_else(|_| Told::Refused(RpcError::plain(codes::UNAVAILABLE)), Told::Outcome);
                self.step = Step::Told(told);
                return true;
            }
            Step::Doing(task) => {
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

    fn end(&mut self, fed: &Federation, now: &Now, outcome: Result<Box<RawValue>, RpcError>) {
        let text = match &outcome {
            Ok(result) => done(&self.relay_id, result.get()),
            Err(error) => ended_badly(&self.relay_id, error, ""),
        };
        let before = std::mem::replace(&mut self.step, Step::Told(Told::Outcome(text.clone())));
        let Step::Doing(Task { method, doing, .. }) = before else { return };
        let error = outcome.err();
        let code = error.as_ref().map_or(0, RpcError::code);
        fed.metrics.answered(fed.metrics.method(method.name), code, now.at.elapsed().as_secs_f64());
        // What may go better next time must not be remembered as having failed.
        match error.is_some_and(|error| error.data("retryable").is_some_and(|retryable| retryable == true)) {
            true => doing.failed(&text),
            false => doing.done(&text, now.ms),
        }
    }

    fn end_late(&mut self, fed: &Federation, now: &Now) {
        if let Step::Doing(task) = &self.step {
            let sentence = format!("{} took too long", task.method.name);
            self.end(fed, now, Err(RpcError::new(codes::HANDLER_TIMEOUT, sentence)));
        }
    }

    /// What it came to. Nobody asks before.
    pub fn into_told(self) -> Told {
        match self.step {
            Step::Told(told) => told,
            Step::Doing(_) | Step::Again(_) => Told::Refused(RpcError::plain(codes::UNAVAILABLE)),
        }
    }
}

/// Does all of them, side by side. Polled once, they have begun in their order.
pub async fn all(fed: &Federation, mut works: Vec<Work>, now: Now) -> Vec<Work> {
    let mut clock: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| poll_all(fed, &mut works, &now, &mut clock, cx)).await;
    works
}

fn poll_all(
    fed: &Federation,
    works: &mut [Work],
    now: &Now,
    clock: &mut Option<Pin<Box<Sleep>>>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    loop {
        let mut left = false;
        for work in &mut *works {
            left |= !work.poll(fed, now, cx);
        }
        let Some(next) = works.iter().filter_map(Work::until).min() else {
            return if left { Poll::Pending } else { Poll::Ready(()) };
        };
        let clock = clock.get_or_insert_with(|| Box::pin(sleep_until(next)));
        if clock.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let over = Instant::now();
        works.iter_mut().filter(|work| work.until().is_some_and(|until| until <= over)).for_each(|work| {
            work.end_late(fed, now);
        });
        if let Some(next) = works.iter().filter_map(Work::until).min() {
            clock.as_mut().reset(next);
        }
    }
}

impl Told {
    /// As one item of a batch.
    pub fn item(self, relay_id: &str) -> Answer {
        match self {
            Told::Outcome(text) => text,
            Told::Refused(error) => ended_badly(relay_id, &error, "\"refused\":true,"),
        }
    }
}

pub fn done(relay_id: &str, result: &str) -> Answer {
    let mut text = String::with_capacity(relay_id.len() + result.len() + 40);
    for part in ["{\"relay_id\":\"", relay_id, "\",\"ok\":true,\"result\":", result, "}"] {
        text.push_str(part);
    }
    text.into()
}

/// What stopped at our forwarder is marked: the other side must not take it for the method's own word.
fn ended_badly(relay_id: &str, error: &RpcError, mark: &str) -> Answer {
    let relay_id = serde_json::to_string(relay_id).unwrap_or_default();
    let error = serde_json::to_string(error).unwrap_or_else(|_| "{}".to_owned());
    format!("{{\"relay_id\":{relay_id},\"ok\":false,{mark}\"error\":{error}}}").into()
}
