//! `_trace`: a client follows one call through the server.

use crate::frame::params;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use services::kernel::{Clock, Trace, TraceMode};
use std::time::Instant;
use tracing::Span;

/// The trace a call asks for, if it is well formed. Spans that the client sends are ignored.
pub fn requested(params: &RawValue) -> Option<Trace> {
    #[derive(Deserialize)]
    struct TraceParams {
        _trace: Trace,
    }
    if !params::may_contain(params, "\"_trace\"") {
        return None;
    }
    let TraceParams { _trace: trace } = serde_json::from_str(params.get()).ok()?;
    let plain = trace.trace_id.len() == 32 && trace.trace_id.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then_some(trace)
}

/// Everything that is logged for a traced call has its trace id, in every process: one search finds all of it. A call that
/// is not traced costs nothing.
pub fn span(method: &str, trace: Option<&Trace>) -> Span {
    match trace {
        Some(trace) => tracing::info_span!("rpc", rpc.method = method, trace.id = trace.trace_id),
        None => Span::none(),
    }
}

/// The answer, with its spans if the client asked for them.
pub fn with_spans(
    answer: String,
    trace: Option<&Trace>,
    method: &str,
    clock: &Clock,
    started: Instant,
) -> String {
    let Some(trace) = trace.filter(|trace| trace.mode == TraceMode::Diag) else { return answer };
    let ms = (started.elapsed().as_secs_f64() * 1_000_000.0).ceil() / 1000.0;
    let (node, now) = (method.split('.').next().unwrap_or(method), clock.now_ms());
    let spans = json!([
        { "node": "gateway", "action": "route", "ts": now, "ms": ms },
        { "node": node, "action": "relay_in", "ts": now, "ms": 0 },
        { "node": node, "action": "relay_out", "ts": now, "ms": ms },
    ]);
    let member = json!({ "trace_id": trace.trace_id, "mode": trace.mode, "spans": spans });
    // The answer is an object that we wrote ourselves.
    let open = answer.strip_suffix('}').unwrap_or(&answer);
    format!("{open},\"_trace\":{member}}}")
}
