//! HTTP responses: documents, errors, and the status for the error of a service.

use crate::gateway::GatewayState;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, CONTENT_TYPE, IntoHeaderName, RETRY_AFTER,
};
use hyper::{Response, StatusCode};
use proto_schemas::Code;
use serde_json::{Value, json};
use services::kernel::{RpcError, codes};
use std::time::Duration;

/// A response that is being built. Every one may be read from any origin: nothing here depends on who asks, but for `PUT`,
/// which needs a token that no browser sends by itself.
pub struct Reply(Response<Full<Bytes>>);

impl Reply {
    #[must_use]
    pub fn header(mut self, name: impl IntoHeaderName, value: &str) -> Reply {
        if let Ok(value) = value.parse() {
            self.0.headers_mut().insert(name, value);
        }
        self
    }

    pub fn done(self) -> Response<Full<Bytes>> {
        self.0
    }
}

pub fn text(status: StatusCode, kind: &str, body: &str) -> Reply {
    bytes(status, kind, body.to_owned())
}

/// A status and nothing else.
pub fn bare(status: StatusCode) -> Reply {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    Reply(response)
}

pub fn bytes(status: StatusCode, kind: &str, body: impl Into<Bytes>) -> Reply {
    let mut reply = bare(status);
    *reply.0.body_mut() = Full::new(body.into());
    reply
        .header(CONTENT_TYPE, kind)
        .header(ACCESS_CONTROL_ALLOW_ORIGIN, "*")
        .header(ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, PUT, OPTIONS")
        .header(ACCESS_CONTROL_ALLOW_HEADERS, "*, Authorization")
        .header(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            "ETag, Last-Modified, X-AUN-Cert-Consistency, X-AUN-Cert-Lifecycle-State, X-AUN-Cert-Fingerprint, \
             X-AUN-Cert-Observed-At",
        )
}

pub fn json_reply(status: StatusCode, body: &Value) -> Reply {
    text(status, "application/json", &body.to_string())
}

pub fn refuse(status: StatusCode, code: &str, sentence: &str) -> Reply {
    json_reply(status, &json!({ "error": sentence, "code": code }))
}

pub fn not_found() -> Reply {
    refuse(StatusCode::NOT_FOUND, "not_found", "Not found")
}

/// Metrics, in the format that tools scrape.
pub fn openmetrics(metrics: &str) -> Reply {
    text(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", metrics)
}

/// The HTTP status of an error that does not bring its own.
const STATUSES: [(Code, StatusCode); 5] = [
    (codes::INVALID_PARAMS, StatusCode::BAD_REQUEST),
    (codes::TOKEN_INVALID, StatusCode::UNAUTHORIZED),
    (codes::UNAUTHENTICATED, StatusCode::UNAUTHORIZED),
    (codes::NOT_FOUND, StatusCode::NOT_FOUND),
    (codes::UNAVAILABLE, StatusCode::SERVICE_UNAVAILABLE),
];

/// The response for the error of a service.
pub(super) fn failed(error: &RpcError) -> Reply {
    error.log("http");
    let status = match error.data("http_status").and_then(Value::as_u64) {
        Some(status) => u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok()),
        None => STATUSES.iter().find(|(code, _)| code.code == error.code()).map(|(_, status)| *status),
    };
    let kind = error.data("kind").and_then(Value::as_str).unwrap_or("internal");
    refuse(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), kind, &error.to_string())
}

pub(super) fn too_many(gateway: &GatewayState, wait: Duration) -> Response<Full<Bytes>> {
    let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    let seconds = ms.div_ceil(1000);
    let body = json!({
        "error": "Rate limit exceeded",
        "code": "rate_limit_exceeded",
        "tier": "read",
        "retryAfterMs": ms,
    });
    json_reply(StatusCode::TOO_MANY_REQUESTS, &body)
        .header(RETRY_AFTER, &seconds.to_string())
        .header("x-ratelimit-limit", &gateway.admission.limits.http_per_second.to_string())
        .header("x-ratelimit-remaining", "0")
        .header(
            "x-ratelimit-reset",
            &(gateway.clock.now_seconds() + i64::try_from(seconds).unwrap_or(1)).to_string(),
        )
        .done()
}
