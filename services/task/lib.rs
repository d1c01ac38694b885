//! `task.*`: work that one agent gives another, with one truth that both sides see: who asked whom for what, where it stands, what
//! came out, and what was passed on to whom.
//!
//! What may happen to a task is decided by pure functions (`model`). Every change goes through one queue (`batch`), is committed
//! together with others, and is told to whoever should hear of it (`publish`) after its commit.

mod acting;
mod agent_removal;
mod agents;
mod batch;
mod federation;
mod model;
mod params;
mod publish;
mod reading;
mod repeats;
mod settings;
mod store;
mod subscriptions;
mod tasks;
#[cfg(test)]
mod tests;

use agents::RegisteredAgents;
use batch::TaskBatch;
use federation::RelayQueues;
use kernel::{
    Account, AgentRemover, Bus, Clock, Disk, Ids, Mesh, Methods, Outbox, Presence, Rpc, Service, ServiceRow,
    Task, World,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use reading::FollowedAgents;
pub use settings::Settings;
use std::sync::Arc;
use store::Store;
use tasks::WaitingForSpace;

/// The service as `aund` hands it to the gateway.
pub fn row() -> ServiceRow {
    ServiceRow::new("task", open)
}

pub async fn open(world: &World, settings: &Settings) -> anyhow::Result<Service> {
    let service = TaskService::open(world, settings).await?;
    let task = |name, work: fn(Arc<TaskService>) -> tasks::TaskWork| {
        let (service, stop) = (service.clone(), world.stop.clone());
        Task::new(name, move || {
            let (work, stop) = (work(service.clone()), stop.clone());
            async move {
                stop.run_until_cancelled(work).await;
            }
        })
    };
    let timers = task("timers", |service| Box::pin(async move { service.run_timers().await }));
    let maintenance = task("maintenance", |service| Box::pin(async move { service.maintain().await }));
    let old_content =
        task("old_content", |service| Box::pin(async move { service.remove_old_content().await }));
    let relay = task("relay", |service| Box::pin(async move { service.relay().await }));
    let outbox = service.store.outbox.task("outbox", world, &service);
    let accounts = service.store.account.task(world);
    let removal = AgentRemover::new(world, "task", service.store.db(), service.clone()).removal();
    let tasks = Service::new(&["task"], rpc(service), removal);
    let tasks = tasks.with_task(timers).with_task(maintenance).with_task(old_content);
    Ok(tasks.with_task(relay).with_task(outbox).with_task(accounts))
}

fn rpc(service: Arc<TaskService>) -> Methods {
    Rpc::new(service)
        .method(TaskService::create)
        .method(TaskService::get)
        .method(TaskService::accept)
        .method(TaskService::reject)
        .method(TaskService::send_input)
        .method(TaskService::request_input)
        .method(TaskService::delegate)
        .method(TaskService::add_artifact)
        .method(TaskService::complete)
        .method(TaskService::fail)
        .method(TaskService::cancel)
        .method(TaskService::children)
        .method(TaskService::list)
        .method(TaskService::subscribe)
        .method(TaskService::unsubscribe)
        .method(TaskService::relay_event)
        .method(TaskService::assigned)
        .method(TaskService::act_as_assignee)
        .method(TaskService::account)
        .into()
}

struct TaskService {
    issuer: String,
    store: Store,
    batch: TaskBatch,
    agents: RegisteredAgents,
    relays: Arc<RelayQueues>,
    followed: Arc<FollowedAgents>,
    retention_ms: i64,
    keep_content_ms: i64,
    waiting_for_space: WaitingForSpace,
    metrics: TaskCounters,
    disk: Disk,
    mesh: Arc<Mesh>,
    bus: Bus,
    presence: Presence,
    clock: Clock,
    ids: Ids,
}

#[derive(Clone)]
struct TaskCounters {
    changes: Counter,
    timed_out: Counter,
    open: Gauge,
    content_removed: Counter,
    relays_sent: Counter,
    relays_failed: Counter,
    relays_waiting: Gauge,
}

impl TaskService {
    async fn open(world: &World, settings: &Settings) -> anyhow::Result<Arc<TaskService>> {
        let db = world.busy_db("task", &sqlx::migrate!("./migrations")).await?;
        let outbox = Outbox::open(world, &db, store::RELAYS).await?;
        let share = store::keeping::share(settings.kept_bytes);
        let account = Account::open(world, &db, &store::keeping::KEEPING, share).await?;
        let store = Store::new(db, outbox, account);
        let metrics = TaskCounters {
            changes: world.metrics.counted("task", "changes", "Stored changes of tasks"),
            timed_out: world.metrics.counted(
                "task",
                "timed_out",
                "Tasks ended by the server because of a time-out",
            ),
            open: world.metrics.counted("task", "open", "Tasks that have not ended"),
            content_removed: world.metrics.counted(
                "task",
                "content_removed",
                "Tasks of which texts or artifacts were removed because the share of their author was full",
            ),
            relays_sent: world.metrics.counted(
                "task",
                "relays_sent",
                "Versions of tasks sent to other domains",
            ),
            relays_failed: world.metrics.counted(
                "task",
                "relays_failed",
                "Failed attempts to notify another domain of tasks",
            ),
            relays_waiting: world.metrics.counted(
                "task",
                "relays_waiting",
                "Tasks waiting to be sent to other domains",
            ),
        };
        let relays = Arc::<RelayQueues>::default();
        let followed = Arc::<FollowedAgents>::default();
        let committed = publish::start(world, store.clone(), relays.clone(), followed.clone());
        let batch = batch::start(world, store.clone(), settings.limits(), committed, metrics.clone());
        Ok(Arc::new(TaskService {
            issuer: world.issuer.clone(),
            store,
            batch,
            agents: RegisteredAgents::default(),
            relays,
            followed,
            retention_ms: settings.retention_ms(),
            keep_content_ms: settings.keep_content_ms(),
            waiting_for_space: WaitingForSpace::default(),
            metrics,
            disk: world.disk.clone(),
            mesh: world.mesh.clone(),
            bus: world.bus.clone(),
            presence: world.presence.clone(),
            clock: world.clock.clone(),
            ids: world.ids.clone(),
        }))
    }
}
