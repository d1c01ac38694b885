//! The answering side of the mesh: other processes call the services of this one.

use super::MeshContext;
use super::handshakes::{MeshHandshakeSlot, MeshHandshakes};
use super::http;
use super::identity::{self, MeshIdentity, services_of};
use super::link_sessions::ReceivedSessions;
use super::peer::MeshPeer;
use super::socket::{self, ANSWER_BYTES, BufferedTcp, FrameHandler, run_socket};
use super::wire::{self, MeshCall, MeshFrame, WireCaller};
use super::write_queue::MeshWriteQueue;
use crate::trace;
use futures_util::FutureExt as _;
use kernel::{Answer, PendingAnswer, RpcError, TracedCall, catch_panic, catch_panic_of, timed_out};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, Span};

/// Calls of one link that may be in flight; beyond that the link is not read.
const IN_FLIGHT: usize = 4096;
/// How long a socket may take to become a link; waiting for its first byte is part of it.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers until `drain` is cancelled, and then until every link has got its answers.
pub async fn accept(
    context: Arc<MeshContext>,
    listener: TcpListener,
    calls: TaskTracker,
    drain: CancellationToken,
) {
    let handshakes = MeshHandshakes::default();
    while let Some(accepted) = drain.run_until_cancelled(listener.accept()).await {
        let Ok((stream, from)) = accepted else {
            // Out of file descriptors: they come back when something closes.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        if handshakes.are_many() {
            // The sockets that have come before this one look first whether something was received.
            yield_now().await;
        }
        let slot = handshakes.take(from.ip());
        let (context, calls, drain) = (context.clone(), calls.clone(), drain.clone());
        calls.clone().spawn(async move {
            let connected = tokio::select! {
                connected = timeout(HANDSHAKE_TIMEOUT, handshake(&context, stream, &slot)) => connected,
                () = slot.evicted() => {
                    // Counted and not logged: whoever opens many sockets must not fill the log as well.
                    context.metrics.refused("mesh_handshakes");
                    return;
                }
            };
            drop(slot);
            match connected {
                Ok(Ok((MeshConnection::Calls(socket), peer))) => {
                    serve_link(&context, *socket, peer, calls, drain).await;
                }
                Ok(Ok((MeshConnection::Http(stream), peer))) => {
                    http::serve_http(&context, stream, peer, calls, drain).await;
                }
                Ok(Err(error)) => tracing::warn!("{from} was refused on the mesh: {error:#}"),
                Err(_) => tracing::warn!(
                    "{from} did not finish the mesh handshake within {} s",
                    HANDSHAKE_TIMEOUT.as_secs()
                ),
            }
        });
    }
}

type MeshServerStream = TlsStream<BufferedTcp>;

/// What the other side wants of this process.
enum MeshConnection {
    Calls(Box<WebSocketStream<MeshServerStream>>),
    Http(Box<MeshServerStream>),
}

async fn handshake(
    context: &MeshContext,
    stream: TcpStream,
    slot: &MeshHandshakeSlot,
) -> anyhow::Result<(MeshConnection, MeshPeer)> {
    // Before anything is read or made for it: a socket that says nothing costs no more than its slot.
    anyhow::ensure!(stream.peek(&mut [0]).await? == 1, "it was closed");
    slot.spoke();
    let own = MeshIdentity::read(&context.settings)?;
    let own_not_after = own.not_after();
    let stream = own.acceptor(http::ALPN)?.accept(socket::buffered(stream)?).await?;
    let (_, tls) = stream.get_ref();
    let certificate = tls.peer_certificates().and_then(<[_]>::first);
    let peer = MeshPeer {
        services: certificate.map(services_of).unwrap_or_default(),
        not_after: certificate.map_or(0, identity::not_after).min(own_not_after),
    };
    if tls.alpn_protocol() == Some(http::ALPN) {
        return Ok((MeshConnection::Http(Box::new(stream)), peer));
    }
    let socket = tokio_tungstenite::accept_async_with_config(stream, Some(socket::socket_config())).await?;
    Ok((MeshConnection::Calls(Box::new(socket)), peer))
}

/// Answers the calls of one link until it ends.
pub(super) async fn serve_link<S>(
    context: &Arc<MeshContext>,
    socket: WebSocketStream<S>,
    peer: MeshPeer,
    calls: TaskTracker,
    drain: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let queue = MeshWriteQueue::new(wire::ANSWERS);
    let turned_off = context.mesh.turned_off();
    if !turned_off.is_empty() {
        queue.add_text(wire::turned_off(&turned_off));
    }
    let (not_after, from) = (peer.not_after, peer.services.join(" and "));
    let mut handler = CallHandler {
        context: context.clone(),
        peer,
        sessions: ReceivedSessions::default(),
        in_flight: Arc::default(),
        drained: Arc::default(),
        calls,
        queue: queue.clone(),
        now: None,
    };
    let announce_drain = async {
        drain.cancelled().await;
        queue.add_frame(wire::DRAINING);
        std::future::pending::<()>().await;
    };
    let reason = tokio::select! {
        reason = run_socket(socket, &queue, &mut handler) => reason,
        () = identity::expired(&context.clock, not_after) => "a certificate expired",
        () = announce_drain => "this process stops",
    };
    tracing::info!("the mesh link from {from} ended: {reason}");
}

struct CallHandler {
    context: Arc<MeshContext>,
    peer: MeshPeer,
    sessions: ReceivedSessions,
    in_flight: Arc<AtomicUsize>,
    /// Whether the other side confirmed that it sends no more calls.
    drained: Arc<AtomicBool>,
    calls: TaskTracker,
    queue: MeshWriteQueue,
    /// When the call before this one in the same frame ended: read once for both.
    now: Option<Instant>,
}

impl FrameHandler for CallHandler {
    fn on_frame(&mut self, text: &str) -> Result<(), &'static str> {
        let frame = serde_json::from_str(text).map_err(|_| "a received frame is not a mesh frame")?;
        match frame {
            MeshFrame::Calls(calls) => {
                self.now = None;
                calls.into_iter().try_for_each(|call| self.call(call))
            }
            MeshFrame::Forget => {
                self.sessions.forget();
                Ok(())
            }
            MeshFrame::Drained => {
                self.drained.store(true, Ordering::Release);
                Ok(())
            }
            MeshFrame::Answers(_) | MeshFrame::Draining | MeshFrame::TurnedOff(_) => {
                Err("the calling side sent a frame that only the answering side may send")
            }
        }
    }

    fn may_read(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) < IN_FLIGHT && self.queue.has_space()
    }

    fn expects_more(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    fn is_finished(&self) -> bool {
        self.drained.load(Ordering::Acquire) && self.in_flight.load(Ordering::Acquire) == 0
    }
}

impl CallHandler {
    fn call(&mut self, call: MeshCall<'_>) -> Result<(), &'static str> {
        let known = matches!(call.caller, WireCaller::ConnectionId(_));
        let clock = &self.context.clock;
        let traced = call.trace.map(|trace| trace.received(Instant::now(), clock.now_ms()));
        let span = trace::span(&call.method, traced.as_deref());
        let caller = self.sessions.resolve(call.caller, traced.clone());
        let caller = caller.ok_or("a call names a session that was not sent before")?;
        // A session that is named by its connection id was checked when it was received in full.
        if !known && !self.peer.may_speak_for(&caller) {
            return Err("a call speaks for a caller that the other side's certificate does not cover");
        }
        let within = Duration::from_millis(call.within_ms);
        let started = self.now.take().unwrap_or_else(Instant::now);
        let received = ReceivedCall { id: call.id, started, span, traced };
        // Begun before the next call is read, so that the calls of one caller begin in their order. Most end with that.
        let begun = received.span.in_scope(|| {
            catch_panic(&call.method, || {
                let mut answering = self.context.mesh.call_here(caller, &call.method, call.params)?;
                Ok((&mut answering).now_or_never().ok_or(answering))
            })
        });
        let outcome = match begun {
            Ok(Err(answering)) => {
                self.finish_later(received, call.method.into_owned(), answering, within);
                return Ok(());
            }
            Ok(Ok(outcome)) => outcome,
            Err(error) => Err(error),
        };
        // The next call begins when this one ends.
        self.now = Some(received.finish(&self.context, &self.queue, &call.method, &outcome));
        Ok(())
    }

    /// A call that cannot be answered at once gets a task and a deadline.
    fn finish_later(
        &self,
        received: ReceivedCall,
        method: String,
        answering: PendingAnswer,
        within: Duration,
    ) {
        let (context, in_flight) = (self.context.clone(), CallInFlight::new(self));
        self.calls.spawn(async move {
            let answering = timeout(within, catch_panic_of(&method, answering));
            let outcome = answering.instrument(received.span.clone()).await;
            let outcome = outcome.unwrap_or_else(|_| Err(timed_out(&method, within)));
            received.finish(&context, &in_flight.queue, &method, &outcome);
            drop(in_flight);
        });
    }
}

/// A received call, without what it asks for.
struct ReceivedCall {
    id: u64,
    started: Instant,
    span: Span,
    traced: Option<Arc<TracedCall>>,
}

impl ReceivedCall {
    /// Queues the answer, and returns when that was.
    fn finish(
        &self,
        context: &MeshContext,
        queue: &MeshWriteQueue,
        method: &str,
        outcome: &Result<Answer, RpcError>,
    ) -> Instant {
        let too_large = outcome.as_ref().ok().and_then(|answer| too_large_for_a_frame(method, answer));
        let outcome = match &too_large {
            Some(error) => Err(error),
            None => outcome.as_ref().map(Answer::as_ref),
        };
        let code = outcome.err().map_or(0, RpcError::code);
        let now = Instant::now();
        let elapsed = now.saturating_duration_since(self.started);
        let metrics = &context.metrics;
        metrics.answered(metrics.method(method), code, elapsed.as_secs_f64());
        self.span.in_scope(|| {
            tracing::debug!(
                rpc.method = method,
                code,
                duration_us = elapsed.as_micros() as u64,
                "answered over the mesh"
            );
        });
        let spans = self.traced.as_ref().and_then(|call| call.spans_for_caller());
        queue.add_item(|out| {
            wire::write_answer(out, self.id, outcome, spans.as_deref());
        });
        now
    }
}

/// An answer that no frame can carry would end the link, and with it every call that is in flight on it.
fn too_large_for_a_frame(method: &str, answer: &Answer) -> Option<RpcError> {
    let event = answer.event.as_deref().map_or(0, |event| event.params.get().len());
    let bytes = answer.result.get().len() + event;
    (bytes > ANSWER_BYTES).then(|| {
        let sentence =
            format!("an answer of {bytes} bytes, where a frame between processes has {ANSWER_BYTES}");
        RpcError::internal(anyhow::anyhow!(sentence)).logged(method)
    })
}

/// Counts a call as in flight until it is dropped, however it ends.
struct CallInFlight {
    in_flight: Arc<AtomicUsize>,
    drained: Arc<AtomicBool>,
    queue: MeshWriteQueue,
}

impl CallInFlight {
    fn new(handler: &CallHandler) -> CallInFlight {
        let CallHandler { in_flight, drained, queue, .. } = handler;
        in_flight.fetch_add(1, Ordering::Relaxed);
        CallInFlight { in_flight: in_flight.clone(), drained: drained.clone(), queue: queue.clone() }
    }
}

impl Drop for CallInFlight {
    fn drop(&mut self) {
        let last = self.in_flight.fetch_sub(1, Ordering::Release) == 1;
        // Its answer may be written already, and then nothing else makes the socket's task check whether the link is finished.
        if last && self.drained.load(Ordering::Acquire) {
            self.queue.wake();
        }
    }
}
