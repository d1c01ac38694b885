//! The lives of tasks: the first agent of a pair gives the second one task after the other, and the second asks before it is done.

use std::time::Instant;

use anyhow::ensure;
use serde::Deserialize;

use super::frames::{TEXT, block, call};
use super::pair::{PairRequest, PairSide, PairWork};

/// The calls that change a task, in the order of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransitionKind {
    Create,
    Accept,
    RequestInput,
    SendInput,
    Complete,
}

/// The answer to each of them has these members.
#[derive(Deserialize)]
pub(super) struct TransitionAnswer<'a> {
    pub(super) task_id: &'a str,
    pub(super) status: &'a str,
}

/// Tasks that are under way at the same time. One that is in the middle of its life when a round ends goes on in the next, so no
/// round has more to finish than the calls in flight.
pub(super) struct TaskLives {
    assignee: String,
    lives: Vec<TaskLife>,
    until: Instant,
}

#[derive(Clone)]
struct TaskLife {
    task_id: String,
    next: TransitionKind,
}

impl TransitionKind {
    pub(super) const ALL: [TransitionKind; 5] = [
        TransitionKind::Create,
        TransitionKind::Accept,
        TransitionKind::RequestInput,
        TransitionKind::SendInput,
        TransitionKind::Complete,
    ];

    pub(super) fn method(self) -> &'static str {
        match self {
            TransitionKind::Create => "task.create",
            TransitionKind::Accept => "task.accept",
            TransitionKind::RequestInput => "task.request_input",
            TransitionKind::SendInput => "task.send_input",
            TransitionKind::Complete => "task.complete",
        }
    }

    fn status(self) -> &'static str {
        match self {
            TransitionKind::Create => "submitted",
            TransitionKind::Accept | TransitionKind::SendInput => "working",
            TransitionKind::RequestInput => "input_required",
            TransitionKind::Complete => "completed",
        }
    }

    /// After its end a task is followed by another one.
    fn following(self) -> TransitionKind {
        match self {
            TransitionKind::Create => TransitionKind::Accept,
            TransitionKind::Accept => TransitionKind::RequestInput,
            TransitionKind::RequestInput => TransitionKind::SendInput,
            TransitionKind::SendInput => TransitionKind::Complete,
            TransitionKind::Complete => TransitionKind::Create,
        }
    }

    fn by(self) -> PairSide {
        match self {
            TransitionKind::Create | TransitionKind::SendInput => PairSide::First,
            TransitionKind::Accept | TransitionKind::RequestInput | TransitionKind::Complete => {
                PairSide::Second
            }
        }
    }

    /// For owner and assignee: never for the connection that called, and of an end also the artifact.
    fn events(self) -> [u64; 2] {
        match self {
            TransitionKind::Create | TransitionKind::SendInput => [0, 1],
            TransitionKind::Accept | TransitionKind::RequestInput => [1, 0],
            TransitionKind::Complete => [2, 0],
        }
    }
}

impl TaskLives {
    pub(super) fn new(assignee: &str, depth: usize) -> Self {
        let life = TaskLife { task_id: String::new(), next: TransitionKind::Create };
        Self { assignee: assignee.to_owned(), lives: vec![life; depth], until: Instant::now() }
    }

    /// Nothing is begun after this moment.
    pub(super) fn end_at(&mut self, until: Instant) {
        self.until = until;
    }
}

impl PairWork for TaskLives {
    const KINDS: usize = TransitionKind::ALL.len();

    fn depth(&self) -> usize {
        self.lives.len()
    }

    fn request(&mut self, number: usize, now: Instant) -> Option<PairRequest> {
        if now >= self.until {
            return None;
        }
        let TaskLife { task_id, next } = &self.lives[number];
        let params = match next {
            TransitionKind::Create => format!(r#"{{"to":"{}","input":{}}}"#, self.assignee, block()),
            TransitionKind::Accept => format!(r#"{{"task_id":"{task_id}"}}"#),
            TransitionKind::RequestInput => format!(r#"{{"task_id":"{task_id}","message":{}}}"#, block()),
            TransitionKind::SendInput => format!(r#"{{"task_id":"{task_id}","input":{}}}"#, block()),
            TransitionKind::Complete => format!(
                r#"{{"task_id":"{task_id}","artifacts":[{{"id":"result","type":"text","content":"{TEXT}"}}]}}"#
            ),
        };
        let (side, kind) = (next.by(), *next as usize);
        Some(PairRequest { side, kind, frame: call(number, next.method(), &params) })
    }

    fn answered(&mut self, number: usize, result: &str) -> anyhow::Result<[u64; 2]> {
        let answer: TransitionAnswer<'_> = serde_json::from_str(result)?;
        let life = &mut self.lives[number];
        let done = life.next;
        ensure!(answer.status == done.status(), "{} was answered with {result}", done.method());
        if done == TransitionKind::Create {
            answer.task_id.clone_into(&mut life.task_id);
        }
        life.next = done.following();
        Ok(done.events())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::*;

    #[test]
    fn a_task_lives_through_all_calls_and_is_followed_by_another() {
        let mut lives = TaskLives::new("bob.agents.localhost", 1);
        let now = Instant::now();
        lives.end_at(now + Duration::from_secs(1));
        for round in 0..2 {
            let task = format!("task_{round}");
            for kind in TransitionKind::ALL {
                let request = lives.request(0, now).unwrap();
                let frame: Value = serde_json::from_str(&request.frame).unwrap();
                assert_eq!(frame["method"], kind.method());
                assert_eq!(TransitionKind::ALL[request.kind], kind);
                assert_eq!(frame["params"]["task_id"] == task, kind != TransitionKind::Create);
                let result = format!(r#"{{"task_id":"{task}","status":"{}"}}"#, kind.status());
                lives.answered(0, &result).unwrap();
            }
        }
        assert!(lives.request(0, now + Duration::from_secs(1)).is_none(), "its time is over");
    }

    #[test]
    fn another_status_than_the_call_leads_to_is_an_error() {
        let mut lives = TaskLives::new("bob.agents.localhost", 1);
        assert!(lives.answered(0, r#"{"task_id":"task_1","status":"working"}"#).is_err());
    }
}
