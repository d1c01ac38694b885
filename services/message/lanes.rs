//! On PostgreSQL: a few commits at a time, of writes that have no inbox in common. While one waits for its disk, the next
//! is on its way, and what is for one inbox still happens one after the other.

use super::desk::{Desk, Held, Outcome};
use super::ledger::{Done, Write};
use crate::kernel::{BatchError, Tally};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::task::TaskTracker;

/// Commits at a time.
const LANES: usize = 2;
/// The most writes of one commit.
const MOST: usize = 256;
/// After this the database counts as gone, and the senders are told to try again. What was stored all the same is found
/// then by its name.
const DEADLINE: Duration = Duration::from_secs(20);
/// How many waiting writes are looked through for those of a commit.
const LOOK: usize = 1024;

pub(super) struct Lanes {
    queue: mpsc::UnboundedSender<Waiting>,
    bytes: Arc<Semaphore>,
    limit: usize,
    tally: Arc<Tally>,
}

struct Waiting {
    write: Write,
    answer: oneshot::Sender<Result<Done, BatchError>>,
    _bytes: OwnedSemaphorePermit,
}

/// What one lane has done.
struct Finished {
    held: Held,
    inboxes: Vec<i64>,
}

impl Lanes {
    pub fn start(tracker: &TaskTracker, tally: Arc<Tally>, limit: usize, desk: Desk) -> Lanes {
        // The channel has no end of its own: the semaphore is its bound, in bytes rather than in writes.
        let (queue, waiting) = mpsc::unbounded_channel();
        tracker.spawn(run(waiting, desk, tally.clone()));
        let bytes = Arc::new(Semaphore::new(limit));
        let free = bytes.clone();
        tally.add_queue(move || limit - free.available_permits());
        Lanes { queue, bytes, limit, tally }
    }

    /// Waits until the write is durable. `bytes` is what it weighs in the queue.
    pub async fn submit(&self, write: Write, bytes: usize) -> Result<Done, BatchError> {
        let weight = u32::try_from(bytes.clamp(1, self.limit)).unwrap_or(u32::MAX);
        let Ok(permit) = self.bytes.clone().try_acquire_many_owned(weight) else {
            self.tally.refuse();
            return Err(BatchError::Busy(self.limit - self.bytes.available_permits()));
        };
        let (answer, outcome) = oneshot::channel();
        self.queue.send(Waiting { write, answer, _bytes: permit }).map_err(|_| BatchError::Closed)?;
        outcome.await.unwrap_or(Err(BatchError::Closed))
    }
}

/// Ends when nobody can send any more and everything is answered.
async fn run(mut queue: mpsc::UnboundedReceiver<Waiting>, desk: Desk, tally: Arc<Tally>) {
    let (mut waiting, mut fresh) = (VecDeque::new(), Vec::new());
    let mut busy: HashSet<i64> = HashSet::new();
    let mut idle: Vec<Held> = (0..LANES).map(|_| None).collect();
    let mut running = FuturesUnordered::new();
    let mut open = true;
    while open || !running.is_empty() || !waiting.is_empty() {
        while !idle.is_empty() {
            let (group, inboxes) = pick(&mut waiting, &mut busy);
            if group.is_empty() {
                break;
            }
            running.push(commit(&desk, &tally, idle.pop().flatten(), group, inboxes));
        }
        tokio::select! {
            Some(finished) = running.next() => {
                let Finished { held, inboxes } = finished;
                for inbox in &inboxes {
                    busy.remove(inbox);
                }
                idle.push(held);
            }
            count = queue.recv_many(&mut fresh, MOST), if open => {
                open = count > 0;
                waiting.extend(fresh.drain(..));
            }
        }
    }
}

/// The next writes whose inboxes are free, in their order: whoever has to wait makes those behind it wait, too.
fn pick(waiting: &mut VecDeque<Waiting>, busy: &mut HashSet<i64>) -> (Vec<Waiting>, Vec<i64>) {
    let (mut group, mut taken, mut held): (Vec<Waiting>, Vec<i64>, HashSet<i64>) = Default::default();
    let mut back = Vec::new();
    for _ in 0..LOOK {
        if group.len() == MOST {
            break;
        }
        let Some(next) = waiting.pop_front() else { break };
        let inboxes = next.write.inboxes();
        if inboxes.iter().any(|inbox| busy.contains(inbox) || held.contains(inbox)) {
            held.extend(inboxes);
            back.push(next);
        } else {
            taken.extend(inboxes);
            group.push(next);
        }
    }
    for next in back.into_iter().rev() {
        waiting.push_front(next);
    }
    busy.extend(&taken);
    (group, taken)
}

async fn commit(
    desk: &Desk,
    tally: &Tally,
    mut held: Held,
    group: Vec<Waiting>,
    inboxes: Vec<i64>,
) -> Finished {
    let began = Instant::now();
    let (writes, answers): (Vec<_>, Vec<_>) =
        group.into_iter().map(|waiting| (waiting.write, (waiting.answer, waiting._bytes))).unzip();
    let (count, committed) =
        (writes.len(), tokio::time::timeout(DEADLINE, desk.commit(&mut held, writes)).await);
    let outcomes: Vec<Outcome> = committed.unwrap_or_else(|_| {
        held = None; // In the middle of something.
        let late = Arc::new(sqlx::Error::PoolTimedOut);
        (0..count).map(|_| Err(late.clone())).collect()
    });
    tally.commit(began.elapsed(), count, outcomes.iter().filter(|outcome| outcome.is_ok()).count());
    for ((answer, _bytes), outcome) in answers.into_iter().zip(outcomes) {
        // A caller that went away has its row all the same.
        let _ = answer.send(outcome.map_err(BatchError::Failed));
    }
    Finished { held, inboxes }
}
