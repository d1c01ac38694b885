//! How a call ends: it is counted, and its answer is written.

use crate::connection::Connection;
use crate::frame::{self, params};
use crate::telemetry::{MethodMetrics, Metrics};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use services::kernel::RpcError;
use std::borrow::Cow;
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
    pub after: Option<String>,
}

impl CallFrames {
    pub fn of(ended: &EndedCall<'_>, outcome: Result<&RawValue, &RpcError>) -> CallFrames {
        match outcome.map(split_after) {
            Ok(Ok((result, after))) => CallFrames { answer: ended.finish(Ok(result.get())), after },
            Ok(Err(error)) => CallFrames { answer: ended.finish(Err(&error)), after: None },
            Err(error) => CallFrames { answer: ended.finish(Err(error)), after: None },
        }
    }

    pub fn push(self, connection: &Connection) {
        for frame in [self.answer, self.after.filter(|_| connection.is_long())].into_iter().flatten() {
            connection.outbox.push(frame.into());
        }
    }
}

/// A service may want something said on the caller's connection after its answer: it puts that into a first member
/// `_after`, which no client gets to see.
fn split_after(result: &RawValue) -> Result<(Cow<'_, RawValue>, Option<String>), RpcError> {
    #[derive(Deserialize)]
    struct After<'a> {
        #[serde(borrow)]
        method: Cow<'a, str>,
        #[serde(borrow)]
        params: &'a RawValue,
    }
    if !result.get().starts_with("{\"_after\":") {
        return Ok((Cow::Borrowed(result), None));
    }
    let mut members = params::members(result)?;
    let after =
        members.remove("_after").and_then(|after| serde_json::from_str::<After<'_>>(after.get()).ok());
    let event = after.map(|after| frame::notification(&after.method, after.params.get()));
    Ok((Cow::Owned(to_raw_value(&members).map_err(RpcError::internal)?), event))
}
