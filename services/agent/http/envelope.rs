//! Envelopes: `{"data": …}` for what worked, `{"error": {code, message, i18n_key, params}}` for what did not.

use super::members::Members;
use axum::http::header::{ETAG, IF_NONE_MATCH, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use kernel::http::{json_text, with_header};
use kernel::{RpcError, codes};
use proto_schemas::Code;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// How the answer of a method is shown. The name is that of the member that becomes `data`.
#[derive(Clone, Copy)]
pub(super) enum EnvelopeForm {
    Data(&'static str),
    /// 201.
    Created(&'static str),
    /// 201, or 200 where there was one already.
    CreatedOrFound(&'static str),
    /// With an ETag that is the hash of the manifest.
    Versioned(&'static str),
    /// `next_cursor` is `null` on the last page.
    List(&'static str),
    /// Everything is `data`.
    Whole,
    /// 204.
    Nothing,
}

#[derive(Deserialize)]
struct ManifestHash {
    capability_manifest_hash: Option<String>,
}

pub(super) fn success(
    form: EnvelopeForm,
    mut result: Members,
    headers: &HeaderMap,
) -> Result<Response, RpcError> {
    let (name, mut status) = match form {
        EnvelopeForm::Nothing => return Ok(StatusCode::NO_CONTENT.into_response()),
        EnvelopeForm::Whole => return written(StatusCode::OK, &json!({ "data": result })),
        EnvelopeForm::Data(name) | EnvelopeForm::Versioned(name) | EnvelopeForm::List(name) => {
            (name, StatusCode::OK)
        }
        EnvelopeForm::Created(name) | EnvelopeForm::CreatedOrFound(name) => (name, StatusCode::CREATED),
    };
    let data = result.remove(name).unwrap_or_else(|| RawValue::NULL.to_owned());
    if let EnvelopeForm::CreatedOrFound(_) = form
        && result.remove("created").is_some_and(|created| created.get() == "false")
    {
        status = StatusCode::OK;
    }
    if let EnvelopeForm::List(_) = form {
        result.entry("next_cursor".to_owned()).or_insert_with(|| RawValue::NULL.to_owned());
    }
    let etag = match form {
        EnvelopeForm::Versioned(_) => etag_of(&data),
        _ => None,
    };
    result.insert("data".to_owned(), data);
    let response = match etag.as_deref().is_some_and(|etag| names(headers, etag)) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => written(status, &result)?,
    };
    Ok(etag.into_iter().fold(response, |response, etag| with_header(response, ETAG, &etag)))
}

fn written(status: StatusCode, answer: &impl serde::Serialize) -> Result<Response, RpcError> {
    Ok(json_text(status, serde_json::to_string(answer).map_err(RpcError::internal)?))
}

/// None while there is no manifest.
fn etag_of(agent: &RawValue) -> Option<String> {
    let agent: ManifestHash = serde_json::from_str(agent.get()).ok()?;
    agent.capability_manifest_hash.map(|hash| format!("\"{hash}\""))
}

/// Whether the reader has this version already.
fn names(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut known = known.into_iter().flat_map(|known| known.split(',')).map(str::trim);
    known.any(|known| known == "*" || known.trim_start_matches("W/") == etag)
}

pub(super) fn unauthorized() -> Response {
    let sentence = "a valid access token is needed, or the token of an agent";
    with_header(error(codes::UNAUTHENTICATED, sentence, Map::new()), WWW_AUTHENTICATE, "Bearer")
}

pub(super) fn invalid_json(sentence: &str) -> Response {
    error(codes::agent::INVALID_JSON, &format!("the body cannot be read: {sentence}"), Map::new())
}

/// The error of a method, with what it says besides its code and its sentence as `params`.
pub(super) fn refused(refusal: &RpcError) -> Response {
    refusal.log("http");
    let mut data = match serde_json::to_value(refusal) {
        Ok(Value::Object(mut written)) => written.remove("data").unwrap_or_default(),
        _ => Value::Null,
    };
    let mut params = data.as_object_mut().map(std::mem::take).unwrap_or_default();
    let kind = params.remove("kind").and_then(|kind| Some(kind.as_str()?.to_owned()));
    let code = kind.and_then(|kind| Code::find(proto_schemas::find_namespace("agent")?, &kind));
    for name in ["http_status", "retryable", "i18n_key"] {
        params.remove(name);
    }
    let response = error(code.unwrap_or(codes::INTERNAL), &refusal.to_string(), params);
    match refusal.retry_after_seconds() {
        Some(seconds) => with_header(response, RETRY_AFTER, &seconds.to_string()),
        None => response,
    }
}

fn error(code: Code, sentence: &str, params: Map<String, Value>) -> Response {
    let status = StatusCode::from_u16(code.http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    // No token and a bad one are the same here.
    let (word, key) = match code.http {
        401 => ("UNAUTHORIZED", "error.unauthorized".to_owned()),
        _ => (code.name, code.i18n_key()),
    };
    let error = json!({ "code": word, "message": sentence, "i18n_key": key, "params": params });
    json_text(status, json!({ "error": error }).to_string())
}
