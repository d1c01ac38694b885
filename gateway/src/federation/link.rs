//! One link to the gateway of another domain, after hello: relays go out in their order, many in one frame where many
//! wait, and each answer finds whoever asked.

use super::answer::{self, Answers};
use super::card;
use super::dial::{FRAME_BYTES, Linked};
use super::frames::{FEW_FRAMES, Picked, end_unsent, pick, write_frame};
use super::hello::Limits;
use super::job::Job;
use super::line::Line;
use super::trouble::refused_there;
use super::{Federation, refused};
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use std::collections::BTreeMap;
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
/// How often deadlines are looked at while something is under way, and everything else.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const REST: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(300);
const PING_AFTER: Duration = Duration::from_secs(30);
const PONG_PATIENCE: Duration = Duration::from_secs(10);
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);
/// Longer than any call may take. Whoever has not answered by then does not answer any more.
const UNANSWERED: Duration = Duration::from_secs(30);

/// Why a link ended.
pub enum End {
    /// Nothing was left to do, or it has lasted long enough: nobody's fault.
    Done,
    Broken(String),
}

fn broken(reason: impl Into<String>) -> End {
    End::Broken(reason.into())
}

pub struct Link<'a> {
    line: &'a Arc<Line>,
    linked: Linked,
    limits: Limits,
    /// By the id of the frame: ids grow, so this is the order in which they were sent.
    flights: BTreeMap<u64, Flight>,
    items: usize,
    bytes: usize,
    last_id: u64,
    /// When something was last heard, when a ping was sent since, when there was last something to do.
    heard: Instant,
    pinged: Option<Instant>,
    busy: Instant,
    looked: Instant,
    measured: Instant,
    /// Its time is over: it only waits for what is under way.
    retires: bool,
}

/// One frame under way.
struct Flight {
    jobs: Vec<Job>,
    batch: bool,
    bytes: usize,
    at: Instant,
}

impl<'a> Link<'a> {
    pub fn new(line: &'a Arc<Line>, linked: Linked) -> Link<'a> {
        let now = Instant::now();
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
            flights: BTreeMap::new(),
            items: 0,
            bytes: 0,
            // The hello was the first.
            last_id: 1,
            heard: now,
            pinged: None,
            busy: now,
            looked: now,
            measured: now,
            retires: false,
        }
    }

    /// Speaks until the link ends; says why, and what was under way, in its order.
    pub async fn speak(mut self, fed: &Federation) -> (End, Vec<Job>) {
        let end = self.pump(fed).await;
        if let End::Done = end {
            let _ = timeout(CLOSE_PATIENCE, self.linked.socket.close(None)).await;
        }
        let jobs = self.flights.into_values().flat_map(|flight| flight.jobs).collect();
        (end, jobs)
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
            let next_look = self.looked + if self.flights.is_empty() { REST } else { LOOK_EVERY };
            // Asked here and not below, where a socket that always has something to say would come first.
            if Instant::now() >= next_look
                && let Err(end) = self.look(fed).await
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
                    let sent = self.linked.socket.start_send_unpin(Message::Text(frame));
                    sent.map_err(|error| broken(format!("the wire broke: {error}")))?;
                }
                Next::Held(until) => break Some(until),
                Next::Nothing => break None,
            }
        };
        if written {
            self.busy = now;
            self.flush().await?;
        }
        Ok(held)
    }

    /// Flushes, and reads while it cannot write: two that only write would wait for each other for ever.
    async fn flush(&mut self) -> Result<(), End> {
        let flushed = timeout(WRITE_PATIENCE, poll_fn(|cx| self.poll_flush(cx))).await;
        flushed.unwrap_or_else(|_| Err(broken("nothing could be written")))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        for _ in 0..READY {
            if let Poll::Ready(flushed) = self.linked.socket.poll_flush_unpin(cx) {
                return Poll::Ready(flushed.map_err(|error| broken(format!("the wire broke: {error}"))));
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
        let room = self.limits.max_inflight.saturating_sub(self.items).min(self.limits.max_batch_items);
        if self.retires || room == 0 || self.bytes >= IN_FLIGHT_BYTES {
            return Next::Nothing;
        }
        let (line, few, most) = (self.line, self.flights.len() < FEW_FRAMES, self.limits.max_frame_bytes);
        let Picked { mut jobs, out, held } = line.take(|waiting| pick(waiting, few, room, most, now));
        out.into_iter().for_each(|job| end_unsent(job, most, now));
        if let Some(until) = held {
            return Next::Held(until);
        }
        if jobs.is_empty() {
            return Next::Nothing;
        }
        self.last_id += 1;
        let frame = write_frame(self.last_id, &mut jobs, now);
        let (bytes, batch) = (frame.len(), jobs.len() > 1);
        self.bytes += bytes;
        self.items += jobs.len();
        self.line.in_flight.store(self.items, Ordering::Relaxed);
        self.flights.insert(self.last_id, Flight { jobs, batch, bytes, at: now });
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
        (self.heard, self.pinged) = (Instant::now(), None);
        match message {
            Some(Ok(Message::Text(text))) => self.hear_text(&text),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
            Some(Ok(Message::Close(Some(frame)))) => {
                Err(broken(format!("its gateway left with {}: {:.200}", frame.code, frame.reason.as_str())))
            }
            Some(Ok(Message::Close(None))) | None => Err(broken("its gateway left")),
            Some(Ok(_)) => Err(broken("its gateway does not speak our language")),
            Some(Err(error)) => Err(broken(format!("the wire broke: {error}"))),
        }
    }

    fn hear_text(&mut self, text: &str) -> Result<(), End> {
        let frame = answer::read(text).map_err(broken)?;
        let Some(id) = frame.id else { return Ok(()) };
        let Some(flight) = self.flights.remove(&id) else {
            return Err(broken("its gateway answered what was not asked"));
        };
        self.items -= flight.jobs.len();
        self.bytes -= flight.bytes;
        self.line.in_flight.store(self.items, Ordering::Relaxed);
        let mut jobs = flight.jobs;
        let issuer = &self.line.issuer;
        let ids = || jobs.iter().map(|job| job.relay_id.as_str());
        let answers = match flight.batch {
            true => frame.batch(issuer, id, ids()),
            false => frame.single(issuer, ids()),
        };
        match answers {
            Answers::Each(outcomes) => {
                jobs.iter_mut().zip(outcomes).for_each(|(job, outcome)| job.end(outcome));
                Ok(())
            }
            Answers::Refused(error) => {
                jobs.iter_mut().for_each(|job| job.end(Err(refused_there(issuer, &error))));
                Ok(())
            }
            Answers::Odd(why) => {
                let sentence = format!("the answer of {issuer} is not understood: {why}");
                jobs.iter_mut().for_each(|job| job.end(Err(refused("bad_answer", &sentence))));
                Err(broken(sentence))
            }
        }
    }

    /// Looks at everything that has to do with time.
    async fn look(&mut self, fed: &Federation) -> Result<(), End> {
        let now = Instant::now();
        self.looked = now;
        self.look_at_deadlines(fed, now);
        if self.flights.values().next().is_some_and(|first| now - first.at > UNANSWERED) {
            return Err(broken("its gateway leaves calls unanswered"));
        }
        if now >= self.linked.until {
            self.retires = true;
        }
        self.check_trust(fed)?;
        if self.flights.is_empty() && now - self.busy > IDLE && !self.line.has_waiting() {
            return Err(End::Done);
        }
        self.check_life(now).await
    }

    fn look_at_deadlines(&mut self, fed: &Federation, now: Instant) {
        self.line.end_overdue(now, Job::end_late);
        let mut oldest = self.line.oldest_waiting(now);
        for flight in self.flights.values_mut() {
            oldest = oldest.max(now - flight.at);
            flight.jobs.iter_mut().filter(|job| job.deadline <= now).for_each(Job::end_late);
        }
        self.line.saw_oldest(oldest);
        if now - self.measured >= REST {
            self.measured = now;
            fed.peers.measure();
        }
    }

    /// A root may have been taken from the list: then the link goes, too.
    fn check_trust(&mut self, fed: &Federation) -> Result<(), End> {
        let roots = fed.trust.roots();
        if Arc::ptr_eq(&roots, &self.linked.roots) {
            return Ok(());
        }
        let super::Peer { issuer, gateway_aid, certificate } = &self.linked.peer;
        let now = fed.clock.now_seconds();
        card::check(&fed.trust, issuer, gateway_aid, certificate.pem(), &self.linked.chain, now)
            .map_err(|error| broken(format!("it is not trusted any more: {error}")))?;
        self.linked.roots = roots;
        Ok(())
    }

    async fn check_life(&mut self, now: Instant) -> Result<(), End> {
        match self.pinged {
            Some(at) if now - at > PONG_PATIENCE => Err(broken("its gateway fell silent")),
            None if now - self.heard > PING_AFTER => {
                self.pinged = Some(now);
                let sent = self.linked.socket.start_send_unpin(Message::Ping(Default::default()));
                sent.map_err(|error| broken(format!("the wire broke: {error}")))?;
                self.flush().await
            }
            _ => Ok(()),
        }
    }
}

type Received = Option<Result<Message, tungstenite::Error>>;

enum Next {
    Frame(Utf8Bytes),
    /// A few wait for company until then.
    Held(Instant),
    Nothing,
}
