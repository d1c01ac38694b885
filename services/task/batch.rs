//! Where tasks are written: calls that arrive while a commit is running share the next one.
//!
//! One commit is one transaction. The trees that its calls are about are read, the calls are applied one after the other in memory,
//! and what has changed is written with a few statements. A call that is refused changes nothing and does not disturb the others.
//! The callers are answered after the commit, and what others are told goes to one publisher in the order of the commits, so the
//! events of a task leave in the order of its versions.

use super::TaskCounters;
use super::model::answer::TaskAnswer;
use super::model::decide::decide;
use super::model::error::Error;
use super::model::operation::{Actor, TaskCall};
use super::model::tree::TaskLimits;
use super::publish::CommittedEvent;
use super::store::{LoadWanted, Store};
use kernel::{Batch, Clock, World};
use std::sync::Arc;
use tokio::sync::mpsc;

/// What may wait for a commit.
const QUEUE_BYTES: usize = 32 << 20;

pub(super) type TaskBatch = Batch<TaskCall, Result<TaskAnswer, Error>>;

struct TaskWriter {
    store: Store,
    limits: TaskLimits,
    clock: Clock,
    committed: mpsc::Sender<Vec<CommittedEvent>>,
    metrics: TaskCounters,
}

/// Whatever was committed is told to `committed`, in the order of the commits.
pub(super) fn start(
    world: &World,
    store: Store,
    limits: TaskLimits,
    committed: mpsc::Sender<Vec<CommittedEvent>>,
    metrics: TaskCounters,
) -> TaskBatch {
    let writer = Arc::new(TaskWriter { store, limits, clock: world.clock.clone(), committed, metrics });
    Batch::start(&world.tracker, world.stores.tally("task"), QUEUE_BYTES, move |calls| {
        let writer = writer.clone();
        async move { writer.commit(calls).await }
    })
}

impl TaskWriter {
    async fn commit(&self, calls: Vec<TaskCall>) -> sqlx::Result<Vec<Result<TaskAnswer, Error>>> {
        let mut wanted = LoadWanted::default();
        calls.iter().for_each(|call| wanted.add(call));
        let mut tx = self.store.begin().await?;
        let mut trees = self.store.load(&mut tx, &wanted).await?;

        let now = self.clock.now_ms();
        let (mut answers, mut events) = (Vec::with_capacity(calls.len()), Vec::new());
        for call in calls {
            let origin = match &call.actor {
                Actor::Agent(origin) => Some(Arc::new(origin.clone())),
                Actor::System => None,
            };
            let decided = decide(&mut trees, &self.limits, call, now);
            answers.push(decided.map(|decided| {
                let told = decided.events.into_iter();
                events.extend(told.map(|event| CommittedEvent { event, origin: origin.clone() }));
                decided.answer
            }));
        }

        if trees.changes.is_empty() {
            tx.rollback().await?;
            return Ok(answers);
        }
        self.store.write(&mut tx, &trees).await?;
        tx.commit().await?;
        self.metrics.changes.inc_by(trees.changes.versions);
        // Only a publisher that is gone does not take them: then the process is stopping.
        let _ = self.committed.send(events).await;
        Ok(answers)
    }
}
