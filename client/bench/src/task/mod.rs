//! `aund bench --task`: what a durable change of a task costs, beside a durable message on the same server, and whether a page of
//! `task.list` costs the same however many pages came before it.
//!
//! Both kinds of calls are made by the same agents over the same connections, with as many in flight, and take their rounds in turn.

mod fill;
mod frames;
mod list;
mod lives;
mod pair;
mod sends;
pub(super) mod transitions;

use super::process::{BenchFolder, BenchServer, Build, CONFIG};
use super::report::Report;
use super::{Plan, What, schemas};

/// A limit that is counted and not reached. A class has its burst whatever its rate is, so the rate is one at which a whole burst is
/// there again within microseconds. Few tasks are open at once, far below what an agent may have.
const CLASSES: &str = "[limits.classes]\n\"task.create\" = 4000000000\n";

/// The store that a server is measured on.
#[derive(Clone, Copy)]
enum TaskStoreKind<'a> {
    Sqlite,
    /// In schemas of the bench's own in the database of this URL.
    Postgres(&'a str),
}

/// On SQLite, and where there is one on PostgreSQL, too.
pub(super) async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    on_store(plan, TaskStoreKind::Sqlite, report).await?;
    match &plan.postgres {
        Some(url) if plan.wants(What::Transitions) || plan.wants(What::TaskList) => {
            schemas::dropped_after(url, on_store(plan, TaskStoreKind::Postgres(url), report)).await
        }
        _ => Ok(()),
    }
}

async fn on_store(plan: &Plan, store: TaskStoreKind<'_>, report: &mut Report) -> anyhow::Result<()> {
    if plan.wants(What::Transitions) {
        transitions::measure(plan, store, report).await?;
    }
    if plan.wants(What::TaskList) {
        list::measure(plan, store, report).await?;
    }
    Ok(())
}

impl TaskStoreKind<'_> {
    fn name(self) -> &'static str {
        match self {
            TaskStoreKind::Sqlite => "SQLite",
            TaskStoreKind::Postgres(_) => "PostgreSQL",
        }
    }

    /// The URL of a store with nothing in it; none for SQLite in the folder of the server.
    fn url(self) -> Option<String> {
        match self {
            TaskStoreKind::Sqlite => None,
            TaskStoreKind::Postgres(url) => Some(schemas::store_url(url, &schemas::fresh_prefix())),
        }
    }

    /// A server with nothing in its store.
    async fn server(self, folder: &BenchFolder) -> anyhow::Result<BenchServer> {
        server(&Build::this()?, folder, self.url().as_deref()).await
    }
}

async fn server(build: &Build, folder: &BenchFolder, store: Option<&str>) -> anyhow::Result<BenchServer> {
    BenchServer::aund_with(build, folder, store, &format!("{CONFIG}{CLASSES}")).await
}
