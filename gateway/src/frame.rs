//! JSON-RPC frames: reading a request without copying it, writing answers.

use crate::strict::{self, Flaw};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use services::kernel::{RpcError, codes};
use std::borrow::Cow;

/// The most requests one array may hold.
pub const BATCH: usize = 50;

/// What a frame asks for.
pub enum Frame<'a> {
    One(Request<'a>),
    /// An array; each member stands or falls by itself.
    Batch(Vec<Result<Request<'a>, Refusal>>),
}

/// A request that has the right shape. Without an id it is a notification and gets no answer.
pub struct Request<'a> {
    pub id: Option<&'a RawValue>,
    pub method: Cow<'a, str>,
    /// Always an object, or absent.
    pub params: Option<&'a RawValue>,
}

/// A frame that is no request, and the id to answer to if one could be read.
pub struct Refusal {
    pub id: Option<Box<RawValue>>,
    pub error: RpcError,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
}

/// Keeps `null` apart from absence: a request with the id null wants an answer.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

pub fn read(text: &str) -> Result<Frame<'_>, Refusal> {
    strict::check(text).map_err(|flaw| match flaw {
        Flaw::Syntax(reason) => refusal(None, codes::PARSE_ERROR, format!("the frame is not JSON: {reason}")),
        Flaw::Forbidden(reason) => refusal(None, codes::INVALID_REQUEST, format!("the frame holds {reason}")),
    })?;
    if !text.trim_start().starts_with('[') {
        return read_one(text).map(Frame::One);
    }
    let members: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| malformed(&error))?;
    match members.len() {
        0 => Err(refusal(None, codes::INVALID_REQUEST, "an empty array asks for nothing".to_owned())),
        1..=BATCH => Ok(Frame::Batch(members.into_iter().map(|member| read_one(member.get())).collect())),
        many => Err(refusal(
            None,
            codes::INVALID_REQUEST,
            format!("an array holds at most {BATCH} requests, not {many}"),
        )),
    }
}

fn read_one(text: &str) -> Result<Request<'_>, Refusal> {
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| malformed(&error))?;
    let Envelope { jsonrpc, id, method, params } = envelope;
    if let Some(id) = id
        && !matches!(id.get().as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9' | b'n'))
    {
        return Err(invalid(None, "id is a string, a number or null"));
    }
    if jsonrpc.as_deref() != Some("2.0") {
        return Err(invalid(id, "jsonrpc is not \"2.0\""));
    }
    let method = method.and_then(|method| serde_json::from_str::<Text<'_>>(method.get()).ok());
    let Some(Text(method)) = method else { return Err(invalid(id, "method is not a string")) };
    match params.map(|params| params.get().as_bytes().first()) {
        None | Some(Some(b'{')) => Ok(Request { id, method, params }),
        Some(Some(b'[')) => Err(refusal(
            id,
            codes::INVALID_PARAMS,
            "params: parameters are given by name, in an object, not by position".to_owned(),
        )),
        _ => Err(invalid(id, "params is not an object")),
    }
}

/// A string that borrows from the frame where it can.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn malformed(error: &serde_json::Error) -> Refusal {
    refusal(None, codes::INVALID_REQUEST, format!("the frame is not a JSON-RPC request: {error}"))
}

fn invalid(id: Option<&RawValue>, reason: &str) -> Refusal {
    refusal(id, codes::INVALID_REQUEST, reason.to_owned())
}

fn refusal(id: Option<&RawValue>, code: proto_schemas::Code, sentence: String) -> Refusal {
    Refusal { id: id.map(ToOwned::to_owned), error: RpcError::new(code, sentence) }
}

pub fn success(id: &RawValue, result: &str) -> String {
    // Room for exactly this much: text that fills its allocation is handed to the socket without another one.
    joined(&["{\"jsonrpc\":\"2.0\",\"id\":", id.get(), ",\"result\":", result, "}"])
}

/// The answer to `meta.ping`.
pub fn pong(id: &RawValue, seconds: i64) -> String {
    let mut digits = itoa::Buffer::new();
    let seconds = digits.format(seconds);
    joined(&[
        "{\"jsonrpc\":\"2.0\",\"id\":",
        id.get(),
        ",\"result\":{\"pong\":true,\"timestamp\":",
        seconds,
        "}}",
    ])
}

fn joined(parts: &[&str]) -> String {
    parts.concat()
}

pub fn failure(id: Option<&RawValue>, error: &RpcError) -> String {
    let id = id.map_or("null", RawValue::get);
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{}}}", error.to_json())
}

pub fn notification(method: &str, params: &str) -> String {
    let method = serde_json::Value::from(method);
    format!("{{\"jsonrpc\":\"2.0\",\"method\":{method},\"params\":{params}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> i32 {
        match read(text) {
            Err(refusal) => refusal.error.code(),
            Ok(Frame::One(_)) => 0,
            Ok(Frame::Batch(members)) => {
                members.into_iter().find_map(Result::err).map_or(0, |refusal| refusal.error.code())
            }
        }
    }

    #[test]
    fn requests_of_the_right_shape_are_read() {
        let Ok(Frame::One(request)) = read(r#"{"jsonrpc":"2.0","id":"a","method":"meta.ping","params":{}}"#)
        else {
            panic!("not read")
        };
        assert_eq!((request.id.unwrap().get(), &*request.method), ("\"a\"", "meta.ping"));
        for text in [
            r#"{"jsonrpc":"2.0","method":"x"}"#,
            r#"{"jsonrpc":"2.0","method":"x","id":null}"#,
            r#"{"jsonrpc":"2.0","method":"x","id":-1.5,"more":1}"#,
        ] {
            assert_eq!(code(text), 0, "{text}");
        }
    }

    #[test]
    fn everything_else_gets_its_code() {
        for (text, expected) in [
            ("{", -32700),
            ("5", -32600),
            ("[]", -32600),
            (r#"{"id":1,"method":"x"}"#, -32600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":true,"method":"x"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":5}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#, -32602),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#, -32600),
            (r#"[1,{"jsonrpc":"2.0","id":1,"method":"x"}]"#, -32600),
        ] {
            assert_eq!(code(text), expected, "{text}");
        }
        let many = vec![r#"{"jsonrpc":"2.0","method":"x"}"#; 51].join(",");
        assert_eq!(code(&format!("[{many}]")), -32600);
    }
}
