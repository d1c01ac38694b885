//! The frames of the mesh: JSON-RPC notifications that carry many calls, or many answers, each.
//!
//! A call is `[id, caller, within_ms, method, params]` and may end with its trace; an answer is `[id, result]`,
//! `[id, null, error]`, or `[id, result, null, event]` where an event for the caller's own connection follows it. A session is told once a link and then only numbered: its names are longer than most parameters.

use super::acquaint::Introduction;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use services::kernel::{AnswerRef, CallTerm, Caller, CallerEvent, RpcError, Session, Trace};
use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// How a frame of calls and one of answers begin; `]}` ends them.
pub(super) const CALLS: &str = r#"{"jsonrpc":"2.0","method":"mesh.calls","params":["#;
pub(super) const ANSWERS: &str = r#"{"jsonrpc":"2.0","method":"mesh.answers","params":["#;
/// The asking side begins to introduce its sessions anew.
pub(super) const FORGET: &str = r#"{"jsonrpc":"2.0","method":"mesh.forget"}"#;
/// The answering side is about to leave: no more calls, please.
pub(super) const DRAINING: &str = r#"{"jsonrpc":"2.0","method":"mesh.draining"}"#;
/// The asking side's word that none will come.
pub(super) const DRAINED: &str = r#"{"jsonrpc":"2.0","method":"mesh.drained"}"#;

/// What came in, on either side. Read in one pass, because the method stands before the parameters.
#[derive(Deserialize)]
#[serde(tag = "method", content = "params")]
pub(super) enum Frame<'a> {
    #[serde(rename = "mesh.calls", borrow)]
    Calls(Vec<Call<'a>>),
    #[serde(rename = "mesh.answers", borrow)]
    Answers(Vec<Answer<'a>>),
    #[serde(rename = "mesh.forget")]
    Forget,
    #[serde(rename = "mesh.draining")]
    Draining,
    #[serde(rename = "mesh.drained")]
    Drained,
}

#[derive(Deserialize)]
pub(super) struct Call<'a> {
    pub id: u64,
    pub caller: Who,
    pub within_ms: u64,
    #[serde(borrow)]
    pub method: Cow<'a, str>,
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
    #[serde(default)]
    pub trace: Option<Trace>,
}

#[derive(Deserialize)]
pub(super) struct Answer<'a> {
    pub id: u64,
    #[serde(borrow)]
    pub result: Option<&'a RawValue>,
    #[serde(default)]
    pub error: Option<RpcError>,
    #[serde(default)]
    pub event: Option<Box<CallerEvent>>,
}

pub(super) enum Who {
    /// The session this link was told of under this connection's number.
    Known(u64),
    /// Somewhere else, because it is large and rare: a call is moved about.
    New(Box<Caller>),
}

impl<'de> Deserialize<'de> for Who {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Who, D::Error> {
        deserializer.deserialize_any(WhoVisitor)
    }
}

struct WhoVisitor;

impl<'de> Visitor<'de> for WhoVisitor {
    type Value = Who;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a caller, or the number of a session")
    }

    fn visit_u64<E: Error>(self, connection: u64) -> Result<Who, E> {
        Ok(Who::Known(connection))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Who, E> {
        Caller::deserialize(StrDeserializer::new(name)).map(Box::new).map(Who::New)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Who, A::Error> {
        Caller::deserialize(MapAccessDeserializer::new(members)).map(Box::new).map(Who::New)
    }
}

/// Who asks, as the asking side has them.
#[derive(Clone, Copy)]
pub(super) enum Asker<'a> {
    /// Beside its own trace, which belongs to one call only.
    Agent(&'a Session),
    Other(&'a Caller),
}

/// What is asked, without the one who asks.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub method: &'a str,
    pub params: Option<&'a RawValue>,
    pub term: CallTerm,
    pub trace: Option<&'a Trace>,
}

/// Writes a call as an item of a frame of [`CALLS`].
pub(super) fn write_call(
    out: &mut String,
    id: u64,
    asker: Asker<'_>,
    introduction: &Introduction,
    question: &Question<'_>,
) {
    let mut digits = itoa::Buffer::new();
    out.push('[');
    out.push_str(digits.format(id));
    out.push(',');
    match (introduction, asker) {
        (Introduction::Known(connection), _) => out.push_str(digits.format(*connection)),
        (_, Asker::Agent(session)) => {
            out.push_str("{\"agent\":");
            out.push_str(&json(session));
            out.push('}');
        }
        (_, Asker::Other(caller)) => out.push_str(&json(caller)),
    }
    out.push(',');
    out.push_str(digits.format(u64::try_from(question.term.within.as_millis()).unwrap_or(u64::MAX)));
    out.push(',');
    write_name(out, question.method);
    out.push(',');
    out.push_str(question.params.map_or("null", RawValue::get));
    if let Some(trace) = question.trace {
        out.push(',');
        out.push_str(&json(trace));
    }
    out.push(']');
}

/// Writes an answer as an item of a frame of [`ANSWERS`].
pub(super) fn write_answer(out: &mut String, id: u64, outcome: Result<AnswerRef<'_>, &RpcError>) {
    let mut digits = itoa::Buffer::new();
    out.push('[');
    out.push_str(digits.format(id));
    out.push(',');
    match outcome {
        Ok(answer) => {
            out.push_str(answer.result.get());
            if let Some(event) = answer.event {
                out.push_str(",null,");
                out.push_str(&json(event));
            }
        }
        Err(error) => {
            out.push_str("null,");
            out.push_str(&json(error));
        }
    }
    out.push(']');
}

/// The names of methods hardly ever need escapes.
fn write_name(out: &mut String, name: &str) {
    if name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_')) {
        out.extend(["\"", name, "\""]);
    } else {
        let _ = write!(out, "{}", serde_json::Value::from(name));
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("what the mesh says is plain data")
}

#[cfg(test)]
mod tests {
    use super::super::acquaint::{Acquainted, Introduced, SESSIONS};
    use super::*;
    use services::kernel::{Aid, DeviceId, Generation, SlotId, TraceMode, codes};
    use std::time::{Duration, Instant};

    fn session(connection: u64) -> Caller {
        Caller::Agent(Session {
            aid: Aid::parse("alice.aid.pub").unwrap(),
            device: DeviceId::parse("phone").unwrap(),
            slot: SlotId::default(),
            connection,
            address: [127, 0, 0, 1].into(),
            connected_at_ms: 7,
            generation: Generation::Peer,
            trace: None,
        })
    }

    fn over_the_wire(introduced: &mut Introduced, acquainted: &mut Acquainted, caller: &Caller) -> Caller {
        let asker = match caller {
            Caller::Agent(session) => Asker::Agent(session),
            other => Asker::Other(other),
        };
        let introduction = introduced.introduce(asker);
        if matches!(introduction, Introduction::NewAfterForgetting) {
            acquainted.forget();
        }
        let params = RawValue::from_string(r#"{"n":1.0}"#.into()).unwrap();
        let trace = Trace { trace_id: "7".into(), mode: TraceMode::Log };
        let term = CallTerm { began: Instant::now(), within: Duration::from_millis(5) };
        let mut text = CALLS.to_owned();
        for (id, trace) in [(3, None), (4, Some(&trace))] {
            let method = "message.\"send";
            let question = Question { method, params: Some(&params), term, trace };
            write_call(&mut text, id, asker, &introduction, &question);
            text.push_str(if id == 3 { "," } else { "]}" });
        }
        let Frame::Calls(calls) = serde_json::from_str(&text).unwrap() else { panic!("no calls: {text}") };
        let [got, traced] = <[Call<'_>; 2]>::try_from(calls).ok().unwrap();
        assert_eq!((got.id, &*got.method, got.within_ms), (3, "message.\"send", 5));
        assert_eq!(got.params.unwrap().get(), params.get());
        assert_eq!((got.trace, traced.trace), (None, Some(trace)));
        acquainted.recognise(got.caller, None).unwrap()
    }

    #[test]
    fn a_caller_arrives_as_it_left_the_first_time_and_every_time() {
        let (mut introduced, mut acquainted) = (Introduced::default(), Acquainted::default());
        for caller in
            [session(9), session(9), Caller::Unauthenticated, Caller::Operator, Caller::service("auth")]
        {
            let sent = format!("{caller:?}");
            assert_eq!(format!("{:?}", over_the_wire(&mut introduced, &mut acquainted, &caller)), sent);
        }
    }

    #[test]
    fn both_sides_forget_together() {
        let (mut introduced, mut acquainted) = (Introduced::default(), Acquainted::default());
        for connection in 0..=SESSIONS as u64 {
            over_the_wire(&mut introduced, &mut acquainted, &session(connection));
        }
        assert_eq!((introduced.0.len(), acquainted.0.len()), (1, 1));
        let Caller::Agent(again) = over_the_wire(&mut introduced, &mut acquainted, &session(5)) else {
            panic!("another kind of caller");
        };
        assert_eq!(again.connection, 5);
    }

    #[test]
    fn results_and_errors_arrive_as_they_were_written() {
        let result = RawValue::from_string(r#"{ "n": 1.50 }"#.into()).unwrap();
        let error = RpcError::new(codes::RATE_LIMITED, "slower").with("retry_after_ms", 5);
        let mut text = ANSWERS.to_owned();
        write_answer(&mut text, 1, Ok(AnswerRef { result: &result, event: None }));
        text.push(',');
        write_answer(&mut text, 2, Err(&error));
        text.push(',');
        let event = CallerEvent { method: "event/x".into(), params: result.clone() };
        write_answer(&mut text, 3, Ok(AnswerRef { result: &result, event: Some(&event) }));
        text.push_str("]}");
        let Frame::Answers(answers) = serde_json::from_str(&text).unwrap() else { panic!("none: {text}") };
        assert_eq!((answers[0].id, answers[0].result.unwrap().get()), (1, result.get()));
        assert!(answers[0].error.is_none() && answers[1].result.is_none());
        let told = answers[1].error.as_ref().unwrap();
        assert_eq!((answers[1].id, told.code(), told.to_string()), (2, error.code(), "slower".to_owned()));
        assert_eq!(told.data("retry_after_ms"), error.data("retry_after_ms"));
        let followed = answers[2].event.as_ref().unwrap();
        assert_eq!((&*followed.method, followed.params.get()), ("event/x", result.get()));
        assert_eq!((answers[2].result.unwrap().get(), answers[0].event.is_none()), (result.get(), true));
    }
}
