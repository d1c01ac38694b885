//! JSON-RPC frames: reading a request without copying it, writing answers.

use kernel::strict_json::{self as strict, Flaw};
use kernel::{RpcError, codes};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

pub mod params;
mod plain;
#[cfg(test)]
mod tests;

/// The most requests one array may hold.
pub const BATCH: usize = 50;

/// What a frame asks for.
pub enum RequestFrame<'a> {
    One(RpcRequest<'a>),
    /// An array; each member is answered by itself.
    Batch(Vec<Result<RpcRequest<'a>, InvalidRequest>>),
}

/// A request that has the right shape. Without an id it is a notification and gets no answer.
pub struct RpcRequest<'a> {
    pub id: Option<&'a RawValue>,
    pub method: Cow<'a, str>,
    /// Always an object, or absent.
    pub params: Option<&'a RawValue>,
}

/// Why a frame is no request, and the id to answer to if one could be read.
pub struct InvalidRequest {
    pub id: Option<Box<RawValue>>,
    pub error: RpcError,
}

/// The members of a request, as they were written. Each may be there once; other members are ignored.
#[derive(Default)]
struct RawRequest<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
}

impl<'de> Deserialize<'de> for RawRequest<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawRequest<'de>, D::Error> {
        deserializer.deserialize_map(RequestVisitor)
    }
}

struct RequestVisitor;

impl<'de> Visitor<'de> for RequestVisitor {
    type Value = RawRequest<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<RawRequest<'de>, A::Error> {
        let mut request = RawRequest::default();
        let mut others = strict::ObjectKeys::default();
        while let Some(strict::ObjectKey(key)) = members.next_key()? {
            let value: &RawValue = members.next_value()?;
            let member = match &*key {
                "jsonrpc" => &mut request.jsonrpc,
                "id" => &mut request.id,
                "method" => &mut request.method,
                "params" => &mut request.params,
                _ => {
                    others.add(key)?;
                    strict::check(value.get()).map_err(A::Error::custom)?;
                    continue;
                }
            };
            if member.replace(value).is_some() {
                return Err(A::Error::custom(format_args!("the key {key:?} twice in one object")));
            }
        }
        Ok(request)
    }
}

/// Reads one frame in one pass: its members are borrowed, not copied, and only the parameters, which may be passed on to
/// other agents, are checked as strictly as the strictest client would.
pub fn read(text: &str) -> Result<RequestFrame<'_>, InvalidRequest> {
    if !text.trim_start().starts_with('[') {
        return read_one(text).map(RequestFrame::One);
    }
    let members: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| malformed(&error))?;
    match members.len() {
        0 => Err(invalid(None, "an array must have at least one request")),
        1..=BATCH => {
            Ok(RequestFrame::Batch(members.into_iter().map(|member| read_one(member.get())).collect()))
        }
        many => Err(invalid(None, &format!("an array must have at most {BATCH} requests, not {many}"))),
    }
}

fn read_one(text: &str) -> Result<RpcRequest<'_>, InvalidRequest> {
    match plain::request(text) {
        Some(plain::PlainRequest { id, method, params }) => with_params(id, method.into(), params),
        None => read_carefully(text),
    }
}

fn read_carefully(text: &str) -> Result<RpcRequest<'_>, InvalidRequest> {
    let RawRequest { jsonrpc, id, method, params } =
        serde_json::from_str(text).map_err(|error| malformed(&error))?;
    if let Some(id) = id {
        check_id(id)?;
    }
    if jsonrpc.and_then(string).as_deref() != Some("2.0") {
        return Err(invalid(id, "jsonrpc must be \"2.0\""));
    }
    let Some(method) = method.and_then(string) else { return Err(invalid(id, "method must be a string")) };
    with_params(id, method, params)
}

fn with_params<'a>(
    id: Option<&'a RawValue>,
    method: Cow<'a, str>,
    params: Option<&'a RawValue>,
) -> Result<RpcRequest<'a>, InvalidRequest> {
    let Some(given) = params.map(RawValue::get).filter(|params| *params != "{}") else {
        return Ok(RpcRequest { id, method, params });
    };
    match given.as_bytes().first() {
        Some(b'{') => {}
        Some(b'[') => {
            let sentence = "params must be an object: parameters are passed by name, not by position";
            return Err(refused(id, codes::INVALID_PARAMS, sentence.to_owned()));
        }
        _ => return Err(invalid(id, "params must be an object")),
    }
    match strict::check(given) {
        Ok(()) => Ok(RpcRequest { id, method, params }),
        Err(Flaw::Forbidden(reason)) => Err(invalid(id, &format!("params: the frame holds {reason}"))),
        Err(Flaw::Syntax(reason)) => {
            Err(refused(id, codes::PARSE_ERROR, format!("params: the frame is not JSON: {reason}")))
        }
    }
}

/// A string, a number or null, and nothing that could not be echoed to the strictest client.
fn check_id(id: &RawValue) -> Result<(), InvalidRequest> {
    if !matches!(id.get().as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9' | b'n')) {
        return Err(invalid(None, "id must be a string, a number or null"));
    }
    match strict::check(id.get()) {
        Ok(()) => Ok(()),
        Err(Flaw::Forbidden(reason) | Flaw::Syntax(reason)) => {
            Err(invalid(None, &format!("id: the frame holds {reason}")))
        }
    }
}

/// The content of a string, borrowed from the frame where it has no escapes.
fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    let text = value.get();
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(text).ok().map(Cow::Owned)
}

fn malformed(error: &serde_json::Error) -> InvalidRequest {
    match error.classify() {
        Category::Data => {
            refused(None, codes::INVALID_REQUEST, format!("the frame is not a request: {error}"))
        }
        _ => refused(None, codes::PARSE_ERROR, format!("the frame is not JSON: {error}")),
    }
}

fn invalid(id: Option<&RawValue>, reason: &str) -> InvalidRequest {
    refused(id, codes::INVALID_REQUEST, reason.to_owned())
}

fn refused(id: Option<&RawValue>, code: proto_schemas::Code, sentence: String) -> InvalidRequest {
    InvalidRequest { id: id.map(ToOwned::to_owned), error: RpcError::new(code, sentence) }
}

pub fn success(id: &RawValue, result: &str) -> String {
    answer(id.get(), Ok(result))
}

/// The response to the request with this id.
pub fn answer(id: &str, outcome: Result<&str, &RpcError>) -> String {
    match outcome {
        // Space for exactly this much: text that fills its allocation is handed to the socket without another one.
        Ok(result) => joined(&["{\"jsonrpc\":\"2.0\",\"id\":", id, ",\"result\":", result, "}"]),
        Err(error) => {
            let error = serde_json::to_string(error).expect("an error is plain data");
            joined(&["{\"jsonrpc\":\"2.0\",\"id\":", id, ",\"error\":", &error, "}"])
        }
    }
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

/// Always inlined: compiled for itself, the string is written to the stack and copied from there, which waits until the text itself is
/// in the cache, and a ping takes a fifth longer.
#[expect(clippy::inline_always, reason = "measured: the compiler does not do it by itself")]
#[inline(always)]
fn joined(parts: &[&str]) -> String {
    let mut text = String::with_capacity(parts.iter().map(|part| part.len()).sum());
    for part in parts {
        text.push_str(part);
    }
    text
}

pub fn failure(id: Option<&RawValue>, error: &RpcError) -> String {
    answer(id.map_or("null", RawValue::get), Err(error))
}

pub fn notification(method: &str, params: &str) -> String {
    let method = serde_json::Value::from(method);
    format!("{{\"jsonrpc\":\"2.0\",\"method\":{method},\"params\":{params}}}")
}
