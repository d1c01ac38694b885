//! A few commits at a time, of writes that have no inbox in common. While one waits for its disk, the next is on its way,
//! and what is for one inbox still happens one after the other.

use super::writer::{HeldConnection, PostgresWriter, WriteResult};
use crate::store::error::StoreError;
use crate::store::write::{Write, WriteOutcome};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kernel::{BatchError, Tally, trace};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::task::TaskTracker;

/// Commits at a time.
const CONCURRENT_COMMITS: usize = 2;
/// The most writes of one commit.
const MAX_WRITES: usize = 256;
/// After this the database counts as unreachable, and the senders are told to try again. A message that was stored all the
/// same is then found by its key.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(20);
/// How many waiting writes are looked through for those of a commit.
const LOOK_AHEAD: usize = 1024;

pub(crate) struct CommitQueue {
    queue: mpsc::UnboundedSender<QueuedWrite>,
    bytes: Arc<Semaphore>,
    limit: usize,
    tally: Arc<Tally>,
}

struct QueuedWrite {
    write: Write,
    answer: oneshot::Sender<Result<WriteOutcome, StoreError>>,
    _bytes: OwnedSemaphorePermit,
}

/// What is free again after a commit.
struct FinishedCommit {
    held: HeldConnection,
    inboxes: Vec<i64>,
}

impl CommitQueue {
    pub fn start(
        tracker: &TaskTracker,
        tally: Arc<Tally>,
        limit: usize,
        writer: PostgresWriter,
    ) -> CommitQueue {
        // The channel is unbounded: the semaphore bounds it, in bytes rather than in writes.
        let (queue, waiting) = mpsc::unbounded_channel();
        tracker.spawn(run(waiting, writer, tally.clone()));
        let bytes = Arc::new(Semaphore::new(limit));
        let free = bytes.clone();
        tally.add_queue(move || limit - free.available_permits());
        CommitQueue { queue, bytes, limit, tally }
    }

    /// Waits until the write is durable. `bytes` is how many it takes in the queue.
    pub async fn submit(&self, write: Write, bytes: usize) -> Result<WriteOutcome, StoreError> {
        let _step = trace::step("store", "commit");
        let permits = u32::try_from(bytes.clamp(1, self.limit)).unwrap_or(u32::MAX);
        let Ok(permit) = self.bytes.clone().try_acquire_many_owned(permits) else {
            self.tally.refuse();
            return Err(BatchError::Busy(self.limit - self.bytes.available_permits()).into());
        };
        let (answer, written) = oneshot::channel();
        self.queue.send(QueuedWrite { write, answer, _bytes: permit }).map_err(|_| BatchError::Closed)?;
        written.await.unwrap_or_else(|_| Err(BatchError::Closed.into()))
    }
}

/// Ends when nobody can send any more and everything is answered.
async fn run(mut queue: mpsc::UnboundedReceiver<QueuedWrite>, writer: PostgresWriter, tally: Arc<Tally>) {
    let (mut waiting, mut fresh) = (VecDeque::new(), Vec::new());
    let mut busy: HashSet<i64> = HashSet::new();
    let mut idle: Vec<HeldConnection> = (0..CONCURRENT_COMMITS).map(|_| None).collect();
    let mut running = FuturesUnordered::new();
    let mut open = true;
    while open || !running.is_empty() || !waiting.is_empty() {
        while !idle.is_empty() {
            let (group, inboxes) = pick(&mut waiting, &mut busy);
            if group.is_empty() {
                break;
            }
            running.push(commit(&writer, &tally, idle.pop().flatten(), group, inboxes));
        }
        tokio::select! {
            Some(finished) = running.next() => {
                let FinishedCommit { held, inboxes } = finished;
                for inbox in &inboxes {
                    busy.remove(inbox);
                }
                idle.push(held);
            }
            count = queue.recv_many(&mut fresh, MAX_WRITES), if open => {
                open = count > 0;
                waiting.extend(fresh.drain(..));
            }
        }
    }
}

/// The next writes whose inboxes no running commit writes to, in their order. The inboxes of a write that has to wait are
/// closed to those behind it, too: otherwise a later message could get the earlier seq.
fn pick(waiting: &mut VecDeque<QueuedWrite>, busy: &mut HashSet<i64>) -> (Vec<QueuedWrite>, Vec<i64>) {
    let (mut group, mut taken, mut closed): (Vec<QueuedWrite>, Vec<i64>, HashSet<i64>) = Default::default();
    let mut back = Vec::new();
    for _ in 0..LOOK_AHEAD {
        if group.len() == MAX_WRITES {
            break;
        }
        let Some(next) = waiting.pop_front() else { break };
        let inboxes = next.write.inboxes();
        if inboxes.iter().any(|inbox| busy.contains(inbox) || closed.contains(inbox)) {
            closed.extend(inboxes);
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
    writer: &PostgresWriter,
    tally: &Tally,
    mut held: HeldConnection,
    group: Vec<QueuedWrite>,
    inboxes: Vec<i64>,
) -> FinishedCommit {
    let began = Instant::now();
    let (writes, answers): (Vec<_>, Vec<_>) =
        group.into_iter().map(|queued| (queued.write, (queued.answer, queued._bytes))).unzip();
    let (count, committed) =
        (writes.len(), tokio::time::timeout(COMMIT_TIMEOUT, writer.commit(&mut held, writes)).await);
    let results: Vec<WriteResult> = committed.unwrap_or_else(|_| {
        held = None; // In the middle of something.
        let late = Arc::new(StoreError::Deadline(COMMIT_TIMEOUT.as_secs()));
        (0..count).map(|_| Err(late.clone())).collect()
    });
    tally.commit(began.elapsed(), count, results.iter().filter(|result| result.is_ok()).count());
    for ((answer, _bytes), result) in answers.into_iter().zip(results) {
        // A caller that went away has its row all the same.
        let _ = answer.send(result.map_err(StoreError::Commit));
    }
    FinishedCommit { held, inboxes }
}
