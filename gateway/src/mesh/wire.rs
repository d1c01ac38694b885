//! The frames of the mesh: JSON-RPC notifications that carry many calls, or many answers, each.
//!
//! A call is `[id, caller, within_ms, method, params]` and may end with its trace; an answer is `[id, result]`,
//! `[id, null, error]`, or `[id, result, null, event]` with an event for the caller's own connection. The answer to a call
//! with a trace has a fifth member, what was measured here. A session is sent in full once per link, and from then on named
//! by its connection id: in full it is longer than most parameters.

use kernel::{
    AnswerRef, CallTerm, Caller, CallerEvent, CallingAgent, CarriedTrace, RpcError, TraceSpan, TracedCall,
};
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// How a frame of calls and a frame of answers begin; both end with `]}`.
pub(super) const CALLS: &str = r#"{"jsonrpc":"2.0","method":"mesh.calls","params":["#;
pub(super) const ANSWERS: &str = r#"{"jsonrpc":"2.0","method":"mesh.answers","params":["#;
/// The calling side will send its sessions in full again.
pub(super) const FORGET: &str = r#"{"jsonrpc":"2.0","method":"mesh.forget"}"#;
/// The answering side is about to stop and asks for no more calls.
pub(super) const DRAINING: &str = r#"{"jsonrpc":"2.0","method":"mesh.draining"}"#;
/// The calling side confirms that it sends no more calls.
pub(super) const DRAINED: &str = r#"{"jsonrpc":"2.0","method":"mesh.drained"}"#;

/// The frame of namespaces that are turned off on the answering side.
pub(super) fn turned_off(namespaces: &[&str]) -> Utf8Bytes {
    let frame = json!({ "jsonrpc": "2.0", "method": "mesh.turned_off", "params": namespaces });
    frame.to_string().into()
}

/// A received frame, on either side. Parsed in one pass, because the method stands before the parameters.
#[derive(Deserialize)]
#[serde(tag = "method", content = "params")]
pub(super) enum MeshFrame<'a> {
    #[serde(rename = "mesh.calls", borrow)]
    Calls(Vec<MeshCall<'a>>),
    #[serde(rename = "mesh.answers", borrow)]
    Answers(Vec<MeshAnswer<'a>>),
    #[serde(rename = "mesh.forget")]
    Forget,
    #[serde(rename = "mesh.draining")]
    Draining,
    #[serde(rename = "mesh.drained")]
    Drained,
    /// The first frame of the answering side, where it has namespaces that its operator turned off.
    #[serde(rename = "mesh.turned_off", borrow)]
    TurnedOff(Vec<Cow<'a, str>>),
}

#[derive(Deserialize)]
pub(super) struct MeshCall<'a> {
    pub id: u64,
    pub caller: WireCaller,
    pub within_ms: u64,
    #[serde(borrow)]
    pub method: Cow<'a, str>,
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
    #[serde(default)]
    pub trace: Option<CarriedTrace>,
}

#[derive(Deserialize)]
pub(super) struct MeshAnswer<'a> {
    pub id: u64,
    #[serde(borrow)]
    pub result: Option<&'a RawValue>,
    #[serde(default)]
    pub error: Option<RpcError>,
    #[serde(default)]
    pub event: Option<Box<CallerEvent>>,
    #[serde(default)]
    pub spans: Option<Vec<TraceSpan>>,
}

/// A caller as it is received.
pub(super) enum WireCaller {
    /// A session that this link has received in full before, by its connection id.
    ConnectionId(u64),
    /// Boxed because it is large and rare, and calls are moved.
    Full(Box<Caller>),
}

impl<'de> Deserialize<'de> for WireCaller {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WireCaller, D::Error> {
        deserializer.deserialize_any(WireCallerVisitor)
    }
}

struct WireCallerVisitor;

impl<'de> Visitor<'de> for WireCallerVisitor {
    type Value = WireCaller;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a caller, or the connection id of a session")
    }

    fn visit_u64<E: Error>(self, connection: u64) -> Result<WireCaller, E> {
        Ok(WireCaller::ConnectionId(connection))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<WireCaller, E> {
        Caller::deserialize(StrDeserializer::new(name)).map(Box::new).map(WireCaller::Full)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<WireCaller, A::Error> {
        Caller::deserialize(MapAccessDeserializer::new(members)).map(Box::new).map(WireCaller::Full)
    }
}

/// A caller as the calling side has it.
#[derive(Clone, Copy)]
pub(super) enum CallerRef<'a> {
    /// The trace inside is not sent with it: it belongs to one call only.
    Agent(&'a CallingAgent),
    Other(&'a Caller),
}

/// How a caller is written.
pub(super) enum CallerForm {
    /// The other side has received the session in full before.
    ConnectionId(u64),
    Full,
    /// In full, after a frame that makes the other side forget all sessions.
    FullAfterForget,
}

/// A call to be sent, without its caller.
#[derive(Clone, Copy)]
pub(super) struct OutgoingCall<'a> {
    pub method: &'a str,
    pub params: Option<&'a RawValue>,
    pub term: CallTerm,
    pub trace: Option<&'a Arc<TracedCall>>,
}

/// Writes a call as an item of a frame of [`CALLS`].
pub(super) fn write_call(
    out: &mut String,
    id: u64,
    caller: CallerRef<'_>,
    form: &CallerForm,
    call: &OutgoingCall<'_>,
) {
    let mut digits = itoa::Buffer::new();
    out.push('[');
    out.push_str(digits.format(id));
    out.push(',');
    match (form, caller) {
        (CallerForm::ConnectionId(connection), _) => out.push_str(digits.format(*connection)),
        (_, CallerRef::Agent(session)) => {
            out.push_str("{\"agent\":");
            out.push_str(&json(session));
            out.push('}');
        }
        (_, CallerRef::Other(caller)) => out.push_str(&json(caller)),
    }
    out.push(',');
    out.push_str(digits.format(u64::try_from(call.term.within.as_millis()).unwrap_or(u64::MAX)));
    out.push(',');
    write_method(out, call.method);
    out.push(',');
    out.push_str(call.params.map_or("null", RawValue::get));
    if let Some(trace) = call.trace.and_then(|call| call.member()) {
        out.push(',');
        out.push_str(trace.get());
    }
    out.push(']');
}

/// Writes an answer as an item of a frame of [`ANSWERS`].
pub(super) fn write_answer(
    out: &mut String,
    id: u64,
    outcome: Result<AnswerRef<'_>, &RpcError>,
    spans: Option<&[TraceSpan]>,
) {
    let mut digits = itoa::Buffer::new();
    out.push('[');
    out.push_str(digits.format(id));
    out.push(',');
    match outcome {
        Ok(answer) => {
            out.push_str(answer.result.get());
            match answer.event {
                Some(event) => {
                    out.push_str(",null,");
                    out.push_str(&json(event));
                }
                None if spans.is_some() => out.push_str(",null,null"),
                None => {}
            }
        }
        Err(error) => {
            out.push_str("null,");
            out.push_str(&json(error));
            if spans.is_some() {
                out.push_str(",null");
            }
        }
    }
    if let Some(spans) = spans {
        out.push(',');
        out.push_str(&json(&spans));
    }
    out.push(']');
}

/// The name of a method hardly ever needs escapes.
fn write_method(out: &mut String, name: &str) {
    if name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_')) {
        out.extend(["\"", name, "\""]);
    } else {
        let _ = write!(out, "{}", serde_json::Value::from(name));
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("what mesh frames carry is plain data")
}

#[cfg(test)]
mod tests {
    use super::super::link_sessions::{ReceivedSessions, SESSIONS, SentSessions};
    use super::*;
    use kernel::{Aid, DeviceId, Generation, Relayed, SlotId, Trace, TraceMode, codes};
    use std::time::{Duration, Instant};

    fn session(connection: u64) -> Caller {
        Caller::Agent(CallingAgent {
            aid: Aid::parse("alice.aid.pub").unwrap(),
            device: DeviceId::parse("phone").unwrap(),
            slot: SlotId::default(),
            connection,
            address: [127, 0, 0, 1].into(),
            connected_at_ms: 7,
            network: None,
            generation: Generation::Peer,
            trace: None,
        })
    }

    fn over_the_wire(sent: &mut SentSessions, received: &mut ReceivedSessions, caller: &Caller) -> Caller {
        let caller = match caller {
            Caller::Agent(session) => CallerRef::Agent(session),
            other => CallerRef::Other(other),
        };
        let form = sent.form_of(caller);
        if matches!(form, CallerForm::FullAfterForget) {
            received.forget();
        }
        let params = RawValue::from_string(r#"{"n":1.0}"#.into()).unwrap();
        let trace = Trace { trace_id: "7".into(), mode: TraceMode::Log };
        let traced_call = TracedCall::new(trace.clone(), Vec::new(), Instant::now(), 7);
        let term = CallTerm { began: Instant::now(), within: Duration::from_millis(5) };
        let mut text = CALLS.to_owned();
        for (id, trace) in [(3, None), (4, Some(&traced_call))] {
            let method = "message.\"send";
            let call = OutgoingCall { method, params: Some(&params), term, trace };
            write_call(&mut text, id, caller, &form, &call);
            text.push_str(if id == 3 { "," } else { "]}" });
        }
        let MeshFrame::Calls(calls) = serde_json::from_str(&text).unwrap() else {
            panic!("no calls: {text}")
        };
        let [got, traced] = <[MeshCall<'_>; 2]>::try_from(calls).ok().unwrap();
        assert_eq!((got.id, &*got.method, got.within_ms), (3, "message.\"send", 5));
        assert_eq!(got.params.unwrap().get(), params.get());
        assert!(got.trace.is_none());
        assert_eq!(traced.trace.unwrap().received(Instant::now(), 7).trace, trace);
        received.resolve(got.caller, None).unwrap()
    }

    #[test]
    fn a_caller_arrives_unchanged_in_full_and_by_its_connection_id() {
        let (mut sent, mut received) = (SentSessions::default(), ReceivedSessions::default());
        let relayed = Relayed { from_issuer: "aid.net".into(), relay_id: "r-1".into(), depth: 1 };
        let foreign = Caller::ForeignService { service: "search".into(), relayed };
        for caller in [
            session(9),
            session(9),
            Caller::Unauthenticated(Some([192, 0, 2, 7].into())),
            Caller::Operator,
            Caller::service("auth"),
            Caller::service_in_call("message", &foreign),
            foreign,
        ] {
            let expected = format!("{caller:?}");
            assert_eq!(format!("{:?}", over_the_wire(&mut sent, &mut received, &caller)), expected);
        }
    }

    #[test]
    fn both_sides_forget_their_sessions_together() {
        let (mut sent, mut received) = (SentSessions::default(), ReceivedSessions::default());
        for connection in 0..=SESSIONS as u64 {
            over_the_wire(&mut sent, &mut received, &session(connection));
        }
        assert_eq!((sent.0.len(), received.0.len()), (1, 1));
        let Caller::Agent(again) = over_the_wire(&mut sent, &mut received, &session(5)) else {
            panic!("another kind of caller");
        };
        assert_eq!(again.connection, 5);
    }

    #[test]
    fn results_and_errors_arrive_as_they_were_written() {
        let result = RawValue::from_string(r#"{ "n": 1.50 }"#.into()).unwrap();
        let error = RpcError::new(codes::RATE_LIMITED, "slower").with("retry_after_ms", 5);
        let mut text = ANSWERS.to_owned();
        write_answer(&mut text, 1, Ok(AnswerRef { result: &result, event: None }), None);
        text.push(',');
        write_answer(&mut text, 2, Err(&error), None);
        text.push(',');
        let event = CallerEvent { method: "event/x".into(), params: result.clone() };
        write_answer(&mut text, 3, Ok(AnswerRef { result: &result, event: Some(&event) }), None);
        let spans = [TraceSpan { node: "store".into(), action: "commit".into(), ts: 7, ms: 0.25 }];
        for outcome in [Ok(None), Ok(Some(&event)), Err(&error)] {
            text.push(',');
            let outcome = outcome.map(|event| AnswerRef { result: &result, event });
            write_answer(&mut text, 4, outcome, Some(&spans[..]));
        }
        text.push_str("]}");
        let MeshFrame::Answers(answers) = serde_json::from_str(&text).unwrap() else {
            panic!("none: {text}")
        };
        assert_eq!((answers[0].id, answers[0].result.unwrap().get()), (1, result.get()));
        assert!(answers[0].error.is_none() && answers[1].result.is_none());
        let received = answers[1].error.as_ref().unwrap();
        assert_eq!(
            (answers[1].id, received.code(), received.to_string()),
            (2, error.code(), "slower".to_owned())
        );
        assert_eq!(received.data("retry_after_ms"), error.data("retry_after_ms"));
        let event = answers[2].event.as_ref().unwrap();
        assert_eq!((&*event.method, event.params.get()), ("event/x", result.get()));
        assert_eq!((answers[2].result.unwrap().get(), answers[0].event.is_none()), (result.get(), true));
        assert!(answers[..3].iter().all(|answer| answer.spans.is_none()));
        for (answer, (has_event, has_error)) in
            answers[3..].iter().zip([(false, false), (true, false), (false, true)])
        {
            assert_eq!(answer.spans.as_deref(), Some(&spans[..]));
            assert_eq!((answer.event.is_some(), answer.error.is_some()), (has_event, has_error));
            assert_eq!(answer.result.is_some(), !has_error);
        }
    }
}
