//! The order of events where several processes publish them: those of one device by seq, those of one cursor by how far
//! it is.
//!
//! Seqs are dense, so an event that arrives too early is known by its seq, and is held for a moment until those before it
//! have come. One that arrives after a later one was delivered is dropped: the client saw that a seq is missing, and pulls.
//! Of a cursor only the furthest position counts.

#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use serde::Deserialize;
use services::kernel::{Aid, Audience, DeviceId, Event};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tokio::time::Instant;

/// How long an event is held for those before it, and how many are held for one device.
pub(super) const GAP_TIMEOUT: Duration = Duration::from_millis(100);
const MAX_HELD: usize = 256;
/// How long the position of a cursor is kept, and how many cursors are kept for one sender. Events of different processes
/// overtake each other by less.
const CURSOR_TTL: Duration = Duration::from_secs(5);
const MAX_CURSORS: usize = 64;

#[derive(Default)]
pub struct EventOrder {
    devices: Mutex<HashMap<DeviceKey, DeviceEvents>>,
    cursors: Mutex<HashMap<Aid, AckCursors>>,
}

pub(super) type DeviceKey = (Aid, DeviceId);
/// The position of each, and since when it is known.
type AckCursors = HashMap<AckCursor, (i64, Instant)>;

#[derive(Default)]
struct DeviceEvents {
    /// The last seq that was delivered; 0 if none was yet.
    last: i64,
    held: BTreeMap<i64, Event>,
}

/// Whose cursor it is, of all senders or of one.
#[derive(PartialEq, Eq, Hash, Deserialize)]
struct AckCursor {
    to: Aid,
    #[serde(default)]
    device_id: String,
    #[serde(default)]
    slot_id: String,
    #[serde(default)]
    cursor_scope: String,
}

impl EventOrder {
    /// Drops what is known of agents that are not here any more, and of cursors whose time is over.
    pub fn keep(&self, is_here: impl Fn(&Aid) -> bool) {
        self.devices.lock().retain(|(aid, _), _| is_here(aid));
        self.cursors.lock().retain(|aid, cursors| {
            forget_old(cursors);
            is_here(aid) && !cursors.is_empty()
        });
    }

    /// Delivers the event, holds it or drops it. Everything is delivered under the lock, so that no event overtakes another;
    /// that is short, because an outbox never blocks. Gives the device if this is the first event that is held for it: the
    /// caller has to [`give_up`](Self::give_up) after [`GAP_TIMEOUT`].
    pub fn add(&self, event: &Event, mut deliver: impl FnMut(&Event)) -> Option<DeviceKey> {
        if let Some((sender, cursor, reached)) = acknowledged(event) {
            self.advance(sender, cursor, reached, || deliver(event));
            return None;
        }
        let Some((key, seq)) = device_and_seq(event) else {
            deliver(event);
            return None;
        };
        let mut devices = self.devices.lock();
        let device = devices.entry(key.clone()).or_default();
        if seq <= device.last {
            return None;
        }
        let first = device.held.is_empty();
        device.held.insert(seq, event.clone());
        if device.last == 0 || device.held.len() > MAX_HELD {
            device.deliver_all(deliver);
            return None;
        }
        device.deliver_next(deliver);
        (first && !device.held.is_empty()).then_some(key)
    }

    /// Delivers all that is held for a device: what is missing before it has not come in time.
    pub fn give_up(&self, key: &DeviceKey, deliver: impl FnMut(&Event)) {
        if let Some(device) = self.devices.lock().get_mut(key) {
            device.deliver_all(deliver);
        }
    }

    /// Forgets the last seq of a device, so that the next event is delivered whatever its seq is. What is held is delivered
    /// first: it may be for other connections of the device.
    pub fn begin(&self, key: &DeviceKey, deliver: impl FnMut(&Event)) {
        let mut devices = self.devices.lock();
        if let Some(mut device) = devices.remove(key) {
            device.deliver_all(deliver);
        }
    }

    /// Delivers if the cursor moved forward, as far as its position is known.
    fn advance(&self, sender: Aid, cursor: AckCursor, reached: i64, deliver: impl FnOnce()) {
        let mut cursors = self.cursors.lock();
        let cursors = cursors.entry(sender).or_default();
        if cursors.len() >= MAX_CURSORS {
            forget_old(cursors);
        }
        if cursors.len() >= MAX_CURSORS {
            cursors.clear();
        }
        let before = cursors.get(&cursor).filter(|(_, since)| since.elapsed() < CURSOR_TTL);
        if before.is_none_or(|(before, _)| reached > *before) {
            cursors.insert(cursor, (reached, Instant::now()));
            deliver();
        }
    }
}

fn forget_old(cursors: &mut AckCursors) {
    cursors.retain(|_, (_, since)| since.elapsed() < CURSOR_TTL);
}

impl DeviceEvents {
    fn deliver_next(&mut self, mut deliver: impl FnMut(&Event)) {
        while let Some(event) = self.held.remove(&(self.last + 1)) {
            self.last += 1;
            deliver(&event);
        }
    }

    fn deliver_all(&mut self, mut deliver: impl FnMut(&Event)) {
        for (seq, event) in std::mem::take(&mut self.held) {
            self.last = seq;
            deliver(&event);
        }
    }
}

/// Which device the event is for and its seq, if it has one.
fn device_and_seq(event: &Event) -> Option<(DeviceKey, i64)> {
    #[derive(Deserialize)]
    struct SeqParams {
        seq: i64,
        #[serde(default)]
        device_id: DeviceId,
    }
    if !event.method.starts_with("event/message.re") && !event.method.starts_with("event/peer.v2.") {
        return None;
    }
    let aid = match &event.to {
        // Published again because the client forgot the first one (`message.v2.ack`), so it must not be dropped.
        Audience::Connection { .. } if event.method.starts_with("event/peer.v2.") => return None,
        Audience::Instance { aid, .. } | Audience::Connection { aid, .. } => aid.clone(),
        Audience::Agent(_) | Audience::Others { .. } | Audience::Gateways => return None,
    };
    let SeqParams { seq, device_id } = serde_json::from_str(event.params.get()).ok()?;
    Some(((aid, device_id), seq))
}

/// The sender the event is for, the cursor it is about, and its position.
fn acknowledged(event: &Event) -> Option<(Aid, AckCursor, i64)> {
    #[derive(Deserialize)]
    struct AckEventParams {
        #[serde(flatten)]
        cursor: AckCursor,
        ack_seq: i64,
    }
    let Audience::Agent(sender) = &event.to else { return None };
    if event.method != "event/message.ack" {
        return None;
    }
    let AckEventParams { cursor, ack_seq } = serde_json::from_str(event.params.get()).ok()?;
    Some((sender.clone(), cursor, ack_seq))
}
