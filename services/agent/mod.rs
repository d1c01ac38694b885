//! `agent.*`: what agents publish about themselves. Reached over HTTP as `/agent.md`; no client calls it by name.

pub(crate) mod agent_md;
mod error;
mod get_agent_md;
mod put_agent_md;
mod store;
#[cfg(test)]
mod tests;

use crate::kernel::{Clock, Mesh, Module, Rpc, World};
use error::Error;
use std::sync::Arc;
use store::Store;

pub(crate) async fn open(world: &World) -> anyhow::Result<Module> {
    let agent = Arc::new(Agent {
        store: Store::new(
            world.db("agent", &sqlx::migrate!("agent/migrations")).await?,
            world.stores.tally("agent"),
        ),
        mesh: world.mesh.clone(),
        clock: world.clock.clone(),
    });
    let methods = Rpc::new(agent)
        .method("agent.get_agent_md", Agent::get_agent_md)
        .method("agent.put_agent_md", Agent::put_agent_md);
    Ok(Module::new("agent", methods.into()))
}

struct Agent {
    store: Store,
    mesh: Arc<Mesh>,
    clock: Clock,
}
