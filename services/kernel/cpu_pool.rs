//! Work that keeps a core busy for milliseconds, done for callers who have not proved who they are: verifying what they claim.
//!
//! It runs beside the threads of the runtime, so that sockets are read and calls are answered meanwhile, on no more than half of
//! the cores. Only so much of it may wait, and of that one address has a small part: whoever asks for more is refused, and
//! others are not.

use super::RpcError;
use parking_lot::Mutex;
use proto_schemas::codes;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// What may wait or run, from all addresses and from one.
const ACCEPTED: usize = 64;
const ACCEPTED_FROM_ADDRESS: usize = 8;
/// Longer than all that waits can take.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// When whoever was refused may ask again.
const RETRY_AFTER_MS: u64 = 1000;

/// Threads for a few pieces of work at a time.
pub struct CpuPool {
    threads: Arc<Semaphore>,
    accepted: Arc<Mutex<AcceptedWork>>,
}

#[derive(Default)]
struct AcceptedWork {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// One piece of work, counted until this is dropped.
struct WorkPermit {
    accepted: Arc<Mutex<AcceptedWork>>,
    address: Option<IpAddr>,
}

impl Default for CpuPool {
    fn default() -> CpuPool {
        let cores = available_parallelism().map_or(1, usize::from);
        CpuPool { threads: Arc::new(Semaphore::new((cores / 2).max(1))), accepted: Arc::default() }
    }
}

impl CpuPool {
    /// Runs the work for a caller from this address, where it is known. The error says that too much waits already.
    pub async fn run<T: Send + 'static>(
        &self,
        address: Option<IpAddr>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RpcError> {
        let permit = self.accept(address)?;
        let thread = timeout(LONGEST_WAIT, self.threads.clone().acquire_owned()).await;
        let Ok(Ok(thread)) = thread else { return Err(too_busy()) };
        // Both are held until the work is done, also if nobody waits for its end any more.
        let working = tokio::task::spawn_blocking(move || {
            let _held = (thread, permit);
            work()
        });
        working.await.map_err(RpcError::internal)
    }

    fn accept(&self, address: Option<IpAddr>) -> Result<WorkPermit, RpcError> {
        let mut accepted = self.accepted.lock();
        let from_address = address.and_then(|address| accepted.by_address.get(&address).copied());
        if accepted.all >= ACCEPTED || from_address.unwrap_or(0) >= ACCEPTED_FROM_ADDRESS {
            return Err(too_busy());
        }
        accepted.all += 1;
        if let Some(address) = address {
            *accepted.by_address.entry(address).or_default() += 1;
        }
        Ok(WorkPermit { accepted: self.accepted.clone(), address })
    }
}

impl Drop for WorkPermit {
    fn drop(&mut self) {
        let mut accepted = self.accepted.lock();
        accepted.all -= 1;
        let Some(address) = self.address else { return };
        if let Some(count) = accepted.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                accepted.by_address.remove(&address);
            }
        }
    }
}

fn too_busy() -> RpcError {
    let sentence = format!("too many certificates wait to be verified; try again in {RETRY_AFTER_MS} ms");
    RpcError::new(codes::RATE_LIMITED, sentence).with("retry_after_ms", RETRY_AFTER_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;

    fn address(last: u8) -> Option<IpAddr> {
        Some([10, 0, 0, last].into())
    }

    #[tokio::test]
    async fn work_is_done_and_nothing_of_it_stays_counted() {
        let pool = CpuPool::default();
        let squares = join_all((0..8_u64).map(|n| pool.run(address(1), move || n * n))).await;
        assert_eq!(squares.into_iter().map(Result::unwrap).sum::<u64>(), 140);
        let panicked = pool.run(None, || panic!("on purpose")).await;
        assert_eq!(panicked.map(|()| 0).unwrap_err().code(), codes::INTERNAL.code);
        let accepted = pool.accepted.lock();
        assert!(accepted.all == 0 && accepted.by_address.is_empty());
    }

    #[tokio::test]
    async fn an_address_that_asks_for_too_much_is_refused_and_others_are_not() {
        let pool = CpuPool::default();
        let held: Vec<_> = (0..ACCEPTED_FROM_ADDRESS).map(|_| pool.accept(address(1)).unwrap()).collect();
        let refused = pool.run(address(1), || ()).await.unwrap_err();
        assert_eq!(refused.code(), codes::RATE_LIMITED.code);
        pool.run(address(2), || ()).await.unwrap();
        drop(held);
        pool.run(address(1), || ()).await.unwrap();
    }

    #[tokio::test]
    async fn only_so_much_waits() {
        let pool = CpuPool::default();
        let held: Vec<_> = (0..ACCEPTED).map(|_| pool.accept(None).unwrap()).collect();
        assert_eq!(pool.run(None, || ()).await.unwrap_err().code(), codes::RATE_LIMITED.code);
        drop(held);
        pool.run(None, || ()).await.unwrap();
    }
}
