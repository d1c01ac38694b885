//! How a call ends: it is counted, and what it sends is written.

use crate::frame;
use crate::session::Link;
use crate::telemetry::{MethodMetrics, Metrics};
use services::kernel::{AnswerRef, RpcError};
use std::time::Instant;

/// What is known of a call that has ended, apart from how.
pub(super) struct Answering<'a> {
    pub metrics: &'a Metrics,
    pub method: &'a MethodMetrics,
    pub id: Option<&'a str>,
    pub started: Instant,
    pub now: Instant,
}

impl<'a> Answering<'a> {
    pub fn now(
        metrics: &'a Metrics,
        method: &'a MethodMetrics,
        id: Option<&'a str>,
        started: Instant,
    ) -> Answering<'a> {
        Answering { metrics, method, id, started, now: Instant::now() }
    }

    /// Counts the call and writes its answer, unless nobody waits for one.
    pub fn finish(&self, result: Result<&str, &RpcError>) -> Option<String> {
        let Answering { metrics, method, .. } = self;
        let code = result.as_ref().err().map_or(0, |error| error.code());
        let elapsed = self.now.saturating_duration_since(self.started);
        metrics.answered(method, code, elapsed.as_secs_f64());
        tracing::debug!(rpc.method = method.name, code, duration_us = elapsed.as_micros() as u64, "answered");
        if let Err(error) = result {
            error.log(method.name);
        }
        Some(frame::answer(self.id?, result))
    }
}

/// The id of a call that outlives the frame it came in. Most are short and need no allocation.
pub(super) enum Id {
    Short(u8, [u8; 38]),
    Long(Box<str>),
}

impl Id {
    pub fn new(text: &str) -> Id {
        let mut bytes = [0; 38];
        match (u8::try_from(text.len()), bytes.get_mut(..text.len())) {
            (Ok(length), Some(place)) => {
                place.copy_from_slice(text.as_bytes());
                Id::Short(length, bytes)
            }
            _ => Id::Long(text.into()),
        }
    }

    pub fn get(&self) -> &str {
        match self {
            Id::Short(length, bytes) => str::from_utf8(&bytes[..usize::from(*length)]).unwrap_or("null"),
            Id::Long(text) => text,
        }
    }
}

/// What one call sends: its answer, and an event that must not overtake it.
#[derive(Default)]
pub(super) struct Frames {
    pub answer: Option<String>,
    pub after: Option<String>,
}

impl Frames {
    pub fn of(answering: &Answering<'_>, outcome: Result<AnswerRef<'_>, &RpcError>) -> Frames {
        let answer = answering.finish(outcome.map(|answer| answer.result.get()));
        let event = outcome.ok().and_then(|answer| answer.event);
        Frames { answer, after: event.map(|event| frame::notification(&event.method, event.params.get())) }
    }

    pub fn push(self, link: &Link) {
        for frame in [self.answer, self.after.filter(|_| link.is_long())].into_iter().flatten() {
            link.outbox.push(frame.into());
        }
    }
}
