//! `agui.*`: front ends. A conversation is a session of runs with one open run, and a run of a front end is a turn of it.

mod accept;
mod cancel;
mod frames;
mod history;
mod input;
mod pictures;
mod profile;
mod removal;
mod routes;
mod run;
mod runners;
mod set_profile;
mod thread_run;

pub(crate) use pictures::{PictureFolder, serve_to_runner};
pub(crate) use routes::routes;

use crate::RunService;
use crate::error::Error;
use crate::model::thread::ThreadRow;
use crate::store::Store;
use kernel::{Caller, CallingAgent, Rpc, World};
use pictures::PictureKey;
use tokio::sync::Notify;

pub(crate) fn methods(rpc: Rpc<RunService>) -> Rpc<RunService> {
    rpc.method(RunService::agui_run)
        .method(RunService::agui_cancel)
        .method(RunService::agui_history)
        .method(RunService::agui_profile)
        .method(RunService::agui_set_profile)
        .method(RunService::agui_attachment_url)
        .method(RunService::agui_subscribe)
        .method(RunService::agui_unsubscribe)
}

/// What this process has for front ends.
pub(crate) struct FrontEnds {
    pub pictures: PictureFolder,
    pub key: PictureKey,
    /// Told when a turn waits for a runner.
    pub waiting: Notify,
}

impl FrontEnds {
    pub async fn open(world: &World, store: &Store) -> anyhow::Result<FrontEnds> {
        let secret = store.picture_secret(&hex::encode(world.ids.bytes::<32>())).await?;
        Ok(FrontEnds {
            pictures: PictureFolder::new(&world.data),
            key: PictureKey::new(secret.as_bytes(), &world.pki_url),
            waiting: Notify::new(),
        })
    }
}

impl RunService {
    /// A conversation of the caller.
    async fn own_thread(&self, caller: &Caller, id: &str) -> Result<ThreadRow, Error> {
        let agent = front_end(caller)?;
        let found = match ag_ui::uuid(id) {
            Some(id) => self.store.thread(&id).await?,
            None => None,
        };
        let thread = found.ok_or_else(|| Error::NotFound("thread".to_owned()))?;
        match thread.aid == agent.aid.as_str() {
            true => Ok(thread),
            false => Err(Error::NotOwner),
        }
    }

    /// The zone in which the days of an agent begin.
    async fn zone_of(&self, aid: &str) -> Result<String, Error> {
        Ok(self.store.time_zone(aid).await?.unwrap_or_else(|| "UTC".to_owned()))
    }
}

/// Who uses a front end is an agent of this domain.
fn front_end(caller: &Caller) -> Result<&CallingAgent, Error> {
    Ok(caller.local_agent()?)
}
