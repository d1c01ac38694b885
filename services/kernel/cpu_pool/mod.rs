//! Computing that grows with an input: manifests, documents, certificates. One pool for each process.
//!
//! It runs beside the threads of the runtime, so that sockets are read and calls are answered meanwhile, on half of the cores. Those who
//! wait take turns, so that one of them cannot make the others wait for all of its work, and only so much of anybody waits. An agent
//! has so much CPU time a minute; one that has used it up is refused until some of it is a minute ago.
//!
//! Nothing can end a thread from outside. So each piece of work counts its own steps, and stops at its own limit.

mod owner;
mod spent;
mod turns;

pub use owner::CpuOwner;

use super::{AddressCounts, AddressLimit, CountedAddress, RpcError};
use parking_lot::Mutex;
use proto_schemas::codes;
use rustix::time::{ClockId, clock_gettime};
use spent::SpentTime;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use turns::{CpuTurn, CpuTurns};

/// How long a piece of work may wait for its turn.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// When a caller that was refused because too much waits may ask again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What may wait or run at once, and how long an agent may compute.
#[derive(Clone, Copy, Debug)]
pub struct CpuLimits {
    pub waiting: usize,
    pub waiting_per_agent: usize,
    pub waiting_per_address: usize,
    pub time_per_minute: Duration,
}

impl Default for CpuLimits {
    fn default() -> CpuLimits {
        CpuLimits {
            waiting: 512,
            waiting_per_agent: 32,
            waiting_per_address: 8,
            time_per_minute: Duration::from_secs(2),
        }
    }
}

pub struct CpuPool {
    limits: CpuLimits,
    /// What waits or runs for those who have not logged in.
    by_address: Arc<AddressCounts>,
    turns: Arc<Mutex<CpuTurns>>,
    spent: Arc<Mutex<SpentTime>>,
}

impl Default for CpuPool {
    fn default() -> CpuPool {
        CpuPool::new(CpuLimits::default())
    }
}

impl CpuPool {
    pub fn new(limits: CpuLimits) -> CpuPool {
        let cores = available_parallelism().map_or(1, usize::from);
        let per_address = u32::try_from(limits.waiting_per_address).unwrap_or(u32::MAX);
        CpuPool {
            limits,
            by_address: AddressCounts::new(AddressLimit::per_address(per_address)),
            turns: Arc::new(Mutex::new(CpuTurns::new((cores / 2).max(1)))),
            spent: Arc::default(),
        }
    }

    /// Runs the work when it is its owner's turn. The error says that the owner, or everybody, waits for too much already, or that the
    /// owner has used up its time.
    pub async fn run<T: Send + 'static>(
        &self,
        owner: CpuOwner,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RpcError> {
        self.check_time(&owner)?;
        let counted = self.count_address(&owner)?;
        let turn = self.turn(&owner).await?;
        let spent = self.spent.clone();
        // The turn is held until the work is done, also if nobody waits for its end.
        let working = tokio::task::spawn_blocking(move || {
            let (held, began) = ((counted, turn), thread_time());
            let _counted = CountedTime { owner, began, spent };
            let result = work();
            drop(held);
            result
        });
        working.await.map_err(RpcError::internal)
    }

    fn check_time(&self, owner: &CpuOwner) -> Result<(), RpcError> {
        if !owner.has_time_limit() {
            return Ok(());
        }
        let most = self.limits.time_per_minute;
        match self.spent.lock().wait(owner, most, Instant::now()) {
            None => Ok(()),
            Some(wait) => {
                let sentence =
                    format!("your calls may use at most {} ms of CPU time per minute", most.as_millis());
                Err(refused(sentence, "cpu_time", most.as_millis(), wait))
            }
        }
    }

    /// An address has a small part of what may wait, and so have the networks around it.
    fn count_address(&self, owner: &CpuOwner) -> Result<Option<CountedAddress>, RpcError> {
        let CpuOwner::Address(address) = owner else { return Ok(None) };
        let counted = self.by_address.take(address.first());
        counted.map(Some).ok_or_else(|| too_much_waits(self.limits.waiting_per_address))
    }

    async fn turn(&self, owner: &CpuOwner) -> Result<CpuTurn, RpcError> {
        let most = match owner {
            CpuOwner::Agent(_) | CpuOwner::Domain(_) => self.limits.waiting_per_agent,
            // Many clients may share a token, and everybody else needs space, too.
            CpuOwner::Token(_) => (self.limits.waiting / 4).max(1),
            CpuOwner::Address(_) | CpuOwner::Server => self.limits.waiting,
        };
        let waiting = CpuTurns::ask(&self.turns, owner, most.min(self.limits.waiting), self.limits.waiting);
        let waiting = waiting.ok_or_else(|| too_much_waits(most))?;
        match timeout(LONGEST_WAIT, waiting).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(too_much_waits(most)),
        }
    }
}

/// Counts what a thread has computed for an owner when it is dropped, also in a panic.
struct CountedTime {
    owner: CpuOwner,
    began: Duration,
    spent: Arc<Mutex<SpentTime>>,
}

impl Drop for CountedTime {
    fn drop(&mut self) {
        if self.owner.has_time_limit() {
            let took = thread_time().saturating_sub(self.began);
            self.spent.lock().add(&self.owner, took, Instant::now());
        }
    }
}

/// What this thread has computed since it began.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

fn too_much_waits(most: usize) -> RpcError {
    let sentence = "too many CPU-intensive calls are waiting, try again in a moment".to_owned();
    refused(sentence, "cpu_waiting", most as u128, RETRY_AFTER)
}

fn refused(sentence: String, scope: &str, limit: u128, wait: Duration) -> RpcError {
    RpcError::new(codes::RATE_LIMITED, sentence)
        .with("scope", scope)
        .with("limit", u64::try_from(limit).unwrap_or(u64::MAX))
        .with("retry_after_ms", u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Aid;
    use futures_util::future::join_all;
    use std::net::IpAddr;

    fn address(last: u8) -> CpuOwner {
        CpuOwner::of_address(IpAddr::from([10, 0, 0, last]))
    }

    fn agent(name: &str) -> CpuOwner {
        CpuOwner::Agent(Aid::parse(&format!("{name}.aid.pub")).unwrap())
    }

    /// Keeps a core busy until its thread has computed for so long.
    fn compute(time: Duration) {
        let began = thread_time();
        while thread_time() - began < time {
            std::hint::spin_loop();
        }
    }

    #[tokio::test]
    async fn work_is_done_and_nothing_of_it_stays_counted() {
        let pool = CpuPool::default();
        let squares = join_all((0..8_u64).map(|n| pool.run(address(1), move || n * n))).await;
        assert_eq!(squares.into_iter().map(Result::unwrap).sum::<u64>(), 140);
        let panicked = pool.run(CpuOwner::Server, || panic!("on purpose")).await;
        assert_eq!(panicked.map(|()| 0).unwrap_err().code(), codes::INTERNAL.code);
        pool.run(CpuOwner::Server, || ()).await.unwrap();
        assert!(pool.turns.lock().is_idle());
    }

    #[tokio::test]
    async fn whoever_asks_for_too_much_is_refused_and_others_are_not() {
        let pool = CpuPool::new(CpuLimits { waiting: 20, ..CpuLimits::default() });
        let first = CpuTurns::ask(&pool.turns, &CpuOwner::Server, 20, 20).unwrap().await.unwrap();
        let counted: Vec<_> = (0..8).map(|_| pool.count_address(&address(1)).unwrap()).collect();
        let held: Vec<_> = (0..8).map(|_| CpuTurns::ask(&pool.turns, &address(1), 8, 20).unwrap()).collect();
        let refused = pool.run(address(1), || ()).await.unwrap_err();
        assert_eq!(
            (refused.code(), refused.data("scope").unwrap()),
            (codes::RATE_LIMITED.code, &serde_json::json!("cpu_waiting"))
        );
        let others = (2..13).map(|n| CpuTurns::ask(&pool.turns, &address(n), 8, 20).unwrap());
        let others: Vec<_> = others.collect();
        assert!(pool.run(address(99), || ()).await.is_err(), "so much of all waits");
        drop((first, counted, held, others));
        pool.run(address(1), || ()).await.unwrap();
    }

    #[tokio::test]
    async fn an_agent_that_has_used_its_time_waits_until_it_is_a_minute_ago() {
        let limits = CpuLimits { time_per_minute: Duration::from_millis(20), ..CpuLimits::default() };
        let pool = CpuPool::new(limits);
        pool.run(agent("alice"), || compute(Duration::from_millis(30))).await.unwrap();
        let refused = pool.run(agent("alice"), || ()).await.unwrap_err();
        assert_eq!(refused.data("scope").unwrap(), "cpu_time");
        assert!(refused.retry_after_seconds().is_some_and(|seconds| (1..=60).contains(&seconds)));
        pool.run(agent("bobb"), || ()).await.unwrap();
        pool.run(CpuOwner::Server, || compute(Duration::from_millis(30))).await.unwrap();
        pool.run(CpuOwner::Server, || ()).await.unwrap();
    }
}
