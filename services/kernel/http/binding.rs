//! A request as the parameters of a method, and the result of a method as a response.

use super::envelope::with_success_headers;
use super::route_table::MethodRoute;
use super::{RequestIds, json_text, with_header};
use crate::strict_json::{self, Flaw, ObjectMembers};
use crate::{RpcError, codes};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use proto_schemas::envelope::HttpEnvelope;
use proto_schemas::{HttpRoute, HttpRouteBody, HttpRouteStatus, Method};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The members of an object, each as it was written.
type Members<'a> = BTreeMap<Cow<'a, str>, Cow<'a, RawValue>>;

/// What parameters may come from.
pub struct RouteRequest<'a> {
    /// What stands in the path, by the names that the route gives it.
    pub path: &'a [(String, String)],
    pub query: &'a str,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
}

impl RouteRequest<'_> {
    /// The parameters, each from where the route says. What stands in the path wins: it is what was asked for. A header and a member of the
    /// body that differ are refused, because nobody can know which of them was meant.
    pub fn params(&self, MethodRoute { method, route }: MethodRoute) -> Result<Box<RawValue>, RpcError> {
        let mut params = self.body_params(route)?;
        let headers = self.header_params(route)?;
        for (name, text) in &headers {
            let written = params.get(*name).and_then(|value| serde_json::from_str::<Value>(value.get()).ok());
            if written.is_some_and(|value| !value.is_null() && value != typed(method, name, text)) {
                let header = route.headers.iter().find(|(_, known)| known == name);
                let header = header.map_or(*name, |(header, _)| header);
                return Err(RpcError::invalid_member(name, format!("differs from the header {header}")));
            }
        }
        let headers = headers.into_iter();
        let query = self.query_params(route)?;
        let path = self.path.iter().map(|(name, text)| (name.as_str(), Cow::Borrowed(text.as_str())));
        for (name, text) in headers.chain(query).chain(path) {
            let value = to_raw_value(&typed(method, name, &text)).map_err(RpcError::internal)?;
            params.insert(Cow::Owned(name.to_owned()), Cow::Owned(value));
        }
        to_raw_value(&params).map_err(RpcError::internal)
    }

    fn body_params(&self, route: &HttpRoute) -> Result<Members<'_>, RpcError> {
        match route.body {
            HttpRouteBody::None => Ok(Members::new()),
            // No body is as good as an empty object.
            HttpRouteBody::Params if self.body.is_empty() => Ok(Members::new()),
            HttpRouteBody::Params => {
                let kind = self.headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes());
                if !kind.is_none_or(is_json) {
                    return Err(RpcError::plain(codes::UNSUPPORTED_MEDIA_TYPE));
                }
                json_members(self.body)
            }
            HttpRouteBody::Text(name) => {
                let text = str::from_utf8(self.body).map_err(|_| not_json("it is not UTF-8"))?;
                let text = to_raw_value(text).map_err(RpcError::internal)?;
                Ok(Members::from([(Cow::Borrowed(name), Cow::Owned(text))]))
            }
        }
    }

    fn header_params<'r>(&self, route: &'r HttpRoute) -> Result<Vec<(&'r str, Cow<'_, str>)>, RpcError> {
        let given = route.headers.iter().map(|(header, name)| {
            let text = header_text(self.headers, header)?;
            Ok(text.map(|text| (*name, Cow::Borrowed(text))))
        });
        given.filter_map(Result::transpose).collect()
    }

    /// A query parameter without a value was left out. What no route takes is ignored, as members of a body are that no schema lists.
    fn query_params<'r>(&self, route: &'r HttpRoute) -> Result<Vec<(&'r str, Cow<'_, str>)>, RpcError> {
        let mut taken: Vec<(&'r str, Cow<'_, str>)> = Vec::new();
        for (name, text) in form_urlencoded::parse(self.query.as_bytes()) {
            let Some(name) = route.query.iter().find(|known| **known == name) else { continue };
            if taken.iter().any(|(known, _)| known == name) {
                return Err(RpcError::invalid_member(name, "is given twice"));
            }
            if !text.is_empty() {
                taken.push((name, text));
            }
        }
        Ok(taken)
    }
}

/// As strictly as a frame is read: what is accepted here may be passed on to the strictest client.
fn json_members(body: &[u8]) -> Result<Members<'_>, RpcError> {
    let text = str::from_utf8(body).map_err(|_| not_json("it is not UTF-8"))?;
    strict_json::check(text).map_err(|flaw| match flaw {
        Flaw::Syntax(reason) => not_json(&reason),
        Flaw::Forbidden(reason) => RpcError::new(codes::INVALID_REQUEST, format!("the body holds {reason}")),
    })?;
    let members = strict_json::members(text)
        .map_err(|_| RpcError::new(codes::INVALID_REQUEST, "the body must be a JSON object"))?;
    Ok(borrowed(members))
}

fn borrowed(members: ObjectMembers<'_>) -> Members<'_> {
    members.into_iter().map(|(name, value)| (name, Cow::Borrowed(value))).collect()
}

fn not_json(reason: &str) -> RpcError {
    RpcError::new(codes::PARSE_ERROR, format!("the body is not JSON: {reason}"))
}

/// `application/json`, and whatever names itself JSON by its suffix, with any parameters.
fn is_json(kind: &[u8]) -> bool {
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    kind.eq_ignore_ascii_case(b"application/json") || kind.to_ascii_lowercase().ends_with(b"+json")
}

/// A header that means something: what cannot be read, or is there twice, is refused and never taken as absent.
pub fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, RpcError> {
    let mut given = headers.get_all(name).into_iter();
    let Some(value) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(RpcError::invalid_member(name, "is given twice"));
    }
    match value.to_str() {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(RpcError::invalid_member(name, "has characters that are not visible ASCII")),
    }
}

/// A text of a URL as its schema types it. What does not fit stays a text, and the method says what it needs.
fn typed(method: &Method, name: &str, text: &str) -> Value {
    let read = || serde_json::from_str(text).ok();
    let value = match method.doc()["params"]["properties"][name]["type"].as_str() {
        Some("integer" | "number") => read().filter(Value::is_number),
        Some("boolean") => read().filter(Value::is_boolean),
        _ => None,
    };
    value.unwrap_or_else(|| Value::from(text))
}

/// The result of a method in the envelope of its path.
pub fn answer_of(
    envelope: &HttpEnvelope,
    route: &HttpRoute,
    result: &RawValue,
    headers: &HeaderMap,
    ids: &RequestIds,
) -> Result<Response, RpcError> {
    let response = match is_shown_as_it_is(envelope, route) {
        true => json_text(always(route), result.get()),
        false => in_envelope(envelope, route, result, headers)?,
    };
    let response = with_success_headers(response, envelope, ids);
    Ok(route.cache.into_iter().fold(response, |response, cache| with_header(response, CACHE_CONTROL, cache)))
}

fn is_shown_as_it_is(envelope: &HttpEnvelope, route: &HttpRoute) -> bool {
    envelope.success == "$body"
        && route.result.is_none()
        && route.etag.is_none()
        && route.nulls.is_empty()
        && matches!(route.status, HttpRouteStatus::Always(status) if status != 204)
}

fn always(route: &HttpRoute) -> StatusCode {
    match route.status {
        HttpRouteStatus::Always(status) => StatusCode::from_u16(status).unwrap_or(StatusCode::OK),
        HttpRouteStatus::ByMember { .. } => StatusCode::OK,
    }
}

fn in_envelope(
    envelope: &HttpEnvelope,
    route: &HttpRoute,
    result: &RawValue,
    headers: &HeaderMap,
) -> Result<Response, RpcError> {
    if route.status == HttpRouteStatus::Always(204) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    // A method that answers a list or a text has no members; its result is the body.
    let mut members: Members<'_> = match result.get().starts_with('{') {
        true => borrowed(strict_json::members(result.get()).map_err(RpcError::internal)?),
        false => Members::new(),
    };
    let mut status = always(route);
    if let HttpRouteStatus::ByMember { member, yes, no } = route.status {
        let said = members.remove(member).is_some_and(|value| value.get() == "true");
        status = StatusCode::from_u16(if said { yes } else { no }).unwrap_or(status);
    }
    for name in route.nulls {
        members.entry(Cow::Borrowed(name)).or_insert_with(|| Cow::Owned(RawValue::NULL.to_owned()));
    }
    let body = match route.result {
        Some(name) => members.remove(name).unwrap_or_else(|| Cow::Owned(RawValue::NULL.to_owned())),
        None => {
            let whole = match result.get().starts_with('{') {
                true => Cow::Owned(to_raw_value(&members).map_err(RpcError::internal)?),
                false => Cow::Borrowed(result),
            };
            members.clear();
            whole
        }
    };
    let etag = route.etag.and_then(|member| etag_of(&body, member));
    let response = match etag.as_deref().is_some_and(|etag| has_version(headers, etag)) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => json_text(status, written(envelope, body, members)?),
    };
    Ok(etag.into_iter().fold(response, |response, etag| with_header(response, ETAG, &etag)))
}

fn written<'a>(
    envelope: &HttpEnvelope,
    body: Cow<'a, RawValue>,
    others: Members<'a>,
) -> Result<String, RpcError> {
    let Value::Object(template) = &envelope.success else { return Ok(body.get().to_owned()) };
    let mut members = if envelope.others { others } else { Members::new() };
    for (name, value) in template {
        let value = match value == "$body" {
            true => body.clone(),
            false => Cow::Owned(to_raw_value(value).map_err(RpcError::internal)?),
        };
        members.insert(Cow::Owned(name.clone()), value);
    }
    serde_json::to_string(&members).map_err(RpcError::internal)
}

/// None while what is read has no version.
fn etag_of(body: &RawValue, member: &str) -> Option<String> {
    let members = strict_json::members(body.get()).ok()?;
    match members.get(member)?.get() {
        "null" => None,
        text if text.starts_with('"') => Some(text.to_owned()),
        number => Some(format!("\"{number}\"")),
    }
}

/// Whether the reader has this version already.
fn has_version(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut known = known.into_iter().flat_map(|known| known.split(',')).map(str::trim);
    known.any(|known| known == "*" || known.trim_start_matches("W/") == etag)
}

/// Whether the client asks for a stream of events.
pub fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|types| types.split(',')).any(|accepted| {
        let mut parts = accepted.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let is_refused = parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
        name.eq_ignore_ascii_case("text/event-stream") && !is_refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    #[test]
    fn a_header_and_a_member_that_differ_are_refused() {
        let find = |name: &str| {
            let method = proto_schemas::find(name).unwrap();
            MethodRoute { method, route: &method.http[0] }
        };
        let params = |header: &'static str, body: &str| {
            let header = (HeaderName::from_static("idempotency-key"), HeaderValue::from_static(header));
            let headers = HeaderMap::from_iter([header]);
            let request = RouteRequest { path: &[], query: "", headers: &headers, body: body.as_bytes() };
            request.params(find("run.create")).map(|params| params.get().to_owned())
        };
        let both = r#"{"idempotencyKey":"k-1","projectId":"p"}"#;
        assert_eq!(params("k-1", both).unwrap(), both);
        for body in [r#"{"projectId":"p"}"#, r#"{"idempotencyKey":null,"projectId":"p"}"#] {
            assert_eq!(params("k-1", body).unwrap(), both, "{body}");
        }
        for body in [r#"{"idempotencyKey":"k-2"}"#, r#"{"idempotencyKey":1}"#, r#"{"idempotencyKey":""}"#] {
            let error = params("k-1", body).unwrap_err();
            assert_eq!(error.code(), codes::INVALID_PARAMS.code, "{body}");
            assert_eq!(error.to_string(), "idempotencyKey: differs from the header idempotency-key");
        }
    }
}
