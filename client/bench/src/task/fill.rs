//! Many ended tasks of one owner: it makes them and cancels them, through the calls that everybody makes.

use std::time::Instant;

use anyhow::ensure;

use super::frames::{block, call};
use super::lives::TransitionAnswer;
use super::pair::{PairRequest, PairSide, PairWork};

/// So many tasks that the first agent of a pair gives the second, and takes back at once.
pub(super) struct CanceledTasks {
    assignee: String,
    /// How many are still to be made.
    left: usize,
    /// The task of each call in flight, if it is made and not canceled.
    made: Vec<Option<String>>,
}

impl CanceledTasks {
    pub(super) fn new(assignee: &str, count: usize, depth: usize) -> Self {
        Self { assignee: assignee.to_owned(), left: count, made: vec![None; depth] }
    }
}

impl PairWork for CanceledTasks {
    const KINDS: usize = 2;

    fn depth(&self) -> usize {
        self.made.len()
    }

    fn request(&mut self, number: usize, _now: Instant) -> Option<PairRequest> {
        let (kind, frame) = match &self.made[number] {
            Some(task_id) => (1, call(number, "task.cancel", &format!(r#"{{"task_id":"{task_id}"}}"#))),
            None => {
                self.left = self.left.checked_sub(1)?;
                let params = format!(r#"{{"to":"{}","input":{}}}"#, self.assignee, block());
                (0, call(number, "task.create", &params))
            }
        };
        Some(PairRequest { side: PairSide::First, kind, frame })
    }

    fn answered(&mut self, number: usize, result: &str) -> anyhow::Result<[u64; 2]> {
        let answer: TransitionAnswer<'_> = serde_json::from_str(result)?;
        let made = &mut self.made[number];
        let (status, next) = match made {
            Some(_) => ("canceled", None),
            None => ("submitted", Some(answer.task_id.to_owned())),
        };
        ensure!(answer.status == status, "a task that should be {status} is {result}");
        *made = next;
        // The assignee is told of both.
        Ok([0, 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_task_is_canceled_and_no_more_are_made_than_wanted() {
        let (mut tasks, now) = (CanceledTasks::new("bob.agents.localhost", 3, 2), Instant::now());
        let mut methods = Vec::new();
        for turn in 0.. {
            let number = turn % 2;
            let Some(request) = tasks.request(number, now) else { break };
            let status = ["submitted", "canceled"][request.kind];
            tasks.answered(number, &format!(r#"{{"task_id":"task_{turn}","status":"{status}"}}"#)).unwrap();
            methods.push(status);
        }
        // 0 and 1 are made, both are canceled, then 2 is made, and there is nothing more to do for the other number.
        assert_eq!(methods, ["submitted", "submitted", "canceled", "canceled", "submitted"]);
        assert!(tasks.request(1, now).is_none());
        assert!(tasks.request(0, now).unwrap().frame.contains("task.cancel"));
    }
}
