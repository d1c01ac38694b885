//! `agent.*` and `h2a.*`: what agents publish about themselves, what their owners register about them, and what users grant them.
//!
//! A document is reached over HTTP as `/agent.md`. A registered agent has a capability manifest; when it changes, this service alone
//! decides whether its users have to be asked again. Whatever is told because of a change is written with it (`consent`) and sent
//! afterwards (`sending`).

mod agent_removal;
mod agents;
mod callers;
mod changes;
mod consent;
mod delete_agent_md;
mod error;
mod get_agent_md;
mod h2a;
mod outboxes;
mod page;
mod paging;
mod peers;
mod put_agent_md;
mod routes;
mod sending;
mod settings;
mod store;
#[cfg(test)]
mod tests;

use error::Error;
use kernel::{
    Account, AgentRemover, Bus, Clock, CpuPool, Ids, Mesh, Methods, Presence, Rpc, Service, ServiceRow, Task,
    World,
};
use outboxes::SendingOutboxes;
use proto_schemas::requests::agent::AgentChanged;
use sending::{
    DeviceArrivals, HttpsSender, MessageArrivals, MessageDeliveries, SendingWork, UserEvents,
    WebhookDeliveries, WebhookSender,
};
pub use settings::Settings;
use std::sync::Arc;
use store::Store;

/// The service as `aund` hands it to the gateway.
pub fn row() -> ServiceRow {
    ServiceRow::new("agent", open)
}

pub async fn open(world: &World, settings: &Settings) -> anyhow::Result<Service> {
    let agent = AgentService::open(world, settings).await?;
    let task = |name, work: fn(Arc<AgentService>) -> SendingWork| {
        let (agent, stop) = (agent.clone(), world.stop.clone());
        Task::new(name, move || {
            let (work, stop) = (work(agent.clone()), stop.clone());
            async move {
                stop.run_until_cancelled(work).await;
            }
        })
    };
    let removal = AgentRemover::new(world, "agent", agent.store.db(), agent.clone()).removal();
    let events = agent.outboxes.events.task("events", world, &Arc::new(UserEvents(agent.clone())));
    let deliveries = Arc::new(WebhookDeliveries(agent.clone()));
    let webhooks = agent.outboxes.webhooks.task("webhooks", world, &deliveries);
    let message_deliveries = Arc::new(MessageDeliveries(agent.clone()));
    let messages = agent.outboxes.messages.task("webhook_messages", world, &message_deliveries);
    let marks = task("message_marks", |agent| Box::pin(async move { agent.mark_messages().await }));
    let arrivals = task("arrivals", |agent| Box::pin(async move { agent.tell_arrivals().await }));
    let maintenance = task("maintenance", |agent| Box::pin(async move { agent.maintain().await }));
    let accounts = agent.store.account.task(world);
    let methods = rpc(agent.clone());
    Ok(Service::new(&["agent", "h2a"], methods, removal)
        .with_routes(routes::routes(agent))
        .with_task(events)
        .with_task(webhooks)
        .with_task(messages)
        .with_task(marks)
        .with_task(arrivals)
        .with_task(maintenance)
        .with_task(accounts))
}

fn rpc(agent: Arc<AgentService>) -> Methods {
    let rpc = Rpc::new(agent)
        .method(AgentService::get_agent_md)
        .method(AgentService::put_agent_md)
        .method(AgentService::delete_agent_md)
        .method(AgentService::changes)
        .method(AgentService::create)
        .method(AgentService::get)
        .method(AgentService::list)
        .method(AgentService::update)
        .method(AgentService::delete)
        .method(AgentService::rotate_token)
        .method(AgentService::verify_token)
        .method(AgentService::deliveries)
        .method(AgentService::test_webhook)
        .method(AgentService::account);
    h2a::methods(rpc).into()
}

struct AgentService {
    issuer: String,
    store: Store,
    mesh: Arc<Mesh>,
    bus: Bus,
    presence: Presence,
    clock: Clock,
    cpu: Arc<CpuPool>,
    ids: Ids,
    outboxes: SendingOutboxes,
    arrivals: DeviceArrivals,
    message_arrivals: Arc<MessageArrivals>,
    sender: Arc<dyn WebhookSender>,
    allow_private: bool,
    agents_per_owner: i64,
    relations_per_user: i64,
}

impl AgentService {
    async fn open(world: &World, settings: &Settings) -> anyhow::Result<Arc<AgentService>> {
        let sender = HttpsSender::new(&settings.webhook)?;
        AgentService::open_with(world, settings, Arc::new(sender)).await
    }

    async fn open_with(
        world: &World,
        settings: &Settings,
        sender: Arc<dyn WebhookSender>,
    ) -> anyhow::Result<Arc<AgentService>> {
        let db = world.db("agent", &sqlx::migrate!("./migrations")).await?;
        let share = store::keeping::share(settings.kept_bytes);
        let account = Account::open(world, &db, &store::keeping::KEEPING, share).await?;
        Ok(Arc::new(AgentService {
            issuer: world.issuer.clone(),
            mesh: world.mesh.clone(),
            bus: world.bus.clone(),
            presence: world.presence.clone(),
            clock: world.clock.clone(),
            cpu: world.cpu.clone(),
            ids: world.ids.clone(),
            outboxes: SendingOutboxes::open(world, &db, &settings.webhook).await?,
            store: Store::new(db, world.stores.tally("agent"), account),
            arrivals: DeviceArrivals::default(),
            message_arrivals: MessageArrivals::listen(&world.bus),
            sender,
            allow_private: settings.webhook.allow_private,
            agents_per_owner: settings.agents_per_owner,
            relations_per_user: settings.relations_per_user,
        }))
    }

    /// Wakes whoever reads `agent.changes`. Called after the commit.
    fn tell_readers(&self) {
        self.bus.signal(&AgentChanged {});
    }
}
