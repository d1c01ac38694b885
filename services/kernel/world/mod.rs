//! `World`: everything outside itself that a service may use.

mod service_row;

pub use service_row::{ConfiguredService, ServiceRow, ServiceSettings};

use crate::{
    AccountSettings, Accounts, Bus, Clock, CpuPool, Db, Disk, Durability, Ids, Mesh, Presence, Service,
    ServiceMetrics, ServiceRoutes, StoreUrl, Stores, Tasks, http,
};
use sqlx::migrate::Migrator;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[derive(Clone)]
pub struct World {
    /// The domain this server vouches for, such as `agents.localhost`.
    pub issuer: String,
    /// Where everybody finds HTTP of this server, such as `https://gateway.agents.localhost:20001`: certificates and the list
    /// of trusted roots name it.
    pub pki_url: String,
    /// How a process on this machine reaches the gateway, once it listens. Empty where the gateway runs in another process.
    pub own_gateway: Arc<OnceLock<OwnGateway>>,
    /// The folder of the SQLite files.
    pub data: PathBuf,
    /// The folder whose `pki` has the keys; the data folder, unless several processes share their keys.
    pub keys: PathBuf,
    pub store: StoreUrl,
    /// What the stores of the services count.
    pub stores: Stores,
    /// Whether there is space for new bytes in them.
    pub disk: Disk,
    /// What the services count.
    pub metrics: ServiceMetrics,
    /// What the services do in the background.
    pub tasks: Tasks,
    /// What services keep for agents, in all.
    pub accounts: Accounts,
    /// Where everything is computed that grows with what somebody sent.
    pub cpu: Arc<CpuPool>,
    pub mesh: Arc<Mesh>,
    pub bus: Bus,
    pub presence: Presence,
    pub clock: Clock,
    pub ids: Ids,
    /// Everything that runs in the background is spawned here.
    pub tracker: TaskTracker,
    /// Cancelled when the server stops.
    pub stop: CancellationToken,
}

/// The gateway of this process, for others on this machine: its name need not be known to any resolver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnGateway {
    /// The base URL with the name that its certificate has.
    pub url: String,
    /// Where it is dialled.
    pub address: SocketAddr,
    /// The certificate that its own is verified with. Without one an authority of the public web has issued it, or no TLS is spoken.
    pub root: Option<PathBuf>,
}

impl World {
    /// For a server of one process, on the system's clock.
    pub fn local(issuer: &str, data: &Path, store: StoreUrl) -> World {
        let bus = Bus::local();
        World {
            issuer: issuer.to_owned(),
            pki_url: format!("https://gateway.{issuer}"),
            own_gateway: Arc::default(),
            data: data.to_owned(),
            keys: data.to_owned(),
            store,
            stores: Stores::default(),
            disk: Disk::default(),
            metrics: ServiceMetrics::default(),
            tasks: Tasks::default(),
            accounts: Accounts::new(AccountSettings::default(), &bus),
            cpu: Arc::default(),
            mesh: Arc::default(),
            bus,
            presence: Presence::local(),
            clock: Clock::System,
            ids: Ids::default(),
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Puts a service that was opened here on the mesh, and begins its tasks.
    pub fn add(&self, service: Service) {
        let Service { namespaces, methods, routes, tasks, advertised } = service;
        let methods = methods.on_disk(&self.disk);
        for namespace in namespaces {
            self.mesh.add_local(namespace, methods.clone());
            if !advertised {
                self.mesh.turn_off(namespace);
            }
        }
        let name = namespaces.first().copied().unwrap_or_default();
        let routes = http::routes_of(routes, &self.disk);
        self.mesh.add_routes(name, ServiceRoutes::Local(routes));
        for task in tasks {
            self.tasks.run(&self.tracker, &self.stop, name, task);
        }
    }

    pub async fn db(&self, service: &'static str, migrations: &Migrator) -> anyhow::Result<Db> {
        self.open_db(service, migrations, Durability::Full).await
    }

    /// A database that is written to all the time; see [`Durability::Busy`].
    pub async fn busy_db(&self, service: &'static str, migrations: &Migrator) -> anyhow::Result<Db> {
        self.open_db(service, migrations, Durability::Busy).await
    }

    /// The database of a service: what it commits is counted, and whether it answers is seen.
    async fn open_db(
        &self,
        service: &'static str,
        migrations: &Migrator,
        durability: Durability,
    ) -> anyhow::Result<Db> {
        let db = Db::open(&self.store, &self.data, service, migrations, durability).await?;
        let db = db.counted_by(self.stores.tally(service));
        let asked = db.clone();
        self.stores.set_probe(service, move || {
            let db = asked.clone();
            async move { db.answers().await }
        });
        Ok(db)
    }

    /// A database that holds nothing another one does not: it can be deleted and is made again.
    pub async fn derived_db(&self, name: &str, migrations: &Migrator) -> anyhow::Result<Db> {
        Db::open(&self.store, &self.data, name, migrations, Durability::Derived).await
    }
}
