//! Measures now and then how much space the stores of this process have left, so that a call need not.

use kernel::{Disk, Engine, StoreLimits, StoreUrl, Task, World};
use std::path::PathBuf;
use std::time::Duration;

/// What agents can write in this time is far below the limit.
const EVERY: Duration = Duration::from_secs(2);
/// PostgreSQL looks at each file of the schemas for an answer.
const EVERY_ON_POSTGRES: Duration = Duration::from_secs(30);

/// Once before anybody is answered, and then until the server stops. A process without a store has nothing to measure.
pub async fn watch(world: &World, limits: StoreLimits) {
    if world.stores.up().is_empty() {
        return;
    }
    let (store, data, disk) = (world.store.clone(), world.data.clone(), world.disk.clone());
    let mut measured = MeasuredSpace { store, data, limits, disk, failing: false };
    measured.measure().await;
    let stop = world.stop.clone();
    let task = Task::new("free_space", move || {
        let (mut measured, stop) = (measured.clone(), stop.clone());
        async move {
            stop.run_until_cancelled(measured.measure_again_and_again()).await;
        }
    });
    world.tasks.run(&world.tracker, &world.stop, "stores", task);
}

/// The store whose space is measured, and who is told.
#[derive(Clone)]
struct MeasuredSpace {
    store: StoreUrl,
    data: PathBuf,
    limits: StoreLimits,
    disk: Disk,
    /// Whether the last measurement failed: that is logged once.
    failing: bool,
}

impl MeasuredSpace {
    async fn measure_again_and_again(&mut self) {
        let every = match self.store.engine() {
            Engine::Sqlite => EVERY,
            Engine::Postgres => EVERY_ON_POSTGRES,
        };
        loop {
            tokio::time::sleep(every).await;
            self.measure().await;
        }
    }

    /// What cannot be measured stays as it was: a store that does not answer refuses everything as it is.
    async fn measure(&mut self) {
        let measured = self.limits.measure(&self.store, &self.data).await;
        match &measured {
            Ok(Some(reading)) => self.disk.set(*reading),
            Ok(None) => {}
            Err(error) if !self.failing => tracing::warn!("the free space cannot be measured: {error:#}"),
            Err(_) => {}
        }
        self.failing = measured.is_err();
    }
}
