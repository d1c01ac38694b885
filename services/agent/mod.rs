//! `agent.*`: what agents publish about themselves. Reached over HTTP as `/agent.md`; no client calls it by name.

mod changes;
mod delete_agent_md;
mod error;
mod get_agent_md;
mod page;
mod put_agent_md;
mod revocations;
mod routes;
mod settings;
mod store;
#[cfg(test)]
mod tests;

use crate::kernel::{Audience, Bus, Clock, Event, Mesh, Rpc, Service, Task, World};
use error::Error;
use serde_json::json;
pub(crate) use settings::Settings;
use std::sync::Arc;
use store::Store;
use tokio::sync::Notify;

pub(crate) async fn open(world: &World, settings: &Settings) -> anyhow::Result<Service> {
    let agent = Agent::open(world, settings).await?;
    let (following, stop) = (agent.clone(), world.stop.clone());
    let revocations = Task::new("revocations", move || {
        let (agent, stop) = (following.clone(), stop.clone());
        async move {
            stop.run_until_cancelled(agent.follow_revocations()).await;
        }
    });
    let routes = routes::routes(agent.clone());
    let methods = Rpc::new(agent)
        .method("agent.get_agent_md", Agent::get_agent_md)
        .method("agent.put_agent_md", Agent::put_agent_md)
        .method("agent.delete_agent_md", Agent::delete_agent_md)
        .method("agent.changes", Agent::changes);
    Ok(Service::new(&["agent"], methods).with_routes(routes).with_task(revocations))
}

struct Agent {
    store: Store,
    mesh: Arc<Mesh>,
    bus: Bus,
    clock: Clock,
    /// Somebody was revoked.
    revoked: Arc<Notify>,
}

impl Agent {
    async fn open(world: &World, _: &Settings) -> anyhow::Result<Arc<Agent>> {
        let db = world.db("agent", &sqlx::migrate!("agent/migrations")).await?;
        Ok(Arc::new(Agent {
            store: Store::new(db, world.stores.tally("agent")),
            mesh: world.mesh.clone(),
            bus: world.bus.clone(),
            clock: world.clock.clone(),
            revoked: revocations::listen(&world.bus),
        }))
    }

    /// Wakes whoever reads `agent.changes`. Called after the commit.
    fn tell_readers(&self) {
        self.bus.publish(&Event::new(Audience::Gateways, "agent.changed", &json!({})));
    }
}
