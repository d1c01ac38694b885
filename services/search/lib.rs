//! `search.*`: the directory of agents that published an `agent.md`, here and in the domains that are copied.
//!
//! The `agent` service has the documents. This one reads their changes in order and keeps a log of its own, from which everything
//! else follows: snapshots are the log frozen at a number, other domains copy log and snapshots, and the index of each process is
//! made from it and can be made again at any time.

mod ap_info;
mod changes;
mod cursor;
mod document;
mod error;
mod get_agent;
pub mod index;
mod notify;
mod peers;
mod query;
mod rebuild;
mod settings;
mod snapshot;
mod status;
mod store;
mod suggest;
mod sync;
mod tasks;
#[cfg(test)]
mod tests;

use cursor::CursorKey;
use error::Error;
use index::TextIndex;
use kernel::{
    AgentRemoval, Bus, Caller, Clock, Disk, Event, Ids, Mesh, Methods, Rpc, Service, ServiceRow, Task, World,
};
use parking_lot::RwLock;
use proto_schemas::requests::agent::AgentChanged;
use proto_schemas::requests::search::LogChanged;
pub use settings::Settings;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use store::Store;
use store::pages::Reader;
use sync::{Followers, PeerStates};
use tasks::indexing::{IndexFolder, Rebuilding};
use tasks::query_stats::QueryStats;
use tokio::sync::{Notify, Semaphore};

/// Searches that run at once: each takes a thread for itself. One with a large table counts for several.
const AT_ONCE: u32 = 8;

/// The service as `aund` hands it to the gateway.
pub fn row() -> ServiceRow {
    ServiceRow::new("search", open)
}

pub async fn open(world: &World, settings: &Settings) -> anyhow::Result<Service> {
    let search = SearchService::open(world, settings).await?;
    let task = |name, work: fn(Arc<SearchService>) -> tasks::Work| {
        let (search, stop) = (search.clone(), world.stop.clone());
        Task::new(name, move || {
            let (work, stop) = (work(search.clone()), stop.clone());
            async move {
                stop.run_until_cancelled(work).await;
            }
        })
    };
    let (copying, copied_until) = (search.clone(), world.stop.clone());
    let sync = Task::new("sync", move || {
        let (search, stop) = (copying.clone(), copied_until.clone());
        async move {
            stop.run_until_cancelled(search.sync()).await;
            search.store.leases.release_all().await;
        }
    });
    let removal = AgentRemoval::nothing_kept(
        "what is shown of an agent follows the changes of the agent service, which removes its document; who asked what is not kept",
    );
    let service = Service::new(&["search"], rpc(search.clone()), removal);
    if !settings.enabled {
        return Ok(service.turned_off());
    }
    Ok(service
        .with_task(task("ingest", |search| Box::pin(async move { search.ingest().await })))
        .with_task(task("indexing", |search| Box::pin(async move { search.keep_index().await })))
        .with_task(task("maintenance", |search| Box::pin(async move { search.maintain().await })))
        .with_task(sync))
}

fn rpc(search: Arc<SearchService>) -> Methods {
    Rpc::new(search)
        .method(SearchService::ap_info)
        .method(SearchService::snapshot)
        .method(SearchService::changes)
        .method(SearchService::query)
        .method(SearchService::get_agent)
        .method(SearchService::suggest)
        .method(SearchService::notify)
        .method(SearchService::peers)
        .method(SearchService::rebuild)
        .method(SearchService::status)
        .into()
}

struct SearchService {
    issuer: String,
    /// The name of this directory: `search.` and the domain.
    ap_id: String,
    settings: Settings,
    store: Store,
    cursors: CursorKey,
    /// Replaced as a whole when a new one was made.
    index: RwLock<Arc<TextIndex>>,
    folder: IndexFolder,
    rebuilding: Rebuilding,
    /// Whether the index has been level with the log since this process began. Until then agents may be missing in answers.
    level: AtomicBool,
    searches: Arc<Semaphore>,
    query_stats: QueryStats,
    peer_states: PeerStates,
    followers: Followers,
    wake: Arc<TaskWakes>,
    metrics: SearchMetrics,
    disk: Disk,
    mesh: Arc<Mesh>,
    bus: Bus,
    clock: Clock,
    ids: Ids,
}

/// What ends the waits of the tasks.
#[derive(Default)]
struct TaskWakes {
    /// The agent service has something new.
    ingest: Notify,
    /// The log has something new.
    index: Notify,
    /// The log has something new of our own, for those that copy it.
    followers: Notify,
    /// A peer has something new.
    sync: sync::WakePeers,
}

struct SearchMetrics {
    agents: prometheus_client::metrics::gauge::Gauge,
    index_lag: prometheus_client::metrics::gauge::Gauge,
    refused_items: prometheus_client::metrics::counter::Counter,
}

impl SearchService {
    async fn open(world: &World, settings: &Settings) -> anyhow::Result<Arc<SearchService>> {
        let db = world.db("search", &sqlx::migrate!("./migrations")).await?;
        let store = Store::new(db, world.stores.tally("search"));
        store.begin(world.clock.now_ms()).await?;
        let (folder, index) = IndexFolder::open(&world.data.join("search-index"))?;
        let level = index.generation() == store.state().await?.sequence;
        let wake = Arc::<TaskWakes>::default();
        let listening = wake.clone();
        world.bus.listen(move |event| listening.on_event(event));
        let cursors = CursorKey::new(&store.cursor_key(&world.ids).await?);
        Ok(Arc::new(SearchService {
            issuer: world.issuer.clone(),
            ap_id: ap_id(&world.issuer),
            settings: settings.clone(),
            store,
            cursors,
            index: RwLock::new(Arc::new(index)),
            folder,
            rebuilding: Rebuilding::default(),
            level: AtomicBool::new(level),
            searches: Arc::new(Semaphore::new(AT_ONCE as usize)),
            query_stats: QueryStats::default(),
            peer_states: PeerStates::default(),
            followers: Followers::default(),
            wake,
            metrics: SearchMetrics {
                agents: world.metrics.counted("search", "agents", "Agents that searches find"),
                index_lag: world.metrics.counted(
                    "search",
                    "index_lag",
                    "Changes that are not yet in the index",
                ),
                refused_items: world.metrics.counted(
                    "search",
                    "peer_items_refused",
                    "Rejected entries of other domains' directories",
                ),
            },
            disk: world.disk.clone(),
            mesh: world.mesh.clone(),
            bus: world.bus.clone(),
            clock: world.clock.clone(),
            ids: world.ids.clone(),
        }))
    }

    fn enabled(&self) -> Result<(), Error> {
        if self.settings.enabled { Ok(()) } else { Err(Error::Disabled) }
    }

    /// What the caller gets to see of the log and the snapshots. The directory of another domain is remembered: it is told when
    /// something changes.
    async fn reader(&self, caller: &Caller) -> Result<Reader, Error> {
        let Caller::ForeignService { relayed, .. } = caller else { return Ok(Reader::Agent) };
        if !self.settings.public {
            return Err(Error::NotPublic);
        }
        self.remember_follower(&relayed.from_issuer).await?;
        Ok(Reader::Directory)
    }

    fn index(&self) -> Arc<TextIndex> {
        self.index.read().clone()
    }

    /// Tells the other processes, and the tasks of this one, that the log has something new.
    fn log_changed(&self, own: bool) {
        self.wake.index.notify_one();
        if own {
            self.wake.followers.notify_one();
        }
        self.bus.signal(&LogChanged {});
    }
}

impl TaskWakes {
    fn on_event(&self, event: &Event) {
        if event.as_signal::<AgentChanged>().is_some() {
            self.ingest.notify_one();
        } else if event.as_signal::<LogChanged>().is_some() {
            self.index.notify_one();
        } else if let Some(changed) = event.as_signal() {
            self.sync.wake(&changed);
        }
    }
}

fn ap_id(issuer: &str) -> String {
    format!("search.{issuer}")
}

fn agent_md_url(aid: &str) -> String {
    format!("https://{aid}/agent.md")
}
