//! `agent.*`: what agents publish about themselves. Reached over HTTP as `/agent.md`; no client calls it by name.

pub(crate) mod agent_md;
mod error;
mod get_agent_md;
mod put_agent_md;
mod routes;
mod settings;
mod store;
#[cfg(test)]
mod tests;

use crate::kernel::{Clock, Mesh, Rpc, Service, World};
use error::Error;
pub(crate) use settings::Settings;
use std::sync::Arc;
use store::Store;

pub(crate) async fn open(world: &World, _: &Settings) -> anyhow::Result<Service> {
    let agent = Arc::new(Agent {
        store: Store::new(
            world.db("agent", &sqlx::migrate!("agent/migrations")).await?,
            world.stores.tally("agent"),
        ),
        mesh: world.mesh.clone(),
        clock: world.clock.clone(),
    });
    let routes = routes::routes(agent.clone());
    let methods = Rpc::new(agent)
        .method("agent.get_agent_md", Agent::get_agent_md)
        .method("agent.put_agent_md", Agent::put_agent_md);
    Ok(Service::new(&["agent"], methods).with_routes(routes))
}

struct Agent {
    store: Store,
    mesh: Arc<Mesh>,
    clock: Clock,
}
