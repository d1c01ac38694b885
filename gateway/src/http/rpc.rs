//! `POST /rpc`: any public method as JSON-RPC over HTTP, by the token of an agent; without one, what may be called before
//! login.
//!
//! The answer is 200 with a JSON-RPC body. Two errors have a status of their own, because what stands between client and
//! server should know them: 401 for a token that is not valid, and 429 for a call that came too soon.

use super::caller::{Authenticated, HttpCaller};
use super::gathered::GatheredAnswers;
use super::{body, call, reply};
use crate::admission::Call;
use crate::frame::{self, InvalidRequest, RequestFrame, RpcRequest};
use crate::gateway::GatewayState;
use crate::trace;
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use hyper::body::Incoming;
use hyper::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Method, Request, StatusCode};
use kernel::http::{json_text, with_header};
use kernel::{RpcError, codes};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

pub(super) async fn answer(
    gateway: &Arc<GatewayState>,
    address: IpAddr,
    request: Request<Incoming>,
) -> Result<Response, RpcError> {
    if request.method() != Method::POST {
        return Err(reply::not_allowed("POST, OPTIONS"));
    }
    let caller = match HttpCaller::authenticate(gateway, address, request.headers()).await? {
        Authenticated::Caller(caller) if !caller.is_known() || caller.is_logged_in() => caller,
        // Other tokens than those of a login open routes, and no other method.
        _ => return Ok(invalid_token()),
    };
    let body =
        body::collect(gateway, &caller, request.into_body(), gateway.config.limits.frame_bytes).await?;
    // In a task of its own, because a call is finished although its client leaves.
    let called = gateway.clone();
    let answering = async move { RpcAnswers::to(&called, &caller, &body.bytes).await };
    match gateway.tracker.spawn(answering).await {
        Ok(answers) => Ok(answers.response()),
        Err(ended) => Err(RpcError::internal(ended)),
    }
}

fn invalid_token() -> Response {
    let error = RpcError::plain(codes::TOKEN_INVALID);
    let response = json_text(StatusCode::UNAUTHORIZED, frame::failure(None, &error));
    with_header(response, WWW_AUTHENTICATE, "Bearer error=\"invalid_token\"")
}

/// What a body is answered with.
struct RpcAnswers {
    /// Of an array: what is counted for its answers until they are written.
    gathered: Option<GatheredAnswers>,
    answers: Vec<RpcAnswer>,
}

/// The answer to one request; no text where it has no id.
struct RpcAnswer {
    text: Option<String>,
    /// Whether it came too soon, and when it may come again.
    retry_after: Option<u64>,
}

impl RpcAnswers {
    async fn to(gateway: &GatewayState, caller: &HttpCaller, body: &[u8]) -> RpcAnswers {
        let Ok(text) = str::from_utf8(body) else {
            let error = RpcError::new(codes::PARSE_ERROR, "the body is not UTF-8");
            return RpcAnswers::one(RpcAnswer::failure(None, &error));
        };
        match frame::read(text) {
            Ok(RequestFrame::One(request)) => RpcAnswers::one(RpcAnswer::to(gateway, caller, &request).await),
            Ok(RequestFrame::Batch(members)) if caller.is_logged_in() => {
                RpcAnswers::to_array(gateway, caller, &members).await
            }
            Ok(RequestFrame::Batch(_)) => {
                let sentence = "arrays of calls require an access token";
                RpcAnswers::one(RpcAnswer::failure(None, &RpcError::new(codes::INVALID_REQUEST, sentence)))
            }
            Err(InvalidRequest { id, error }) => RpcAnswers::one(RpcAnswer::failure(id.as_deref(), &error)),
        }
    }

    fn one(answer: RpcAnswer) -> RpcAnswers {
        RpcAnswers { gathered: None, answers: vec![answer] }
    }

    async fn to_array(
        gateway: &GatewayState,
        caller: &HttpCaller,
        members: &[Result<RpcRequest<'_>, InvalidRequest>],
    ) -> RpcAnswers {
        let gathered = GatheredAnswers::new(gateway, caller);
        let calls = members.iter().map(|member| RpcAnswer::to_member(gateway, caller, &gathered, member));
        let at_once = gateway.config.limits.array_in_flight.into();
        let answers = stream::iter(calls.collect::<Vec<_>>()).buffered(at_once).collect().await;
        RpcAnswers { gathered: Some(gathered), answers }
    }

    /// An array is 429 only if nothing in it was done.
    fn response(self) -> Response {
        let soonest = self.answers.iter().map(|answer| answer.retry_after).collect::<Option<Vec<_>>>();
        let retry_after = soonest.and_then(|waits| waits.into_iter().max());
        let body = self.into_text();
        let status = match (retry_after, body.is_empty()) {
            (Some(_), _) => StatusCode::TOO_MANY_REQUESTS,
            (None, true) => StatusCode::NO_CONTENT,
            (None, false) => StatusCode::OK,
        };
        let response = json_text(status, body);
        match retry_after {
            Some(seconds) => with_header(response, RETRY_AFTER, &seconds.to_string()),
            None => response,
        }
    }

    /// Each answer is given back as soon as it is written.
    fn into_text(self) -> String {
        let texts = self.answers.iter().filter_map(|answer| answer.text.as_ref());
        let bytes: usize = texts.map(|text| text.len() + 1).sum();
        let mut texts = self.answers.into_iter().filter_map(|answer| answer.text);
        if self.gathered.is_none() || bytes == 0 {
            return texts.next().unwrap_or_default();
        }
        let mut written = String::with_capacity(bytes + 1);
        for text in texts {
            written.push(if written.is_empty() { '[' } else { ',' });
            written.push_str(&text);
        }
        written.push(']');
        written
    }
}

impl RpcAnswer {
    async fn to_member(
        gateway: &GatewayState,
        caller: &HttpCaller,
        gathered: &GatheredAnswers,
        member: &Result<RpcRequest<'_>, InvalidRequest>,
    ) -> RpcAnswer {
        let request = match member {
            Ok(request) => request,
            Err(invalid) => return RpcAnswer::failure(invalid.id.as_deref(), &invalid.error),
        };
        if let Err(full) = gathered.check() {
            return RpcAnswer::refused(request, &full);
        }
        let answer = RpcAnswer::to(gateway, caller, request).await;
        let Some(text) = &answer.text else { return answer };
        match gathered.add(text) {
            Ok(()) => answer,
            Err(full) => RpcAnswer::refused(request, &full),
        }
    }

    async fn to(gateway: &GatewayState, caller: &HttpCaller, request: &RpcRequest<'_>) -> RpcAnswer {
        let (source, metrics) = (caller.source(), gateway.metrics.method(&request.method));
        let call = Call::named(&source, &request.method, request.params.map(Cow::Borrowed));
        let ended = call::make(gateway, caller, call, None, metrics).await;
        let retry_after = ended.outcome.as_ref().err().and_then(RpcError::retry_after_seconds);
        let text = request.id.map(|id| {
            let answer = frame::answer(id.get(), ended.outcome.as_ref().map(|result| result.get()));
            trace::with_spans(answer, ended.traced.as_deref())
        });
        RpcAnswer { text, retry_after }
    }

    fn failure(id: Option<&RawValue>, error: &RpcError) -> RpcAnswer {
        RpcAnswer { text: Some(frame::failure(id, error)), retry_after: None }
    }

    fn refused(request: &RpcRequest<'_>, error: &RpcError) -> RpcAnswer {
        let text = request.id.map(|id| frame::failure(Some(id), error));
        RpcAnswer { text, retry_after: None }
    }
}
