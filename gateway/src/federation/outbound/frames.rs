//! Which relays go into the next frame of a peer link: from the front of the queue, as much as the other gateway accepts.

use super::pending_relay::PendingRelay;
use crate::federation::errors::refused;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// With this many frames in flight, a short queue waits until it holds enough relays for a batch, or until the first of
/// them has waited this long.
pub const FEW_FRAMES: usize = 8;
const BATCH_WORTH_SENDING: usize = 64;
const BATCH_WAIT: Duration = Duration::from_millis(2);

/// The most bytes a frame has beside its relays.
const ENVELOPE: usize = 160;

#[derive(Default)]
pub struct PickedRelays {
    pub relays: Vec<PendingRelay>,
    /// Those that will never be sent.
    pub unsent: Vec<PendingRelay>,
    /// When to pick again, if the queue waits for more relays.
    pub wait_until: Option<Instant>,
}

/// The relays of the next frame, from the front of the queue.
pub fn pick(
    queue: &mut VecDeque<PendingRelay>,
    few_frames: bool,
    most_items: usize,
    most_bytes: usize,
    now: Instant,
) -> PickedRelays {
    let mut picked = PickedRelays::default();
    let Some(first) = queue.front() else { return picked };
    let wait_until = first.queued_at + BATCH_WAIT;
    if !few_frames && queue.len() < BATCH_WORTH_SENDING && now < wait_until {
        picked.wait_until = Some(wait_until);
        return picked;
    }
    let mut bytes = ENVELOPE;
    while picked.relays.len() < most_items
        && let Some(relay) = queue.front()
    {
        let fits = bytes + relay.len() <= most_bytes;
        if !fits && !picked.relays.is_empty() {
            break;
        }
        bytes += relay.len() + 1;
        let Some(relay) = queue.pop_front() else { break };
        if !fits || relay.deadline <= now || relay.is_abandoned() {
            bytes -= relay.len() + 1;
            picked.unsent.push(relay);
        } else {
            picked.relays.push(relay);
        }
    }
    picked
}

pub fn end_unsent(mut relay: PendingRelay, most_bytes: usize, now: Instant) {
    if relay.deadline <= now {
        relay.end_timed_out();
    } else if !relay.is_abandoned() {
        let sentence = format!("the call is larger than the {most_bytes} bytes the other gateway accepts");
        relay.end(Err(refused("oversize", sentence)));
    }
}

pub fn write_frame(id: u64, relays: &mut [PendingRelay], now: Instant) -> Utf8Bytes {
    let bytes: usize = relays.iter().map(|relay| relay.len() + 1).sum();
    let mut frame = String::with_capacity(bytes + ENVELOPE);
    frame.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    frame.push_str(itoa::Buffer::new().format(id));
    if let [relay] = relays {
        frame.push_str(",\"method\":\"federation.relay\",\"params\":");
        relay.write(&mut frame, now);
        frame.push('}');
        return frame.into();
    }
    frame.push_str(",\"method\":\"federation.relay_batch\",\"params\":{\"batch_id\":\"");
    frame.push_str(itoa::Buffer::new().format(id));
    frame.push_str("\",\"items\":");
    let mut before = '[';
    for relay in relays {
        frame.push(before);
        before = ',';
        relay.write(&mut frame, now);
    }
    frame.push_str("]}}");
    frame.into()
}
