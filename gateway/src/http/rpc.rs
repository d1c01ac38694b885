//! `POST /rpc`: any public method as JSON-RPC over HTTP, by the token of an agent; without one, what may be called before
//! login.
//!
//! The answer is 200 with a JSON-RPC body. Two errors have a status of their own, because what stands between client and
//! server should know them: 401 for a token that is not valid, and 429 for a call that came too soon.

use super::caller::{Authenticated, HttpCaller};
use super::reply;
use crate::admission::AdmittedCall;
use crate::frame::{self, InvalidRequest, RequestFrame, RpcRequest};
use crate::gateway::GatewayState;
use crate::http_body::{BodyRefused, RequestBody};
use crate::trace;
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Method, Request, StatusCode};
use kernel::http::{json_text, with_header};
use kernel::{Caller, RpcError, TracedCall, catch_panic_of, codes, timed_out};
use proto_schemas::Request as _;
use proto_schemas::requests::ca;
use serde_json::value::RawValue;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tracing::Instrument as _;

/// What a request without a token may have. With one it is as large as a frame.
const UNAUTHENTICATED_BYTES: usize = 64 << 10;
/// How long the whole body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn answer(
    gateway: &Arc<GatewayState>,
    address: IpAddr,
    request: Request<Incoming>,
) -> Result<Response, RpcError> {
    if request.method() != Method::POST {
        return Ok(reply::not_allowed("POST, OPTIONS"));
    }
    let caller = match HttpCaller::authenticate(gateway, address, request.headers()).await? {
        Authenticated::Caller(caller) => caller,
        Authenticated::InvalidToken => return Ok(invalid_token()),
    };
    let body = match collect(request.into_body(), most_bytes(gateway, &caller)).await {
        Ok(body) => body,
        Err(reason) => return Ok(reply::body_refused(reason)),
    };
    // In a task of its own, because a call is finished although its client leaves.
    let called = gateway.clone();
    let answering = async move { RpcAnswers::to(&called, &caller, &body).await };
    match gateway.tracker.spawn(answering).await {
        Ok(answers) => Ok(answers.response()),
        Err(ended) => Err(RpcError::internal(ended)),
    }
}

fn most_bytes(gateway: &GatewayState, caller: &HttpCaller) -> usize {
    let frame = gateway.config.limits.frame_bytes;
    if caller.is_agent() { frame } else { frame.min(UNAUTHENTICATED_BYTES) }
}

async fn collect(body: Incoming, most_bytes: usize) -> Result<Bytes, BodyRefused> {
    if body.size_hint().lower() > most_bytes as u64 {
        return Err(BodyRefused::TooLarge);
    }
    let (body, watch) = RequestBody::new(body, most_bytes, BODY_TIMEOUT);
    match timeout(BODY_TIMEOUT, body.collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(_)) | Err(_) => Err(watch.refused().unwrap_or(BodyRefused::TooSlow)),
    }
}

fn invalid_token() -> Response {
    let error = RpcError::plain(codes::TOKEN_INVALID);
    let response = json_text(StatusCode::UNAUTHORIZED, frame::failure(None, &error));
    with_header(response, WWW_AUTHENTICATE, "Bearer error=\"invalid_token\"")
}

/// What a body is answered with.
struct RpcAnswers {
    is_batch: bool,
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
            return RpcAnswers { is_batch: false, answers: vec![RpcAnswer::failure(None, &error)] };
        };
        match frame::read(text) {
            Ok(RequestFrame::One(request)) => {
                RpcAnswers { is_batch: false, answers: vec![RpcAnswer::to(gateway, caller, &request).await] }
            }
            Ok(RequestFrame::Batch(members)) if caller.is_agent() => {
                let answers = members.iter().map(|member| RpcAnswer::to_member(gateway, caller, member));
                RpcAnswers { is_batch: true, answers: join_all(answers).await }
            }
            Ok(RequestFrame::Batch(_)) => {
                let sentence = "arrays are accepted with a token only";
                let error = RpcError::new(codes::INVALID_REQUEST, sentence);
                RpcAnswers { is_batch: false, answers: vec![RpcAnswer::failure(None, &error)] }
            }
            Err(InvalidRequest { id, error }) => {
                RpcAnswers { is_batch: false, answers: vec![RpcAnswer::failure(id.as_deref(), &error)] }
            }
        }
    }

    /// An array is 429 only if nothing in it was done.
    fn response(self) -> Response {
        let soonest = self.answers.iter().map(|answer| answer.retry_after).collect::<Option<Vec<_>>>();
        let retry_after = soonest.and_then(|waits| waits.into_iter().max());
        let texts: Vec<String> = self.answers.into_iter().filter_map(|answer| answer.text).collect();
        let status = match (retry_after, texts.is_empty()) {
            (Some(_), _) => StatusCode::TOO_MANY_REQUESTS,
            (None, true) => StatusCode::NO_CONTENT,
            (None, false) => StatusCode::OK,
        };
        let body = if self.is_batch && !texts.is_empty() {
            format!("[{}]", texts.join(","))
        } else {
            texts.concat()
        };
        let response = json_text(status, body);
        match retry_after {
            Some(seconds) => with_header(response, RETRY_AFTER, &seconds.to_string()),
            None => response,
        }
    }
}

impl RpcAnswer {
    async fn to_member(
        gateway: &GatewayState,
        caller: &HttpCaller,
        member: &Result<RpcRequest<'_>, InvalidRequest>,
    ) -> RpcAnswer {
        match member {
            Ok(request) => RpcAnswer::to(gateway, caller, request).await,
            Err(invalid) => RpcAnswer::failure(invalid.id.as_deref(), &invalid.error),
        }
    }

    async fn to(gateway: &GatewayState, caller: &HttpCaller, request: &RpcRequest<'_>) -> RpcAnswer {
        let (started, limit) = (Instant::now(), gateway.call_timeout());
        let params = request.params.filter(|_| caller.is_agent());
        let traced = params.and_then(|params| trace::requested(params, &gateway.clock));
        let route = traced.as_ref().and_then(|call| call.begin_at("gateway", "route", started));
        let span = trace::span(&request.method, traced.as_deref());
        let call = catch_panic_of(&request.method, call(gateway, caller, request, traced.clone()));
        let outcome = timeout(limit, call).instrument(span).await;
        let outcome = outcome.unwrap_or_else(|_| Err(timed_out(&request.method, limit)));

        let method = gateway.metrics.method(&request.method);
        let code = outcome.as_ref().err().map_or(0, RpcError::code);
        gateway.metrics.answered(method, code, started.elapsed().as_secs_f64());
        if let Err(error) = &outcome {
            error.log(method.name);
        }
        let retry_after = outcome.as_ref().err().and_then(RpcError::retry_after_seconds);
        drop(route);
        let text = request.id.map(|id| {
            let answer = frame::answer(id.get(), outcome.as_ref().map(|result| result.get()));
            trace::with_spans(answer, traced.as_deref())
        });
        RpcAnswer { text, retry_after }
    }

    fn failure(id: Option<&RawValue>, error: &RpcError) -> RpcAnswer {
        RpcAnswer { text: Some(frame::failure(id, error)), retry_after: None }
    }
}

/// Admission, and then the gateway itself or a service.
async fn call(
    gateway: &GatewayState,
    caller: &HttpCaller,
    request: &RpcRequest<'_>,
    trace: Option<Arc<TracedCall>>,
) -> Result<Box<RawValue>, RpcError> {
    let admitting = trace.as_ref().and_then(|call| call.begin("gateway", "admit"));
    let (admission, source) = (&gateway.admission, caller.source());
    let method = admission.begin(&source, &request.method)?;
    let given = request.params.map(ToOwned::to_owned);
    let AdmittedCall { params, claim } = admission.finish(&source, method, given).await?;
    drop(admitting);
    let answered = call_admitted(gateway, caller, method.name, params, trace).await;
    admission.answered(&source, method, answered.as_deref());
    if let Some(claim) = claim {
        claim.ended(&answered);
    }
    answered
}

async fn call_admitted(
    gateway: &GatewayState,
    caller: &HttpCaller,
    method: &'static str,
    params: Option<Box<RawValue>>,
    trace: Option<Arc<TracedCall>>,
) -> Result<Box<RawValue>, RpcError> {
    let text = match method {
        "meta.ping" => format!("{{\"pong\":true,\"timestamp\":{}}}", gateway.clock.now_seconds()),
        "meta.capabilities" => gateway.admission.capabilities().to_string(),
        "rpc.discover" => gateway.admission.openrpc().to_string(),
        "meta.trust_roots" => {
            return gateway.mesh.call(Caller::service("gateway"), ca::GetTrustRoots::METHOD, None).await;
        }
        name => {
            let within = gateway.call_timeout();
            return gateway.mesh.call_within(caller.caller(trace), name, params, within).await;
        }
    };
    RawValue::from_string(text).map_err(RpcError::internal)
}
