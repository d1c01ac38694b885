//! Where runs are changed: calls that arrive while a commit is running share the next one.
//!
//! One commit is one transaction. The runs that its calls are about are read, the calls are decided on one after the other in memory, and
//! what has changed is written with a few statements. So a race of many calls has an order, each sees what those before it have done, and an
//! event has its number when it is durable. A call that is refused does not disturb the others.

use crate::error::Error;
use crate::model::call::{RunAnswer, RunCall};
use crate::model::decide::decide;
use crate::model::run::RunLimits;
use crate::store::{RunsWanted, Store};
use crate::watching::Watched;
use kernel::{Batch, Clock, World};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use proto_schemas::requests::run::RunsChanged;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// What may wait for a commit.
const QUEUE_BYTES: usize = 64 << 20;
/// Runs that one signal names.
const MOST_NAMED: usize = 256;

pub(crate) type RunBatch = Batch<RunCall, Result<RunAnswer, Error>>;

struct RunWriter {
    store: Store,
    limits: RunLimits,
    /// Of the limits, as everybody in this process has it.
    started_at: Arc<AtomicI64>,
    clock: Clock,
    watched: Watched,
    events: Counter,
    last_now: Mutex<i64>,
}

pub(crate) fn start(
    world: &World,
    store: Store,
    limits: RunLimits,
    watched: Watched,
    (started_at, events): (Arc<AtomicI64>, Counter),
) -> RunBatch {
    let writer = Arc::new(RunWriter {
        store,
        last_now: Mutex::new(limits.started_at),
        limits,
        started_at,
        clock: world.clock.clone(),
        watched,
        events,
    });
    Batch::start(&world.tracker, world.stores.tally("run"), QUEUE_BYTES, move |calls| {
        let writer = writer.clone();
        async move { writer.commit(calls).await }
    })
}

impl RunWriter {
    async fn commit(&self, calls: Vec<RunCall>) -> sqlx::Result<Vec<Result<RunAnswer, Error>>> {
        let mut wanted = RunsWanted::default();
        calls.iter().for_each(|call| wanted.add(call));
        let mut tx = self.store.begin().await?;
        let mut runs = self.store.load(&mut tx, &wanted).await?;

        let now = self.clock.now_ms();
        let limits = self.limits_at(now);
        let answers: Vec<_> = calls.into_iter().map(|call| decide(&mut runs, &limits, call, now)).collect();
        if runs.is_unchanged() {
            tx.rollback().await?;
            return Ok(answers);
        }
        self.store.write(&mut tx, &runs).await?;
        tx.commit().await?;
        self.events.inc_by(u64::try_from(runs.events.len()).unwrap_or(0));
        let changed: Vec<String> =
            runs.runs.values().filter(|run| run.changed).map(|run| run.row.id.clone()).collect();
        for some in changed.chunks(MOST_NAMED) {
            self.watched.tell(&RunsChanged { runs: some.to_vec() });
        }
        Ok(answers)
    }

    /// After the clock was set back it is as after a start: a lease that was long enough before is not over now.
    fn limits_at(&self, now: i64) -> RunLimits {
        let mut last = self.last_now.lock();
        if now + 1000 < *last || now < self.started_at.load(Ordering::Relaxed) {
            self.started_at.store(now, Ordering::Relaxed);
        }
        *last = now;
        RunLimits { started_at: self.started_at.load(Ordering::Relaxed), ..self.limits.clone() }
    }
}
