//! Whose turn it is: those who wait are served one piece of work each, in the order in which they came.

use super::CpuOwner;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::oneshot;

pub(super) struct CpuTurns {
    /// Threads that nobody uses.
    free: usize,
    /// Pieces of work that wait or run, of all and of each owner.
    all: usize,
    owners: HashMap<CpuOwner, OwnerTurns>,
    /// The owners that wait for something, each once.
    order: VecDeque<CpuOwner>,
}

#[derive(Default)]
struct OwnerTurns {
    accepted: usize,
    waiting: VecDeque<oneshot::Sender<CpuTurn>>,
}

/// A thread for one piece of work, until this is dropped.
pub(super) struct CpuTurn {
    turns: Arc<Mutex<CpuTurns>>,
    owner: CpuOwner,
}

impl CpuTurns {
    pub fn new(threads: usize) -> CpuTurns {
        CpuTurns { free: threads, all: 0, owners: HashMap::new(), order: VecDeque::new() }
    }

    /// A turn, as soon as it has come; none if so much waits already. Whoever does not wait for it any more drops what this gives.
    pub fn ask(
        turns: &Arc<Mutex<CpuTurns>>,
        owner: &CpuOwner,
        most_of_owner: usize,
        most: usize,
    ) -> Option<oneshot::Receiver<CpuTurn>> {
        let (sender, receiver) = oneshot::channel();
        let mut held = turns.lock();
        held.forget_left(owner);
        if held.all >= most || held.owners.get(owner).is_some_and(|of| of.accepted >= most_of_owner) {
            return None;
        }
        held.all += 1;
        let of_owner = held.owners.entry(owner.clone()).or_default();
        of_owner.accepted += 1;
        of_owner.waiting.push_back(sender);
        if of_owner.waiting.len() == 1 {
            held.order.push_back(owner.clone());
        }
        let granted = held.grant(turns);
        drop(held);
        send(granted);
        Some(receiver)
    }

    /// Those whose turn it is, as long as there are threads.
    fn grant(&mut self, turns: &Arc<Mutex<CpuTurns>>) -> Vec<(oneshot::Sender<CpuTurn>, CpuTurn)> {
        let mut granted = Vec::new();
        while self.free > 0
            && let Some(owner) = self.order.pop_front()
        {
            self.forget_left(&owner);
            let Some(of_owner) = self.owners.get_mut(&owner) else { continue };
            let Some(sender) = of_owner.waiting.pop_front() else { continue };
            if !of_owner.waiting.is_empty() {
                self.order.push_back(owner.clone());
            }
            self.free -= 1;
            granted.push((sender, CpuTurn { turns: turns.clone(), owner }));
        }
        granted
    }

    /// Those of an owner that do not wait any more are not counted.
    fn forget_left(&mut self, owner: &CpuOwner) {
        let Some(of_owner) = self.owners.get_mut(owner) else { return };
        let before = of_owner.waiting.len();
        of_owner.waiting.retain(|sender| !sender.is_closed());
        let left = before - of_owner.waiting.len();
        of_owner.accepted -= left;
        self.all -= left;
        if of_owner.waiting.is_empty() {
            self.order.retain(|waiting| waiting != owner);
        }
        if of_owner.accepted == 0 {
            self.owners.remove(owner);
        }
    }

    fn end(&mut self, owner: &CpuOwner) {
        self.free += 1;
        self.all -= 1;
        if let Some(of_owner) = self.owners.get_mut(owner) {
            of_owner.accepted -= 1;
            if of_owner.accepted == 0 {
                self.owners.remove(owner);
            }
        }
    }

    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.all == 0 && self.owners.is_empty() && self.order.is_empty()
    }
}

impl Drop for CpuTurn {
    fn drop(&mut self) {
        let mut held = self.turns.lock();
        held.end(&self.owner);
        let granted = held.grant(&self.turns);
        drop(held);
        send(granted);
    }
}

/// Without the lock: a turn that nobody takes any more is given back by being dropped.
fn send(granted: Vec<(oneshot::Sender<CpuTurn>, CpuTurn)>) {
    for (sender, turn) in granted {
        drop(sender.send(turn));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Aid;

    fn agent(name: &str) -> CpuOwner {
        CpuOwner::Agent(Aid::parse(&format!("{name}.aid.pub")).unwrap())
    }

    #[tokio::test]
    async fn owners_take_turns_and_one_that_leaves_is_not_counted() {
        let turns = Arc::new(Mutex::new(CpuTurns::new(1)));
        let ask = |name: &str| CpuTurns::ask(&turns, &agent(name), 3, 100);
        let running = ask("alice").unwrap().await.unwrap();
        let (mut second, mut third) = (ask("alice").unwrap(), ask("alice").unwrap());
        assert!(ask("alice").is_none(), "three of one");
        let mut other = ask("bobb").unwrap();
        drop(running);
        let second = second.try_recv().expect("the first that came");
        assert!(other.try_recv().is_err() && third.try_recv().is_err());
        drop(second);
        let other =
            other.try_recv().expect("it has come before the third of the other one had a second turn");
        drop(third);
        drop(other);
        drop(ask("alice").unwrap().await.unwrap());
        assert!(turns.lock().is_idle());
    }
}
