//! One request: may this socket call it, is its tag on, is it within limits; then the service, then the answer.

mod answer;
mod call;
mod unauthenticated;

pub use call::{spawn, spawn_batch};
pub use unauthenticated::unauthenticated_call;

use crate::frame::{self, Request};
use crate::gateway::Gateway;
use crate::session::{Bound, Link};
use crate::{limits, notify, params, signature};
use answer::{Answering, Frames, Id};
use call::InFlight;
use proto_schemas::{Access, Method, Rate};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use services::kernel::{CallTerm, RpcError, codes, timed_out, unavailable};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What a frame gets in the socket's own task.
pub enum Answer {
    /// This text, or nothing for a notification.
    Now(Option<String>),
    /// Another process was asked, and whoever hears its answer puts it into the outbox.
    Elsewhere,
    /// It needs a service: somebody else answers through the outbox.
    Later,
}

/// Answers what the gateway knows by itself, without a task and almost without allocating; and sends on what another process
/// answers.
///
/// What is read in one turn began together, as far as anybody measures it.
pub fn at_once(
    gateway: &Gateway,
    link: &Arc<Link>,
    request: &Request<'_>,
    turn: &mut Option<Instant>,
) -> Answer {
    let Some(bound) = link.bound() else { return Answer::Now(None) };
    if request.method == "meta.ping" && request.params.is_none_or(|params| params.get() == "{}") {
        return Answer::Now(ping(gateway, bound, request.id));
    }
    let started = *turn.get_or_insert_with(Instant::now);
    let signed = request.params.is_some_and(signature::is_signed);
    match here(gateway, link, bound, request, started, signed) {
        Answer::Later if !signed && routed(gateway, link, bound, request, started) => Answer::Elsewhere,
        answer => answer,
    }
}

fn here(
    gateway: &Gateway,
    link: &Link,
    bound: &Bound,
    request: &Request<'_>,
    started: Instant,
    signed: bool,
) -> Answer {
    let result = match limits::call(&bound.limit) {
        Ok(()) if signed => return Answer::Later,
        Ok(()) => match known_here(gateway, link, bound, request) {
            Ok(None) => return Answer::Later,
            Ok(Some(result)) => Ok(result),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    let method = gateway.metrics.method(&request.method);
    let id = request.id.map(RawValue::get);
    Answer::Now(Answering::now(&gateway.metrics, method, id, started).finish(result.as_deref()))
}

/// Hands a plain call to the process that has its service, and says whether it did. Nobody waits for the answer: whoever reads
/// it from the other process puts it into the outbox. What has to be checked or changed first, like what is signed, goes the
/// long way.
fn routed(
    gateway: &Gateway,
    link: &Arc<Link>,
    bound: &Bound,
    request: &Request<'_>,
    started: Instant,
) -> bool {
    let plain = |params: &RawValue| !params::may_hold(params, "\"_");
    let counted = gateway.metrics.method(&request.method);
    let (Some(method), place) = (counted.schema, counted.place) else { return false };
    let callable = method.access != Access::Internal
        && !method.notification
        && matches!(method.rate, Rate::Call | Rate::Ping)
        && gateway.capabilities.allows(method.name);
    if !callable || !request.params.is_none_or(plain) || link.leaves.load(Ordering::Relaxed) {
        return false;
    }
    let term = CallTerm { began: started, within: call_limit(gateway) };
    gateway.mesh.send(&bound.session, method.name, request.params, term, || {
        let (guard, id) = (InFlight::new(gateway, link), request.id.map(|id| Id::new(id.get())));
        Box::new(move |outcome, now| {
            let outcome = outcome.map_err(|error| in_our_words(error, method.name, term.within));
            // Everything an answer needs hangs on its connection: a count of who holds the gateway would be everybody's.
            let metrics = guard.link.outbox.metrics();
            let method = metrics.method_at(place);
            let answering = Answering { metrics, method, id: id.as_ref().map(Id::get), started, now };
            Frames::of(&answering, outcome.as_ref().copied()).push(&guard.link);
        })
    })
}

/// The same sentence from near and far.
fn in_our_words(error: RpcError, method: &str, within: Duration) -> RpcError {
    let late = error.data("kind").is_some_and(|kind| kind == codes::HANDLER_TIMEOUT.kind().as_str());
    if late { timed_out(method, within) } else { error }
}

fn call_limit(gateway: &Gateway) -> Duration {
    Duration::from_millis(gateway.config.limits.call_timeout_ms)
}

/// The result, `None` if a service has to be asked, or the refusal. A notification's result goes nowhere.
fn known_here(
    gateway: &Gateway,
    link: &Link,
    bound: &Bound,
    request: &Request<'_>,
) -> Result<Option<String>, RpcError> {
    match &*request.method {
        "meta.ping" => Ok(Some(format!("{{\"pong\":true,\"timestamp\":{}}}", gateway.clock.now_seconds()))),
        "meta.status" => Ok(Some(status(bound))),
        "meta.capabilities" => capabilities(gateway, link, request).map(Some),
        "rpc.discover" => Ok(Some(gateway.told().openrpc.to_string())),
        "auth.connect" => Err(RpcError::new(codes::INVALID_REQUEST, "this connection is logged in already")),
        "notification/route" => notify::route(gateway, bound, request).map(|()| Some("null".to_owned())),
        _ => Ok(None),
    }
}

/// The most frequent call of all, in its usual form: one allocation, no look-up, and no time worth measuring.
fn ping(gateway: &Gateway, bound: &Bound, id: Option<&RawValue>) -> Option<String> {
    let metrics = &gateway.metrics;
    if let Err(error) = limits::call(&bound.limit) {
        let method = metrics.method("meta.ping");
        let answering = Answering::now(metrics, method, id.map(RawValue::get), Instant::now());
        return answering.finish(Err(&error));
    }
    metrics.pings.inc();
    Some(frame::pong(id?, gateway.clock.now_seconds()))
}

fn status(bound: &Bound) -> String {
    json!({
        "mode": "gateway",
        "aid": bound.session.aid,
        "role": "user",
        "connected_at": bound.session.connected_at_ms,
        "protocol_version": "1.0",
        "device_id": bound.session.device,
        "slot_id": bound.session.slot,
    })
    .to_string()
}

fn capabilities(gateway: &Gateway, link: &Link, request: &Request<'_>) -> Result<String, RpcError> {
    #[derive(Deserialize, Default)]
    struct Params {
        #[serde(default)]
        subscribe: Option<bool>,
    }
    let params: Params = params::parse(request.params)?;
    if let Some(subscribe) = params.subscribe {
        link.wants_capabilities.store(subscribe, Ordering::Relaxed);
    }
    Ok(gateway.capabilities.text().to_string())
}

/// Unknown, internal and switched-off methods are the same to a client: they are not there.
fn callable(gateway: &Gateway, name: &str) -> Result<&'static Method, RpcError> {
    let method =
        proto_schemas::find(name).filter(|method| method.access.is_for_agents() && !method.notification);
    let namespace = name.split('.').next().unwrap_or_default();
    // Its process is down: that is not the same as not being there, and the client may ask again.
    if method.is_some() && gateway.mesh.knows(namespace) && !gateway.mesh.has(namespace) {
        return Err(unavailable(namespace));
    }
    let Some(allowed) = method.filter(|method| gateway.capabilities.allows(method.name)) else {
        // The same if it is another process that it cannot do without, or one that has come back this very moment.
        let down = gateway.mesh.health().into_iter().find(|(_, up)| !up).map(|(namespace, _)| namespace);
        let missing = down.or_else(|| gateway.mesh.knows(namespace).then_some(namespace));
        if let (Some(_), Some(namespace)) = (method, missing) {
            return Err(unavailable(namespace));
        }
        let name: String = name.chars().take(80).collect();
        return Err(RpcError::new(codes::METHOD_NOT_FOUND, format!("there is no method {name}")));
    };
    Ok(allowed)
}
