//! The calls of a link that wait for their answers.

use super::wire::Answer;
use serde_json::value::RawValue;
use services::kernel::{AnswerRef, OnAnswer, RpcError};
use std::time::Instant;

/// Calls that may be under way on one link.
pub(super) const IN_FLIGHT: usize = 16_384;

/// A call's number is its place and, before that, its turn: an answer that comes late finds nobody else's call.
#[derive(Default)]
pub(super) struct Table {
    places: Vec<Option<Waiting>>,
    free: Vec<usize>,
    turn: u64,
}

struct Waiting {
    id: u64,
    until: Instant,
    then: OnAnswer,
}

impl Table {
    pub fn is_full(&self) -> bool {
        self.len() >= IN_FLIGHT
    }

    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whoever adds has asked whether there is a place.
    pub fn add(&mut self, until: Instant, then: OnAnswer) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.turn += 1;
        let id = self.turn * IN_FLIGHT as u64 + place as u64;
        self.places[place] = Some(Waiting { id, until, then });
        id
    }

    pub fn take(&mut self, id: u64) -> Option<OnAnswer> {
        let place = (id % IN_FLIGHT as u64) as usize;
        let waiting = self.places.get_mut(place)?.take_if(|waiting| waiting.id == id)?;
        self.free.push(place);
        Some(waiting.then)
    }

    /// Those whose time is up.
    pub fn take_late(&mut self, now: Instant) -> Vec<OnAnswer> {
        let late = self.places.iter().flatten().filter(|waiting| waiting.until <= now);
        let late: Vec<u64> = late.map(|waiting| waiting.id).collect();
        late.into_iter().filter_map(|id| self.take(id)).collect()
    }

    pub fn take_all(&mut self) -> Vec<OnAnswer> {
        self.free.clear();
        std::mem::take(&mut self.places).into_iter().flatten().map(|waiting| waiting.then).collect()
    }
}

/// Tells each of them how its call ended. Whoever is not there any more waited too long.
pub(super) fn tell<'a>(answered: impl Iterator<Item = (Option<OnAnswer>, Answer<'a>)>) {
    // They came in one frame.
    let now = Instant::now();
    for (then, answer) in answered {
        let Some(then) = then else { continue };
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

pub(super) fn tell_all(everybody: Vec<OnAnswer>, error: impl Fn() -> RpcError) {
    let now = Instant::now();
    for then in everybody {
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
    fn a_late_answer_finds_nobody_elses_call() {
        let (mut table, now) = (Table::default(), Instant::now());
        let first = table.add(now, nothing());
        assert!(table.take(first).is_some());
        let second = table.add(now, nothing());
        assert_ne!(first, second);
        assert!(table.take(first).is_none());
        assert_eq!(table.len(), 1);
        assert!(table.take(second).is_some());
        assert_eq!((table.len(), table.places.len()), (0, 1));
    }

    #[test]
    fn only_those_whose_time_is_up_are_late() {
        let (mut table, now) = (Table::default(), Instant::now());
        table.add(now, nothing());
        let later = table.add(now + Duration::from_secs(1), nothing());
        assert_eq!(table.take_late(now).len(), 1);
        assert_eq!(table.len(), 1);
        assert!(table.take(later).is_some());
    }

    #[test]
    fn it_is_full_at_its_limit_and_empty_afterwards() {
        let (mut table, now) = (Table::default(), Instant::now());
        for _ in 0..IN_FLIGHT {
            assert!(!table.is_full());
            table.add(now, nothing());
        }
        assert!(table.is_full());
        assert_eq!((table.take_all().len(), table.len()), (IN_FLIGHT, 0));
    }
}
