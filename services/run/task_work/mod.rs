//! The tasks of some agents are worked on by runs: a task becomes a run with one turn, and the end of the turn becomes that of the task.
//!
//! Nothing here remembers what has happened: every look compares what is stored of a task, of its run and of both in a row of this
//! service, and does what is missing. So nothing is lost while this service or that of the tasks is away, and each step may be done twice.

mod beginning;
mod calls;
mod ending;
mod following;
mod inputs;
mod looks;

use crate::settings::{RunAgentSettings, Settings};
use kernel::{Aid, Db, Lease, Leases, World};
use looks::TaskLooks;
use parking_lot::Mutex;
use proto_schemas::requests::run::RunsChanged;
use proto_schemas::requests::task::AssignedTasksChanged;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;

const LEASE_MS: i64 = 6000;

/// What this process knows of the tasks that runs work on.
pub(crate) struct WorkedTasks {
    /// The agents whose tasks they are.
    agents: BTreeMap<Aid, RunAgentSettings>,
    /// Of the processes of this service one works on tasks.
    leases: Leases,
    held: Mutex<HeldLease>,
    /// The runs that work on tasks now, and those of them that have changed since they were looked at.
    runs: Mutex<WatchedRuns>,
    /// The tasks that are looked at just now, and those at which it is not looked for a while.
    looks: Mutex<TaskLooks>,
    wake: Notify,
}

#[derive(Default)]
struct HeldLease {
    lease: Option<Lease>,
    asked_at: Option<Instant>,
}

#[derive(Default)]
struct WatchedRuns {
    all: BTreeSet<String>,
    changed: BTreeSet<String>,
}

impl WorkedTasks {
    pub async fn open(world: &World, settings: &Settings, db: &Db) -> anyhow::Result<Arc<WorkedTasks>> {
        let mut agents = BTreeMap::new();
        for (name, agent) in &settings.agents {
            let aid = Aid::parse(name).ok().filter(|aid| aid.issuer() == world.issuer);
            let aid =
                aid.ok_or_else(|| anyhow::anyhow!("run.agents.{name:?}: is not an AID of {}", world.issuer))?;
            agents.insert(aid, agent.clone());
        }
        let leases = Leases::new(db, "run_task_worker", "name", LEASE_MS);
        leases.end_left_over().await?;
        let work = Arc::new(WorkedTasks {
            agents,
            leases,
            held: Mutex::default(),
            runs: Mutex::default(),
            looks: Mutex::default(),
            wake: Notify::new(),
        });
        let told = work.clone();
        world.bus.listen(move |event| {
            if let Some(changed) = event.as_signal::<RunsChanged>() {
                told.runs_changed(&changed.runs);
            } else if let Some(changed) = event.as_signal::<AssignedTasksChanged>()
                && changed.aids.iter().any(|aid| told.agents.contains_key(aid))
            {
                told.wake.notify_one();
            }
        });
        Ok(work)
    }

    fn runs_changed(&self, runs: &[String]) {
        let mut known = self.runs.lock();
        for run in runs {
            if known.all.contains(run) {
                known.changed.insert(run.clone());
                self.wake.notify_one();
            }
        }
    }
}
