//! The frames of a peer link that are not answered yet, each with the relays in it.

use crate::federation::errors::{refused, refused_by_peer};
use crate::federation::outbound::answer::{AnswerFrame, RelayAnswers};
use crate::federation::outbound::frames::write_frame;
use crate::federation::outbound::pending_relay::PendingRelay;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

pub(super) struct PendingFrames {
    /// By the id of the frame: ids grow, so this is the order in which they were sent.
    frames: BTreeMap<u64, PendingFrame>,
    last_id: u64,
    pub(super) items: usize,
    pub(super) bytes: usize,
}

/// One frame that is not answered yet.
pub(super) struct PendingFrame {
    id: u64,
    relays: Vec<PendingRelay>,
    bytes: usize,
    sent_at: Instant,
}

impl PendingFrames {
    pub(super) fn new() -> PendingFrames {
        // The hello had the first id.
        PendingFrames { frames: BTreeMap::new(), last_id: 1, items: 0, bytes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Writes the next frame, with these relays in it.
    pub(super) fn begin(&mut self, mut relays: Vec<PendingRelay>, now: Instant) -> Utf8Bytes {
        self.last_id += 1;
        let (id, frame) = (self.last_id, write_frame(self.last_id, &mut relays, now));
        self.items += relays.len();
        self.bytes += frame.len();
        self.frames.insert(id, PendingFrame { id, relays, bytes: frame.len(), sent_at: now });
        frame
    }

    /// The frame that was answered; `None` if this id was not sent, or is answered already.
    pub(super) fn take(&mut self, id: u64) -> Option<PendingFrame> {
        let frame = self.frames.remove(&id)?;
        self.items -= frame.relays.len();
        self.bytes -= frame.bytes;
        Some(frame)
    }

    /// How long the oldest frame has waited for its answer.
    pub(super) fn oldest(&self, now: Instant) -> Option<Duration> {
        self.frames.values().next().map(|first| now - first.sent_at)
    }

    pub(super) fn end_overdue(&mut self, now: Instant) {
        let relays = self.frames.values_mut().flat_map(|frame| &mut frame.relays);
        relays.filter(|relay| relay.deadline <= now).for_each(PendingRelay::end_timed_out);
    }

    /// All relays that are in flight, in their order.
    pub(super) fn into_relays(self) -> Vec<PendingRelay> {
        self.frames.into_values().flat_map(|frame| frame.relays).collect()
    }
}

impl PendingFrame {
    /// Ends its relays with this answer; `Err` if the answer does not fit the frame and the link has to end.
    pub(super) fn end(mut self, issuer: &str, answer: &AnswerFrame<'_>) -> Result<(), String> {
        let ids = self.relays.iter().map(|relay| relay.relay_id.as_str());
        let answers = match self.relays.len() > 1 {
            true => answer.batch(issuer, self.id, ids),
            false => answer.single(issuer, ids),
        };
        let relays = self.relays.iter_mut();
        match answers {
            RelayAnswers::Each(outcomes) => {
                relays.zip(outcomes).for_each(|(relay, outcome)| relay.end(outcome))
            }
            RelayAnswers::Refused(error) => {
                relays.for_each(|relay| relay.end(Err(refused_by_peer(issuer, &error))))
            }
            RelayAnswers::Malformed(why) => {
                let sentence = format!("the answer of {issuer} is malformed: {why}");
                relays.for_each(|relay| relay.end(Err(refused("bad_answer", &sentence))));
                return Err(sentence);
            }
        }
        Ok(())
    }
}
