//! One socket's life: the challenge, calls before login, `auth.connect`, the session, and the close.
//!
//! One task owns the socket. It reads whatever is there, answers it, writes what waits in the outbox, and flushes once
//! for all of it.

mod clock;
mod connect;
mod dispatch;
mod greeting;
mod peer_link;
mod unauthenticated;
mod wire;

use crate::connection::{CloseReason, Connection, ConnectionKind, OpenSession, OutboxItem};
use crate::delivery::session_notices;
use crate::federation::{IN_FLIGHT, InboundPeer};
use crate::frame::{self, InvalidRequest, RequestFrame};
use crate::gateway::GatewayState;
use crate::incoming::IncomingFrames;
use futures_util::Stream;
use kernel::SessionNotice;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use wire::broken;

/// How many ready frames are answered before one flush.
const FRAMES_PER_FLUSH: usize = 64;

/// Serves one WebSocket until it ends.
pub fn run<S>(
    gateway: Arc<GatewayState>,
    socket: WebSocketStream<IncomingFrames<S>>,
    address: IpAddr,
) -> impl Future<Output = ()> + Send
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let connection = gateway.sessions.connect(address);
    gateway.metrics.sockets.inc();
    let conversation = Conversation {
        nonce: gateway.ids.secret(),
        deadline: Box::pin(sleep_until(Instant::now() + ms(gateway.config.limits.auth_timeout_ms))),
        opened: Instant::now(),
        last_call: Instant::now(),
        heard: true,
        pinged: false,
        asked: false,
        began: None,
        calls: 0,
        inbound: None,
        socket,
        connection,
        gateway,
    };
    conversation.live()
}

struct Conversation<S> {
    gateway: Arc<GatewayState>,
    connection: Arc<Connection>,
    socket: WebSocketStream<IncomingFrames<S>>,
    nonce: String,
    /// When to look at the clock next.
    deadline: Pin<Box<Sleep>>,
    opened: Instant,
    /// Only short connections keep it up to date.
    last_call: Instant,
    /// Whether anything arrived since the last look at the clock.
    heard: bool,
    pinged: bool,
    /// Whether something was asked of a service since the last look into the outbox.
    asked: bool,
    /// When the frames that are read together began, for their durations: the clock is read once for all of them.
    began: Option<std::time::Instant>,
    calls: u32,
    /// Set if the other side is the gateway of another domain.
    inbound: Option<Arc<InboundPeer>>,
}

/// However a conversation ends, also by a panic, its connection is removed everywhere.
impl<S> Drop for Conversation<S> {
    fn drop(&mut self) {
        self.gateway.sessions.leave(&self.connection);
        self.gateway.metrics.sockets.dec();
        if let Some(open) = self.connection.session() {
            self.gateway.metrics.sessions.dec();
            let (aid, device_id) = (open.session.aid.clone(), open.session.device.clone());
            let notice = SessionNotice { aid, device_id, connection: self.connection.id };
            session_notices::closed(&self.gateway.mesh, &self.gateway.tracker, notice);
        }
        if let (Some(inbound), Some(federation)) = (&self.inbound, &self.gateway.federation) {
            federation.inbound.remove(inbound);
        }
    }
}

/// How a conversation ends.
enum SocketEnd {
    /// The other side left, or the connection broke.
    Gone,
    CloseReason(CloseReason),
}

/// What to do next.
enum SocketStep {
    Frame(Message),
    Broken(WsError),
    Left,
    Outbox,
    Clock,
}

type SocketResult = Result<(), SocketEnd>;

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Conversation<S> {
    async fn live(mut self) {
        let end = self.serve().await;
        // Removed before the close frame, so that no event is put into the outbox of a connection that is about to close.
        self.gateway.sessions.leave(&self.connection);
        if let Err(SocketEnd::CloseReason(close_reason)) = end {
            self.gateway.metrics.closed(close_reason.code);
            Box::pin(self.close(close_reason)).await;
        }
    }

    async fn serve(&mut self) -> SocketResult {
        let challenge = greeting::challenge(&self.nonce, self.gateway.clock.now_ms());
        self.feed(challenge.into()).await?;
        self.flush().await?;
        let mut quiet = false;
        loop {
            let step = poll_fn(|cx| {
                // It found nothing to do a moment ago, and its waker is registered: no second look before it sleeps.
                if std::mem::take(&mut quiet) && !self.connection.outbox.is_waiting() {
                    return Poll::Pending;
                }
                self.poll_step(cx)
            })
            .await;
            self.began = None;
            if matches!(step, SocketStep::Outbox) && !self.answers_the_only_call() {
                // The answers of one commit become ready task by task. After one yield to the runtime they share a flush.
                tokio::task::yield_now().await;
            }
            self.handle(step).await?;
            for _ in 1..FRAMES_PER_FLUSH {
                match poll_fn(|cx| Poll::Ready(self.poll_step(cx))).await {
                    Poll::Ready(next) => self.handle(next).await?,
                    Poll::Pending => {
                        quiet = true;
                        break;
                    }
                }
            }
            // Whoever sends without a pause, if only control frames, gets no later deadline by it.
            if !quiet && poll_fn(|cx| Poll::Ready(self.poll_deadline(cx).is_ready())).await {
                self.handle(SocketStep::Clock).await?;
            }
            // While the socket was not writable, a wake-up may have come for something else.
            quiet &= self.flush().await?;
        }
    }

    /// Whether the only call in flight was answered: then no other answer is about to come.
    fn answers_the_only_call(&mut self) -> bool {
        std::mem::take(&mut self.asked) && self.connection.in_flight.load(Ordering::Relaxed) == 0
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<SocketStep> {
        if self.connection.outbox.is_waiting() {
            return Poll::Ready(SocketStep::Outbox);
        }
        // Too many calls in flight: what is not read now stays with the sender.
        let reading = self.may_read();
        if reading {
            match Pin::new(&mut self.socket).poll_next(cx) {
                Poll::Ready(Some(Ok(message))) => return Poll::Ready(SocketStep::Frame(message)),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(SocketStep::Broken(error)),
                Poll::Ready(None) => return Poll::Ready(SocketStep::Left),
                Poll::Pending => {}
            }
        }
        // Looked at again after the waker is registered, or what came in between would wait for the next wake.
        if self.connection.outbox.poll_waiting(cx) {
            return Poll::Ready(SocketStep::Outbox);
        }
        if !reading && self.may_read() {
            cx.waker().wake_by_ref();
        }
        self.poll_deadline(cx).map(|()| SocketStep::Clock)
    }

    /// Outside of the budget with which tokio makes busy tasks yield: a socket that always has something to read uses it up, and then
    /// its deadline would never be seen.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        pin!(unconstrained(self.deadline.as_mut())).poll(cx)
    }

    fn may_read(&self) -> bool {
        let most = if self.inbound.is_some() { IN_FLIGHT } else { self.gateway.config.limits.in_flight };
        self.connection.in_flight.load(Ordering::Relaxed) < most
    }

    async fn handle(&mut self, step: SocketStep) -> SocketResult {
        match step {
            SocketStep::Frame(Message::Text(text)) => {
                self.heard = true;
                self.text(&text).await
            }
            SocketStep::Frame(Message::Ping(_) | Message::Pong(_)) => {
                self.heard = true;
                Ok(())
            }
            SocketStep::Frame(Message::Binary(_)) => {
                Err(close_reason(1003, "binary frames are not accepted"))
            }
            SocketStep::Frame(Message::Close(_) | Message::Frame(_)) => Ok(()),
            SocketStep::Left => Err(SocketEnd::Gone),
            SocketStep::Broken(error) => Err(broken(&error)),
            SocketStep::Outbox => self.empty_outbox().await,
            SocketStep::Clock => Box::pin(self.on_deadline()).await,
        }
    }

    async fn empty_outbox(&mut self) -> SocketResult {
        while let Some(item) = self.connection.outbox.take() {
            match item {
                OutboxItem::Frame(frame) => self.feed(frame).await?,
                OutboxItem::Frames(frames) => {
                    for frame in frames {
                        self.feed(frame).await?;
                    }
                }
                OutboxItem::CloseReason(close_reason) => return Err(SocketEnd::CloseReason(close_reason)),
            }
        }
        Ok(())
    }

    async fn text(&mut self, text: &str) -> SocketResult {
        let read = frame::read(text);
        if self.connection.session().is_some() {
            return self.session_frame(read).await;
        }
        if let Some(inbound) = &self.inbound {
            let inbound = inbound.clone();
            return Box::pin(self.peer_frame(&inbound, read)).await;
        }
        // Boxed, like every rare path here: what a login needs must not add to the memory of idle sessions.
        Box::pin(self.unauthenticated_frame(read)).await
    }

    async fn session_frame(&mut self, read: Result<RequestFrame<'_>, InvalidRequest>) -> SocketResult {
        if let Some(OpenSession { kind: ConnectionKind::Short(_), .. }) = self.connection.session() {
            self.last_call = Instant::now();
        }
        match read {
            Ok(RequestFrame::One(request)) => {
                match dispatch::handle(&self.gateway, &self.connection, &request, &mut self.began) {
                    dispatch::Handled::Now(Some(answer)) => self.feed(answer.into()).await,
                    dispatch::Handled::Now(None) => Ok(()),
                    dispatch::Handled::Routed => {
                        self.asked = true;
                        Ok(())
                    }
                    dispatch::Handled::NeedsTask(method) => {
                        self.asked = true;
                        dispatch::spawn(&self.gateway, &self.connection, method, &request);
                        Ok(())
                    }
                }
            }
            Ok(RequestFrame::Batch(members)) => {
                dispatch::spawn_batch(&self.gateway, &self.connection, members);
                Ok(())
            }
            Err(invalid) => self.feed(frame::failure(invalid.id.as_deref(), &invalid.error).into()).await,
        }
    }
}

fn close_reason(code: u16, reason: &str) -> SocketEnd {
    SocketEnd::CloseReason(CloseReason::plain(code, reason))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
