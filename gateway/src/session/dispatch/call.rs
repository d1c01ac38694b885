//! Calls that need a task: each outlives the frame it came in.

use super::answer::{CallFrames, EndedCall};
use super::in_flight::InFlight;
use super::{Handled, builtin};
use crate::admission::{AdmittedCall, Call};
use crate::connection::{Connection, OpenSession};
use crate::frame::{self, RpcRequest};
use crate::gateway::GatewayState;
use crate::trace;
use futures_util::FutureExt as _;
use kernel::{Answer, Caller, CallingAgent, RpcError, TracedCall, catch_panic_of, codes, timed_out};
use proto_schemas::requests::ca;
use proto_schemas::{Method, Request as _};
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
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

/// A request that outlives the frame it came in.
pub(super) struct SpawnedCall {
    id: Option<Box<RawValue>>,
    method: String,
    params: Option<Box<RawValue>>,
    started: Instant,
}

impl SpawnedCall {
    pub fn new(request: &RpcRequest<'_>) -> SpawnedCall {
        SpawnedCall {
            id: request.id.map(ToOwned::to_owned),
            method: request.method.clone().into_owned(),
            params: request.params.map(ToOwned::to_owned),
            started: Instant::now(),
        }
    }

    /// A member of a batch may be anything, also what the gateway answers itself.
    pub async fn run_any(self, gateway: &GatewayState, connection: &Connection) -> CallFrames {
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
    let source = open.source();
    let call = Call::named(&source, method.name, params.map(Cow::Owned));
    let AdmittedCall { params, claim, .. } = admission.finish(call, method).await?;
    drop(admitting);
    let answered = call_admitted(gateway, connection, open, method, params.as_deref(), trace).await;
    admission.ended(&source, method, claim, answered.as_ref().map(|answer| answer.as_ref().result));
    answered
}

/// What the gateway answers itself, or a service.
async fn call_admitted(
    gateway: &GatewayState,
    connection: &Connection,
    open: &OpenSession,
    method: &'static Method,
    params: Option<&RawValue>,
    trace: Option<Arc<TracedCall>>,
) -> Result<Answer, RpcError> {
    // A signed call gets a task whatever its method is.
    let request = RpcRequest { id: None, method: method.name.into(), params };
    if let Some(result) = builtin::result(gateway, connection, open, &request)? {
        return RawValue::from_string(result).map(Into::into).map_err(RpcError::internal);
    }
    if method.name == "meta.trust_roots" {
        let roots = gateway.mesh.call(Caller::service("gateway"), ca::GetTrustRoots::METHOD, None).await?;
        return Ok(roots.into());
    }
    if method.name == "meta.account" {
        let account = gateway.agent_account(&open.session.aid).await?;
        return to_raw_value(&account).map(Into::into).map_err(RpcError::internal);
    }
    let caller = Caller::Agent(CallingAgent { trace, ..open.session.clone() });
    gateway.mesh.begin(caller, method.name, params, gateway.call_timeout())?.await
}
