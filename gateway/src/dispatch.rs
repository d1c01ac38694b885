//! One request: may this socket call it, is its tag on, is it within limits; then the room, then the answer.

use crate::door::Door;
use crate::frame::{self, Refusal, Request};
use crate::session::{Bound, Link};
use crate::telemetry::{MethodMetrics, Metrics};
use crate::{limits, notify, params, signature, trace};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use proto_schemas::{Access, Method, Rate};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use services::kernel::{Aid, Caller, RpcError, Session, Term, Trace, codes, timed_out, unavailable};
use std::borrow::Cow;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tracing::Instrument as _;

/// What a frame gets in the socket's own task.
pub enum Answer {
    /// This text, or nothing for a notification.
    Now(Option<String>),
    /// Another process was asked, and whoever hears its answer puts it into the outbox.
    Elsewhere,
    /// It needs a room: somebody else answers through the outbox.
    Later,
}

/// Answers what the door knows by itself, without a task and almost without allocating; and sends on what another process
/// answers.
///
/// What is read in one turn began together, as far as anybody measures it.
pub fn at_once(
    door: &Door,
    link: &Arc<Link>,
    request: &Request<'_>,
    turn: &mut Option<Instant>,
) -> Answer {
    let Some(bound) = link.bound() else { return Answer::Now(None) };
    if request.method == "meta.ping" && request.params.is_none_or(|params| params.get() == "{}") {
        return Answer::Now(ping(door, bound, request.id));
    }
    let started = *turn.get_or_insert_with(Instant::now);
    match here(door, link, bound, request, started) {
        Answer::Later if routed(door, link, bound, request, started) => Answer::Elsewhere,
        answer => answer,
    }
}

fn here(door: &Door, link: &Link, bound: &Bound, request: &Request<'_>, started: Instant) -> Answer {
    let signed = request.params.is_some_and(signature::is_signed);
    let result = match limits::call(&bound.limit) {
        Ok(()) if signed => return Answer::Later,
        Ok(()) => match known_here(door, link, bound, request) {
            Ok(None) => return Answer::Later,
            Ok(Some(result)) => Ok(result),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    let method = door.metrics.method(&request.method);
    let id = request.id.map(RawValue::get);
    Answer::Now(Answering::now(&door.metrics, method, id, started).finish(result.as_deref()))
}

/// Hands a plain call to the process that has its room, and says whether it did. Nobody waits for the answer: whoever reads
/// it from the other process puts it into the outbox. What has to be checked or changed first goes the long way.
fn routed(door: &Door, link: &Arc<Link>, bound: &Bound, request: &Request<'_>, started: Instant) -> bool {
    let plain = |params: &RawValue| !params::may_hold(params, "\"_") && !signature::is_signed(params);
    let counted = door.metrics.method(&request.method);
    let (Some(method), place) = (counted.schema, counted.place) else { return false };
    let callable = method.access != Access::Internal
        && !method.notification
        && matches!(method.rate, Rate::Call | Rate::Ping)
        && door.capabilities.allows(method.name);
    if !callable || !request.params.is_none_or(plain) || link.leaves.load(Ordering::Relaxed) {
        return false;
    }
    let term = Term { began: started, within: call_limit(door) };
    door.mesh.send(&bound.session, method.name, request.params, term, || {
        let (guard, id) = (InFlight::new(door, link), request.id.map(|id| Id::new(id.get())));
        Box::new(move |outcome, now| {
            let outcome = outcome.map_err(|error| in_our_words(error, method.name, term.within));
            // Everything an answer needs hangs on its connection: a count of who holds the door would be everybody's.
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

fn call_limit(door: &Door) -> Duration {
    Duration::from_millis(door.config.limits.call_timeout_ms)
}

/// The result, `None` if a room has to be asked, or the refusal. A notification's result goes nowhere.
fn known_here(
    door: &Door,
    link: &Link,
    bound: &Bound,
    request: &Request<'_>,
) -> Result<Option<String>, RpcError> {
    match &*request.method {
        "meta.ping" => Ok(Some(format!("{{\"pong\":true,\"timestamp\":{}}}", door.clock.now_seconds()))),
        "meta.status" => Ok(Some(status(bound))),
        "meta.capabilities" => capabilities(door, link, request).map(Some),
        "rpc.discover" => Ok(Some(door.told().openrpc.to_string())),
        "auth.connect" => Err(RpcError::new(codes::INVALID_REQUEST, "this connection is logged in already")),
        "notification/route" => notify::route(door, bound, request).map(|()| Some("null".to_owned())),
        _ => Ok(None),
    }
}

/// The most frequent call of all, in its usual form: one allocation, no look-up, and no time worth measuring.
fn ping(door: &Door, bound: &Bound, id: Option<&RawValue>) -> Option<String> {
    let metrics = &door.metrics;
    if let Err(error) = limits::call(&bound.limit) {
        let method = metrics.method("meta.ping");
        let answering = Answering::now(metrics, method, id.map(RawValue::get), Instant::now());
        return answering.finish(Err(&error));
    }
    metrics.pings.inc();
    Some(frame::pong(id?, door.clock.now_seconds()))
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

fn capabilities(door: &Door, link: &Link, request: &Request<'_>) -> Result<String, RpcError> {
    #[derive(Deserialize, Default)]
    struct Params {
        #[serde(default)]
        subscribe: Option<bool>,
    }
    let params: Params = params::parse(request.params)?;
    if let Some(subscribe) = params.subscribe {
        link.wants_capabilities.store(subscribe, Ordering::Relaxed);
    }
    Ok(door.capabilities.text().to_string())
}

/// Unknown, internal and switched-off methods are the same to a client: they are not there.
fn callable(door: &Door, name: &str) -> Result<&'static Method, RpcError> {
    let method =
        proto_schemas::find(name).filter(|method| method.access.is_for_agents() && !method.notification);
    let namespace = name.split('.').next().unwrap_or_default();
    // Its process is down: that is not the same as not being there, and the client may ask again.
    if method.is_some() && door.mesh.knows(namespace) && !door.mesh.has(namespace) {
        return Err(unavailable(namespace));
    }
    let Some(allowed) = method.filter(|method| door.capabilities.allows(method.name)) else {
        // The same if it is another process that it cannot do without, or one that has come back this very moment.
        let down = door.mesh.health().into_iter().find(|(_, up)| !up).map(|(namespace, _)| namespace);
        let missing = down.or_else(|| door.mesh.knows(namespace).then_some(namespace));
        if let (Some(_), Some(namespace)) = (method, missing) {
            return Err(unavailable(namespace));
        }
        let name: String = name.chars().take(80).collect();
        return Err(RpcError::new(codes::METHOD_NOT_FOUND, format!("there is no method {name}")));
    };
    Ok(allowed)
}

/// Runs a room's method in a task of its own; the answer goes to the outbox.
pub fn spawn(door: &Arc<Door>, link: &Arc<Link>, request: &Request<'_>) {
    if link.leaves.load(Ordering::Relaxed) {
        let error = RpcError::new(codes::SERVICE_STOPPING, "the server is stopping, ask again in a moment");
        if let Some(id) = request.id {
            link.outbox.push(frame::failure(Some(id), &error).into());
        }
        return;
    }
    let call = Call::new(request);
    let guard = InFlight::new(door, link);
    let door = door.clone();
    let tracker = door.tracker.clone();
    let mut answering = Box::pin(async move {
        call.run(&door, &guard.link).await.push(&guard.link);
    });
    // Begun here and now, so that what one connection asks is begun in the order it was asked; a letter is in the
    // queue of its commit before the next frame is read.
    if (&mut answering).now_or_never().is_none() {
        tracker.spawn(answering);
    }
}

/// A batch is one task: its members run side by side, and their answers leave together.
pub fn spawn_batch(door: &Arc<Door>, link: &Arc<Link>, members: Vec<Result<Request<'_>, Refusal>>) {
    let members: Vec<Result<Call, Refusal>> =
        members.into_iter().map(|member| member.map(|r| Call::new(&r))).collect();
    let guard = InFlight::new(door, link);
    let door = door.clone();
    door.tracker.clone().spawn(async move {
        let link = &*guard.link;
        let answers = join_all(members.into_iter().map(|member| {
            let door = &door;
            async move {
                match member {
                    Ok(call) => call.run_any(door, link).await,
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
struct InFlight {
    link: Arc<Link>,
    limit: u32,
}

impl InFlight {
    fn new(door: &Door, link: &Arc<Link>) -> InFlight {
        link.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight { link: link.clone(), limit: door.config.limits.in_flight }
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

    /// A member of a batch may be anything, also what the door answers itself.
    async fn run_any(self, door: &Door, link: &Link) -> Frames {
        let request = Request {
            id: self.id.as_deref(),
            method: self.method.as_str().into(),
            params: self.params.as_deref(),
        };
        let Some(bound) = link.bound() else { return Frames::default() };
        match here(door, link, bound, &request, self.started) {
            Answer::Now(answer) => Frames { answer, after: None },
            Answer::Later | Answer::Elsewhere => self.run(door, link).await,
        }
    }

    async fn run(self, door: &Door, link: &Link) -> Frames {
        let method = door.metrics.method(&self.method);
        let limit = call_limit(door);
        let trace = self.params.as_deref().and_then(trace::asked);
        let span = trace::span(&self.method, trace.as_ref());
        let call =
            AssertUnwindSafe(ask_room(door, link, &self.method, self.params, trace.clone())).catch_unwind();
        let result = match tokio::time::timeout(limit, call).instrument(span.clone()).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(RpcError::internal(anyhow::anyhow!("{} panicked", self.method))),
            Err(_) => Err(timed_out(&self.method, limit)),
        };
        let id = self.id.as_deref().map(RawValue::get);
        let answering = Answering::now(&door.metrics, method, id, self.started);
        let mut frames = span.in_scope(|| Frames::of(&answering, result.as_deref()));
        frames.answer =
            frames.answer.map(|answer| trace::told(answer, trace.as_ref(), method.name, door, self.started));
        frames
    }
}

/// What one call sends: its answer, and an event that must not overtake it.
#[derive(Default)]
struct Frames {
    answer: Option<String>,
    after: Option<String>,
}

impl Frames {
    fn of(answering: &Answering<'_>, outcome: Result<&RawValue, &RpcError>) -> Frames {
        match outcome.map(split_after) {
            Ok(Ok((result, after))) => Frames { answer: answering.finish(Ok(result.get())), after },
            Ok(Err(error)) => Frames { answer: answering.finish(Err(&error)), after: None },
            Err(error) => Frames { answer: answering.finish(Err(error)), after: None },
        }
    }

    fn push(self, link: &Link) {
        for frame in [self.answer, self.after.filter(|_| link.is_long())].into_iter().flatten() {
            link.outbox.push(frame.into());
        }
    }
}

/// A room may want something said on the caller's connection after its answer: it puts that into a first member
/// `_after`, which no client gets to see.
fn split_after(result: &RawValue) -> Result<(Cow<'_, RawValue>, Option<String>), RpcError> {
    #[derive(Deserialize)]
    struct After<'a> {
        #[serde(borrow)]
        method: Cow<'a, str>,
        #[serde(borrow)]
        params: &'a RawValue,
    }
    if !result.get().starts_with("{\"_after\":") {
        return Ok((Cow::Borrowed(result), None));
    }
    let mut members = params::members(result)?;
    let after =
        members.remove("_after").and_then(|after| serde_json::from_str::<After<'_>>(after.get()).ok());
    let event = after.map(|after| frame::notification(&after.method, after.params.get()));
    Ok((Cow::Owned(to_raw_value(&members).map_err(RpcError::internal)?), event))
}

async fn ask_room(
    door: &Door,
    link: &Link,
    method: &str,
    params: Option<Box<RawValue>>,
    trace: Option<Trace>,
) -> Result<Box<RawValue>, RpcError> {
    let Some(bound) = link.bound() else { return Err(RpcError::plain(codes::UNAUTHENTICATED)) };
    let params = params::clean(params)?;
    if let Some(params) = params.as_deref() {
        signature::check(door, bound, method, params).await?;
    }
    // A signed call comes here whatever it asks for.
    let request = Request { id: None, method: method.into(), params: params.as_deref() };
    if let Some(result) = known_here(door, link, bound, &request)? {
        return RawValue::from_string(result).map_err(RpcError::internal);
    }
    within_rate(door, link.address, callable(door, method)?, params.as_deref()).await?;
    if method == "meta.trust_roots" {
        return door.mesh.call(Caller::room("gateway"), "ca.get_trust_roots", None).await;
    }
    let session = Session { trace, ..bound.session.clone() };
    let within = call_limit(door);
    door.mesh.call_within(Caller::Agent(session), method, params, within).await
}

/// What a socket may ask before it logged in.
pub async fn stranger(door: &Door, address: IpAddr, request: &Request<'_>) -> Option<String> {
    let started = Instant::now();
    let limit = call_limit(door);
    let call = AssertUnwindSafe(ask_as_stranger(door, address, request)).catch_unwind();
    let result = match tokio::time::timeout(limit, call).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(RpcError::internal(anyhow::anyhow!("{} panicked", request.method))),
        Err(_) => Err(timed_out(&request.method, limit)),
    };
    let method = door.metrics.method(&request.method);
    let answering = Answering::now(&door.metrics, method, request.id.map(RawValue::get), started);
    answering.finish(result.as_ref().map(|result| result.get()))
}

async fn ask_as_stranger(
    door: &Door,
    address: IpAddr,
    request: &Request<'_>,
) -> Result<Box<RawValue>, RpcError> {
    let method = proto_schemas::find(&request.method).filter(|method| method.access == Access::Public);
    let Some(method) = method else {
        let sentence = "log in first: only registration, login and auth.connect are answered before that";
        return Err(RpcError::new(codes::NOT_INITIALIZED, sentence));
    };
    callable(door, method.name)?;
    let params = params::clean(request.params.map(ToOwned::to_owned))?;
    within_rate(door, address, method, params.as_deref()).await?;
    door.mesh.call(Caller::Stranger, method.name, params).await
}

/// Registrations and logins have limits of their own, whether they come before login or after it.
async fn within_rate(
    door: &Door,
    address: IpAddr,
    method: &Method,
    params: Option<&RawValue>,
) -> Result<(), RpcError> {
    match method.rate {
        Rate::Register => door.limits.registration(address).await,
        Rate::Login => limit_login(door, address, params).await,
        Rate::Call | Rate::Ping => Ok(()),
    }
}

async fn limit_login(door: &Door, address: IpAddr, params: Option<&RawValue>) -> Result<(), RpcError> {
    #[derive(Deserialize)]
    struct Whose {
        aid: Aid,
    }
    // A login that names nobody is the room's to refuse.
    let Ok(Whose { aid }) = serde_json::from_str(params.map_or("{}", RawValue::get)) else { return Ok(()) };
    door.limits.login(address, aid).await
}

/// What is known of a call that has ended, apart from how.
struct Answering<'a> {
    metrics: &'a Metrics,
    method: &'a MethodMetrics,
    id: Option<&'a str>,
    started: Instant,
    now: Instant,
}

impl<'a> Answering<'a> {
    fn now(
        metrics: &'a Metrics,
        method: &'a MethodMetrics,
        id: Option<&'a str>,
        started: Instant,
    ) -> Answering<'a> {
        Answering { metrics, method, id, started, now: Instant::now() }
    }

    /// Counts the call and writes its answer, unless nobody waits for one.
    fn finish(&self, result: Result<&str, &RpcError>) -> Option<String> {
        let Answering { metrics, method, .. } = self;
        let code = result.as_ref().err().map_or(0, |error| error.code());
        let elapsed = self.now.saturating_duration_since(self.started);
        metrics.answered(method, code, elapsed.as_secs_f64());
        tracing::debug!(rpc.method = method.name, code, duration_us = elapsed.as_micros() as u64, "answered");
        if let Err(error) = result {
            error.log(method.name);
        }
        Some(frame::answer(self.id?, result))
    }
}

/// The id of a call that outlives the frame it came in. Most are short and need no allocation.
enum Id {
    Short(u8, [u8; 38]),
    Long(Box<str>),
}

impl Id {
    fn new(text: &str) -> Id {
        let mut bytes = [0; 38];
        match (u8::try_from(text.len()), bytes.get_mut(..text.len())) {
            (Ok(length), Some(place)) => {
                place.copy_from_slice(text.as_bytes());
                Id::Short(length, bytes)
            }
            _ => Id::Long(text.into()),
        }
    }

    fn get(&self) -> &str {
        match self {
            Id::Short(length, bytes) => str::from_utf8(&bytes[..usize::from(*length)]).unwrap_or("null"),
            Id::Long(text) => text,
        }
    }
}
