//! `run.*`, `runner.*`, `session.*` and `profile.*`: the manager of runs.
//!
//! A back end creates a run, submits commands and reads events and results; runners take the lease of a run, work on its commands and
//! append what happens. What may happen to a run is decided by pure functions (`model`). Every change goes through one queue
//! (`batch`), is committed together with others, and is told to those who wait (`watching`) after its commit.

#![cfg_attr(test, expect(dead_code, reason = "what changes runs is not here yet"))]

mod access;
mod batch;
mod error;
mod ids;
mod known_profiles;
mod profiles;
mod routes;
mod secrets;
mod sessions;
mod settings;
mod storage;
mod store;
mod stubs;
#[cfg(test)]
mod tests;
mod tokens;

use kernel::{Account, AgentRemoval, Clock, Ids, Kept, Methods, Rpc, Service, TenantShares, World};
use secrets::Secrets;
pub use settings::Settings;
use std::sync::Arc;
use storage::SessionStorage;
use store::Store;

pub async fn open(world: &World, settings: &Settings) -> anyhow::Result<Service> {
    Ok(service(RunService::open(world, settings).await?))
}

/// What the service answers.
fn service(run: Arc<RunService>) -> Service {
    let removal = AgentRemoval::nothing_kept("tenants have runs, and agents only act for them");
    let routes = routes::routes(run.clone());
    Service::new(&["run", "runner", "session", "profile"], rpc(run), removal).with_routes(routes)
}

fn rpc(run: Arc<RunService>) -> Methods {
    let rpc = Rpc::new(run);
    let rpc = tokens::methods(rpc);
    let rpc = profiles::methods(rpc);
    sessions::methods(rpc).into()
}

struct RunService {
    settings: Settings,
    store: Store,
    secrets: Secrets,
    storage: SessionStorage,
    clock: Clock,
    ids: Ids,
    /// When this process started: nobody could renew a lease before.
    started_at: i64,
}

impl RunService {
    async fn open(world: &World, settings: &Settings) -> anyhow::Result<Arc<RunService>> {
        let db = world.db("run", &store::MIGRATIONS).await?;
        let account = Account::open(world, &db, &store::keeping::KEEPING, store::keeping::share()).await?;
        let each = Kept { bytes: 64 << 30, rows: 1_000_000 };
        account.set_tenant_shares(TenantShares { each, ..TenantShares::default() });
        Ok(Arc::new(RunService {
            settings: settings.clone(),
            store: Store::new(db, account),
            secrets: Secrets::open(settings.secrets, &world.data),
            storage: SessionStorage::new(&world.data),
            clock: world.clock.clone(),
            ids: world.ids.clone(),
            started_at: world.clock.now_ms(),
        }))
    }
}
