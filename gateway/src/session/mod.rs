//! One socket's life: the challenge, what a stranger may ask, `auth.connect`, the session, and the end.
//!
//! One task owns the socket. It reads whatever is there, answers it, writes what waits in the outbox, and flushes once
//! for all of it.

mod clock;
mod connect;
mod greeting;
mod guest;
mod outbox;
mod registry;
mod rules;
mod signer;
#[cfg(test)]
mod tests;
mod unauthenticated;
mod wire;

pub use outbox::{Budget, CloseReason, Outbox};
pub use registry::{Bound, Kind, Link, Registry, disconnect};
pub use signer::Signer;

use crate::dispatch;
use crate::federation::{IN_FLIGHT, InboundPeer};
use crate::frame::{self, Frame};
use crate::gateway::Gateway;
use futures_util::Stream;
use outbox::Item;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use wire::broken;

/// How many ready frames are answered before one flush.
const READY: usize = 64;

/// Serves one WebSocket until it ends.
pub fn run<S>(
    gateway: Arc<Gateway>,
    socket: WebSocketStream<S>,
    address: IpAddr,
) -> impl Future<Output = ()> + Send
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let link = gateway.new_link(address);
    gateway.metrics.sockets.inc();
    let conversation = Conversation {
        nonce: gateway.ids.secret(),
        deadline: Box::pin(sleep_until(Instant::now() + ms(gateway.config.limits.auth_timeout_ms))),
        opened: Instant::now(),
        last_call: Instant::now(),
        heard: true,
        pinged: false,
        asked: false,
        turn: None,
        calls: 0,
        guest: None,
        socket,
        link,
        gateway,
    };
    conversation.live()
}

struct Conversation<S> {
    gateway: Arc<Gateway>,
    link: Arc<Link>,
    socket: WebSocketStream<S>,
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
    /// When this turn began, for those who want to know: one look at the clock for all that is read together.
    turn: Option<std::time::Instant>,
    calls: u32,
    /// The other side is the gateway of another domain.
    guest: Option<Arc<InboundPeer>>,
}

/// However a conversation ends, also by a bug of ours, nobody goes on counting on it.
impl<S> Drop for Conversation<S> {
    fn drop(&mut self) {
        self.gateway.registry.leave(&self.link);
        self.gateway.metrics.sockets.dec();
        if self.link.bound().is_some() {
            self.gateway.metrics.sessions.dec();
        }
        if let (Some(guest), Some(federation)) = (&self.guest, self.gateway.federation()) {
            federation.inbound.remove(guest);
        }
    }
}

/// How a conversation ends.
enum End {
    /// The other side left, or the wire broke.
    Gone,
    CloseReason(CloseReason),
}

/// What to do next.
enum Step {
    Frame(Message),
    Broken(WsError),
    Left,
    Outbox,
    Clock,
}

type Go = Result<(), End>;

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Conversation<S> {
    async fn live(mut self) {
        let end = self.greet_and_talk().await;
        // Left before the last words, so that nobody counts on a connection that is on its way out.
        self.gateway.registry.leave(&self.link);
        if let Err(End::CloseReason(close_reason)) = end {
            self.gateway.metrics.closed(close_reason.code);
            Box::pin(self.part(close_reason)).await;
        }
    }

    async fn greet_and_talk(&mut self) -> Go {
        let challenge = greeting::challenge(&self.nonce, self.gateway.clock.now_ms());
        self.feed(challenge.into()).await?;
        self.flush().await?;
        let mut quiet = false;
        loop {
            let step = poll_fn(|cx| {
                // Whoever found nothing to do a moment ago is woken when there is: no second look before it sleeps.
                if std::mem::take(&mut quiet) && !self.link.outbox.is_waiting() {
                    return Poll::Pending;
                }
                self.poll_step(cx)
            })
            .await;
            self.turn = None;
            if matches!(step, Step::Outbox) && !self.answers_the_only_call() {
                // The answers of one commit become ready task by task. A turn of the runtime later they share a flush.
                tokio::task::yield_now().await;
            }
            self.take(step).await?;
            for _ in 1..READY {
                match poll_fn(|cx| Poll::Ready(self.poll_step(cx))).await {
                    Poll::Ready(next) => self.take(next).await?,
                    Poll::Pending => {
                        quiet = true;
                        break;
                    }
                }
            }
            // Whatever woke us while we waited for the wire may have been about something else.
            quiet &= self.flush().await?;
        }
    }

    /// Whether whoever asked for one thing, and waits for nothing else, has it: then nothing more is about to come.
    fn answers_the_only_call(&mut self) -> bool {
        std::mem::take(&mut self.asked) && self.link.in_flight.load(Ordering::Relaxed) == 0
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if self.link.outbox.is_waiting() {
            return Poll::Ready(Step::Outbox);
        }
        // Too many calls under way: what is not read now stays with the sender.
        let reading = self.may_read();
        if reading {
            match Pin::new(&mut self.socket).poll_next(cx) {
                Poll::Ready(Some(Ok(message))) => return Poll::Ready(Step::Frame(message)),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Step::Broken(error)),
                Poll::Ready(None) => return Poll::Ready(Step::Left),
                Poll::Pending => {}
            }
        }
        // Looked at again after asking to be woken, or what came in between would wait for the next wake.
        if self.link.outbox.poll_waiting(cx) {
            return Poll::Ready(Step::Outbox);
        }
        if !reading && self.may_read() {
            cx.waker().wake_by_ref();
        }
        self.deadline.as_mut().poll(cx).map(|()| Step::Clock)
    }

    fn may_read(&self) -> bool {
        let most = if self.guest.is_some() { IN_FLIGHT } else { self.gateway.config.limits.in_flight };
        self.link.in_flight.load(Ordering::Relaxed) < most
    }

    async fn take(&mut self, step: Step) -> Go {
        match step {
            Step::Frame(Message::Text(text)) => {
                self.heard = true;
                self.text(&text).await
            }
            Step::Frame(Message::Ping(_) | Message::Pong(_)) => {
                self.heard = true;
                Ok(())
            }
            Step::Frame(Message::Binary(_)) => Err(close_reason(1003, "binary frames are not taken")),
            Step::Frame(Message::Close(_) | Message::Frame(_)) => Ok(()),
            Step::Left => Err(End::Gone),
            Step::Broken(error) => Err(broken(&error)),
            Step::Outbox => self.empty_outbox().await,
            Step::Clock => Box::pin(self.look_at_clock()).await,
        }
    }

    async fn empty_outbox(&mut self) -> Go {
        while let Some(item) = self.link.outbox.take() {
            match item {
                Item::Frame(frame) => self.feed(frame).await?,
                Item::Frames(frames) => {
                    for frame in frames {
                        self.feed(frame).await?;
                    }
                }
                Item::CloseReason(close_reason) => return Err(End::CloseReason(close_reason)),
            }
        }
        Ok(())
    }

    async fn text(&mut self, text: &str) -> Go {
        let read = frame::read(text);
        if self.link.bound().is_some() {
            return self.session_frame(read).await;
        }
        if let Some(guest) = &self.guest {
            let guest = guest.clone();
            return Box::pin(self.guest_frame(&guest, read)).await;
        }
        // Boxed, like every rare path here: what a login needs must not weigh on ten thousand idle sessions.
        Box::pin(self.unauthenticated_frame(read)).await
    }

    async fn session_frame(&mut self, read: Result<Frame<'_>, frame::Refusal>) -> Go {
        if let Some(Bound { kind: Kind::Short(_), .. }) = self.link.bound() {
            self.last_call = Instant::now();
        }
        match read {
            Ok(Frame::One(request)) => {
                match dispatch::at_once(&self.gateway, &self.link, &request, &mut self.turn) {
                    dispatch::Answer::Now(Some(answer)) => self.feed(answer.into()).await,
                    dispatch::Answer::Now(None) => Ok(()),
                    dispatch::Answer::Elsewhere => {
                        self.asked = true;
                        Ok(())
                    }
                    dispatch::Answer::Later => {
                        self.asked = true;
                        dispatch::spawn(&self.gateway, &self.link, &request);
                        Ok(())
                    }
                }
            }
            Ok(Frame::Batch(members)) => {
                dispatch::spawn_batch(&self.gateway, &self.link, members);
                Ok(())
            }
            Err(refusal) => self.feed(frame::failure(refusal.id.as_deref(), &refusal.error).into()).await,
        }
    }
}

fn close_reason(code: u16, reason: &str) -> End {
    End::CloseReason(CloseReason::plain(code, reason))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
