//! `_trace`: a client follows one call through the server.

use crate::frame::params;
use kernel::trace::MOST_SPANS;
use kernel::{Clock, Trace, TraceMode, TracedCall};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;
use tracing::Span;

/// The longest span of a client that is kept, and how much those of one call may take together. SDKs send one of 60 bytes.
const SPAN_BYTES: usize = 512;
const SPANS_BYTES: usize = 8 << 10;

/// The trace a call asks for, if it is well formed.
pub fn requested(params: &RawValue, clock: &Clock) -> Option<Arc<TracedCall>> {
    #[derive(Deserialize)]
    struct TraceParams<'a> {
        #[serde(borrow)]
        _trace: RequestedTrace<'a>,
    }
    #[derive(Deserialize)]
    struct RequestedTrace<'a> {
        trace_id: String,
        mode: TraceMode,
        #[serde(borrow, default)]
        spans: Option<&'a RawValue>,
    }
    if !params::may_contain(params, "\"_trace\"") {
        return None;
    }
    let TraceParams { _trace: asked } = serde_json::from_str(params.get()).ok()?;
    let trace = Trace { trace_id: asked.trace_id, mode: asked.mode };
    let spans = asked.spans.and_then(|spans| serde_json::from_str(spans.get()).ok());
    let GivenSpans(spans) = spans.unwrap_or_default();
    trace.is_valid().then(|| TracedCall::new(trace, spans, Instant::now(), clock.now_ms()))
}

/// Everything that is logged for a traced call has its trace id, in every process: one search finds all of it. A call that
/// is not traced costs nothing.
pub fn span(method: &str, call: Option<&TracedCall>) -> Span {
    match call {
        Some(call) => tracing::info_span!("rpc", rpc.method = method, trace.id = call.trace.trace_id),
        None => Span::none(),
    }
}

/// The answer, with its spans if the client asked for them.
pub fn with_spans(answer: String, call: Option<&TracedCall>) -> String {
    let asked = call.filter(|call| call.trace.mode == TraceMode::Diag);
    let Some(member) = asked.and_then(TracedCall::member) else { return answer };
    // The answer is an object that we wrote ourselves.
    let open = answer.strip_suffix('}').unwrap_or(&answer);
    format!("{open},\"_trace\":{member}}}")
}

/// The spans of a client, as it wrote them: the first ones that are objects and not too long.
#[derive(Default)]
struct GivenSpans(Vec<Box<RawValue>>);

impl<'de> Deserialize<'de> for GivenSpans {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GivenSpans, D::Error> {
        deserializer.deserialize_seq(GivenSpansVisitor)
    }
}

struct GivenSpansVisitor;

impl<'de> Visitor<'de> for GivenSpansVisitor {
    type Value = GivenSpans;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of spans")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<GivenSpans, A::Error> {
        let (mut kept, mut bytes) = (Vec::new(), 0);
        while let Some(span) = list.next_element::<&RawValue>()? {
            let text = span.get();
            let fits = kept.len() < MOST_SPANS && bytes + text.len() <= SPANS_BYTES;
            if fits && text.len() <= SPAN_BYTES && text.starts_with('{') {
                bytes += text.len();
                kept.push(span.to_owned());
            }
        }
        Ok(GivenSpans(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(spans: &str) -> Option<Arc<TracedCall>> {
        let text =
            format!(r#"{{"_trace":{{"trace_id":"{}","mode":"diag","spans":{spans}}}}}"#, "0a".repeat(16));
        requested(&RawValue::from_string(text).unwrap(), &Clock::manual(7))
    }

    #[test]
    fn spans_of_a_client_are_kept_as_they_are_while_they_are_small_objects() {
        let long = format!(r#"{{"x":"{}"}}"#, "x".repeat(SPAN_BYTES));
        let spans = format!(r#"[{{ "node" : "sdk", "ts": 1.50 }}, 7, null, {long}, []]"#);
        let answer = with_spans(r#"{"id":1}"#.to_owned(), call(&spans).as_deref());
        assert!(answer.ends_with(r#""spans":[{ "node" : "sdk", "ts": 1.50 }]}}"#), "{answer}");
        for odd in ["7", "null", "{}", "\"\"", "[]"] {
            let answer = with_spans(r#"{"id":1}"#.to_owned(), call(odd).as_deref());
            assert!(answer.ends_with(r#""spans":[]}}"#), "{odd}: {answer}");
        }
    }

    #[test]
    fn so_many_spans_are_kept_as_fit() {
        let many = |bytes: usize, count: usize| {
            let span = format!(r#"{{"node":"{}"}}"#, "x".repeat(bytes - 11));
            let call = call(&format!("[{}]", vec![span.as_str(); count].join(","))).unwrap();
            call.member().unwrap().get().matches("node").count()
        };
        assert_eq!((many(60, 20), many(60, 100)), (20, MOST_SPANS));
        assert_eq!(many(SPAN_BYTES, 100), SPANS_BYTES / SPAN_BYTES);
    }
}
