//! `_trace`: a client follows one call through the server.

use crate::gateway::Gateway;
use crate::params;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use services::kernel::{Trace, TraceMode};
use std::time::Instant;
use tracing::Span;

/// The trace a call asks for, if it does and writes it properly. What it says of spans is not taken over.
pub fn asked(params: &RawValue) -> Option<Trace> {
    #[derive(Deserialize)]
    struct Asking {
        _trace: Trace,
    }
    if !params::may_hold(params, "\"_trace\"") {
        return None;
    }
    let Asking { _trace: trace } = serde_json::from_str(params.get()).ok()?;
    let plain = trace.trace_id.len() == 32 && trace.trace_id.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then_some(trace)
}

/// Everything that is logged on behalf of a call that is traced says so, in whichever process it is: one search finds
/// all of it. A call that is not traced costs nothing.
pub fn span(method: &str, trace: Option<&Trace>) -> Span {
    match trace {
        Some(trace) => tracing::info_span!("rpc", rpc.method = method, trace.id = trace.trace_id),
        None => Span::none(),
    }
}

/// The answer, with where the time went if the client asked for that.
pub fn told(
    answer: String,
    trace: Option<&Trace>,
    method: &str,
    gateway: &Gateway,
    started: Instant,
) -> String {
    let Some(trace) = trace.filter(|trace| trace.mode == TraceMode::Diag) else { return answer };
    let ms = (started.elapsed().as_secs_f64() * 1_000_000.0).ceil() / 1000.0;
    let (node, now) = (method.split('.').next().unwrap_or(method), gateway.clock.now_ms());
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
