//! The bells of one device in the order of their numbers, also where several processes ring them.
//!
//! Numbers are dense, so a bell that is ahead of its turn is known for one, and waits a moment for those before it. What
//! comes after its turn is left out: the client was told of a later one, found its gap, and pulls.

use crate::door::Door;
use crate::events;
use parking_lot::Mutex;
use serde::Deserialize;
use services::kernel::{Aid, Audience, DeviceId, Event};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// How long a bell waits for those before it, and how many may wait on one device.
const PATIENCE: Duration = Duration::from_millis(100);
const HELD: usize = 256;

#[derive(Default)]
pub struct Order(Mutex<HashMap<(Aid, DeviceId), Line>>);

#[derive(Default)]
struct Line {
    /// The last number that was rung; 0 if none was yet.
    last: i64,
    held: BTreeMap<i64, Event>,
}

#[derive(Deserialize)]
struct Numbered {
    seq: i64,
    #[serde(default)]
    device_id: DeviceId,
}

/// Rings at once what has no number or is next, and the others in their turn.
pub fn ring(door: &Arc<Door>, event: &Event) {
    let Some((key, seq)) = place(event) else { return events::deliver(door, event) };
    let mut lines = door.order.0.lock();
    let line = lines.entry(key.clone()).or_default();
    if seq <= line.last {
        return;
    }
    let first = line.held.is_empty();
    line.held.insert(seq, event.clone());
    if line.last == 0 || line.held.len() > HELD {
        return line.ring_all(door);
    }
    line.ring_next(door);
    if first && !line.held.is_empty() {
        let door = door.clone();
        door.tracker.clone().spawn(async move {
            tokio::time::sleep(PATIENCE).await;
            if let Some(line) = door.order.0.lock().get_mut(&key) {
                line.ring_all(&door);
            }
        });
    }
}

impl Order {
    /// A new connection of a device begins where it likes.
    pub fn begin(&self, aid: &Aid, device: &DeviceId) {
        self.0.lock().remove(&(aid.clone(), device.clone()));
    }

    /// Drops the lines of those who are not here any more.
    pub fn keep(&self, is_here: impl Fn(&Aid) -> bool) {
        self.0.lock().retain(|(aid, _), _| is_here(aid));
    }
}

impl Line {
    /// Rung under the lock, so that nothing overtakes; an outbox never blocks.
    fn ring_next(&mut self, door: &Door) {
        while let Some(event) = self.held.remove(&(self.last + 1)) {
            self.last += 1;
            events::deliver(door, &event);
        }
    }

    fn ring_all(&mut self, door: &Door) {
        for (seq, event) in std::mem::take(&mut self.held) {
            self.last = seq;
            events::deliver(door, &event);
        }
    }
}

/// Whose bell it is and its number, if it has one.
fn place(event: &Event) -> Option<((Aid, DeviceId), i64)> {
    if !event.method.starts_with("event/message.re") && !event.method.starts_with("event/peer.v2.") {
        return None;
    }
    let aid = match &event.to {
        Audience::Instance { aid, .. } | Audience::Connection { aid, .. } => aid.clone(),
        Audience::Agent(_) | Audience::Others { .. } | Audience::Doors => return None,
    };
    let Numbered { seq, device_id } = serde_json::from_str(event.params.get()).ok()?;
    Some(((aid, device_id), seq))
}
