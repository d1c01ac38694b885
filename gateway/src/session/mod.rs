//! One socket's life: the challenge, what a stranger may ask, `auth.connect`, the session, and the end.
//!
//! One task owns the socket. It reads whatever is there, answers it, writes what waits in the outbox, and flushes once
//! for all of it.

mod connect;
mod outbox;
mod registry;
mod rules;
#[cfg(test)]
mod tests;

pub use outbox::{Budget, Goodbye, Outbox};
pub use registry::{Bound, Kind, Link, Registry, Signer, disconnect};

use crate::dispatch;
use crate::door::Door;
use crate::federation::{Federation, Guest, IN_FLIGHT};
use crate::frame::{self, Frame, Request};
use futures_util::{FutureExt as _, Sink, SinkExt as _, Stream, StreamExt as _};
use outbox::Item;
use serde_json::json;
use services::kernel::{RpcError, codes};
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error as WsError, Message, Utf8Bytes, error::CapacityError};

/// How many ready frames are answered before one flush.
const READY: usize = 64;
/// Clients read the disconnect event before they see the close.
const EVENT_LEAD: Duration = Duration::from_millis(200);
/// How long the other side has to answer our close.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// Serves one WebSocket until it ends.
pub fn run<S>(door: Arc<Door>, socket: WebSocketStream<S>, address: IpAddr) -> impl Future<Output = ()> + Send
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let link = door.new_link(address);
    door.metrics.sockets.inc();
    let conversation = Conversation {
        nonce: door.ids.secret(),
        deadline: Box::pin(sleep_until(Instant::now() + ms(door.config.limits.auth_timeout_ms))),
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
        door,
    };
    conversation.live()
}

struct Conversation<S> {
    door: Arc<Door>,
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
    /// Whether something was asked of a room since the last look into the outbox.
    asked: bool,
    /// When this turn began, for those who want to know: one look at the clock for all that is read together.
    turn: Option<std::time::Instant>,
    calls: u32,
    /// The other side is the gateway of another domain.
    guest: Option<Arc<Guest>>,
}

/// However a conversation ends, also by a bug of ours, nobody goes on counting on it.
impl<S> Drop for Conversation<S> {
    fn drop(&mut self) {
        self.door.registry.leave(&self.link);
        self.door.metrics.sockets.dec();
        if self.link.bound().is_some() {
            self.door.metrics.sessions.dec();
        }
        if let (Some(guest), Some(federation)) = (&self.guest, self.door.federation()) {
            federation.guests.leave(guest);
        }
    }
}

/// How a conversation ends.
enum End {
    /// The other side left, or the wire broke.
    Gone,
    Goodbye(Goodbye),
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
        self.door.registry.leave(&self.link);
        if let Err(End::Goodbye(goodbye)) = end {
            self.door.metrics.closed(goodbye.code);
            Box::pin(self.part(goodbye)).await;
        }
    }

    async fn greet_and_talk(&mut self) -> Go {
        let challenge = connect::challenge(&self.nonce, self.door.clock.now_ms());
        self.feed(challenge.into()).await?;
        self.flush().await?;
        loop {
            let step = poll_fn(|cx| self.poll_step(cx)).await;
            self.turn = None;
            if matches!(step, Step::Outbox) && !self.answers_the_only_call() {
                // The answers of one commit become ready task by task. A turn of the runtime later they share a flush.
                tokio::task::yield_now().await;
            }
            self.take(step).await?;
            for _ in 1..READY {
                match poll_fn(|cx| Poll::Ready(self.poll_step(cx))).await {
                    Poll::Ready(next) => self.take(next).await?,
                    Poll::Pending => break,
                }
            }
            self.flush().await?;
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
        let most = if self.guest.is_some() { IN_FLIGHT } else { self.door.config.limits.in_flight };
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
            Step::Frame(Message::Binary(_)) => Err(goodbye(1003, "binary frames are not taken")),
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
                Item::Goodbye(goodbye) => return Err(End::Goodbye(goodbye)),
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
        Box::pin(self.stranger_frame(read)).await
    }

    async fn session_frame(&mut self, read: Result<Frame<'_>, frame::Refusal>) -> Go {
        if let Some(Bound { kind: Kind::Short(_), .. }) = self.link.bound() {
            self.last_call = Instant::now();
        }
        match read {
            Ok(Frame::One(request)) => {
                match dispatch::at_once(&self.door, &self.link, &request, &mut self.turn) {
                    dispatch::Answer::Now(Some(answer)) => self.feed(answer.into()).await,
                    dispatch::Answer::Now(None) => Ok(()),
                    dispatch::Answer::Elsewhere => {
                        self.asked = true;
                        Ok(())
                    }
                    dispatch::Answer::Later => {
                        self.asked = true;
                        dispatch::spawn(&self.door, &self.link, &request);
                        Ok(())
                    }
                }
            }
            Ok(Frame::Batch(members)) => {
                dispatch::spawn_batch(&self.door, &self.link, members);
                Ok(())
            }
            Err(refusal) => self.feed(frame::failure(refusal.id.as_deref(), &refusal.error).into()).await,
        }
    }

    /// Before login one call is answered at a time, and only so many are.
    async fn stranger_frame(&mut self, read: Result<Frame<'_>, frame::Refusal>) -> Go {
        self.calls += 1;
        if self.calls > self.door.config.limits.preauth_calls {
            return Err(goodbye(1008, "too many calls before login"));
        }
        let request = match read {
            Ok(Frame::One(request)) => request,
            Ok(Frame::Batch(_)) => {
                let error = RpcError::new(codes::INVALID_REQUEST, "arrays are taken after login only");
                return self.feed(frame::failure(None, &error).into()).await;
            }
            Err(refusal) => {
                return self.feed(frame::failure(refusal.id.as_deref(), &refusal.error).into()).await;
            }
        };
        if request.method == "auth.connect" {
            return self.connect(&request).await;
        }
        if request.method.starts_with("federation.")
            && let Some(federation) = self.door.federation().cloned()
        {
            return self.federate(&federation, &request).await;
        }
        let answer = dispatch::stranger(&self.door, self.link.address, &request).await;
        match answer {
            Some(answer) => self.feed(answer.into()).await,
            None => Ok(()),
        }
    }

    async fn connect(&mut self, request: &Request<'_>) -> Go {
        let started = Instant::now();
        let outcome = connect::connect(&self.door, &self.link, &self.nonce, request.params).await;
        let code = outcome.as_ref().err().map_or(0, |refused| refused.error.code());
        let metrics = &self.door.metrics;
        metrics.answered(metrics.method("auth.connect"), code, started.elapsed().as_secs_f64());
        let id = request.id;
        match outcome {
            Ok(result) => {
                metrics.sessions.inc();
                self.rest();
                match id {
                    Some(id) => self.feed(frame::success(id, &result).into()).await,
                    None => Ok(()),
                }
            }
            Err(refused) => {
                if let Some(id) = id {
                    self.feed(frame::failure(Some(id), &refused.error).into()).await?;
                }
                match refused.close {
                    Some(code) => Err(goodbye(code, &refused.error.to_string())),
                    None => Ok(()),
                }
            }
        }
    }

    /// `federation.hello` where a client would say `auth.connect`: from then on this socket is a link between domains.
    async fn federate(&mut self, federation: &Arc<Federation>, request: &Request<'_>) -> Go {
        let age_ms = i64::try_from(self.opened.elapsed().as_millis()).unwrap_or(i64::MAX);
        let outcome = match &*request.method {
            "federation.hello" => federation.greet(&self.link, &self.nonce, age_ms, request.params).await,
            _ => Err(RpcError::new(codes::UNAUTHENTICATED, "federation.hello comes first")
                .with("reason", "federation_unauthenticated")),
        };
        match outcome {
            Ok((guest, welcome)) => {
                self.guest = Some(guest);
                self.rest();
                let id = request.id.unwrap_or(serde_json::value::RawValue::NULL);
                self.feed(frame::success(id, welcome.get()).into()).await
            }
            Err(error) => {
                self.feed(frame::failure(request.id, &error).into()).await?;
                Err(goodbye(4001, &error.to_string()))
            }
        }
    }

    async fn guest_frame(&mut self, guest: &Arc<Guest>, read: Result<Frame<'_>, frame::Refusal>) -> Go {
        let Some(federation) = self.door.federation() else { return Ok(()) };
        let (id, error) = match read {
            Ok(Frame::One(request)) => {
                match federation.asked(guest, &self.link, &self.door.tracker, &request) {
                    Ok(()) => return Ok(()),
                    Err(error) => (request.id.map(ToOwned::to_owned), error),
                }
            }
            Ok(Frame::Batch(_)) => (
                None,
                RpcError::new(codes::INVALID_REQUEST, "arrays are not taken on a link between domains"),
            ),
            Err(refusal) => (refusal.id, refusal.error),
        };
        self.feed(frame::failure(id.as_deref(), &error).into()).await?;
        match error.data("reason").is_some_and(|reason| reason == "already_authenticated") {
            true => Err(goodbye(4001, &error.to_string())),
            false => Ok(()),
        }
    }

    /// Sets the next look at the clock for a session.
    fn rest(&mut self) {
        let limits = &self.door.config.limits;
        let mut wait = ms(limits.ping_interval_ms);
        if self.pinged {
            wait = ms(limits.ping_timeout_ms);
        }
        if let Some(Bound { kind: Kind::Short(Some(ttl)), .. }) = self.link.bound() {
            let period = Duration::from_secs_f64((*ttl as f64 / 4000.0).clamp(0.2, 5.0));
            wait = wait.min(period);
        }
        self.deadline.as_mut().reset(Instant::now() + wait);
    }

    async fn look_at_clock(&mut self) -> Go {
        if let Some(guest) = &self.guest {
            if guest.is_over(self.door.clock.now_ms()) {
                return Err(goodbye(1001, "this link has to prove itself anew"));
            }
            return self.look_for_life().await;
        }
        let Some(bound) = self.link.bound() else {
            let waited = self.opened.elapsed();
            tracing::debug!(conn.id = self.link.id, "no login within {waited:?}");
            return Err(goodbye(4008, "no successful auth.connect in time"));
        };
        if let Kind::Short(Some(ttl)) = bound.kind {
            let idle = u64::try_from(self.last_call.elapsed().as_millis()).unwrap_or(u64::MAX);
            if idle >= ttl {
                let detail = json!({ "ttl_ms": ttl, "idle_ms": idle });
                return Err(End::Goodbye(disconnect(4014, "short_connection_idle", &detail)));
            }
            // A short connection looks more often than it is pinged.
            let recent = self.last_call.elapsed() < ms(self.door.config.limits.ping_interval_ms);
            if recent && !self.pinged {
                self.rest();
                return Ok(());
            }
        }
        self.look_for_life().await
    }

    /// Whoever said nothing for a while is pinged, and has to answer.
    async fn look_for_life(&mut self) -> Go {
        // Whoever is not read, because too many of his calls are under way, cannot be heard.
        if std::mem::take(&mut self.heard) || !self.may_read() {
            self.pinged = false;
        } else if self.pinged {
            return Err(goodbye(1001, "no answer to a ping"));
        } else {
            self.pinged = true;
            self.send(Message::Ping(Default::default())).await?;
        }
        self.rest();
        Ok(())
    }

    async fn feed(&mut self, text: Utf8Bytes) -> Go {
        self.send(Message::Text(text)).await
    }

    /// Hands a frame to the socket's buffer. A wire that takes nothing for too long belongs to a slow reader.
    async fn send(&mut self, message: Message) -> Go {
        let ready = poll_fn(|cx| Poll::Ready(Pin::new(&mut self.socket).poll_ready(cx))).await;
        match ready {
            Poll::Ready(ready) => ready.map_err(|error| broken(&error))?,
            Poll::Pending => {
                let limit = ms(self.door.config.limits.write_timeout_ms);
                let socket = &mut self.socket;
                match Box::pin(timeout(limit, poll_fn(|cx| Pin::new(&mut *socket).poll_ready(cx)))).await {
                    Ok(ready) => ready.map_err(|error| broken(&error))?,
                    Err(_) => return Err(goodbye(1013, "slow reader: nothing could be written")),
                }
            }
        }
        Pin::new(&mut self.socket).start_send(message).map_err(|error| broken(&error))
    }

    async fn flush(&mut self) -> Go {
        let done = self.socket.flush().now_or_never();
        let done = match done {
            Some(done) => done,
            None => {
                let limit = ms(self.door.config.limits.write_timeout_ms);
                match Box::pin(timeout(limit, self.socket.flush())).await {
                    Ok(done) => done,
                    Err(_) => return Err(goodbye(1013, "slow reader: nothing could be written")),
                }
            }
        };
        done.map_err(|error| broken(&error))
    }

    /// The last words: the event if there is one, then the close, then a short wait for the other side to agree.
    async fn part(&mut self, goodbye: Goodbye) {
        let Goodbye { code, mut reason, event } = goodbye;
        let last_words = async {
            if let Some(event) = event {
                self.socket.send(Message::Text(event)).await?;
                tokio::time::sleep(EVENT_LEAD).await;
            }
            // A close frame holds 125 bytes, two of them the code.
            while reason.len() > 120 {
                reason.pop();
            }
            let close = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
            self.socket.close(Some(close)).await?;
            while let Some(Ok(_)) = self.socket.next().await {}
            Ok::<(), WsError>(())
        };
        let _ = timeout(EVENT_LEAD + CLOSE_PATIENCE, last_words).await;
    }
}

fn goodbye(code: u16, reason: &str) -> End {
    End::Goodbye(Goodbye::plain(code, reason))
}

fn broken(error: &WsError) -> End {
    match error {
        WsError::Capacity(CapacityError::MessageTooLong { max_size, .. }) => {
            goodbye(1009, &format!("a frame holds at most {max_size} bytes"))
        }
        WsError::Utf8(_) => goodbye(1007, "a text frame is not UTF-8"),
        WsError::Protocol(reason) => goodbye(1002, &reason.to_string()),
        _ => End::Gone,
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
