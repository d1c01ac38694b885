//! One HTTP request to a gateway, on a connection of its own.

use crate::connection::dial::{CONNECT_TIMEOUT, GatewayDialer};
use crate::error::Error;
use hyper::http::request::Builder;
use hyper::{Request, StatusCode};
use outbound::{OneShot, OneShotError};
use serde_json::Value;
use std::io;
use std::time::Duration;
use tokio::time::timeout;

/// No document that an agent fetches is larger.
const DOCUMENT_BYTES: usize = 1 << 20;

/// What a gateway answered.
pub(crate) struct HttpAnswer {
    pub status: StatusCode,
    pub body: String,
}

impl GatewayDialer {
    /// A document of the server, by its path.
    pub async fn get(&self, path: &str) -> Result<String, Error> {
        let answer = self.send(Request::get(path), &self.host(), "").await?;
        match answer.status {
            StatusCode::OK => Ok(answer.body),
            status => Err(Error::Unexpected(format!("{path} was answered with {}", status.as_u16()))),
        }
    }

    /// The answer to a request, whatever its status. The host may be another than the one that TLS verifies: an agent's document
    /// is asked for under the name of the agent.
    pub(crate) async fn send(&self, request: Builder, host: &str, body: &str) -> Result<HttpAnswer, Error> {
        self.send_within(CONNECT_TIMEOUT, request, host, body).await
    }

    /// The same for what may take longer.
    pub(crate) async fn send_within(
        &self,
        within: Duration,
        request: Builder,
        host: &str,
        body: &str,
    ) -> Result<HttpAnswer, Error> {
        let request = OneShot::new(request, host, body.to_owned())
            .map_err(|error| Error::Invalid(format!("this cannot be requested: {error}")))?;
        let exchange = timeout(within, self.exchange(request)).await;
        exchange.map_err(|_| self.unreachable(io::ErrorKind::TimedOut.into()))?
    }

    async fn exchange(&self, request: OneShot) -> Result<HttpAnswer, Error> {
        let answer = request.send(self.dial().await?, |_| Some(DOCUMENT_BYTES)).await;
        let answer = answer.map_err(|error| match error {
            OneShotError::Broken(error) => self.unreachable(io::Error::other(error)),
            OneShotError::Body(error) => self.unreachable(io::Error::other(error)),
        })?;
        let body = String::from_utf8(answer.body.into())
            .map_err(|_| Error::Unexpected("the answer is not text".to_owned()))?;
        Ok(HttpAnswer { status: answer.status, body })
    }
}

impl HttpAnswer {
    /// The body, if the status is one of success.
    pub(crate) fn accepted(self, request: &str) -> Result<String, Error> {
        if self.status.is_success() {
            return Ok(self.body);
        }
        let refusal: Value = serde_json::from_str(&self.body).unwrap_or_default();
        let word = |name: &str| refusal[name].as_str().map(str::to_owned);
        Err(Error::HttpRefused {
            request: request.to_owned(),
            status: self.status.as_u16(),
            kind: word("code").unwrap_or_default(),
            message: word("error").unwrap_or_else(|| "no reason is given".to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_the_server_s_sentence_with_its_status() {
        let answer = |status, body: &str| HttpAnswer { status, body: body.to_owned() };
        assert_eq!(answer(StatusCode::CREATED, "{}").accepted("PUT /x").unwrap(), "{}");
        assert_eq!(answer(StatusCode::NO_CONTENT, "").accepted("DELETE /x").unwrap(), "");
        let refused = answer(StatusCode::FORBIDDEN, r#"{"error":"not yours","code":"forbidden"}"#);
        let refused = refused.accepted("PUT /x").unwrap_err();
        assert_eq!(refused.to_string(), "PUT /x was refused: not yours (403)");
        assert!(!refused.is_transient());
        let down = answer(StatusCode::BAD_GATEWAY, "<html>").accepted("PUT /x").unwrap_err();
        assert_eq!(down.to_string(), "PUT /x was refused: no reason is given (502)");
        assert!(down.is_transient());
    }
}
