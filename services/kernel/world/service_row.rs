//! A service as `aund` hands it to the gateway, which knows none by itself: a name, settings, and how it is opened.

use crate::{Service, World};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

/// The table of a service in `aund.toml`: read, checked and printed by its own type.
pub trait ServiceSettings: Default + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Refuses what the service cannot do with, before any service is opened. The sentence begins with the name of the setting.
    fn check(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

type ReadSettings = dyn Fn(toml::Table) -> Result<ConfiguredService, toml::de::Error> + Send + Sync;

/// A service that this build has.
#[derive(Clone)]
pub struct ServiceRow {
    pub name: &'static str,
    read: Arc<ReadSettings>,
}

/// A service with its settings, ready to be opened.
#[derive(Clone)]
pub struct ConfiguredService {
    pub name: &'static str,
    service: Arc<dyn OpenableService>,
}

type OpeningService<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Service>> + 'a>>;

/// Any settings, with the function that opens a service with them.
trait OpenableService: Send + Sync {
    fn check(&self) -> anyhow::Result<()>;
    fn shown(&self, name: &str) -> Result<String, toml::ser::Error>;
    fn open<'a>(&'a self, world: &'a World) -> OpeningService<'a>;
}

struct WithSettings<S, F> {
    settings: S,
    open: F,
}

impl ServiceRow {
    pub fn new<S, F>(name: &'static str, open: F) -> ServiceRow
    where
        S: ServiceSettings,
        F: AsyncFn(&World, &S) -> anyhow::Result<Service> + Clone + Send + Sync + 'static,
    {
        let read = move |table: toml::Table| {
            let settings: S = table.try_into()?;
            let service = Arc::new(WithSettings { settings, open: open.clone() });
            Ok(ConfiguredService { name, service })
        };
        ServiceRow { name, read: Arc::new(read) }
    }

    /// The service with the settings of its table; an empty one means the defaults.
    pub fn configured(&self, table: toml::Table) -> Result<ConfiguredService, toml::de::Error> {
        (self.read)(table)
    }
}

impl ConfiguredService {
    pub fn check(&self) -> anyhow::Result<()> {
        self.service.check()
    }

    /// Its table, as `aund.toml` has it.
    pub fn shown(&self) -> Result<String, toml::ser::Error> {
        self.service.shown(self.name)
    }

    /// Opens it. The caller adds it to the world, which calls it and runs its tasks.
    pub async fn open(&self, world: &World) -> anyhow::Result<Service> {
        self.service.open(world).await
    }
}

impl std::fmt::Debug for ConfiguredService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl<S, F> OpenableService for WithSettings<S, F>
where
    S: ServiceSettings,
    F: AsyncFn(&World, &S) -> anyhow::Result<Service> + Send + Sync,
{
    fn check(&self) -> anyhow::Result<()> {
        self.settings.check()
    }

    fn shown(&self, name: &str) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(&BTreeMap::from([(name, &self.settings)]))
    }

    fn open<'a>(&'a self, world: &'a World) -> OpeningService<'a> {
        Box::pin((self.open)(world, &self.settings))
    }
}
