//! `auth.*`: registering an AID, logging in, and the tokens that come of it.
//!
//! A login is two calls on two sockets: the first authenticates the server to the agent and gives it a nonce, the second
//! authenticates the agent to the server. Nothing is stored between the two: the nonce itself carries what the second call needs,
//! sealed with a key only this service has, and the row written by the second call is what makes it single-use.

mod agent_removal;
mod certificates;
mod create_aid;
mod error;
mod keys;
mod login;
mod new_agents;
mod settings;
mod store;
#[cfg(test)]
mod tests;
mod tokens;

pub use settings::Settings;
pub use tokens::jwt;

use error::Error;
use kernel::{
    AgentRemover, Batch, Bus, Cache, Caller, Clock, Ids, KnownCert, Mesh, Methods, Rpc, RpcError, Service,
    ServiceRow, Task, World,
};
use keys::AuthKeys;
use parking_lot::{Mutex, RwLock};
use proto_schemas::Request;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use store::{Login, LoginOutcome, Store};

/// An access token is valid for an hour. Clients renew it when half an hour is left.
const ACCESS_SECONDS: i64 = 3600;
const QUEUE_BYTES: usize = 16 << 20;
const PURGE_EVERY: Duration = Duration::from_secs(60);

/// The service as `aund` hands it to the gateway.
pub fn row() -> ServiceRow {
    ServiceRow::new("auth", open)
}

pub async fn open(world: &World, _: &Settings) -> anyhow::Result<Service> {
    let auth = AuthService::open(world).await?;
    let (sweeping, stop) = (auth.clone(), world.stop.clone());
    let purge = Task::new("purge", move || {
        let (auth, stop) = (sweeping.clone(), stop.clone());
        async move {
            stop.run_until_cancelled(auth.purge()).await;
        }
    });
    let removal = AgentRemover::new(world, "auth", auth.store.db(), auth.clone()).removal();
    Ok(Service::new(&["auth"], rpc(auth), removal).with_task(purge))
}

fn rpc(auth: Arc<AuthService>) -> Methods {
    Rpc::new(auth)
        .method(AuthService::create_aid)
        .method(AuthService::aid_login1)
        .method(AuthService::aid_login2)
        .method(AuthService::refresh_token)
        .method(AuthService::renew_cert)
        .method(AuthService::rekey)
        .method(AuthService::request_cert)
        .method(AuthService::revoke_cert)
        .method(AuthService::download_cert)
        .method(AuthService::verify_token)
        .method(AuthService::revoke_tokens)
        .method(AuthService::tokens_revoked_at)
        .into()
}

struct AuthService {
    issuer: String,
    store: Arc<Store>,
    logins: Batch<Login, LoginOutcome>,
    keys: AuthKeys,
    /// Tokens whose signature was verified, by their hash: an agent that reconnects presents the same one again.
    verified: Mutex<Cache<[u8; 32], jwt::Claims>>,
    /// Agents whose tokens were revoked, and when, in seconds: the table `revocations` in memory.
    revoked: RwLock<HashMap<String, i64>>,
    mesh: Arc<Mesh>,
    bus: Bus,
    clock: Clock,
    ids: Ids,
    new_agent_days: u32,
}

impl AuthService {
    async fn open(world: &World) -> anyhow::Result<Arc<AuthService>> {
        let store = Arc::new(Store::new(world.db("auth", &sqlx::migrate!("./migrations")).await?));
        let committing = store.clone();
        Ok(Arc::new(AuthService {
            keys: AuthKeys::open_or_create(world).await?,
            logins: Batch::start(&world.tracker, world.stores.tally("auth"), QUEUE_BYTES, move |logins| {
                let store = committing.clone();
                async move { store.log_in_all(logins).await }
            }),
            revoked: RwLock::new(store.revocations().await?.into_iter().collect()),
            verified: Mutex::new(Cache::new(tokens::VERIFIED_CACHED)),
            issuer: world.issuer.clone(),
            mesh: world.mesh.clone(),
            bus: world.bus.clone(),
            clock: world.clock.clone(),
            ids: world.ids.clone(),
            store,
            new_agent_days: world.accounts.settings().new_agent_days,
        }))
    }

    /// Calls `ca` in the name of this service.
    async fn ca<R: Request>(&self, request: &R) -> Result<R::Result, RpcError> {
        self.mesh.ask(Caller::service("auth"), request).await
    }

    /// Removes what has expired, a little at a time, so that no login waits for it.
    async fn purge(&self) {
        loop {
            tokio::time::sleep(PURGE_EVERY).await;
            loop {
                match self.store.purge(self.clock.now_ms()).await {
                    Ok(rows) if rows >= store::PURGE_ROWS as u64 => tokio::task::yield_now().await,
                    Ok(_) => break,
                    Err(error) => {
                        tracing::warn!("expired logins could not be removed: {error}");
                        break;
                    }
                }
            }
        }
    }
}
