//! What only the gateway refuses, and the forms that only it answers in.

use crate::gateway::GatewayState;
use crate::http_body::BodyRefused;
use axum::response::{IntoResponse as _, Response};
use hyper::StatusCode;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName};
use kernel::http::{RequestIds, failure, with_header};
use kernel::{RpcError, codes};
use proto_schemas::plain_envelope;
use std::time::Duration;

pub(super) fn not_found() -> RpcError {
    RpcError::new(codes::NOT_FOUND, "Not found")
}

/// The answer to a method that a path does not have.
pub(super) fn not_allowed(allowed: &str) -> RpcError {
    RpcError::new(codes::METHOD_NOT_ALLOWED, format!("only {allowed} are allowed")).with("allow", allowed)
}

pub(super) fn unauthorized(sentence: &str) -> RpcError {
    RpcError::new(codes::UNAUTHENTICATED, sentence)
}

/// The client is in the middle of its body, so the connection cannot be used again.
pub(super) fn body_refused(reason: BodyRefused) -> RpcError {
    match reason {
        BodyRefused::TooLarge => RpcError::plain(codes::BODY_TOO_LARGE),
        BodyRefused::TooSlow => RpcError::plain(codes::BODY_TIMEOUT),
    }
}

/// Which methods a path has.
pub(super) fn options(allowed: &str) -> Response {
    with_header(StatusCode::NO_CONTENT.into_response(), ALLOW, allowed)
}

/// Metrics, in the format that tools scrape.
pub fn openmetrics(metrics: String) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    with_header(metrics.into_response(), CONTENT_TYPE, kind)
}

/// A refusal where no path, and so no envelope, is declared.
pub fn plain_failure(error: &RpcError) -> Response {
    failure(plain_envelope(), error, &RequestIds::default())
}

/// More requests from one address than are accepted.
pub(super) fn too_many(wait: Duration) -> RpcError {
    let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    RpcError::new(codes::RATE_LIMITED, "Rate limit exceeded").with("tier", "read").with("retry_after_ms", ms)
}

/// The headers that say when more are accepted.
pub(super) fn with_rate_headers(gateway: &GatewayState, response: Response, wait: Duration) -> Response {
    let seconds = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1).div_ceil(1000);
    let reset = gateway.clock.now_seconds() + i64::try_from(seconds).unwrap_or(1);
    let headers = [
        ("x-ratelimit-limit", gateway.admission.limits.http_per_second.to_string()),
        ("x-ratelimit-remaining", "0".to_owned()),
        ("x-ratelimit-reset", reset.to_string()),
    ];
    headers.into_iter().fold(response, |response, (name, value)| {
        with_header(response, HeaderName::from_static(name), &value)
    })
}
