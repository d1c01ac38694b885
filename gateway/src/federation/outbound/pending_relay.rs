//! One relay to another domain, from the peer queue until it has ended.

use super::peer_counters::{CountedLoad, PeerCounters};
use crate::federation::errors::{self, LinkFailure};
use crate::federation::wire::relay::RelayText;
use kernel::{RpcError, codes};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub type RelayOutcome = Result<Box<RawValue>, RpcError>;

/// What a queued relay costs beside its text.
const OVERHEAD: usize = 256;
/// A relay goes over at most two links: it is sent again once if the first one breaks.
const MOST_SENDS: u8 = 2;

pub struct PendingRelay {
    pub relay_id: String,
    /// The relay as it is sent, without the time that is left for it.
    text: String,
    /// `None` for an event, whose outcome nobody waits for.
    answer: Option<oneshot::Sender<RelayOutcome>>,
    pub queued_at: Instant,
    pub deadline: Instant,
    /// Over how many links it was sent.
    sends: u8,
    ended: bool,
    load: CountedLoad,
}

impl PendingRelay {
    pub fn new(
        counters: &Arc<PeerCounters>,
        RelayText { relay_id, text }: RelayText,
        answer: Option<oneshot::Sender<RelayOutcome>>,
        within: Duration,
    ) -> PendingRelay {
        let now = Instant::now();
        PendingRelay {
            load: CountedLoad::new(counters, text.len() + relay_id.len() + OVERHEAD),
            relay_id,
            text,
            answer,
            queued_at: now,
            deadline: now + within,
            sends: 0,
            ended: false,
        }
    }

    /// The most bytes it can have in a frame.
    pub fn len(&self) -> usize {
        self.text.len() + ",\"deadline_ms\":4294967295}".len()
    }

    /// Writes it with the time that is left for it.
    pub fn write(&mut self, frame: &mut String, now: Instant) {
        let left = self.deadline.saturating_duration_since(now).as_millis();
        frame.push_str(&self.text[..self.text.len() - 1]);
        frame.push_str(",\"deadline_ms\":");
        frame.push_str(itoa::Buffer::new().format(u32::try_from(left).unwrap_or(u32::MAX)));
        frame.push('}');
        self.sends += 1;
    }

    /// Whether nobody waits for the outcome any more.
    pub fn is_abandoned(&self) -> bool {
        self.answer.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    pub fn was_sent(&self) -> bool {
        self.sends > 0
    }

    pub fn end(&mut self, outcome: RelayOutcome) {
        if !self.ended {
            self.load.counters().ended(outcome.as_ref().err().map_or(0, RpcError::code));
            self.answer(outcome);
        }
    }

    fn answer(&mut self, outcome: RelayOutcome) {
        self.ended = true;
        if let Some(answer) = self.answer.take() {
            let _ = answer.send(outcome);
        }
    }

    /// Its deadline has passed.
    pub fn end_timed_out(&mut self) {
        let error = errors::timed_out(self.issuer(), &self.relay_id, self.was_sent());
        self.end(Err(error));
    }

    /// There is no link. Whether a relay that was sent before had an effect is unknown.
    pub fn end_unreachable(&mut self, failure: &LinkFailure, retry_after: Option<Duration>) {
        let error = match self.was_sent() {
            true => errors::link_lost(self.issuer(), &self.relay_id),
            false => failure.error(self.issuer(), retry_after),
        };
        self.end(Err(error));
    }

    /// The link broke while it was in flight, and it must not be sent again.
    pub fn end_link_lost(&mut self) {
        let error = errors::link_lost(self.issuer(), &self.relay_id);
        self.end(Err(error));
    }

    /// Whether it may be sent again after the link broke while it was in flight.
    pub fn may_send_again(&self, now: Instant) -> bool {
        !self.ended
            && self.sends < MOST_SENDS
            && now < self.deadline
            && !self.is_abandoned()
            && is_idempotent(&self.text)
    }

    fn issuer(&self) -> &str {
        &self.load.counters().issuer
    }
}

/// Whoever waits for a relay always gets an outcome, also where the relay is dropped on the way.
impl Drop for PendingRelay {
    fn drop(&mut self) {
        if self.ended || self.is_abandoned() {
            return;
        }
        let error = match self.was_sent() {
            true => errors::link_lost(self.issuer(), &self.relay_id),
            false => {
                let sentence = format!("this gateway stops, and did not send the call to {}", self.issuer());
                RpcError::new(codes::UNAVAILABLE, sentence)
            }
        };
        self.answer(Err(error));
    }
}

/// Whether the same relay twice has the same effect as once: its method only reads, or names a parameter that makes it
/// idempotent and that is present, or it is an event, which has an id. Evaluated only after a link broke, so it may parse.
fn is_idempotent(text: &str) -> bool {
    #[derive(Deserialize)]
    struct SentRelay<'a> {
        event_id: Option<String>,
        #[serde(default)]
        namespace: String,
        #[serde(default)]
        method: String,
        #[serde(borrow)]
        params: Option<HashMap<String, &'a RawValue>>,
    }
    let Ok(sent) = serde_json::from_str::<SentRelay<'_>>(text) else { return false };
    if sent.event_id.is_some() {
        return true;
    }
    let name = format!("{}.{}", sent.namespace, sent.method);
    let Some(rule) = proto_schemas::find(&name).and_then(|method| method.federation) else { return false };
    let present =
        |key| sent.params.as_ref().and_then(|params| params.get(key)).is_some_and(|v| v.get() != "null");
    rule.reads || rule.again.is_some_and(present)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_idempotent_relay_is_sent_again() {
        for (text, idempotent) in [
            (r#"{"namespace":"message","method":"query_online","params":{"aids":[]}}"#, true),
            (r#"{"namespace":"message","method":"send","params":{"to":"x","message_id":"m-1"}}"#, true),
            (r#"{"namespace":"message","method":"send","params":{"to":"x","message_id":null}}"#, false),
            (r#"{"namespace":"message","method":"send","params":{"payload":{"message_id":"m-1"}}}"#, false),
            (r#"{"namespace":"message","method":"send"}"#, false),
            (r#"{"namespace":"message","method":"nothing","params":{"message_id":"m-1"}}"#, false),
            (r#"{"kind":"event","event":"message.ack","event_id":"e-1"}"#, true),
            ("nothing", false),
        ] {
            assert_eq!(is_idempotent(text), idempotent, "{text}");
        }
    }
}
