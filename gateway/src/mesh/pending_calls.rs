//! The calls of a mesh link that wait for their answers.

use super::wire::MeshAnswer;
use kernel::{AnswerRef, OnAnswer, RpcError, TracedCall};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Instant;

/// Calls that may be pending on one link.
pub(super) const IN_FLIGHT: usize = 16_384;

/// The id of a call is its slot plus a count of all calls before it. A slot is used again, an id never is: a late answer
/// to an earlier call in the same slot finds nothing.
#[derive(Default)]
pub(super) struct PendingCalls {
    slots: Vec<Option<PendingCall>>,
    free: Vec<usize>,
    count: u64,
}

struct PendingCall {
    id: u64,
    deadline: Instant,
    then: OnAnswer,
    trace: Option<Arc<TracedCall>>,
}

/// What to do with the answer of a call, and where what was measured of it goes.
pub(super) type Completion = (OnAnswer, Option<Arc<TracedCall>>);

impl PendingCalls {
    pub fn is_full(&self) -> bool {
        self.len() >= IN_FLIGHT
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The caller has checked that the table is not full.
    pub fn add(&mut self, deadline: Instant, then: OnAnswer, trace: Option<Arc<TracedCall>>) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.count += 1;
        let id = self.count * IN_FLIGHT as u64 + slot as u64;
        self.slots[slot] = Some(PendingCall { id, deadline, then, trace });
        id
    }

    pub fn take(&mut self, id: u64) -> Option<Completion> {
        let slot = (id % IN_FLIGHT as u64) as usize;
        let call = self.slots.get_mut(slot)?.take_if(|call| call.id == id)?;
        self.free.push(slot);
        Some((call.then, call.trace))
    }

    /// Those whose deadline has passed.
    pub fn take_overdue(&mut self, now: Instant) -> Vec<OnAnswer> {
        let overdue = self.slots.iter().flatten().filter(|call| call.deadline <= now);
        let overdue: Vec<u64> = overdue.map(|call| call.id).collect();
        overdue.into_iter().filter_map(|id| self.take(id)).map(|(then, _)| then).collect()
    }

    pub fn take_all(&mut self) -> Vec<OnAnswer> {
        self.free.clear();
        std::mem::take(&mut self.slots).into_iter().flatten().map(|call| call.then).collect()
    }
}

/// Completes calls with their answers. `None` stands for a call that was given up before its answer came.
pub(super) fn complete<'a>(answered: impl Iterator<Item = (Option<Completion>, MeshAnswer<'a>)>) {
    // They came in one frame.
    let now = Instant::now();
    for (then, answer) in answered {
        let Some((then, trace)) = then else { continue };
        if let (Some(call), Some(spans)) = (trace, answer.spans) {
            call.add_remote(spans);
        }
        let outcome = match answer.error {
            Some(error) => Err(error),
            None => Ok(AnswerRef {
                result: answer.result.unwrap_or(RawValue::NULL),
                event: answer.event.as_deref(),
            }),
        };
        then(outcome, now);
    }
}

pub(super) fn fail_all(calls: Vec<OnAnswer>, error: impl Fn() -> RpcError) {
    let now = Instant::now();
    for then in calls {
        then(Err(error()), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn nothing() -> OnAnswer {
        Box::new(|_, _| ())
    }

    #[test]
    fn a_late_answer_completes_no_other_call() {
        let (mut calls, now) = (PendingCalls::default(), Instant::now());
        let first = calls.add(now, nothing(), None);
        assert!(calls.take(first).is_some());
        let second = calls.add(now, nothing(), None);
        assert_ne!(first, second);
        assert!(calls.take(first).is_none());
        assert_eq!(calls.len(), 1);
        assert!(calls.take(second).is_some());
        assert_eq!((calls.len(), calls.slots.len()), (0, 1));
    }

    #[test]
    fn only_calls_past_their_deadline_are_overdue() {
        let (mut calls, now) = (PendingCalls::default(), Instant::now());
        calls.add(now, nothing(), None);
        let later = calls.add(now + Duration::from_secs(1), nothing(), None);
        assert_eq!(calls.take_overdue(now).len(), 1);
        assert_eq!(calls.len(), 1);
        assert!(calls.take(later).is_some());
    }

    #[test]
    fn the_table_is_full_at_its_limit_and_empty_after_take_all() {
        let (mut calls, now) = (PendingCalls::default(), Instant::now());
        for _ in 0..IN_FLIGHT {
            assert!(!calls.is_full());
            calls.add(now, nothing(), None);
        }
        assert!(calls.is_full());
        assert_eq!((calls.take_all().len(), calls.len()), (IN_FLIGHT, 0));
    }
}
