//! What a router answers. A refusal is passed on as the error that it is: only the gateway knows the envelope of the path.

use crate::{RpcError, codes};
use axum::body::to_bytes;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use proto_schemas::Code;

/// The type of a body that is an error, between a service and the gateway.
const ERROR_TYPE: &str = "application/vnd.aund.error+json";
/// An error is a sentence and a few facts.
const MOST_ERROR_BYTES: usize = 1 << 20;

/// JSON that is written already.
pub fn json_text(status: StatusCode, text: impl Into<String>) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], text.into()).into_response()
}

/// A refusal with a word and a status of its own, which no table of errors has.
pub fn refusal(status: StatusCode, word: &str, sentence: &str) -> RpcError {
    let error = RpcError::new(codes::INVALID_REQUEST, sentence).with("kind", word);
    error.with("http_status", status.as_u16())
}

/// The same as the answer of a router.
pub fn refuse(status: StatusCode, word: &str, sentence: &str) -> Response {
    refusal(status, word, sentence).into_response()
}

/// The answer of every router to a path that it does not have.
pub async fn not_found() -> Response {
    RpcError::new(codes::NOT_FOUND, "Not found").into_response()
}

/// The answer of every router to a method that its path does not have; axum adds which ones it has.
pub async fn method_not_allowed() -> Response {
    RpcError::plain(codes::METHOD_NOT_ALLOWED).into_response()
}

/// The same answer with a header. A value that no header can have is left out.
#[must_use]
pub fn with_header(mut response: Response, name: HeaderName, value: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}

/// The error as it is, for the gateway. The cause is logged here, once.
impl IntoResponse for RpcError {
    fn into_response(self) -> Response {
        self.log("http");
        let text = serde_json::to_string(&self).unwrap_or_default();
        (self.http_status(), [(CONTENT_TYPE, ERROR_TYPE)], text).into_response()
    }
}

impl RpcError {
    /// Its status over HTTP: its own, where it names one, or that of its row.
    pub fn http_status(&self) -> StatusCode {
        let own = self.data("http_status").and_then(serde_json::Value::as_u64);
        let own = own.and_then(|status| u16::try_from(status).ok());
        // By kind, because some numbers mean two things.
        let status = own.or_else(|| Code::http_status(self.kind()));
        status
            .and_then(|status| StatusCode::from_u16(status).ok())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// The error that a router answered, if it did; the response is read for it. Its other headers stay with it.
pub async fn refusal_of(response: Response) -> Result<Response, (RpcError, axum::http::HeaderMap)> {
    let kind = response.headers().get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let (is_error, is_text) = (kind == ERROR_TYPE.as_bytes(), kind.starts_with(b"text/plain"));
    let refused = response.status().is_client_error() || response.status().is_server_error();
    if !(is_error || refused && is_text) {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    if !is_error {
        return Err((extractor_refusal(parts.status), parts.headers));
    }
    let text = to_bytes(body, MOST_ERROR_BYTES).await.unwrap_or_default();
    let error = serde_json::from_slice(&text).unwrap_or_else(RpcError::internal);
    Err((error, parts.headers))
}

/// What axum refuses by itself, in words of its parsers, which no caller knows.
fn extractor_refusal(status: StatusCode) -> RpcError {
    let word = status.canonical_reason().unwrap_or("refused").to_ascii_lowercase().replace(' ', "_");
    refusal(
        status,
        &word,
        "the request cannot be read: a part of it is missing, repeated or of the wrong form",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_status_of_its_row() {
        let status = |error: RpcError| error.into_response().status();
        assert_eq!(status(RpcError::plain(codes::UNAVAILABLE)), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(RpcError::plain(codes::HANDLER_TIMEOUT)), StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(status(RpcError::plain(codes::INTERNAL)), StatusCode::INTERNAL_SERVER_ERROR);
        let changed = RpcError::plain(codes::agent::AGENT_MD_CHANGED);
        assert_eq!(status(changed), StatusCode::PRECONDITION_FAILED);
        let own = RpcError::plain(codes::INVALID_PARAMS).with("http_status", 422);
        assert_eq!(status(own), StatusCode::UNPROCESSABLE_ENTITY);
    }

    #[tokio::test]
    async fn a_refusal_reaches_the_gateway_whole() {
        let (error, _) =
            refusal_of(refuse(StatusCode::GONE, "gone_for_good", "it is gone")).await.unwrap_err();
        assert_eq!((error.to_string().as_str(), error.kind()), ("it is gone", "gone_for_good"));
        assert_eq!(error.http_status(), StatusCode::GONE);
        assert!(refusal_of(json_text(StatusCode::OK, "{}")).await.is_ok());
        let (error, _) =
            refusal_of((StatusCode::BAD_REQUEST, "invalid digit").into_response()).await.unwrap_err();
        assert_eq!((error.kind(), error.http_status()), ("bad_request", StatusCode::BAD_REQUEST));
    }
}
