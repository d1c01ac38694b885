//! One link to the gateway of another domain, after hello: relays go out in their order, many in one frame where many
//! wait, and each answer finds whoever asked.

mod clock;
mod flights;

use super::Federation;
use super::answer;
use super::dial::{FRAME_BYTES, Linked};
use super::frames::{FEW_FRAMES, Picked, end_unsent, pick};
use super::hello::Limits;
use super::job::Job;
use super::line::Line;
use clock::Times;
use flights::Flights;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

/// What may be under way on one link, whatever the other side allows.
const IN_FLIGHT_ITEMS: usize = 4096;
const IN_FLIGHT_BYTES: usize = 8 << 20;
const BATCH_ITEMS: usize = 200;
/// Frames taken in one go, before anything is sent.
const READY: usize = 64;
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

/// Why a link ended.
pub enum End {
    /// Nothing was left to do, or it has lasted long enough: nobody's fault.
    Done,
    Broken(String),
}

fn broken(reason: impl Into<String>) -> End {
    End::Broken(reason.into())
}

fn wire_broke(error: tungstenite::Error) -> End {
    broken(format!("the wire broke: {error}"))
}

pub struct Link<'a> {
    line: &'a Arc<Line>,
    linked: Linked,
    limits: Limits,
    flights: Flights,
    times: Times,
    /// Its time is over: it only waits for what is under way.
    retires: bool,
}

impl<'a> Link<'a> {
    pub fn new(line: &'a Arc<Line>, linked: Linked) -> Link<'a> {
        // What the other side would like is a hint, and not a way to make us do silly things.
        let limits = Limits {
            max_frame_bytes: linked.limits.max_frame_bytes.min(FRAME_BYTES),
            max_batch_items: linked.limits.max_batch_items.clamp(1, BATCH_ITEMS),
            max_inflight: linked.limits.max_inflight.clamp(1, IN_FLIGHT_ITEMS),
            ..linked.limits
        };
        Link {
            line,
            linked,
            limits,
            flights: Flights::new(),
            times: Times::new(Instant::now()),
            retires: false,
        }
    }

    /// Speaks until the link ends; says why, and what was under way, in its order.
    pub async fn speak(mut self, fed: &Federation) -> (End, Vec<Job>) {
        let end = self.pump(fed).await;
        if let End::Done = end {
            let _ = timeout(CLOSE_PATIENCE, self.linked.socket.close(None)).await;
        }
        (end, self.flights.into_jobs())
    }

    async fn pump(&mut self, fed: &Federation) -> End {
        loop {
            let held = match self.send().await {
                Ok(held) => held,
                Err(end) => return end,
            };
            let stops = fed.stop.is_cancelled();
            let rests = self.flights.is_empty() && (stops || self.retires);
            if rests && (self.retires || !self.line.has_waiting()) {
                return End::Done;
            }
            let (now, next_look) = (Instant::now(), self.next_look());
            // Asked here and not below, where a socket that always has something to say would come first.
            if now >= next_look
                && let Err(end) = self.look(fed, now).await
            {
                return end;
            }
            let next = held.unwrap_or(next_look).min(next_look);
            tokio::select! {
                biased;
                message = self.linked.socket.next() => {
                    if let Err(end) = self.hear_all(message) {
                        return end;
                    }
                }
                () = self.line.wake.notified() => {}
                () = fed.stop.cancelled(), if !stops => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// Sends what waits, as far as it may be under way, and flushes once. Says when to look again if some wait for company.
    async fn send(&mut self) -> Result<Option<Instant>, End> {
        let now = Instant::now();
        let mut written = false;
        let held = loop {
            match self.next_frame(now) {
                Next::Frame(frame) => {
                    written = true;
                    self.start_send(Message::Text(frame))?;
                }
                Next::Held(until) => break Some(until),
                Next::Nothing => break None,
            }
        };
        if written {
            self.times.busy = now;
            self.flush().await?;
        }
        Ok(held)
    }

    fn start_send(&mut self, message: Message) -> Result<(), End> {
        self.linked.socket.start_send_unpin(message).map_err(wire_broke)
    }

    /// Flushes, and reads while it cannot write: two that only write would wait for each other for ever.
    async fn flush(&mut self) -> Result<(), End> {
        let flushed = timeout(WRITE_PATIENCE, poll_fn(|cx| self.poll_flush(cx))).await;
        flushed.unwrap_or_else(|_| Err(broken("nothing could be written")))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        for _ in 0..READY {
            if let Poll::Ready(flushed) = self.linked.socket.poll_flush_unpin(cx) {
                return Poll::Ready(flushed.map_err(wire_broke));
            }
            match self.linked.socket.poll_next_unpin(cx) {
                Poll::Ready(message) => self.hear(message)?,
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn next_frame(&mut self, now: Instant) -> Next {
        let service =
            self.limits.max_inflight.saturating_sub(self.flights.items).min(self.limits.max_batch_items);
        if self.retires || service == 0 || self.flights.bytes >= IN_FLIGHT_BYTES {
            return Next::Nothing;
        }
        let (line, few, most) = (self.line, self.flights.len() < FEW_FRAMES, self.limits.max_frame_bytes);
        let Picked { jobs, out, held } = line.take(|waiting| pick(waiting, few, service, most, now));
        out.into_iter().for_each(|job| end_unsent(job, most, now));
        if let Some(until) = held {
            return Next::Held(until);
        }
        if jobs.is_empty() {
            return Next::Nothing;
        }
        let frame = self.flights.begin(jobs, now);
        self.line.in_flight.store(self.flights.items, Ordering::Relaxed);
        Next::Frame(frame)
    }

    /// Takes one message, and then what else is there already.
    fn hear_all(&mut self, first: Received) -> Result<(), End> {
        self.hear(first)?;
        for _ in 1..READY {
            match self.linked.socket.next().now_or_never() {
                Some(message) => self.hear(message)?,
                None => break,
            }
        }
        Ok(())
    }

    fn hear(&mut self, message: Received) -> Result<(), End> {
        self.times.heard(Instant::now());
        match message {
            Some(Ok(Message::Text(text))) => self.hear_text(&text),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
            Some(Ok(Message::Close(Some(frame)))) => {
                Err(broken(format!("its gateway left with {}: {:.200}", frame.code, frame.reason.as_str())))
            }
            Some(Ok(Message::Close(None))) | None => Err(broken("its gateway left")),
            Some(Ok(_)) => Err(broken("its gateway does not speak our language")),
            Some(Err(error)) => Err(wire_broke(error)),
        }
    }

    fn hear_text(&mut self, text: &str) -> Result<(), End> {
        let heard = answer::read(text).map_err(broken)?;
        let Some(id) = heard.id else { return Ok(()) };
        let Some(flight) = self.flights.take(id) else {
            return Err(broken("its gateway answered what was not asked"));
        };
        self.line.in_flight.store(self.flights.items, Ordering::Relaxed);
        flight.end(&self.line.issuer, &heard).map_err(broken)
    }
}

type Received = Option<Result<Message, tungstenite::Error>>;

enum Next {
    Frame(Utf8Bytes),
    /// A few wait for company until then.
    Held(Instant),
    Nothing,
}
