//! Answers that only the gateway gives.

use crate::gateway::GatewayState;
use crate::http_body::BodyRefused;
use axum::response::{IntoResponse as _, Response};
use hyper::StatusCode;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use kernel::http::{json_text, refuse, with_header};
use serde_json::json;
use std::time::Duration;

pub(super) fn not_found() -> Response {
    refuse(StatusCode::NOT_FOUND, "not_found", "Not found")
}

pub(super) fn not_allowed(allowed: &str) -> Response {
    let sentence = format!("only {allowed} are allowed");
    with_header(refuse(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &sentence), ALLOW, allowed)
}

pub(super) fn unauthorized(sentence: &str) -> Response {
    with_header(refuse(StatusCode::UNAUTHORIZED, "unauthorized", sentence), WWW_AUTHENTICATE, "Bearer")
}

/// The client is in the middle of its body, so the connection cannot be used again.
pub(super) fn body_refused(reason: BodyRefused) -> Response {
    let (status, code) = match reason {
        BodyRefused::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"),
        BodyRefused::TooSlow => (StatusCode::REQUEST_TIMEOUT, "timeout"),
    };
    with_header(refuse(status, code, &reason.to_string()), CONNECTION, "close")
}

/// Metrics, in the format that tools scrape.
pub fn openmetrics(metrics: String) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    with_header(metrics.into_response(), CONTENT_TYPE, kind)
}

pub(super) fn too_many(gateway: &GatewayState, wait: Duration) -> Response {
    let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    let seconds = ms.div_ceil(1000);
    let body = json!({
        "error": "Rate limit exceeded",
        "code": "rate_limit_exceeded",
        "tier": "read",
        "retryAfterMs": ms,
    });
    let reset = gateway.clock.now_seconds() + i64::try_from(seconds).unwrap_or(1);
    let headers = [
        (RETRY_AFTER, seconds.to_string()),
        (HeaderName::from_static("x-ratelimit-limit"), gateway.admission.limits.http_per_second.to_string()),
        (HeaderName::from_static("x-ratelimit-remaining"), "0".to_owned()),
        (HeaderName::from_static("x-ratelimit-reset"), reset.to_string()),
    ];
    let response = json_text(StatusCode::TOO_MANY_REQUESTS, body.to_string());
    headers.into_iter().fold(response, |response, (name, value)| with_header(response, name, &value))
}
