//! The answering side: other processes call the services of this one.

use super::Wiring;
use super::acquaint::Acquainted;
use super::pass::{self, Pass, parts_of};
use super::post::Post;
use super::pump::{self, Ear, pump};
use super::wire::{self, Call, Frame, Who};
use crate::trace;
use futures_util::FutureExt as _;
use services::kernel::{Answer, Caller, RpcError, catch_panic, catch_panic_of, timed_out};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, Span};

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
pub(super) struct Peer {
    pub parts: Vec<&'static str>,
    pub until: i64,
}

type Socket = WebSocketStream<TlsStream<pump::Stream>>;

async fn greet(wiring: &Wiring, stream: TcpStream) -> anyhow::Result<(Socket, Peer)> {
    let pass = Pass::read(&wiring.settings)?;
    let own_end = pass.ends();
    let stream = pass.acceptor()?.accept(pump::stream(stream)?).await?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let peer = Peer {
        parts: certificate.map(parts_of).unwrap_or_default(),
        until: certificate.map_or(0, pass::ends).min(own_end),
    };
    let socket = tokio_tungstenite::accept_async_with_config(stream, Some(pump::socket_config())).await?;
    Ok((socket, peer))
}

pub(super) async fn answer<S>(
    wiring: &Arc<Wiring>,
    socket: WebSocketStream<S>,
    peer: Peer,
    calls: TaskTracker,
    drain: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let post = Post::new(wire::ANSWERS);
    let (until, who) = (peer.until, peer.parts.join(" and "));
    let mut ear = Answering {
        wiring: wiring.clone(),
        peer,
        acquainted: Acquainted::default(),
        in_flight: Arc::default(),
        drained: Arc::default(),
        calls,
        post: post.clone(),
        now: None,
    };
    let tell = async {
        drain.cancelled().await;
        post.say(wire::DRAINING);
        std::future::pending::<()>().await;
    };
    let reason = tokio::select! {
        reason = pump(socket, &post, &mut ear) => reason,
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
    drained: Arc<AtomicBool>,
    calls: TaskTracker,
    post: Post,
    /// When the call before this one was done, if it was in the same frame.
    now: Option<Instant>,
}

impl Ear for Answering {
    fn hear(&mut self, text: &str) -> Result<(), &'static str> {
        let frame = serde_json::from_str(text).map_err(|_| "the other side does not speak our language")?;
        match frame {
            Frame::Calls(calls) => {
                self.now = None;
                calls.into_iter().try_for_each(|call| self.call(call))
            }
            Frame::Forget => {
                self.acquainted.forget();
                Ok(())
            }
            Frame::Drained => {
                self.drained.store(true, Ordering::Release);
                Ok(())
            }
            Frame::Answers(_) | Frame::Draining => {
                Err("the other side said something that is not on the mesh")
            }
        }
    }

    fn may_hear(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) < IN_FLIGHT && self.post.has_space()
    }

    fn expects_more(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    fn is_done(&self) -> bool {
        self.drained.load(Ordering::Acquire) && self.in_flight.load(Ordering::Acquire) == 0
    }
}

impl Answering {
    fn call(&mut self, call: Call<'_>) -> Result<(), &'static str> {
        let known = matches!(call.caller, Who::Known(_));
        let span = trace::span(&call.method, call.trace.as_ref());
        let caller = self.acquainted.recognise(call.caller, call.trace);
        let caller = caller.ok_or("the other side calls for somebody it did not introduce")?;
        // Whoever was let in as a known session was checked when it was introduced.
        if !known && !may_speak_for(&self.peer.parts, &caller) {
            return Err("the other side speaks for somebody its certificate does not name");
        }
        let within = Duration::from_millis(call.within_ms);
        let started = self.now.take().unwrap_or_else(Instant::now);
        let asked = Asked { id: call.id, started, span };
        // Begun here and now, so that what one caller asks is begun in the order it was asked; most are done with that.
        let begun = asked.span.in_scope(|| {
            catch_panic(&call.method, || {
                let mut answering = self.wiring.mesh.call_here(caller, &call.method, call.params)?;
                Ok((&mut answering).now_or_never().ok_or(answering))
            })
        });
        let outcome = match begun {
            Ok(Err(answering)) => {
                self.go_on(asked, call.method.into_owned(), answering, within);
                return Ok(());
            }
            Ok(Ok(outcome)) => outcome,
            Err(error) => Err(error),
        };
        // The next call begins where this one ends.
        self.now = Some(asked.finish(&self.wiring, &self.post, &call.method, &outcome));
        Ok(())
    }

    /// What cannot be answered at once gets a task and a deadline.
    fn go_on(
        &self,
        asked: Asked,
        method: String,
        answering: services::kernel::PendingAnswer,
        within: Duration,
    ) {
        let (wiring, under_way) = (self.wiring.clone(), UnderWay::new(self));
        self.calls.spawn(async move {
            let answering = timeout(within, catch_panic_of(&method, answering));
            let outcome = answering.instrument(asked.span.clone()).await;
            let outcome = outcome.unwrap_or_else(|_| Err(timed_out(&method, within)));
            asked.finish(&wiring, &under_way.post, &method, &outcome);
            drop(under_way);
        });
    }
}

/// What is known of a call apart from what it asks.
struct Asked {
    id: u64,
    started: Instant,
    span: Span,
}

impl Asked {
    /// Says when it was.
    fn finish(
        &self,
        wiring: &Wiring,
        post: &Post,
        method: &str,
        outcome: &Result<Answer, RpcError>,
    ) -> Instant {
        let code = outcome.as_ref().err().map_or(0, RpcError::code);
        let now = Instant::now();
        let elapsed = now.saturating_duration_since(self.started);
        let metrics = &wiring.metrics;
        metrics.answered(metrics.method(method), code, elapsed.as_secs_f64());
        self.span.in_scope(|| {
            tracing::debug!(
                rpc.method = method,
                code,
                duration_us = elapsed.as_micros() as u64,
                "answered over the mesh"
            );
        });
        post.add(|out| wire::write_answer(out, self.id, outcome.as_ref().map(Answer::as_ref)));
        now
    }
}

/// A part speaks for itself; only the gateway speaks for those it let in.
fn may_speak_for(parts: &[&str], caller: &Caller) -> bool {
    match caller {
        Caller::Service(service) => parts.contains(&service.as_str()),
        Caller::Agent(_) | Caller::Foreign(..) | Caller::Unauthenticated | Caller::Operator => {
            parts.contains(&"gateway")
        }
    }
}

/// Counts a call as under way until it is dropped, however it ends.
struct UnderWay {
    in_flight: Arc<AtomicUsize>,
    drained: Arc<AtomicBool>,
    post: Post,
}

impl UnderWay {
    fn new(answering: &Answering) -> UnderWay {
        let Answering { in_flight, drained, post, .. } = answering;
        in_flight.fetch_add(1, Ordering::Relaxed);
        UnderWay { in_flight: in_flight.clone(), drained: drained.clone(), post: post.clone() }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let last = self.in_flight.fetch_sub(1, Ordering::Release) == 1;
        // Its answer may be written already: then nobody else looks whether the link is done.
        if last && self.drained.load(Ordering::Acquire) {
            self.post.wake();
        }
    }
}
