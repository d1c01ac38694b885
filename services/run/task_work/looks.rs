//! Which tasks are looked at side by side. A task whose domain does not answer holds up none of another domain.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Tasks that are looked at at once, and those of one other domain among them.
const MOST: usize = 32;
const MOST_OF_DOMAIN: usize = 4;
/// After which every task is looked at, also if it does not seem to have changed.
const LOOK_AT_ALL: Duration = Duration::from_secs(5);
/// How long a task rests that could not be worked on.
const REST: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct TaskLooks {
    busy: BTreeMap<String, BusyTask>,
    resting: BTreeMap<String, Instant>,
    looked_at_all: Option<Instant>,
}

struct BusyTask {
    home: Option<String>,
    /// Something may have changed since the look began.
    again: bool,
}

impl TaskLooks {
    /// Whether it is time to look at all tasks.
    pub fn is_full(&mut self, now: Instant) -> bool {
        let is_full = self.looked_at_all.is_none_or(|last| now - last >= LOOK_AT_ALL);
        if is_full {
            self.looked_at_all = Some(now);
        }
        is_full
    }

    /// False if the task is not looked at now: it is looked at already, or others come first.
    pub fn begin(&mut self, task: &str, home: Option<&str>, now: Instant) -> bool {
        if let Some(busy) = self.busy.get_mut(task) {
            busy.again = true;
            return false;
        }
        let rests = self.resting.get(task).is_some_and(|since| now - *since < REST);
        let of_domain = self.busy.values().filter(|busy| busy.home.as_deref() == home).count();
        if rests || self.busy.len() >= MOST || (home.is_some() && of_domain >= MOST_OF_DOMAIN) {
            return false;
        }
        self.busy.insert(task.to_owned(), BusyTask { home: home.map(str::to_owned), again: false });
        true
    }

    /// Whether the task is to be looked at again at once.
    pub fn end(&mut self, task: &str) -> bool {
        self.resting.remove(task);
        self.busy.remove(task).is_some_and(|busy| busy.again)
    }

    /// The task could not be worked on. Whether that is new.
    pub fn fail(&mut self, task: &str, now: Instant) -> bool {
        self.busy.remove(task);
        self.resting.insert(task.to_owned(), now).is_none()
    }

    /// Forgets the tasks that there are not any more.
    pub fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.resting.retain(|task, _| is_there(task));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_that_does_not_answer_leaves_space_for_others() {
        let (mut looks, now) = (TaskLooks::default(), Instant::now());
        for number in 0..10 {
            let begun = looks.begin(&format!("away-{number}"), Some("away.example"), now);
            assert_eq!(begun, number < MOST_OF_DOMAIN);
        }
        for number in MOST_OF_DOMAIN..MOST {
            assert!(looks.begin(&format!("own-{number}"), None, now));
        }
        assert!(!looks.begin("one-more", None, now), "as many as there are at once");
        assert!(!looks.end("away-0"));
        assert!(looks.begin("one-more", None, now));
    }

    #[test]
    fn what_changes_during_a_look_is_looked_at_again_and_what_fails_rests() {
        let (mut looks, now) = (TaskLooks::default(), Instant::now());
        assert!(looks.begin("task", None, now) && !looks.begin("task", None, now));
        assert!(looks.end("task"), "somebody wanted to look meanwhile");
        assert!(looks.begin("task", None, now) && looks.fail("task", now));
        assert!(!looks.begin("task", None, now + REST / 2));
        assert!(looks.begin("task", None, now + REST) && !looks.fail("task", now + REST), "known");
        looks.retain(|_| false);
        assert!(looks.begin("task", None, now));
        assert!(
            looks.is_full(now) && !looks.is_full(now + LOOK_AT_ALL / 2) && looks.is_full(now + LOOK_AT_ALL)
        );
    }
}
