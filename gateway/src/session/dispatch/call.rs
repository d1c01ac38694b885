//! Calls that need a task: each outlives the frame it came in, and a batch of them is answered together.

use super::answer::{CallFrames, EndedCall};
use super::in_flight::InFlight;
use super::{Handled, builtin};
use crate::connection::Connection;
use crate::frame::{self, InvalidRequest, RpcRequest};
use crate::gateway::GatewayState;
use crate::trace;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use proto_schemas::requests::ca;
use proto_schemas::{Method, Request as _};
use serde_json::value::RawValue;
use services::kernel::{Answer, Caller, RpcError, Session, TracedCall, catch_panic_of, codes, timed_out};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tracing::Instrument as _;

/// Runs a service's method in a task of its own; the answer goes to the outbox.
pub fn spawn(
    gateway: &Arc<GatewayState>,
    connection: &Arc<Connection>,
    method: &'static Method,
    request: &RpcRequest<'_>,
) {
    if connection.drains.load(Ordering::Relaxed) {
        let error = RpcError::new(codes::SERVICE_STOPPING, "the server is stopping, try again in a moment");
        if let Some(id) = request.id {
            connection.outbox.push(frame::failure(Some(id), &error).into());
        }
        return;
    }
    let call = SpawnedCall::new(request);
    let guard = InFlight::new(gateway, connection);
    let gateway = gateway.clone();
    let tracker = gateway.tracker.clone();
    let mut answering = Box::pin(async move {
        call.run(&gateway, &guard.connection, method).await.push(&guard.connection);
    });
    // Polled once here, so that the calls of one connection begin in the order of their frames: a message is in the queue
    // of its commit before the next frame is read.
    if (&mut answering).now_or_never().is_none() {
        tracker.spawn(answering);
    }
}

/// A batch is one task: its members run concurrently, and their answers are sent together.
pub fn spawn_batch(
    gateway: &Arc<GatewayState>,
    connection: &Arc<Connection>,
    members: Vec<Result<RpcRequest<'_>, InvalidRequest>>,
) {
    let members: Vec<Result<SpawnedCall, InvalidRequest>> =
        members.into_iter().map(|member| member.map(|r| SpawnedCall::new(&r))).collect();
    let guard = InFlight::new(gateway, connection);
    let gateway = gateway.clone();
    gateway.tracker.clone().spawn(async move {
        let connection = &*guard.connection;
        let answers = join_all(members.into_iter().map(|member| {
            let gateway = &gateway;
            async move {
                match member {
                    Ok(call) => call.run_any(gateway, connection).await,
                    Err(invalid) => CallFrames {
                        answer: Some(frame::failure(invalid.id.as_deref(), &invalid.error)),
                        after: None,
                    },
                }
            }
        }));
        let frames = answers.await;
        let (answers, after): (Vec<_>, Vec<_>) = frames.into_iter().map(|f| (f.answer, f.after)).unzip();
        let answers: Vec<String> = answers.into_iter().flatten().collect();
        if !answers.is_empty() {
            connection.outbox.push(format!("[{}]", answers.join(",")).into());
        }
        for event in after.into_iter().flatten() {
            event.push(connection);
        }
    });
}

/// A request that outlives the frame it came in.
struct SpawnedCall {
    id: Option<Box<RawValue>>,
    method: String,
    params: Option<Box<RawValue>>,
    started: Instant,
}

impl SpawnedCall {
    fn new(request: &RpcRequest<'_>) -> SpawnedCall {
        SpawnedCall {
            id: request.id.map(ToOwned::to_owned),
            method: request.method.clone().into_owned(),
            params: request.params.map(ToOwned::to_owned),
            started: Instant::now(),
        }
    }

    /// A member of a batch may be anything, also what the gateway answers itself.
    async fn run_any(self, gateway: &GatewayState, connection: &Connection) -> CallFrames {
        let request = RpcRequest {
            id: self.id.as_deref(),
            method: self.method.as_str().into(),
            params: self.params.as_deref(),
        };
        let Some(open) = connection.session() else { return CallFrames::default() };
        match builtin::answer(gateway, connection, open, &request, self.started) {
            Handled::Now(answer) => CallFrames { answer, after: None },
            Handled::NeedsTask(method) => self.run(gateway, connection, method).await,
            Handled::Routed => CallFrames::default(),
        }
    }

    async fn run(
        self,
        gateway: &GatewayState,
        connection: &Connection,
        found: &'static Method,
    ) -> CallFrames {
        let method = gateway.metrics.method_at(found.position);
        let limit = gateway.call_timeout();
        let traced = self.params.as_deref().and_then(|params| trace::requested(params, &gateway.clock));
        let route = traced.as_ref().and_then(|call| call.begin_at("gateway", "route", self.started));
        let span = trace::span(&self.method, traced.as_deref());
        let call = call_service(gateway, connection, found, self.params, traced.clone());
        let call = tokio::time::timeout(limit, catch_panic_of(&self.method, call));
        let result = call.instrument(span.clone()).await;
        let result = result.unwrap_or_else(|_| Err(timed_out(&self.method, limit)));
        let id = self.id.as_deref().map(RawValue::get);
        let ended = EndedCall::now(&gateway.metrics, method, id, self.started);
        let mut frames = span.in_scope(|| CallFrames::of(&ended, result.as_ref().map(Answer::as_ref)));
        drop(route);
        frames.answer = frames.answer.map(|answer| trace::with_spans(answer, traced.as_deref()));
        frames
    }
}

/// The remaining steps of admission, then the service.
async fn call_service(
    gateway: &GatewayState,
    connection: &Connection,
    method: &'static Method,
    params: Option<Box<RawValue>>,
    trace: Option<Arc<TracedCall>>,
) -> Result<Answer, RpcError> {
    let admitting = trace.as_ref().and_then(|call| call.begin("gateway", "admit"));
    let admission = &gateway.admission;
    let Some(open) = connection.session() else { return Err(RpcError::plain(codes::UNAUTHENTICATED)) };
    let params = admission.finish(&open.source(), method, params).await?;
    drop(admitting);
    // A signed call gets a task whatever its method is.
    let request = RpcRequest { id: None, method: method.name.into(), params: params.as_deref() };
    if let Some(result) = builtin::result(gateway, connection, open, &request)? {
        return RawValue::from_string(result).map(Into::into).map_err(RpcError::internal);
    }
    if method.name == "meta.trust_roots" {
        let roots = gateway.mesh.call(Caller::service("gateway"), ca::GetTrustRoots::METHOD, None).await?;
        return Ok(roots.into());
    }
    let caller = Caller::Agent(Session { trace, ..open.session.clone() });
    gateway.mesh.begin(caller, method.name, params.as_deref(), gateway.call_timeout())?.await
}
