//! `run.*`, `runner.*`, `session.*` and `profile.*`: the manager of runs.
//!
//! A back end creates a run, submits commands and reads events and results; runners take the lease of a run, work on its commands and
//! append what happens. What may happen to a run is decided by pure functions (`model`). Every change goes through one queue
//! (`batch`), is committed together with others, and is told to those who wait (`watching`) after its commit.

mod access;
mod agui;
mod batch;
mod error;
mod ids;
mod known_profiles;
mod launcher;
mod launching;
mod model;
mod profile;
mod redact;
mod routes;
mod runner;
mod runs;
mod secrets;
mod session;
mod settings;
mod shown;
mod storage;
mod store;
mod task_work;
mod tasks;
#[cfg(test)]
mod tests;
mod tokens;
mod watching;

use access::RunAccess;
use agui::FrontEnds;
use batch::RunBatch;
use error::Error;
use kernel::{
    Account, AgentRemoval, AgentRemover, Bus, Caller, Clock, CpuPool, Ids, Mesh, Methods, Presence, Rpc,
    Service, ServiceRow, Task, World,
};
use launcher::LocalLauncher;
use model::call::{CallAccess, RunAnswer, RunCall, RunOperation};
use model::run::RunLimits;
use prometheus_client::metrics::counter::Counter;
use secrets::Secrets;
pub use settings::Settings;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use storage::SessionStorage;
use store::Store;
use task_work::WorkedTasks;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use watching::Watched;

/// The service as `aund` hands it to the gateway.
pub fn row() -> ServiceRow {
    ServiceRow::new("run", open)
}

pub async fn open(world: &World, settings: &Settings) -> anyhow::Result<Service> {
    let service = RunService::open(world, settings).await?;
    let task = |name, work: fn(Arc<RunService>) -> tasks::RunWork| {
        let (service, stop) = (service.clone(), world.stop.clone());
        Task::new(name, move || {
            let (work, stop) = (work(service.clone()), stop.clone());
            async move {
                stop.run_until_cancelled(work).await;
            }
        })
    };
    let sweep = task("sweep", |service| Box::pin(async move { service.sweep_due().await }));
    let maintenance = task("maintenance", |service| Box::pin(async move { service.maintain().await }));
    let collection =
        task("collection", |service| Box::pin(async move { service.collect_storage_always().await }));
    let runners = task("runners", |service| Box::pin(async move { service.stop_runners_always().await }));
    let (following, stop) = (service.clone(), world.stop.clone());
    let tasks = Task::new("tasks", move || {
        let (service, stop) = (following.clone(), stop.clone());
        async move {
            stop.run_until_cancelled(service.clone().follow_tasks_always()).await;
            service.task_work.stop().await;
        }
    });
    let front_ends = task("front_ends", |service| Box::pin(service.see_to_turns()));
    let accounts = service.store.account.task(world);
    service.adopt_runners().await?;
    let removal = AgentRemover::new(world, "run", service.store.db(), service.clone()).removal();
    let run = crate::service(service.clone(), removal);
    Ok(run
        .with_task(sweep)
        .with_task(maintenance)
        .with_task(collection)
        .with_task(runners)
        .with_task(tasks)
        .with_task(front_ends)
        .with_task(accounts))
}

/// What it answers.
fn service(run: Arc<RunService>, removal: AgentRemoval) -> Service {
    let routes = routes::routes(run.clone()).merge(agui::routes(run.clone()));
    Service::new(&["run", "runner", "session", "profile", "agui"], rpc(run), removal).with_routes(routes)
}

fn rpc(service: Arc<RunService>) -> Methods {
    let rpc = Rpc::new(service).within_bounds();
    let rpc = runs::methods(rpc);
    let rpc = runner::methods(rpc);
    let rpc = session::methods(rpc);
    let rpc = profile::methods(rpc);
    let rpc = agui::methods(rpc);
    tokens::methods(rpc).into()
}

struct RunService {
    settings: Settings,
    store: Store,
    batch: RunBatch,
    watched: Watched,
    streams: runs::RunSubscriptions,
    folds: runs::KnownFolds,
    told: runner::ToldFlags,
    secrets: Secrets,
    storage: SessionStorage,
    launcher: LocalLauncher,
    task_work: Arc<WorkedTasks>,
    front_ends: FrontEnds,
    mesh: Arc<Mesh>,
    cpu: Arc<CpuPool>,
    presence: Presence,
    bus: Bus,
    clock: Clock,
    ids: Ids,
    tracker: TaskTracker,
    stop: CancellationToken,
    /// When this process started, or its clock was set back: nobody could renew a lease before. Those who commit notice it.
    started_at: Arc<AtomicI64>,
    /// The base URL that runners are given.
    manager_url: String,
    metrics: RunCounters,
}

#[derive(Clone)]
struct RunCounters {
    created: Counter,
    events: Counter,
    swept: Counter,
    removed: Counter,
    runners: Counter,
    tasks: Counter,
}

impl RunService {
    async fn open(world: &World, settings: &Settings) -> anyhow::Result<Arc<RunService>> {
        let db = world.busy_db("run", &store::MIGRATIONS).await?;
        let account =
            Account::open(world, &db, &store::keeping::KEEPING, store::keeping::share(settings)).await?;
        account.set_tenant_shares(store::keeping::tenant_shares(settings));
        let task_work = WorkedTasks::open(world, settings, &db).await?;
        let store = Store::new(db, account);
        let front_ends = FrontEnds::open(world, &store).await?;
        let counted = |name, help| world.metrics.counted("run", name, help);
        let metrics = RunCounters {
            created: counted("created", "Runs that were created"),
            events: counted("events", "Events that were stored"),
            swept: counted(
                "swept",
                "Runs that the server looked at because of a time-out or an expired lease",
            ),
            removed: counted("removed", "Runs that were removed after their retention"),
            runners: counted("runners_started", "Runners that the server has started"),
            tasks: counted("tasks", "Tasks of agents for which a run was created"),
        };
        let started_at = world.clock.now_ms();
        let limits = RunLimits {
            active_runs: i64::from(settings.active_runs),
            waiting_commands: i64::from(settings.waiting_commands),
            event_bytes: i64::try_from(settings.event_bytes).unwrap_or(i64::MAX),
            started_at,
        };
        let watched = Watched::listen(&world.bus);
        let started_at = Arc::new(AtomicI64::new(started_at));
        let noticed = (started_at.clone(), metrics.events.clone());
        let batch = batch::start(world, store.clone(), limits, watched.clone(), noticed);
        Ok(Arc::new(RunService {
            secrets: Secrets::open(settings.secrets, &world.data, &world.ids),
            storage: SessionStorage::new(&world.data),
            launcher: LocalLauncher::open(world, settings).await?,
            settings: settings.clone(),
            store,
            batch,
            watched,
            streams: runs::RunSubscriptions::listen(&world.bus),
            folds: runs::KnownFolds::default(),
            told: runner::ToldFlags::default(),
            task_work,
            front_ends,
            mesh: world.mesh.clone(),
            cpu: world.cpu.clone(),
            presence: world.presence.clone(),
            bus: world.bus.clone(),
            clock: world.clock.clone(),
            ids: world.ids.clone(),
            tracker: world.tracker.clone(),
            stop: world.stop.clone(),
            started_at,
            manager_url: settings.manager_url.clone().unwrap_or_else(|| world.pki_url.clone()),
            metrics,
        }))
    }

    fn access(&self, caller: &Caller) -> Result<RunAccess, Error> {
        RunAccess::of(caller, &self.settings)
    }

    /// Since when every lease could be renewed.
    fn started_at(&self) -> i64 {
        self.started_at.load(Ordering::Relaxed)
    }

    /// Waits until the change is durable, or refused.
    async fn submit(
        &self,
        run_id: &str,
        access: CallAccess,
        operation: RunOperation,
    ) -> Result<RunAnswer, Error> {
        let bytes = operation.bytes();
        let call = RunCall { run_id: run_id.to_owned(), access, operation };
        call.check_ids()?;
        self.batch.submit(call, bytes).await.map_err(kernel::RpcError::from)?
    }

    /// The same for somebody with rights.
    async fn change(
        &self,
        access: &RunAccess,
        run_id: &str,
        operation: RunOperation,
    ) -> Result<RunAnswer, Error> {
        self.submit(run_id, CallAccess::Of(access.clone()), operation).await
    }
}
