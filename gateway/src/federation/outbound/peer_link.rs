//! One link to the gateway of another domain, after hello: relays are sent in their order, many in one frame where many
//! wait, and each answer ends the relays it belongs to.

mod clock;
mod pending_frames;

use super::answer;
use super::dial::{DialledLink, FRAME_BYTES};
use super::frames::{FEW_FRAMES, PickedRelays, end_unsent, pick};
use super::peer_queue::PeerQueue;
use super::pending_relay::PendingRelay;
use crate::federation::Federation;
use crate::federation::wire::hello::LinkLimits;
use clock::LinkTimes;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use pending_frames::PendingFrames;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

/// What may be in flight on one link, whatever the other gateway allows.
const IN_FLIGHT_ITEMS: usize = 4096;
const IN_FLIGHT_BYTES: usize = 8 << 20;
const BATCH_ITEMS: usize = 200;
/// Frames that are read in one go, before anything is sent.
const READ_AT_ONCE: usize = 64;
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a link ended.
pub enum LinkEnd {
    /// It was idle, or has lasted as long as a link may, or this server stops: not a failure.
    Closed,
    Broken(String),
}

fn broken(reason: impl Into<String>) -> LinkEnd {
    LinkEnd::Broken(reason.into())
}

fn connection_broke(error: tungstenite::Error) -> LinkEnd {
    broken(format!("the connection broke: {error}"))
}

pub struct PeerLink<'a> {
    queue: &'a Arc<PeerQueue>,
    dialled: DialledLink,
    limits: LinkLimits,
    pending: PendingFrames,
    times: LinkTimes,
    /// It has lasted as long as a link may: nothing more is sent, and it closes when the pending frames are answered.
    retires: bool,
}

impl<'a> PeerLink<'a> {
    pub fn new(queue: &'a Arc<PeerQueue>, dialled: DialledLink) -> PeerLink<'a> {
        // The limits of the other gateway are hints, and count only within ours.
        let limits = LinkLimits {
            max_frame_bytes: dialled.limits.max_frame_bytes.min(FRAME_BYTES),
            max_batch_items: dialled.limits.max_batch_items.clamp(1, BATCH_ITEMS),
            max_inflight: dialled.limits.max_inflight.clamp(1, IN_FLIGHT_ITEMS),
            ..dialled.limits
        };
        PeerLink {
            queue,
            dialled,
            limits,
            pending: PendingFrames::new(),
            times: LinkTimes::new(Instant::now()),
            retires: false,
        }
    }

    /// Runs until the link ends; returns why, and the relays that were in flight, in their order.
    pub async fn run(mut self, fed: &Federation) -> (LinkEnd, Vec<PendingRelay>) {
        let end = self.send_and_receive(fed).await;
        if let LinkEnd::Closed = end {
            let _ = timeout(CLOSE_TIMEOUT, self.dialled.socket.close(None)).await;
        }
        (end, self.pending.into_relays())
    }

    async fn send_and_receive(&mut self, fed: &Federation) -> LinkEnd {
        loop {
            let wait_until = match self.send().await {
                Ok(wait_until) => wait_until,
                Err(end) => return end,
            };
            let stopping = fed.stop.is_cancelled();
            let may_close = self.pending.is_empty() && (stopping || self.retires);
            if may_close && (self.retires || !self.queue.has_waiting()) {
                return LinkEnd::Closed;
            }
            let (now, next_check) = (Instant::now(), self.next_check());
            // Checked here and not in the select, where a socket that always has something to read would come first.
            if now >= next_check
                && let Err(end) = self.check(fed, now).await
            {
                return end;
            }
            let next = wait_until.unwrap_or(next_check).min(next_check);
            tokio::select! {
                biased;
                message = self.dialled.socket.next() => {
                    if let Err(end) = self.read_ready(message) {
                        return end;
                    }
                }
                () = self.queue.wake.notified() => {}
                () = fed.stop.cancelled(), if !stopping => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// Sends what is queued, as far as it may be in flight, and flushes once. Returns when to send again if the queue waits
    /// for more relays.
    async fn send(&mut self) -> Result<Option<Instant>, LinkEnd> {
        let now = Instant::now();
        let mut written = false;
        let wait_until = loop {
            match self.next_frame(now) {
                NextFrame::Send(frame) => {
                    written = true;
                    self.start_send(Message::Text(frame))?;
                }
                NextFrame::WaitUntil(until) => break Some(until),
                NextFrame::Nothing => break None,
            }
        };
        if written {
            self.times.sent = now;
            self.flush().await?;
        }
        Ok(wait_until)
    }

    fn start_send(&mut self, message: Message) -> Result<(), LinkEnd> {
        self.dialled.socket.start_send_unpin(message).map_err(connection_broke)
    }

    /// Flushes, and reads while it cannot write: if both sides only wrote, each would wait for the other to read.
    async fn flush(&mut self) -> Result<(), LinkEnd> {
        let flushed = timeout(WRITE_TIMEOUT, poll_fn(|cx| self.poll_flush(cx))).await;
        flushed.unwrap_or_else(|_| Err(broken("a write timed out")))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        for _ in 0..READ_AT_ONCE {
            if let Poll::Ready(flushed) = self.dialled.socket.poll_flush_unpin(cx) {
                return Poll::Ready(flushed.map_err(connection_broke));
            }
            match self.dialled.socket.poll_next_unpin(cx) {
                Poll::Ready(message) => self.read(message)?,
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn next_frame(&mut self, now: Instant) -> NextFrame {
        let most_items =
            self.limits.max_inflight.saturating_sub(self.pending.items).min(self.limits.max_batch_items);
        if self.retires || most_items == 0 || self.pending.bytes >= IN_FLIGHT_BYTES {
            return NextFrame::Nothing;
        }
        let (few_frames, most_bytes) = (self.pending.len() < FEW_FRAMES, self.limits.max_frame_bytes);
        let PickedRelays { relays, unsent, wait_until } =
            self.queue.take(|waiting| pick(waiting, few_frames, most_items, most_bytes, now));
        unsent.into_iter().for_each(|relay| end_unsent(relay, most_bytes, now));
        if let Some(until) = wait_until {
            return NextFrame::WaitUntil(until);
        }
        if relays.is_empty() {
            return NextFrame::Nothing;
        }
        let frame = self.pending.begin(relays, now);
        self.queue.counters.in_flight.store(self.pending.items, Ordering::Relaxed);
        NextFrame::Send(frame)
    }

    /// Reads one frame, and then those that have arrived already.
    fn read_ready(&mut self, first: PeerRead) -> Result<(), LinkEnd> {
        self.read(first)?;
        for _ in 1..READ_AT_ONCE {
            match self.dialled.socket.next().now_or_never() {
                Some(message) => self.read(message)?,
                None => break,
            }
        }
        Ok(())
    }

    fn read(&mut self, message: PeerRead) -> Result<(), LinkEnd> {
        self.times.received(Instant::now());
        match message {
            Some(Ok(Message::Text(text))) => self.read_text(&text),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
            Some(Ok(Message::Close(Some(frame)))) => Err(broken(format!(
                "its gateway closed it with {}: {:.200}",
                frame.code,
                frame.reason.as_str()
            ))),
            Some(Ok(Message::Close(None))) | None => Err(broken("its gateway closed it")),
            Some(Ok(_)) => Err(broken("its gateway sent a frame that is not text")),
            Some(Err(error)) => Err(connection_broke(error)),
        }
    }

    fn read_text(&mut self, text: &str) -> Result<(), LinkEnd> {
        let answer = answer::read(text).map_err(broken)?;
        let Some(id) = answer.id else { return Ok(()) };
        let Some(frame) = self.pending.take(id) else {
            return Err(broken("its gateway answered an unknown id"));
        };
        self.queue.counters.in_flight.store(self.pending.items, Ordering::Relaxed);
        frame.end(self.queue.issuer(), &answer).map_err(broken)
    }
}

type PeerRead = Option<Result<Message, tungstenite::Error>>;

enum NextFrame {
    Send(Utf8Bytes),
    /// The queue waits for more relays until then.
    WaitUntil(Instant),
    Nothing,
}
