//! One relay on its way to another domain, and what it weighs until it has ended.

use super::line::Line;
use super::trouble::{self, Failure};
use super::wire::Text;
use serde::Deserialize;
use serde_json::value::RawValue;
use services::kernel::{RpcError, codes};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub type Outcome = Result<Box<RawValue>, RpcError>;

/// What a job costs beside its text.
const OVERHEAD: usize = 256;

pub struct Job {
    pub relay_id: String,
    /// The relay as it is sent, but for the time that is left.
    text: String,
    /// Nobody waits for an event.
    answer: Option<oneshot::Sender<Outcome>>,
    pub since: Instant,
    pub deadline: Instant,
    /// Over how many links it was sent.
    sent: u8,
    ended: bool,
    weight: Weight,
}

/// What waits or is under way, counted in the line and in all of them together.
pub struct Weight {
    bytes: usize,
    line: Arc<Line>,
}

/// Both sides of a count.
#[derive(Default)]
pub struct Load {
    pub bytes: AtomicUsize,
    pub items: AtomicUsize,
}

impl Load {
    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.items.fetch_add(1, Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.items.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Weight {
    fn new(line: &Arc<Line>, bytes: usize) -> Weight {
        line.load.add(bytes);
        line.all.add(bytes);
        line.metrics.federation_queue_bytes.inc_by(whole(bytes));
        Weight { bytes, line: line.clone() }
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.line.load.remove(self.bytes);
        self.line.all.remove(self.bytes);
        self.line.metrics.federation_queue_bytes.dec_by(whole(self.bytes));
    }
}

fn whole(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Job {
    pub fn new(
        line: &Arc<Line>,
        Text { relay_id, text }: Text,
        answer: Option<oneshot::Sender<Outcome>>,
        within: Duration,
    ) -> Job {
        let now = Instant::now();
        Job {
            weight: Weight::new(line, text.len() + relay_id.len() + OVERHEAD),
            relay_id,
            text,
            answer,
            since: now,
            deadline: now + within,
            sent: 0,
            ended: false,
        }
    }

    /// How long it is on the wire, at most.
    pub fn len(&self) -> usize {
        self.text.len() + ",\"deadline_ms\":4294967295}".len()
    }

    /// Writes it with the time that is left of it.
    pub fn write(&mut self, frame: &mut String, now: Instant) {
        let left = self.deadline.saturating_duration_since(now).as_millis();
        frame.push_str(&self.text[..self.text.len() - 1]);
        frame.push_str(",\"deadline_ms\":");
        frame.push_str(itoa::Buffer::new().format(u32::try_from(left).unwrap_or(u32::MAX)));
        frame.push('}');
        self.sent += 1;
    }

    /// Whether whoever asked has gone away.
    pub fn is_forgotten(&self) -> bool {
        self.answer.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    pub fn was_sent(&self) -> bool {
        self.sent > 0
    }

    pub fn end(&mut self, outcome: Outcome) {
        if !self.ended {
            self.weight.line.ended(outcome.as_ref().err().map_or(0, RpcError::code));
            self.tell(outcome);
        }
    }

    fn tell(&mut self, outcome: Outcome) {
        self.ended = true;
        if let Some(answer) = self.answer.take() {
            let _ = answer.send(outcome);
        }
    }

    /// Its time is over.
    pub fn end_late(&mut self) {
        let error = trouble::late(&self.weight.line.issuer, &self.relay_id, self.was_sent());
        self.end(Err(error));
    }

    /// There is no link. Whether what was sent once had an effect is not known.
    pub fn end_unreachable(&mut self, failure: &Failure, retry_after: Option<Duration>) {
        let issuer = &self.weight.line.issuer;
        let error = match self.was_sent() {
            true => trouble::lost(issuer, &self.relay_id),
            false => failure.told(issuer, retry_after),
        };
        self.end(Err(error));
    }

    /// The link broke under it: whether it may be sent once more.
    pub fn may_go_again(&self, now: Instant) -> bool {
        !self.ended
            && self.sent < 2
            && now < self.deadline
            && !self.is_forgotten()
            && is_safe_twice(&self.text)
    }

    pub fn end_lost(&mut self) {
        let error = trouble::lost(&self.weight.line.issuer, &self.relay_id);
        self.end(Err(error));
    }
}

/// Whoever was told nothing so far hears that nothing will come.
impl Drop for Job {
    fn drop(&mut self) {
        if self.ended || self.is_forgotten() {
            return;
        }
        let error = match self.was_sent() {
            true => trouble::lost(&self.weight.line.issuer, &self.relay_id),
            false => RpcError::new(codes::UNAVAILABLE, "the gateway stops"),
        };
        self.tell(Err(error));
    }
}

/// Whether the same relay twice does the same as once: it only reads, its method names the parameter that makes it safe
/// and that is there, or it is an event, which has an id. Asked only where a link broke, so that it may take its time.
fn is_safe_twice(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Sent<'a> {
        event_id: Option<String>,
        #[serde(default)]
        namespace: String,
        #[serde(default)]
        method: String,
        #[serde(borrow)]
        params: Option<HashMap<String, &'a RawValue>>,
    }
    let Ok(sent) = serde_json::from_str::<Sent<'_>>(text) else { return false };
    if sent.event_id.is_some() {
        return true;
    }
    let name = format!("{}.{}", sent.namespace, sent.method);
    let Some(rule) = proto_schemas::find(&name).and_then(|method| method.federation) else { return false };
    let named =
        |key| sent.params.as_ref().and_then(|params| params.get(key)).is_some_and(|v| v.get() != "null");
    rule.reads || rule.again.is_some_and(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_does_the_same_twice_is_sent_again() {
        for (text, safe) in [
            (r#"{"namespace":"message","method":"query_online","params":{"aids":[]}}"#, true),
            (r#"{"namespace":"message","method":"send","params":{"to":"x","message_id":"m-1"}}"#, true),
            (r#"{"namespace":"message","method":"send","params":{"to":"x","message_id":null}}"#, false),
            (r#"{"namespace":"message","method":"send","params":{"payload":{"message_id":"m-1"}}}"#, false),
            (r#"{"namespace":"message","method":"send"}"#, false),
            (r#"{"namespace":"message","method":"nothing","params":{"message_id":"m-1"}}"#, false),
            (r#"{"kind":"event","event":"message.ack","event_id":"e-1"}"#, true),
            ("nothing", false),
        ] {
            assert_eq!(is_safe_twice(text), safe, "{text}");
        }
    }
}
