//! What waits to be published: bounded in bytes and in time, and written many at once.

use super::Inner;
use crate::kernel::{Audience, Event};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A bell that could not be rung for so long is not rung any more: whoever missed it is looked after in another way.
const FRESH: Duration = Duration::from_secs(10);
/// What is written at once.
const BATCH: usize = 512;
const BATCH_BYTES: usize = 1 << 20;
/// Gateways look after all their sessions when they are told of a resync: not more often than this.
const BETWEEN_GAPS: Duration = Duration::from_secs(5);
/// The method of that note.
const GAP: &str = "bus.resync";

pub(super) struct Outgoing {
    queue: Mutex<Queue>,
    waiting: Notify,
    most_bytes: usize,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Of the items, and of the batch that is being written.
    bytes: usize,
    /// Whether something was dropped that nobody has been told of.
    resync: bool,
}

struct Item {
    channel: String,
    payload: Vec<u8>,
    since: Instant,
}

impl Item {
    fn bytes(&self) -> usize {
        self.channel.len() + self.payload.len() + size_of::<Item>()
    }
}

impl Outgoing {
    pub fn new(most_bytes: usize) -> Outgoing {
        Outgoing { queue: Mutex::default(), waiting: Notify::new(), most_bytes }
    }

    pub fn bytes(&self) -> usize {
        self.queue.lock().bytes
    }

    /// Never waits: what does not fit is dropped.
    pub fn push(&self, inner: &Inner, event: &Event) {
        let channel = inner.names.audience(&event.to);
        let item = Item { channel, payload: write(&inner.names.process, event), since: Instant::now() };
        let mut queue = self.queue.lock();
        if queue.bytes + item.bytes() > self.most_bytes {
            queue.resync = true;
            inner.stats.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.bytes += item.bytes();
        queue.items.push_back(item);
        drop(queue);
        self.waiting.notify_one();
    }

    fn take(&self) -> Vec<Item> {
        let mut queue = self.queue.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(item) = queue.items.pop_front() {
            bytes += item.bytes();
            batch.push(item);
            if batch.len() == BATCH || bytes >= BATCH_BYTES {
                break;
            }
        }
        batch
    }

    fn give_back(&self, bytes: usize) {
        self.queue.lock().bytes -= bytes;
    }
}

/// Publishes what comes, in the order in which it comes, until the process stops and the queue is empty.
pub(super) async fn run(inner: Arc<Inner>, stop: CancellationToken) {
    let mut told = None;
    loop {
        let batch = inner.outgoing.take();
        if batch.is_empty() {
            if stop.is_cancelled() {
                return;
            }
            tokio::select! {
                () = inner.outgoing.waiting.notified() => {}
                () = stop.cancelled() => {}
            }
            continue;
        }
        send(&inner, batch).await;
        tell_resync(&inner, &mut told);
    }
}

/// Again and again until it is published or stale. A bell that may have rung is rung once more: nobody is hurt by that.
async fn send(inner: &Inner, mut batch: Vec<Item>) {
    let mut broken = 0;
    loop {
        let stale = batch.partition_point(|item| item.since.elapsed() > FRESH);
        if stale > 0 {
            inner.outgoing.give_back(batch.drain(..stale).map(|item| item.bytes()).sum());
            inner.outgoing.queue.lock().resync = true;
            inner.stats.dropped.fetch_add(stale as u64, Ordering::Relaxed);
        }
        let Some(oldest) = batch.first() else { return };
        let patience = FRESH.saturating_sub(oldest.since.elapsed()) + Duration::from_millis(1);
        let Ok(live) = tokio::time::timeout(patience, inner.line.after(broken)).await else { continue };
        let mut pipe = redis::pipe();
        for item in &batch {
            pipe.add_command(live.publish(&item.channel, &item.payload)).ignore();
        }
        match live.ask_all::<()>(&pipe).await {
            Ok(()) => return inner.outgoing.give_back(batch.iter().map(Item::bytes).sum()),
            Err(error) => {
                inner.stats.errors.fetch_add(1, Ordering::Relaxed);
                inner.line.lost(&live, &error);
                broken = live.number;
            }
        }
    }
}

/// Called when something has just been published, so the gateways can be told as well.
fn tell_resync(inner: &Inner, told: &mut Option<Instant>) {
    if told.is_some_and(|told: Instant| told.elapsed() < BETWEEN_GAPS) {
        return;
    }
    if std::mem::take(&mut inner.outgoing.queue.lock().resync) {
        *told = Some(Instant::now());
        inner.outgoing.push(inner, &Event::new(Audience::Gateways, GAP, &()));
    }
}

/// What is heard on a channel.
pub(super) enum Heard {
    Event(Event),
    /// Somebody could not publish everything.
    Resync,
}

#[derive(Serialize)]
struct Written<'a> {
    to: &'a Audience,
    method: &'a str,
    params: &'a RawValue,
}

#[derive(Deserialize)]
struct Read {
    to: Audience,
    method: String,
    params: Box<RawValue>,
}

/// The publisher's name, a line feed, and the event: whoever published it need not read it.
fn write(process: &str, event: &Event) -> Vec<u8> {
    let Event { to, method, params } = event;
    let mut payload = Vec::with_capacity(process.len() + params.get().len() + 160);
    payload.extend_from_slice(process.as_bytes());
    payload.push(b'\n');
    serde_json::to_writer(&mut payload, &Written { to, method, params }).expect("an event is plain data");
    payload
}

/// `None` if it is our own, or not understood: a newer version may say more.
pub(super) fn read(process: &str, payload: &[u8]) -> Option<Heard> {
    let end = payload.iter().position(|byte| *byte == b'\n')?;
    let (from, event) = (&payload[..end], &payload[end + 1..]);
    if from == process.as_bytes() {
        return None;
    }
    let Read { to, method, params } = serde_json::from_slice(event).ok()?;
    Some(match (&to, method.as_str()) {
        (Audience::Gateways, GAP) => Heard::Resync,
        _ => Heard::Event(Event { to, method, params }),
    })
}
