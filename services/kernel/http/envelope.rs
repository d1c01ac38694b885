//! Failures in the envelope of their path.

use super::{json_text, with_header};
use crate::{Ids, RpcError};
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::Response;
use proto_schemas::Code;
use proto_schemas::envelope::{ErrorRow, HttpEnvelope, Placeholder};
use serde_json::{Map, Value};

/// The names of one request in its answer and in the log.
#[derive(Clone, Debug, Default)]
pub struct RequestIds {
    pub trace: String,
    pub request: String,
}

impl RequestIds {
    /// The trace that the client began (W3C `traceparent`), or a new one.
    pub fn of(headers: &HeaderMap, ids: &Ids) -> RequestIds {
        let given = headers.get("traceparent").and_then(|value| value.to_str().ok());
        let given = given.and_then(|parent| parent.split('-').nth(1));
        let is_trace = |id: &&str| {
            let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            id.len() == 32 && id.bytes().all(hex) && id.bytes().any(|byte| byte != b'0')
        };
        let trace = given.filter(is_trace).map_or_else(|| hex::encode(ids.bytes::<16>()), str::to_owned);
        RequestIds { trace, request: format!("req_{}", hex::encode(ids.bytes::<16>())) }
    }
}

/// An error, as those below its path read it. Its cause is logged by whoever made it.
pub fn failure(envelope: &HttpEnvelope, error: &RpcError, ids: &RequestIds) -> Response {
    let shown = ShownError::of(envelope, error, ids);
    let body = shown.fill(&envelope.failure).unwrap_or_default();
    let mut response = json_text(shown.status, body.to_string());
    if shown.status == StatusCode::UNAUTHORIZED {
        response = with_header(response, WWW_AUTHENTICATE, "Bearer");
    }
    if let Some(seconds) = error.retry_after_seconds() {
        response = with_header(response, RETRY_AFTER, &seconds.to_string());
    }
    with_headers(response, envelope, &shown)
}

/// The headers that every answer in this envelope has.
pub(super) fn with_success_headers(
    response: Response,
    envelope: &HttpEnvelope,
    ids: &RequestIds,
) -> Response {
    if envelope.headers.is_empty() {
        return response;
    }
    let shown = ShownError { status: response.status(), ids, ..ShownError::none(ids) };
    with_headers(response, envelope, &shown)
}

fn with_headers(response: Response, envelope: &HttpEnvelope, shown: &ShownError<'_>) -> Response {
    envelope.headers.iter().fold(response, |response, (name, template)| {
        let value = shown.fill(&Value::from(template.as_str()));
        match (HeaderName::from_bytes(name.as_bytes()), value.as_ref().and_then(Value::as_str)) {
            (Ok(name), Some(value)) => with_header(response, name, value),
            _ => response,
        }
    })
}

/// The values that a template may ask for.
struct ShownError<'a> {
    status: StatusCode,
    word: String,
    message: String,
    retry_after_ms: Option<Value>,
    details: Map<String, Value>,
    ids: &'a RequestIds,
}

impl<'a> ShownError<'a> {
    fn none(ids: &'a RequestIds) -> ShownError<'a> {
        ShownError {
            status: StatusCode::OK,
            word: String::new(),
            message: String::new(),
            retry_after_ms: None,
            details: Map::new(),
            ids,
        }
    }

    fn of(envelope: &HttpEnvelope, error: &RpcError, ids: &'a RequestIds) -> ShownError<'a> {
        let (kind, status) = (error.kind(), error.http_status());
        let name = kind.to_ascii_uppercase();
        let ErrorRow { status: own, word, message } = envelope.row(&name, status.as_u16());
        let precise = envelope.word_member.as_ref().and_then(|member| error.data(member)?.as_str());
        let word = precise.map(str::to_owned).or(word).unwrap_or_else(|| envelope.words.written(kind));
        let mut details = error.all_data().clone();
        for known in ["kind", "http_status", "retryable", "i18n_key"]
            .into_iter()
            .chain(envelope.word_member.as_deref())
        {
            details.remove(known);
        }
        // An error can say of itself that the same call will not work later, although its row says that it may.
        let refuted = error.data("retryable") == Some(&Value::Bool(false)) && Code::is_retryable(kind);
        if envelope.retryable.contains(&word) && !refuted {
            details.insert("retryable".to_owned(), true.into());
        }
        ShownError {
            status: own.and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or(status),
            word,
            message: message.unwrap_or_else(|| error.to_string()),
            retry_after_ms: error.data("retry_after_ms").cloned(),
            details,
            ids,
        }
    }

    /// The template with its values; none where it asks for one that there is not, and does not need it.
    fn fill(&self, template: &Value) -> Option<Value> {
        match template {
            Value::String(text) => match Placeholder::of(text) {
                Some(asked) => self.value(asked),
                None => Some(template.clone()),
            },
            Value::Array(items) => Some(items.iter().filter_map(|item| self.fill(item)).collect()),
            Value::Object(members) => {
                let filled = |(name, member): (&String, &Value)| Some((name.clone(), self.fill(member)?));
                Some(Value::Object(members.iter().filter_map(filled).collect()))
            }
            other => Some(other.clone()),
        }
    }

    fn value(&self, asked: Placeholder<'_>) -> Option<Value> {
        let found = match asked.name {
            "word" => Some(self.word.as_str().into()),
            "message" => Some(self.message.as_str().into()),
            "status" => Some(self.status.as_u16().into()),
            "i18n_key" => Some(HttpEnvelope::i18n_key(&self.word).into()),
            "retry_after_ms" => self.retry_after_ms.clone(),
            "trace_id" => Some(self.ids.trace.as_str().into()),
            "request_id" => Some(self.ids.request.as_str().into()),
            "details" => Some(Value::Object(self.details.clone()))
                .filter(|_| !(asked.optional && self.details.is_empty())),
            name => name.strip_prefix("details.").and_then(|name| self.details.get(name).cloned()),
        };
        match asked.optional {
            true => found,
            false => Some(found.unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes;
    use axum::body::to_bytes;
    use serde_json::json;

    async fn shown(envelope: &HttpEnvelope, error: &RpcError) -> (u16, Value) {
        let ids = RequestIds { trace: "t".into(), request: "r".into() };
        let (parts, body) = failure(envelope, error, &ids).into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        (parts.status.as_u16(), serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_template_is_filled_and_what_is_optional_may_be_absent() {
        let envelope = HttpEnvelope::parse(
            r#"{ "envelope": "x", "summary": "x", "success": "$body", "words": "kebab", "word_member": "fine",
                 "failure": { "ok": false, "word": "$word", "text": "$message", "at": ["$trace_id", "$request_id"],
                              "more": "$details?", "wrong": "$details.violations?", "key": "$i18n_key" },
                 "errors": { "NOT_FOUND": { "status": 410, "message": "gone" }, "403": { "word": "no" } } }"#,
        )
        .unwrap();
        let (status, body) = shown(&envelope, &RpcError::plain(codes::NOT_FOUND)).await;
        assert_eq!(status, 410);
        let expected = json!({ "ok": false, "word": "not-found", "text": "gone", "at": ["t", "r"], "key": "error.not-found" });
        assert_eq!(body, expected);
        let denied = RpcError::new(codes::PERMISSION_DENIED, "no way").with("violations", json!([1]));
        let (status, body) = shown(&envelope, &denied).await;
        assert_eq!((status, &body["word"], &body["wrong"]), (403, &json!("no"), &json!([1])));
        assert_eq!(body["more"], json!({ "violations": [1] }));
        let fine = RpcError::plain(codes::PERMISSION_DENIED).with("fine", "tenant-policy-denied");
        let (_, body) = shown(&envelope, &fine).await;
        assert_eq!((&body["word"], body.get("more")), (&json!("tenant-policy-denied"), None));
    }

    #[tokio::test]
    async fn the_envelope_of_runs_has_a_word_for_each_status() {
        let run = &*proto_schemas::RUN_ENVELOPE;
        let busy = RpcError::plain(codes::RATE_LIMITED);
        let full = RpcError::plain(codes::RATE_LIMITED).with("retryable", false);
        let conflict = || RpcError::plain(codes::VERSION_CONFLICT);
        let denied = RpcError::plain(codes::PERMISSION_DENIED).with("failureKind", "tenant-policy-denied");
        let down = conflict().with("http_status", 503).with("failureKind", "provider-unavailable");
        #[rustfmt::skip]
        let cases = [
            (RpcError::plain(codes::INVALID_PARAMS),     400, "schema-invalid",         false),
            (RpcError::plain(codes::PARSE_ERROR),        400, "schema-invalid",         false),
            (RpcError::plain(codes::UNAUTHENTICATED),    401, "unauthorized",           false),
            (RpcError::plain(codes::TOKEN_INVALID),      401, "unauthorized",           false),
            (RpcError::plain(codes::PERMISSION_DENIED),  403, "forbidden",              false),
            (RpcError::plain(codes::TOKEN_NOT_ACCEPTED), 403, "forbidden",              false),
            (denied,                                     403, "tenant-policy-denied",   false),
            (RpcError::plain(codes::NOT_FOUND),          404, "not-found",              false),
            (RpcError::plain(codes::METHOD_NOT_ALLOWED), 405, "method-not-allowed",     false),
            (conflict(),                                 409, "schema-invalid",         false),
            (conflict().with("failureKind", "runner-lease-conflict"), 409, "runner-lease-conflict", true),
            (conflict().with("failureKind", "idempotency-conflict"),  409, "idempotency-conflict",  false),
            (RpcError::plain(codes::BODY_TOO_LARGE),     413, "payload-too-large",      false),
            (busy,                                       429, "rate-limited",           true),
            (full,                                       429, "rate-limited",           false),
            (RpcError::plain(codes::INTERNAL),           500, "infra-failed",           true),
            (RpcError::plain(codes::UNAVAILABLE),        503, "infra-failed",           true),
            (down,                                       503, "provider-unavailable",   true),
            (RpcError::plain(codes::HANDLER_TIMEOUT),    504, "infra-failed",           true),
        ];
        for (error, status, word, retryable) in cases {
            let (shown_status, body) = shown(run, &error).await;
            assert_eq!((shown_status, &body["failureKind"]), (status, &json!(word)), "{body}");
            let expected = retryable.then(|| json!({ "retryable": true }));
            assert_eq!(body.get("details"), expected.as_ref(), "{body}");
            assert_eq!(
                (&body["ok"], &body["traceId"], &body["requestId"]),
                (&json!(false), &json!("t"), &json!("r"))
            );
        }
    }

    #[test]
    fn a_template_that_asks_for_what_there_is_not_is_refused() {
        let refused = HttpEnvelope::parse(
            r#"{ "envelope": "x", "summary": "x", "success": "$body", "words": "kind", "failure": { "a": "$secret" } }"#,
        );
        assert!(refused.unwrap_err().contains("$secret"));
    }

    #[test]
    fn the_trace_of_the_client_is_kept_if_it_is_one() {
        let of = |parent: &str| {
            let headers =
                HeaderMap::from_iter([(HeaderName::from_static("traceparent"), parent.parse().unwrap())]);
            RequestIds::of(&headers, &Ids::default()).trace
        };
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(of(&format!("00-{trace}-00f067aa0ba902b7-01")), trace);
        for other in
            ["", "00-xyz-00f067aa0ba902b7-01", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"]
        {
            let made = of(other);
            assert!(made.len() == 32 && !other.contains(&made), "{other}: {made}");
        }
    }
}
