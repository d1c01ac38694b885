//! What the server of the page answers, with the headers that every answer has.

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

pub(super) type PageBody = BoxBody<Bytes, hyper::Error>;

/// The page loads and asks nothing but its own origin, and nobody shows it inside another page. `blob:` is a picture before it is sent.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; \
     form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

pub(super) fn file((kind, text): (&'static str, &'static str)) -> Response<PageBody> {
    answer(StatusCode::OK, kind, Bytes::from_static(text.as_bytes()))
}

pub(super) fn json(value: &Value) -> Response<PageBody> {
    answer(StatusCode::OK, "application/json", value.to_string().into())
}

/// In the form of the API, which the page reads.
pub(super) fn refused(status: StatusCode, code: &str, detail: &str) -> Response<PageBody> {
    answer(status, "application/json", json!({ "detail": detail, "code": code }).to_string().into())
}

fn answer(status: StatusCode, kind: &'static str, text: Bytes) -> Response<PageBody> {
    let body = Full::new(text).map_err(|never| match never {}).boxed();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// Sets the headers of every answer, those of the gateway included: what they had before does not count.
pub(super) fn protect(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
