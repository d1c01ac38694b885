//! `World`: everything outside itself that a service may use.

use super::{Bus, Clock, Db, Durability, Ids, Mesh, Presence, StoreUrl, Stores};
use sqlx::migrate::Migrator;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[derive(Clone)]
pub struct World {
    /// The domain this server vouches for, such as `agents.localhost`.
    pub issuer: String,
    /// The folder of the SQLite files.
    pub data: PathBuf,
    /// The folder whose `pki` has the keys; the data folder, unless several processes share their keys.
    pub keys: PathBuf,
    pub store: StoreUrl,
    /// What the stores of the services count.
    pub stores: Stores,
    /// How long a message waits for a domain that cannot be reached; `None`: its sender gets the error at once.
    pub peer_retention: Option<Duration>,
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

impl World {
    /// For a server of one process, on the system's clock.
    pub fn local(issuer: &str, data: &Path, store: StoreUrl) -> World {
        World {
            issuer: issuer.to_owned(),
            data: data.to_owned(),
            keys: data.to_owned(),
            store,
            stores: Stores::default(),
            peer_retention: None,
            mesh: Arc::default(),
            bus: Bus::local(),
            presence: Presence::local(),
            clock: Clock::System,
            ids: Ids::default(),
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    pub async fn db(&self, service: &str, migrations: &Migrator) -> anyhow::Result<Db> {
        Db::open(&self.store, &self.data, service, migrations, Durability::Full).await
    }

    /// A database that is written to all the time; see [`Durability::Busy`].
    pub async fn busy_db(&self, service: &str, migrations: &Migrator) -> anyhow::Result<Db> {
        Db::open(&self.store, &self.data, service, migrations, Durability::Busy).await
    }

    /// A database that holds nothing another one does not: it can be deleted and is made again.
    pub async fn derived_db(&self, name: &str, migrations: &Migrator) -> anyhow::Result<Db> {
        Db::open(&self.store, &self.data, name, migrations, Durability::Derived).await
    }
}
