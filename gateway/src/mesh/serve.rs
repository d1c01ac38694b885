//! The answering side: other processes call the rooms of this one.

use super::Wiring;
use super::pass::{self, Pass, parts_of};
use super::pump::{self, Ear, Post, pump};
use super::wire::{self, Acquainted, Call, Frame, Who};
use crate::{frame, trace};
use futures_util::FutureExt as _;
use serde_json::value::{RawValue, to_raw_value};
use services::kernel::{Caller, RpcError, codes};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

/// Calls of one link that may be under way; past that it is not read.
const IN_FLIGHT: usize = 4096;
/// Sockets that have not proved who they are, and how long they may take.
const HANDSHAKES: usize = 64;
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(5);

/// Answers until `drain` is cancelled, and then until every link has got its answers.
pub async fn accept(
    wiring: Arc<Wiring>,
    listener: TcpListener,
    calls: TaskTracker,
    drain: CancellationToken,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    while let Some(accepted) = drain.run_until_cancelled(listener.accept()).await {
        let Ok((stream, from)) = accepted else {
            // Out of file descriptors: they come back when something closes.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(permit) = handshakes.clone().try_acquire_owned() else { continue };
        let (wiring, calls, drain) = (wiring.clone(), calls.clone(), drain.clone());
        calls.clone().spawn(async move {
            let greeted = timeout(HANDSHAKE_PATIENCE, greet(&wiring, stream)).await;
            drop(permit);
            match greeted {
                Ok(Ok((socket, peer))) => answer(&wiring, socket, peer, calls, drain).await,
                Ok(Err(error)) => tracing::warn!("{from} is not let onto the mesh: {error:#}"),
                Err(_) => tracing::warn!("{from} did not finish its handshake with the mesh"),
            }
        });
    }
}

/// Who is on the other end, as its certificate says.
struct Peer {
    parts: Vec<&'static str>,
    until: i64,
}

type Socket = WebSocketStream<TlsStream<TcpStream>>;

async fn greet(wiring: &Wiring, stream: TcpStream) -> anyhow::Result<(Socket, Peer)> {
    stream.set_nodelay(true)?;
    let pass = Pass::read(&wiring.settings)?;
    let own_end = pass.ends();
    let stream = pass.acceptor()?.accept(stream).await?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let peer = Peer {
        parts: certificate.map(parts_of).unwrap_or_default(),
        until: certificate.map_or(0, pass::ends).min(own_end),
    };
    let socket = tokio_tungstenite::accept_async_with_config(stream, Some(pump::socket_config())).await?;
    Ok((socket, peer))
}

async fn answer(
    wiring: &Arc<Wiring>,
    socket: Socket,
    peer: Peer,
    calls: TaskTracker,
    drain: CancellationToken,
) {
    let (post, posted) = pump::post();
    let (telling, until, who) = (post.clone(), peer.until, peer.parts.join(" and "));
    let mut ear = Answering {
        wiring: wiring.clone(),
        peer,
        acquainted: Acquainted::default(),
        in_flight: Arc::default(),
        drained: false,
        calls,
        post,
    };
    let tell = async {
        drain.cancelled().await;
        telling.push(wire::DRAINING);
        std::future::pending::<()>().await;
    };
    let reason = tokio::select! {
        reason = pump(socket, posted, &mut ear) => reason,
        () = pass::ended(&wiring.clock, until) => "a certificate has expired",
        () = tell => "told to stop",
    };
    tracing::info!("the link from {who} ended: {reason}");
}

struct Answering {
    wiring: Arc<Wiring>,
    peer: Peer,
    acquainted: Acquainted,
    in_flight: Arc<AtomicUsize>,
    /// Whether the other side said that it sends no more calls.
    drained: bool,
    calls: TaskTracker,
    post: Post,
}

impl Ear for Answering {
    fn hear(&mut self, text: &str) -> Result<(), &'static str> {
        let frame: Frame<'_> =
            serde_json::from_str(text).map_err(|_| "the other side does not speak our language")?;
        match (frame.method.as_deref(), frame.id) {
            (Some("mesh.call"), Some(id)) => self.call(id, frame.params),
            (Some("mesh.forget"), None) => {
                self.acquainted.forget();
                Ok(())
            }
            (Some("mesh.drained"), None) => {
                self.drained = true;
                Ok(())
            }
            _ => Err("the other side asked for something that is not on the mesh"),
        }
    }

    fn may_hear(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) < IN_FLIGHT
    }

    fn is_done(&self) -> bool {
        self.drained && self.in_flight.load(Ordering::Acquire) == 0
    }
}

impl Answering {
    fn call(&mut self, id: u64, params: Option<&RawValue>) -> Result<(), &'static str> {
        let call: Call<'_> = params
            .and_then(|params| serde_json::from_str(params.get()).ok())
            .ok_or("the other side sent a call that cannot be read")?;
        let known = matches!(call.caller, Who::Known(_));
        let caller = self.acquainted.recognise(call.caller, call.trace);
        let caller = caller.ok_or("the other side calls for somebody it did not introduce")?;
        // Whoever was let in as a known session was checked when it was introduced.
        if !known && !may_speak_for(&self.peer.parts, &caller) {
            return Err("the other side speaks for somebody its certificate does not name");
        }
        let under_way = UnderWay::new(&self.in_flight, &self.post);
        let (method, params) = (call.method.into_owned(), call.params.map(ToOwned::to_owned));
        let (wiring, within) = (self.wiring.clone(), Duration::from_millis(call.within_ms));
        let mut answering = Box::pin(async move {
            let outcome = run(&wiring, caller, &method, params, within).await;
            under_way.post.push(written(id, &outcome));
            drop(under_way);
        });
        // Begun here and now, so that what one caller asks is begun in the order it was asked.
        if (&mut answering).now_or_never().is_none() {
            self.calls.spawn(answering);
        }
        Ok(())
    }
}

async fn run(
    wiring: &Wiring,
    caller: Caller,
    method: &str,
    params: Option<Box<RawValue>>,
    within: Duration,
) -> Result<Box<RawValue>, RpcError> {
    let started = Instant::now();
    let metrics = wiring.metrics.method(method);
    let traced = match &caller {
        Caller::Agent(session) => session.trace.as_ref(),
        _ => None,
    };
    let span = trace::span(method, traced);
    let outcome = match wiring.mesh.call_here(caller, method, params) {
        Ok(answering) => {
            let answering = timeout(within, AssertUnwindSafe(answering).catch_unwind());
            match answering.instrument(span.clone()).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => Err(RpcError::internal(anyhow::anyhow!("{method} panicked")).logged(method)),
                Err(_) => Err(RpcError::new(codes::HANDLER_TIMEOUT, format!("{method} took too long"))),
            }
        }
        Err(error) => Err(error),
    };
    let code = outcome.as_ref().err().map_or(0, RpcError::code);
    let elapsed = started.elapsed();
    wiring.metrics.answered(metrics, code, elapsed.as_secs_f64());
    span.in_scope(|| {
        tracing::debug!(
            rpc.method = method,
            code,
            duration_us = elapsed.as_micros() as u64,
            "answered over the mesh"
        );
    });
    outcome
}

fn written(id: u64, outcome: &Result<Box<RawValue>, RpcError>) -> String {
    match outcome {
        Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        Err(error) => {
            let id = to_raw_value(&id).expect("a number is plain data");
            frame::failure(Some(&id), error)
        }
    }
}

/// A part speaks for itself; only the door speaks for those it let in.
fn may_speak_for(parts: &[&str], caller: &Caller) -> bool {
    match caller {
        Caller::Room(room) => parts.contains(&room.as_str()),
        Caller::Agent(_) | Caller::Foreign(..) | Caller::Stranger | Caller::Operator => {
            parts.contains(&"gateway")
        }
    }
}

/// Counts a call as under way until it is dropped, however it ends.
struct UnderWay {
    in_flight: Arc<AtomicUsize>,
    post: Post,
}

impl UnderWay {
    fn new(in_flight: &Arc<AtomicUsize>, post: &Post) -> UnderWay {
        in_flight.fetch_add(1, Ordering::Relaxed);
        UnderWay { in_flight: in_flight.clone(), post: post.clone() }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.in_flight.fetch_sub(1, Ordering::Release);
    }
}
