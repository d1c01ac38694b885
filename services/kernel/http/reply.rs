//! Answers: the envelope of errors `{"error", "code"}`, and the status for the error of a service.

use crate::RpcError;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use proto_schemas::Code;
use serde_json::{Value, json};

/// JSON that is written already.
pub fn json_text(status: StatusCode, text: impl Into<String>) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], text.into()).into_response()
}

pub fn refuse(status: StatusCode, code: &str, sentence: &str) -> Response {
    json_text(status, json!({ "error": sentence, "code": code }).to_string())
}

/// The answer of every router to a path that it does not have.
pub async fn not_found() -> Response {
    refuse(StatusCode::NOT_FOUND, "not_found", "Not found")
}

/// The answer of every router to a method that its path does not have; axum adds which ones it has.
pub async fn method_not_allowed() -> Response {
    let sentence = "this path is not answered for this method";
    refuse(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", sentence)
}

/// The same answer with a header. A value that no header can have is left out.
#[must_use]
pub fn with_header(mut response: Response, name: HeaderName, value: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}

/// The same sentence as over JSON-RPC, with the kind of the error as its code. The cause is logged here, once.
impl IntoResponse for RpcError {
    fn into_response(self) -> Response {
        self.log("http");
        // By kind, because some numbers mean two things.
        let kind = self.data("kind").and_then(Value::as_str).unwrap_or("internal");
        let status = Code::http_status(kind).and_then(|status| StatusCode::from_u16(status).ok());
        let response = refuse(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), kind, &self.to_string());
        match self.retry_after_seconds() {
            Some(seconds) => with_header(response, RETRY_AFTER, &seconds.to_string()),
            None => response,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes;

    #[test]
    fn an_error_has_the_status_of_its_row() {
        let status = |error: RpcError| error.into_response().status();
        assert_eq!(status(RpcError::plain(codes::UNAVAILABLE)), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(RpcError::plain(codes::HANDLER_TIMEOUT)), StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(status(RpcError::plain(codes::INTERNAL)), StatusCode::INTERNAL_SERVER_ERROR);
        let changed = RpcError::plain(codes::agent::AGENT_MD_CHANGED);
        assert_eq!(status(changed), StatusCode::PRECONDITION_FAILED);
    }
}
