//! The bells of one device in the order of their numbers, and those of one cursor, also where several processes ring them.
//!
//! Numbers are dense, so a bell that is ahead of its turn is known for one, and waits a moment for those before it. What
//! comes after its turn is left out: the client was told of a later one, found its gap, and pulls. Where a cursor stands is
//! said by the latest bell alone.

#[cfg(test)]
mod tests;

use crate::events;
use crate::gateway::Gateway;
use parking_lot::Mutex;
use serde::Deserialize;
use services::kernel::{Aid, Audience, DeviceId, Event};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a bell waits for those before it, and how many may wait on one device.
const PATIENCE: Duration = Duration::from_millis(100);
const HELD: usize = 256;
/// How long it is remembered where a cursor stood, and how many cursors are remembered for one sender. Processes overtake
/// each other by less.
const MEMORY: Duration = Duration::from_secs(5);
const CURSORS: usize = 64;

#[derive(Default)]
pub struct EventOrder {
    lines: Mutex<HashMap<Key, Line>>,
    cursors: Mutex<HashMap<Aid, Cursors>>,
}

type Key = (Aid, DeviceId);
/// Where each stood, and since when that is known.
type Cursors = HashMap<Cursor, (i64, Instant)>;

#[derive(Default)]
struct Line {
    /// The last number that was rung; 0 if none was yet.
    last: i64,
    held: BTreeMap<i64, Event>,
}

/// Whose cursor it is, of all senders or of one.
#[derive(PartialEq, Eq, Hash, Deserialize)]
struct Cursor {
    to: Aid,
    #[serde(default)]
    device_id: String,
    #[serde(default)]
    slot_id: String,
    #[serde(default)]
    cursor_scope: String,
}

/// Rings at once what has no number or is next, and the others in their turn.
pub fn ring(gateway: &Arc<Gateway>, event: &Event) {
    let Some(key) = gateway.event_order.take(event, |event| events::deliver(gateway, event)) else { return };
    let gateway = gateway.clone();
    gateway.tracker.clone().spawn(async move {
        tokio::time::sleep(PATIENCE).await;
        gateway.event_order.lose_patience(&key, |event| events::deliver(&gateway, event));
    });
}

/// A new connection of a device begins where it likes.
pub fn begin(gateway: &Gateway, aid: &Aid, device: &DeviceId) {
    gateway.event_order.begin(&(aid.clone(), device.clone()), |event| events::deliver(gateway, event));
}

impl EventOrder {
    /// Drops what is known of those who are not here any more, and of cursors that nobody overtakes now.
    pub fn keep(&self, is_here: impl Fn(&Aid) -> bool) {
        self.lines.lock().retain(|(aid, _), _| is_here(aid));
        self.cursors.lock().retain(|aid, cursors| {
            forget_old(cursors);
            is_here(aid) && !cursors.is_empty()
        });
    }

    /// Everything is rung under the lock, so that nothing overtakes; an outbox never blocks. Gives the line that waits from
    /// now on, if one begins to.
    fn take(&self, event: &Event, mut ring: impl FnMut(&Event)) -> Option<Key> {
        if let Some((sender, cursor, reached)) = acknowledged(event) {
            self.advance(sender, cursor, reached, || ring(event));
            return None;
        }
        let Some((key, seq)) = place(event) else {
            ring(event);
            return None;
        };
        let mut lines = self.lines.lock();
        let line = lines.entry(key.clone()).or_default();
        if seq <= line.last {
            return None;
        }
        let first = line.held.is_empty();
        line.held.insert(seq, event.clone());
        if line.last == 0 || line.held.len() > HELD {
            line.ring_all(ring);
            return None;
        }
        line.ring_next(ring);
        (first && !line.held.is_empty()).then_some(key)
    }

    fn lose_patience(&self, key: &Key, ring: impl FnMut(&Event)) {
        if let Some(line) = self.lines.lock().get_mut(key) {
            line.ring_all(ring);
        }
    }

    /// What waits is rung first: other connections of the device are owed it.
    fn begin(&self, key: &Key, ring: impl FnMut(&Event)) {
        let mut lines = self.lines.lock();
        if let Some(mut line) = lines.remove(key) {
            line.ring_all(ring);
        }
    }

    /// Rings if the cursor moved forward, as far as we remember.
    fn advance(&self, sender: Aid, cursor: Cursor, reached: i64, ring: impl FnOnce()) {
        let mut cursors = self.cursors.lock();
        let cursors = cursors.entry(sender).or_default();
        if cursors.len() >= CURSORS {
            forget_old(cursors);
        }
        if cursors.len() >= CURSORS {
            cursors.clear();
        }
        let before = cursors.get(&cursor).filter(|(_, since)| since.elapsed() < MEMORY);
        if before.is_none_or(|(before, _)| reached > *before) {
            cursors.insert(cursor, (reached, Instant::now()));
            ring();
        }
    }
}

fn forget_old(cursors: &mut Cursors) {
    cursors.retain(|_, (_, since)| since.elapsed() < MEMORY);
}

impl Line {
    fn ring_next(&mut self, mut ring: impl FnMut(&Event)) {
        while let Some(event) = self.held.remove(&(self.last + 1)) {
            self.last += 1;
            ring(&event);
        }
    }

    fn ring_all(&mut self, mut ring: impl FnMut(&Event)) {
        for (seq, event) in std::mem::take(&mut self.held) {
            self.last = seq;
            ring(&event);
        }
    }
}

/// Whose bell it is and its number, if it has one.
fn place(event: &Event) -> Option<(Key, i64)> {
    #[derive(Deserialize)]
    struct Numbered {
        seq: i64,
        #[serde(default)]
        device_id: DeviceId,
    }
    if !event.method.starts_with("event/message.re") && !event.method.starts_with("event/peer.v2.") {
        return None;
    }
    let aid = match &event.to {
        // Its client forgot the first one (`message.v2.ack`), so it is not left out for coming again.
        Audience::Connection { .. } if event.method.starts_with("event/peer.v2.") => return None,
        Audience::Instance { aid, .. } | Audience::Connection { aid, .. } => aid.clone(),
        Audience::Agent(_) | Audience::Others { .. } | Audience::Gateways => return None,
    };
    let Numbered { seq, device_id } = serde_json::from_str(event.params.get()).ok()?;
    Some(((aid, device_id), seq))
}

/// Which sender is told of which cursor, and where it stands.
fn acknowledged(event: &Event) -> Option<(Aid, Cursor, i64)> {
    #[derive(Deserialize)]
    struct Reached {
        #[serde(flatten)]
        cursor: Cursor,
        ack_seq: i64,
    }
    let Audience::Agent(sender) = &event.to else { return None };
    if event.method != "event/message.ack" {
        return None;
    }
    let Reached { cursor, ack_seq } = serde_json::from_str(event.params.get()).ok()?;
    Some((sender.clone(), cursor, ack_seq))
}
