//! How a call ends: it is counted, and its answer is written.

use crate::connection::{Connection, SeriesNumber};
use crate::delivery::series_number;
use crate::frame;
use crate::telemetry::{MethodMetrics, Metrics};
use kernel::{AnswerRef, CallerEvent, RpcError};
use std::time::Instant;

/// What is known of a call that has ended, apart from how.
pub(super) struct EndedCall<'a> {
    pub metrics: &'a Metrics,
    pub method: &'a MethodMetrics,
    pub id: Option<&'a str>,
    pub started: Instant,
    pub now: Instant,
}

impl<'a> EndedCall<'a> {
    pub fn now(
        metrics: &'a Metrics,
        method: &'a MethodMetrics,
        id: Option<&'a str>,
        started: Instant,
    ) -> EndedCall<'a> {
        EndedCall { metrics, method, id, started, now: Instant::now() }
    }

    /// Counts the call and writes its answer, unless nobody waits for one.
    pub fn finish(&self, result: Result<&str, &RpcError>) -> Option<String> {
        let EndedCall { metrics, method, .. } = self;
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
pub(super) enum CallId {
    Short(u8, [u8; 38]),
    Long(Box<str>),
}

impl CallId {
    pub fn new(text: &str) -> CallId {
        let mut bytes = [0; 38];
        match (u8::try_from(text.len()), bytes.get_mut(..text.len())) {
            (Ok(length), Some(start)) => {
                start.copy_from_slice(text.as_bytes());
                CallId::Short(length, bytes)
            }
            _ => CallId::Long(text.into()),
        }
    }

    pub fn get(&self) -> &str {
        match self {
            CallId::Short(length, bytes) => str::from_utf8(&bytes[..usize::from(*length)]).unwrap_or("null"),
            CallId::Long(text) => text,
        }
    }
}

/// What one call sends: its answer, and an event that must not overtake it.
#[derive(Default)]
pub(super) struct CallFrames {
    pub answer: Option<String>,
    pub after: Option<EventFrame>,
}

/// An event for the caller, with its number in a series whose events may be repeated.
pub(super) struct EventFrame {
    text: String,
    number: Option<SeriesNumber>,
}

impl CallFrames {
    pub fn of(ended: &EndedCall<'_>, outcome: Result<AnswerRef<'_>, &RpcError>) -> CallFrames {
        let answer = ended.finish(outcome.map(|answer| answer.result.get()));
        let event = outcome.ok().and_then(|answer| answer.event);
        CallFrames { answer, after: event.map(EventFrame::of) }
    }

    pub fn bytes(&self) -> usize {
        self.answer.as_ref().map_or(0, String::len) + self.after.as_ref().map_or(0, |event| event.text.len())
    }

    pub fn push(self, connection: &Connection) {
        if let Some(answer) = self.answer {
            connection.outbox.push(answer.into());
        }
        if let Some(event) = self.after {
            event.push(connection);
        }
    }
}

impl EventFrame {
    fn of(event: &CallerEvent) -> EventFrame {
        EventFrame {
            text: frame::notification(&event.method, event.params.get()),
            number: series_number(&event.method, &event.params),
        }
    }

    /// Events are for long connections only.
    pub fn push(self, connection: &Connection) {
        if connection.is_long() {
            connection.push_event(self.text.into(), self.number);
        }
    }
}
