//! A batch: its calls run concurrently, and their answers are sent together.

use super::answer::CallFrames;
use super::call::SpawnedCall;
use super::in_flight::InFlight;
use crate::connection::{Connection, ConnectionOutbox};
use crate::frame::{self, InvalidRequest, RpcRequest};
use crate::gateway::GatewayState;
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use std::sync::Arc;

/// Runs the calls of a batch in one task. Each of them counts as in flight until all are answered, and no more of them run at
/// the same time than a connection may have in flight.
pub fn spawn_batch(
    gateway: &Arc<GatewayState>,
    connection: &Arc<Connection>,
    members: Vec<Result<RpcRequest<'_>, InvalidRequest>>,
) {
    let members: Vec<Result<SpawnedCall, InvalidRequest>> =
        members.into_iter().map(|member| member.map(|r| SpawnedCall::new(&r))).collect();
    let guard = InFlight::many(gateway, connection, u32::try_from(members.len()).unwrap_or(u32::MAX));
    let at_once = usize::try_from(gateway.config.limits.in_flight).unwrap_or(usize::MAX);
    let gateway = gateway.clone();
    gateway.tracker.clone().spawn(async move {
        let connection = &*guard.connection;
        let answers = BatchAnswers::new(&connection.outbox, members.len());
        let (gateway, gathered) = (&*gateway, &answers);
        let run = |(nth, member): (usize, Result<SpawnedCall, InvalidRequest>)| async move {
            let frames = match member {
                Ok(call) => call.run_any(gateway, connection).await,
                Err(invalid) => CallFrames {
                    answer: Some(frame::failure(invalid.id.as_deref(), &invalid.error)),
                    after: None,
                },
            };
            gathered.add(nth, frames);
        };
        stream::iter(members.into_iter().enumerate()).for_each_concurrent(at_once, run).await;
        answers.push(connection);
    });
}

/// The answers of a batch until all are there. They are counted as if they waited to be written: a batch whose answers are
/// larger than an outbox is never gathered.
struct BatchAnswers<'a> {
    outbox: &'a ConnectionOutbox,
    gathered: Mutex<GatheredFrames>,
}

struct GatheredFrames {
    /// By the position of their call.
    frames: Vec<CallFrames>,
    /// What is counted for them.
    bytes: usize,
    /// Whether the connection closes: then nobody reads them.
    dropped: bool,
}

impl<'a> BatchAnswers<'a> {
    fn new(outbox: &'a ConnectionOutbox, calls: usize) -> BatchAnswers<'a> {
        let frames = std::iter::repeat_with(CallFrames::default).take(calls).collect();
        BatchAnswers { outbox, gathered: Mutex::new(GatheredFrames { frames, bytes: 0, dropped: false }) }
    }

    fn add(&self, nth: usize, frames: CallFrames) {
        let size = frames.bytes();
        if !self.outbox.reserve(size) {
            self.release(true);
            return;
        }
        let mut gathered = self.gathered.lock();
        gathered.bytes += size;
        if gathered.dropped {
            drop(gathered);
            self.release(true);
        } else if let Some(kept) = gathered.frames.get_mut(nth) {
            *kept = frames;
        }
    }

    /// Gives back what is counted, and the frames that it was counted for.
    fn release(&self, dropped: bool) -> Vec<CallFrames> {
        let (frames, bytes) = {
            let mut gathered = self.gathered.lock();
            gathered.dropped |= dropped;
            (std::mem::take(&mut gathered.frames), std::mem::take(&mut gathered.bytes))
        };
        self.outbox.release(bytes);
        frames
    }

    /// Sends the answers as one frame, and behind it the events that belong to them.
    fn push(&self, connection: &Connection) {
        let (answers, after): (Vec<_>, Vec<_>) =
            self.release(false).into_iter().map(|frames| (frames.answer, frames.after)).unzip();
        let answers: Vec<String> = answers.into_iter().flatten().collect();
        if !answers.is_empty() {
            connection.outbox.push(format!("[{}]", answers.join(",")).into());
        }
        for event in after.into_iter().flatten() {
            event.push(connection);
        }
    }
}

/// A task that is cancelled gives back what it holds.
impl Drop for BatchAnswers<'_> {
    fn drop(&mut self) {
        self.release(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{OutboxBudget, OutboxItem};

    fn answer(text: &str) -> CallFrames {
        CallFrames { answer: Some(text.to_owned()), after: None }
    }

    #[test]
    fn answers_are_counted_until_they_are_sent_together() {
        let budget = Arc::new(OutboxBudget::new(100, 1000, Arc::default()));
        let connection = Connection::new(1, [127, 0, 0, 1].into(), ConnectionOutbox::new(budget.clone()));
        let answers = BatchAnswers::new(&connection.outbox, 3);
        answers.add(2, answer("three"));
        answers.add(0, answer("one"));
        assert_eq!(budget.used(), 8);
        answers.push(&connection);
        assert!(matches!(connection.outbox.pop(), Some(OutboxItem::Frame(frame)) if frame == "[one,three]"));
        drop(answers);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn answers_that_are_larger_than_an_outbox_are_not_gathered() {
        let budget = Arc::new(OutboxBudget::new(10, 1000, Arc::default()));
        let connection = Connection::new(1, [127, 0, 0, 1].into(), ConnectionOutbox::new(budget.clone()));
        let answers = BatchAnswers::new(&connection.outbox, 3);
        for nth in 0..3 {
            answers.add(nth, answer("123456"));
        }
        assert_eq!(budget.used(), 0, "nothing is kept for a connection that closes");
        answers.push(&connection);
        assert!(
            matches!(connection.outbox.pop(), Some(OutboxItem::CloseReason(close_reason)) if close_reason.code == 1013)
        );
    }
}
