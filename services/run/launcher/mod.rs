//! The launcher `local`: runners as processes on this machine.
//!
//! A runner is the same program as this server and speaks only the routes for runners, so it goes on while the server is away. The row of
//! its job is there first; then the process is started, which waits for its token; then the row says which process it is; and then it gets
//! the token. A server that is killed in between leaves a process that ends by itself, or one that is found again. With a process its lease
//! ends, and everything that it has started.

mod command;
mod credential;
mod folders;
mod isolation;
mod process;
mod start;
mod watch;

pub(crate) use start::LocalLaunch;

use crate::error::Error;
use crate::model::call::NewLocalJob;
use crate::model::run::RunnerProcessId;
use crate::settings::Settings;
use anyhow::Context as _;
use command::{ManagerAddress, hidden_folders};
use folders::{RunnerFolders, machine};
use kernel::{OwnGateway, World};
use parking_lot::Mutex;
use proto_schemas::requests::run::{LauncherKind, RunnerIsolation};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Runners for each core, where the settings do not say how many.
const PER_CORE: usize = 8;

/// What starts runners here.
pub(crate) struct LocalLauncher {
    kind: Option<LauncherKind>,
    manager: Option<ManagerAddress>,
    own_gateway: Arc<OnceLock<OwnGateway>>,
    /// What this server is called in rows of jobs.
    owner: String,
    /// While it is held, nobody else takes processes of this name for its own.
    lock: Option<File>,
    folders: RunnerFolders,
    /// What a back end must not see.
    hidden: Vec<PathBuf>,
    isolation: RunnerIsolation,
    /// What a runner is.
    program: PathBuf,
    most: usize,
    slots: Arc<Semaphore>,
    running: Mutex<BTreeMap<String, KnownRunner>>,
}

/// A process that is watched.
#[derive(Clone, Debug)]
struct KnownRunner {
    process: RunnerProcessId,
    log_ref: String,
    /// Where its back end keeps what it needs. Other runners of its session have the same.
    storage: PathBuf,
    run_id: String,
    is_stopping: bool,
}

impl LocalLauncher {
    pub async fn open(world: &World, settings: &Settings) -> anyhow::Result<LocalLauncher> {
        let data = std::path::absolute(&world.data)?;
        let (folders, name) = (RunnerFolders::new(&data), world.ids.tagged("server"));
        let (folders, owned) = tokio::task::spawn_blocking(move || {
            let owned = machine().and_then(|machine| folders.owner(&machine, &name));
            (folders, owned)
        })
        .await?;
        let (owner, lock) =
            owned.with_context(|| format!("{}: the folder of runners", data.join("runners").display()))?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let most = if settings.local_runners == 0 { cores * PER_CORE } else { settings.local_runners };
        let root = settings.manager_root.as_deref().map(std::path::absolute).transpose()?;
        let manager = settings.manager_url.clone().map(|url| ManagerAddress { url, root, dial: None });
        Ok(LocalLauncher {
            kind: settings.launcher,
            manager,
            own_gateway: world.own_gateway.clone(),
            owner,
            lock,
            folders,
            hidden: hidden_folders(&data, &world.keys),
            isolation: isolation::found(settings.runner.isolation).await?,
            program: start::own_program()?,
            most,
            slots: Arc::new(Semaphore::new(most)),
            running: Mutex::default(),
        })
    }

    /// How runners are started where a request does not say it.
    pub fn kind(&self) -> LauncherKind {
        self.kind.unwrap_or(match self.manager() {
            Some(_) => LauncherKind::Local,
            None => LauncherKind::External,
        })
    }

    /// Whether runners can be started so.
    pub fn is_ready(&self) -> bool {
        match self.kind() {
            LauncherKind::Local => self.manager().is_some(),
            LauncherKind::External => true,
            LauncherKind::Kubernetes => false,
        }
    }

    fn manager(&self) -> Option<ManagerAddress> {
        self.manager.clone().or_else(|| self.own_gateway.get().map(ManagerAddress::of_gateway))
    }

    /// What is known of a runner before it is started, and its place among those that this server may have.
    pub fn reserve(&self) -> Result<(NewLocalJob, Option<OwnedSemaphorePermit>), Error> {
        if self.manager().is_none() {
            return Err(Error::Invalid(
                "launcher must be external: this server does not know its own URL, set run.manager_url"
                    .to_owned(),
            ));
        }
        let slot = self.slots.clone().try_acquire_owned().ok();
        let full = slot.is_none().then_some(self.most);
        Ok((NewLocalJob { owner: self.owner.clone(), isolation: self.isolation, full }, slot))
    }
}
