//! What waits to be published: bounded in bytes and in time, and written many at once.

use super::RedisBusInner;
use crate::redis::RedisContext;
use crate::{Audience, Event};
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

/// An event that could not be published for so long is dropped: a resync makes up for it.
const MAX_AGE: Duration = Duration::from_secs(10);
/// What is written at once.
const BATCH: usize = 512;
const BATCH_BYTES: usize = 1 << 20;
/// A resync has the gateways look after all their sessions, so it is not announced more often than this.
const BETWEEN_RESYNCS: Duration = Duration::from_secs(5);
/// The method of the event that announces a resync.
const RESYNC: &str = "bus.resync";

pub(super) struct PublishQueue {
    state: Mutex<PublishQueueState>,
    waiting: Notify,
    most_bytes: usize,
}

#[derive(Default)]
struct PublishQueueState {
    events: VecDeque<QueuedEvent>,
    /// Of the events, and of the batch that is being written.
    bytes: usize,
    /// Whether something was dropped and the gateways do not know yet.
    resync: bool,
}

struct QueuedEvent {
    channel: String,
    payload: Vec<u8>,
    since: Instant,
}

impl QueuedEvent {
    fn bytes(&self) -> usize {
        self.channel.len() + self.payload.len() + size_of::<QueuedEvent>()
    }
}

impl PublishQueue {
    pub fn new(most_bytes: usize) -> PublishQueue {
        PublishQueue { state: Mutex::default(), waiting: Notify::new(), most_bytes }
    }

    pub fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Never waits: what does not fit is dropped.
    pub fn push(&self, redis: &RedisContext, event: &Event) {
        let channel = redis.keys.audience(&event.to);
        let event =
            QueuedEvent { channel, payload: write(&redis.keys.process, event), since: Instant::now() };
        let mut state = self.state.lock();
        if state.bytes + event.bytes() > self.most_bytes {
            state.resync = true;
            redis.counters.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.bytes += event.bytes();
        state.events.push_back(event);
        drop(state);
        self.waiting.notify_one();
    }

    fn next_batch(&self) -> Vec<QueuedEvent> {
        let mut state = self.state.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(event) = state.events.pop_front() {
            bytes += event.bytes();
            batch.push(event);
            if batch.len() == BATCH || bytes >= BATCH_BYTES {
                break;
            }
        }
        batch
    }

    fn free(&self, bytes: usize) {
        self.state.lock().bytes -= bytes;
    }
}

/// Publishes what comes, in the order in which it comes, until the process stops and the queue is empty.
pub(super) async fn run(inner: Arc<RedisBusInner>, stop: CancellationToken) {
    let RedisBusInner { queue, redis, .. } = &*inner;
    let mut last_resync = None;
    loop {
        let batch = queue.next_batch();
        if batch.is_empty() {
            if stop.is_cancelled() {
                return;
            }
            tokio::select! {
                () = queue.waiting.notified() => {}
                () = stop.cancelled() => {}
            }
            continue;
        }
        send(queue, redis, batch).await;
        announce_resync(queue, redis, &mut last_resync);
    }
}

/// Tries until it is published or too old. What may have been published is published once more: an event that comes twice
/// does no harm, and one that is missing would.
async fn send(queue: &PublishQueue, redis: &RedisContext, mut batch: Vec<QueuedEvent>) {
    let mut broken = 0;
    loop {
        let old = batch.partition_point(|event| event.since.elapsed() > MAX_AGE);
        if old > 0 {
            queue.free(batch.drain(..old).map(|event| event.bytes()).sum());
            queue.state.lock().resync = true;
            redis.counters.dropped.fetch_add(old as u64, Ordering::Relaxed);
        }
        let Some(oldest) = batch.first() else { return };
        let left = MAX_AGE.saturating_sub(oldest.since.elapsed()) + Duration::from_millis(1);
        let Ok(connection) = tokio::time::timeout(left, redis.connection.after(broken)).await else {
            continue;
        };
        let mut pipe = redis::pipe();
        for event in &batch {
            pipe.add_command(connection.publish(&event.channel, &event.payload)).ignore();
        }
        match connection.ask_all::<()>(&pipe).await {
            Ok(()) => return queue.free(batch.iter().map(QueuedEvent::bytes).sum()),
            Err(error) => {
                redis.failed(&connection, &error);
                broken = connection.generation;
            }
        }
    }
}

/// Called when something has just been published, so this can be published as well.
fn announce_resync(queue: &PublishQueue, redis: &RedisContext, last: &mut Option<Instant>) {
    if last.is_some_and(|last: Instant| last.elapsed() < BETWEEN_RESYNCS) {
        return;
    }
    if std::mem::take(&mut queue.state.lock().resync) {
        *last = Some(Instant::now());
        queue.push(redis, &Event::new(Audience::Gateways, RESYNC, &()));
    }
}

/// What comes on a channel.
pub(super) enum BusMessage {
    Event(Event),
    /// Another process could not publish everything.
    Resync,
}

#[derive(Serialize)]
struct WrittenEvent<'a> {
    to: &'a Audience,
    method: &'a str,
    params: &'a RawValue,
}

#[derive(Deserialize)]
struct ReadEvent {
    to: Audience,
    method: String,
    params: Box<RawValue>,
}

/// The publisher's name, a line feed, and the event: the process that published it skips it without parsing.
fn write(process: &str, event: &Event) -> Vec<u8> {
    let Event { to, method, params, .. } = event;
    let mut payload = Vec::with_capacity(process.len() + params.get().len() + 160);
    payload.extend_from_slice(process.as_bytes());
    payload.push(b'\n');
    serde_json::to_writer(&mut payload, &WrittenEvent { to, method, params })
        .expect("an event is plain data");
    payload
}

/// `None` if it is our own, or not understood: a newer version may publish more.
pub(super) fn read(process: &str, payload: &[u8]) -> Option<BusMessage> {
    let end = payload.iter().position(|byte| *byte == b'\n')?;
    let (from, event) = (&payload[..end], &payload[end + 1..]);
    if from == process.as_bytes() {
        return None;
    }
    let ReadEvent { to, method, params } = serde_json::from_slice(event).ok()?;
    Some(match (&to, method.as_str()) {
        (Audience::Gateways, RESYNC) => BusMessage::Resync,
        _ => BusMessage::Event(Event::with_params(to, method, params)),
    })
}
