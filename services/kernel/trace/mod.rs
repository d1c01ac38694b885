//! Traces: where the time of a call went, measured where it was spent.
//!
//! A call whose client asked for it carries a [`TracedCall`] through the server. Whoever does a step of it holds a guard
//! meanwhile, so that the step has ended however it ends: a call that is given up shows what it waited for. For a call
//! without a trace a step is one look at a task-local value that is not set.

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most spans of an answer or an event.
pub const MOST_SPANS: usize = 32;
/// How many steps one process measures of a call, so that there is space for the spans of the client.
const MOST_STEPS: usize = 20;
/// The step of a service. It is shown as two spans: when the service got the call, and when it was done.
const SERVICE: &str = "relay";

tokio::task_local! {
    /// The call that this task is answering, if it is traced.
    static CALL: Arc<TracedCall>;
}

/// Begins a step of the call that is being answered, if that call is traced. It ends when the guard is dropped.
pub fn step(node: &'static str, action: &'static str) -> Option<OpenStep> {
    CALL.try_with(|call| call.begin(node, action)).ok().flatten()
}

/// What of a trace crosses to other domains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    pub trace_id: String,
    pub mode: TraceMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceMode {
    /// The trace is passed on with what the call causes.
    Log,
    /// The answer shows where the time went, too.
    Diag,
}

impl Trace {
    pub fn is_valid(&self) -> bool {
        self.trace_id.len() == 32 && self.trace_id.bytes().all(|byte| byte.is_ascii_hexdigit())
    }
}

/// A call that is traced, and what was measured of it so far.
#[derive(Debug)]
pub struct TracedCall {
    pub trace: Trace,
    /// The spans that came with the call: those of the client, and then those of the gateway where that is another process.
    given: Vec<Box<RawValue>>,
    /// Whether the process that called takes spans with the answer.
    asked_for_spans: bool,
    /// One moment on both clocks, from which the time of every other moment is computed.
    at: Instant,
    at_ms: i64,
    measured: Mutex<MeasuredSteps>,
}

#[derive(Debug, Default)]
struct MeasuredSteps {
    /// In the order in which they began.
    steps: Vec<TraceStep>,
    /// What the process of the service measured.
    remote: Vec<TraceSpan>,
}

#[derive(Debug)]
struct TraceStep {
    node: &'static str,
    action: &'static str,
    began: Instant,
    ended: Option<Instant>,
}

/// A step that has not ended: it ends when this is dropped.
#[must_use = "the step ends when this is dropped"]
#[derive(Debug)]
pub struct OpenStep {
    call: Arc<TracedCall>,
    position: usize,
}

impl Drop for OpenStep {
    fn drop(&mut self) {
        if let Some(step) = self.call.measured.lock().steps.get_mut(self.position) {
            step.ended = Some(Instant::now());
        }
    }
}

/// A measured step as clients read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceSpan {
    pub node: Cow<'static, str>,
    pub action: Cow<'static, str>,
    /// When it began, in milliseconds since 1970; for `relay_out`, when the service was done.
    pub ts: i64,
    /// What it took, in milliseconds.
    pub ms: f64,
}

/// A trace as another process of this server sends it with a call.
#[derive(Debug, Deserialize)]
pub struct CarriedTrace {
    trace_id: String,
    mode: TraceMode,
    /// Absent from a process that takes no spans with the answer.
    #[serde(default)]
    spans: Option<Vec<Box<RawValue>>>,
}

impl CarriedTrace {
    /// The call as it was received at this moment.
    pub fn received(self, at: Instant, at_ms: i64) -> Arc<TracedCall> {
        let CarriedTrace { trace_id, mode, spans } = self;
        let asked_for_spans = spans.is_some();
        let trace = Trace { trace_id, mode };
        Arc::new(TracedCall {
            asked_for_spans,
            ..TracedCall::at_moment(trace, spans.unwrap_or_default(), at, at_ms)
        })
    }
}

#[derive(Serialize)]
struct TraceMember<'a> {
    trace_id: &'a str,
    mode: TraceMode,
    spans: Vec<SpanRef<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum SpanRef<'a> {
    Given(&'a RawValue),
    Measured(TraceSpan),
}

impl TracedCall {
    /// A call with the spans that its client sent, and a moment on both clocks.
    pub fn new(trace: Trace, given: Vec<Box<RawValue>>, at: Instant, at_ms: i64) -> Arc<TracedCall> {
        Arc::new(TracedCall::at_moment(trace, given, at, at_ms))
    }

    fn at_moment(trace: Trace, given: Vec<Box<RawValue>>, at: Instant, at_ms: i64) -> TracedCall {
        TracedCall { trace, given, asked_for_spans: false, at, at_ms, measured: Mutex::default() }
    }

    pub fn begin(self: &Arc<Self>, node: &'static str, action: &'static str) -> Option<OpenStep> {
        self.begin_at(node, action, Instant::now())
    }

    /// The same for a step that has begun before. None where enough was measured already.
    pub fn begin_at(
        self: &Arc<Self>,
        node: &'static str,
        action: &'static str,
        began: Instant,
    ) -> Option<OpenStep> {
        let mut measured = self.measured.lock();
        let position = measured.steps.len();
        if position >= MOST_STEPS {
            return None;
        }
        measured.steps.push(TraceStep { node, action, began, ended: None });
        drop(measured);
        Some(OpenStep { call: self.clone(), position })
    }

    /// Runs the handler of a service: the steps in it belong to this call.
    pub(super) async fn answered_by<F: Future>(
        self: Arc<Self>,
        namespace: &'static str,
        handler: F,
    ) -> F::Output {
        let _step = self.begin(namespace, SERVICE);
        CALL.scope(self.clone(), handler).await
    }

    /// Adds what the process of the service measured.
    pub fn add_remote(&self, spans: Vec<TraceSpan>) {
        let mut measured = self.measured.lock();
        let space = MOST_SPANS.saturating_sub(measured.remote.len());
        measured.remote.extend(spans.into_iter().take(space));
    }

    /// What goes back to the process that called, if it takes it.
    pub fn spans_for_caller(&self) -> Option<Vec<TraceSpan>> {
        self.asked_for_spans.then(|| self.spans())
    }

    /// `_trace` of an answer or an event, and what another process gets with the call. Of the spans of the client so many
    /// are left out as there is no space for.
    pub fn member(&self) -> Option<Box<RawValue>> {
        let measured = self.spans();
        let space = MOST_SPANS.saturating_sub(measured.len());
        let given = self.given.iter().take(space).map(|span| SpanRef::Given(span));
        let spans = given.chain(measured.into_iter().take(MOST_SPANS).map(SpanRef::Measured)).collect();
        let Trace { trace_id, mode } = &self.trace;
        to_raw_value(&TraceMember { trace_id, mode: *mode, spans }).ok()
    }

    /// What was measured. A service is around all that follows it. What the gateway and the mesh are still doing is left out,
    /// because an event is written in the middle of it; for an event, a service and its store are done.
    fn spans(&self) -> Vec<TraceSpan> {
        let (now, measured) = (Instant::now(), self.measured.lock());
        let mut spans = Vec::with_capacity(measured.steps.len() + measured.remote.len() + 1);
        let mut done = None;
        for TraceStep { node, action, began, ended } in &measured.steps {
            let took = ended.unwrap_or(now).saturating_duration_since(*began);
            let span = |action, at, took| TraceSpan {
                node: Cow::Borrowed(*node),
                action: Cow::Borrowed(action),
                ts: self.ms_at(at),
                ms: milliseconds(took),
            };
            match *action {
                SERVICE => {
                    spans.push(span("relay_in", *began, Duration::ZERO));
                    done = Some(span("relay_out", *began + took, took));
                }
                _ if ended.is_none() && matches!(*node, "gateway" | "mesh") => {}
                action => spans.push(span(action, *began, took)),
            }
        }
        spans.extend(measured.remote.iter().cloned());
        spans.extend(done);
        spans
    }

    fn ms_at(&self, moment: Instant) -> i64 {
        let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let after = ms(moment.saturating_duration_since(self.at));
        let before = ms(self.at.saturating_duration_since(moment));
        self.at_ms.saturating_add(after).saturating_sub(before)
    }
}

/// To the microsecond, and never 0 for what took any time.
fn milliseconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 1_000_000.0).ceil() / 1000.0
}

#[cfg(test)]
mod tests;
