//! Calls that need a service: each outlives the frame it came in, and a batch of them is answered together.

use super::answer::{Answering, Frames};
use super::unauthenticated::within_rate;
use super::{Answer, call_limit, callable, here, known_here};
use crate::frame::{self, Refusal, Request};
use crate::gateway::Gateway;
use crate::session::Link;
use crate::{params, signature, trace};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use serde_json::value::RawValue;
use services::kernel::{Caller, RpcError, Session, Trace, catch_panic_of, codes, timed_out};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tracing::Instrument as _;

/// Runs a service's method in a task of its own; the answer goes to the outbox.
pub fn spawn(gateway: &Arc<Gateway>, link: &Arc<Link>, request: &Request<'_>) {
    if link.leaves.load(Ordering::Relaxed) {
        let error = RpcError::new(codes::SERVICE_STOPPING, "the server is stopping, ask again in a moment");
        if let Some(id) = request.id {
            link.outbox.push(frame::failure(Some(id), &error).into());
        }
        return;
    }
    let call = Call::new(request);
    let guard = InFlight::new(gateway, link);
    let gateway = gateway.clone();
    let tracker = gateway.tracker.clone();
    let mut answering = Box::pin(async move {
        call.run(&gateway, &guard.link).await.push(&guard.link);
    });
    // Begun here and now, so that what one connection asks is begun in the order it was asked; a message is in the
    // queue of its commit before the next frame is read.
    if (&mut answering).now_or_never().is_none() {
        tracker.spawn(answering);
    }
}

/// A batch is one task: its members run side by side, and their answers leave together.
pub fn spawn_batch(gateway: &Arc<Gateway>, link: &Arc<Link>, members: Vec<Result<Request<'_>, Refusal>>) {
    let members: Vec<Result<Call, Refusal>> =
        members.into_iter().map(|member| member.map(|r| Call::new(&r))).collect();
    let guard = InFlight::new(gateway, link);
    let gateway = gateway.clone();
    gateway.tracker.clone().spawn(async move {
        let link = &*guard.link;
        let answers = join_all(members.into_iter().map(|member| {
            let gateway = &gateway;
            async move {
                match member {
                    Ok(call) => call.run_any(gateway, link).await,
                    Err(refusal) => Frames {
                        answer: Some(frame::failure(refusal.id.as_deref(), &refusal.error)),
                        after: None,
                    },
                }
            }
        }));
        let frames = answers.await;
        let (answers, after): (Vec<_>, Vec<_>) = frames.into_iter().map(|f| (f.answer, f.after)).unzip();
        let answers: Vec<String> = answers.into_iter().flatten().collect();
        if !answers.is_empty() {
            link.outbox.push(format!("[{}]", answers.join(",")).into());
        }
        for event in after.into_iter().flatten().filter(|_| link.is_long()) {
            link.outbox.push(event.into());
        }
    });
}

/// Counts a call as under way until it is dropped, however it ends.
pub(super) struct InFlight {
    pub link: Arc<Link>,
    limit: u32,
}

impl InFlight {
    pub fn new(gateway: &Gateway, link: &Arc<Link>) -> InFlight {
        link.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight { link: link.clone(), limit: gateway.config.limits.in_flight }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let before = self.link.in_flight.fetch_sub(1, Ordering::Relaxed);
        // Nobody reads a connection that has reached its limit: that can begin again.
        if before >= self.limit {
            self.link.outbox.nudge();
        }
    }
}

/// A request that outlives the frame it came in.
struct Call {
    id: Option<Box<RawValue>>,
    method: String,
    params: Option<Box<RawValue>>,
    started: Instant,
}

impl Call {
    fn new(request: &Request<'_>) -> Call {
        Call {
            id: request.id.map(ToOwned::to_owned),
            method: request.method.clone().into_owned(),
            params: request.params.map(ToOwned::to_owned),
            started: Instant::now(),
        }
    }

    /// A member of a batch may be anything, also what the gateway answers itself.
    async fn run_any(self, gateway: &Gateway, link: &Link) -> Frames {
        let request = Request {
            id: self.id.as_deref(),
            method: self.method.as_str().into(),
            params: self.params.as_deref(),
        };
        let Some(bound) = link.bound() else { return Frames::default() };
        let signed = request.params.is_some_and(signature::is_signed);
        match here(gateway, link, bound, &request, self.started, signed) {
            Answer::Now(answer) => Frames { answer, after: None },
            Answer::Later | Answer::Elsewhere => self.run(gateway, link).await,
        }
    }

    async fn run(self, gateway: &Gateway, link: &Link) -> Frames {
        let method = gateway.metrics.method(&self.method);
        let limit = call_limit(gateway);
        let trace = self.params.as_deref().and_then(trace::asked);
        let span = trace::span(&self.method, trace.as_ref());
        let call = ask_service(gateway, link, &self.method, self.params, trace.clone());
        let call = tokio::time::timeout(limit, catch_panic_of(&self.method, call));
        let result = call.instrument(span.clone()).await;
        let result = result.unwrap_or_else(|_| Err(timed_out(&self.method, limit)));
        let id = self.id.as_deref().map(RawValue::get);
        let answering = Answering::now(&gateway.metrics, method, id, self.started);
        let mut frames =
            span.in_scope(|| Frames::of(&answering, result.as_ref().map(services::kernel::Answer::as_ref)));
        frames.answer = frames
            .answer
            .map(|answer| trace::told(answer, trace.as_ref(), method.name, gateway, self.started));
        frames
    }
}

async fn ask_service(
    gateway: &Gateway,
    link: &Link,
    method: &str,
    params: Option<Box<RawValue>>,
    trace: Option<Trace>,
) -> Result<services::kernel::Answer, RpcError> {
    let Some(bound) = link.bound() else { return Err(RpcError::plain(codes::UNAUTHENTICATED)) };
    let params = params::clean(params)?;
    if let Some(params) = params.as_deref().filter(|params| signature::is_signed(params)) {
        // Boxed, so that a call without a signature does not carry the weight of one.
        Box::pin(signature::check(gateway, bound, method, params)).await?;
    }
    // A signed call comes here whatever it asks for.
    let request = Request { id: None, method: method.into(), params: params.as_deref() };
    if let Some(result) = known_here(gateway, link, bound, &request)? {
        return RawValue::from_string(result).map(Into::into).map_err(RpcError::internal);
    }
    within_rate(gateway, link.address, callable(gateway, method)?, params.as_deref()).await?;
    if method == "meta.trust_roots" {
        let roots = gateway.mesh.call(Caller::service("gateway"), "ca.get_trust_roots", None).await?;
        return Ok(roots.into());
    }
    let session = Session { trace, ..bound.session.clone() };
    let within = call_limit(gateway);
    gateway.mesh.begin(Caller::Agent(session), method, params.as_deref(), within)?.await
}
