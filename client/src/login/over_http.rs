//! What an agent asks over HTTP with its access token: there is no session, so it gets no device and no inbox for that.

use super::{access_token, new_access_token};
use crate::connection::dial::GatewayDialer;
use crate::connection::http::HttpAnswer;
use crate::error::Error;
use crate::home::LocalAgent;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::http::request::Builder;
use hyper::{Request as HttpRequest, StatusCode};
use proto_schemas::Request;
use serde_json::{Value, json};
use std::time::Duration;

/// A method may wait for somebody else, such as a webhook, for ten seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Calls a method over HTTP, as an agent of this machine.
pub async fn call_over_http<R: Request>(
    dialer: &GatewayDialer,
    agent: &LocalAgent,
    request: &R,
) -> Result<R::Result, Error> {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": R::METHOD, "params": request }).to_string();
    let post = |_: &LocalAgent| {
        Ok((HttpRequest::post("/rpc").header(CONTENT_TYPE, "application/json"), call.clone()))
    };
    let answer = with_token(dialer, agent, &dialer.host(), post).await?;
    let unexpected = |error: serde_json::Error| Error::Unexpected(format!("{}: {error}", R::METHOD));
    let mut read: Value = serde_json::from_str(&answer.body).map_err(unexpected)?;
    let error = read["error"].take();
    if error.is_object() {
        return Err(Error::Refused {
            method: R::METHOD.to_owned(),
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            error,
        });
    }
    if read.get("result").is_none() {
        answer.accepted("POST /rpc")?;
    }
    serde_json::from_value(read["result"].take()).map_err(unexpected)
}

/// Sends a request under the name of the agent, with its access token; with a new one if that is refused. The request is made after
/// the token is there: a login may bring a new certificate, and the old one signs nothing from then on.
pub(crate) async fn with_token(
    dialer: &GatewayDialer,
    agent: &LocalAgent,
    host: &str,
    request: impl Fn(&LocalAgent) -> Result<(Builder, String), Error>,
) -> Result<HttpAnswer, Error> {
    let send = async |token: String| {
        let (request, body) = request(agent)?;
        let request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        dialer.send_within(ANSWER_TIMEOUT, request, host, &body).await
    };
    let answer = send(access_token(dialer, agent).await?).await?;
    if answer.status != StatusCode::UNAUTHORIZED {
        return Ok(answer);
    }
    send(new_access_token(dialer, agent).await?).await
}
