//! Which pages of a browser may read an answer: those of any origin, where the path is declared so. Nothing there depends on
//! who asks, but for what needs a token, and no browser sends one by itself.

use axum::response::Response;
use hyper::StatusCode;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, CONTENT_TYPE, HeaderName, HeaderValue,
};

const HEADERS: [(HeaderName, &str); 4] = [
    (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    (ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),
    (ACCESS_CONTROL_ALLOW_HEADERS, "*, Authorization"),
    (
        ACCESS_CONTROL_EXPOSE_HEADERS,
        "ETag, Last-Modified, Retry-After, X-AUN-Cert-Consistency, X-AUN-Cert-Lifecycle-State, \
         X-AUN-Cert-Fingerprint, X-AUN-Cert-Observed-At",
    ),
];

pub(super) fn add_to(response: &mut Response) {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
}

/// The answer to a browser that asks first.
pub(super) fn preflight() -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}
