//! What may be called: by whom, whether it is advertised now, how often, and with which signature.
//!
//! The steps are used in this order, as far as a way in has them: an answer never tells more than the caller may know at
//! that step.
//!
//! 1. [`Admission::authenticate`]: who is calling; a session has done this when it was opened.
//! 2. [`limits::within_agent_rate`]: the calls of one agent.
//! 3. [`strip_reserved`]: every `_key` is removed.
//! 4. [`Admission::signature`]: if the call is signed.
//! 5. [`Admission::find`]: the method exists for this caller and is advertised; a service that is down is 5003.
//! 6. [`Admission::within_rate`]: registrations and logins, by address and name.

mod capabilities;
mod documents;
mod limits;
mod reserved;
mod signature;
mod signer;

pub use limits::{AgentLimit, GatewayLimits, SocketLimit, SocketPermit, per_second, within_agent_rate};
pub use reserved::strip_reserved;
pub use signature::is_signed;
pub use signer::KnownSigner;

use crate::config::LimitsConfig;
use crate::frame::params;
use capabilities::AdvertisedCapabilities;
use documents::AdvertisedDocuments;
use parking_lot::RwLock;
use proto_schemas::requests::auth;
use proto_schemas::{Access, Method, Rate};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use services::kernel::{Aid, Caller, Clock, Mesh, RpcError, World, codes, unavailable};
use std::net::IpAddr;
use std::sync::Arc;

pub struct Admission {
    pub limits: GatewayLimits,
    capabilities: AdvertisedCapabilities,
    documents: RwLock<AdvertisedDocuments>,
    mesh: Arc<Mesh>,
    clock: Clock,
}

impl Admission {
    pub fn new(config: &LimitsConfig, world: &World) -> Admission {
        let capabilities = AdvertisedCapabilities::new(&world.mesh.namespaces());
        Admission {
            limits: GatewayLimits::new(config, &world.bus),
            documents: RwLock::new(AdvertisedDocuments::new(&capabilities, &world.mesh)),
            capabilities,
            mesh: world.mesh.clone(),
            clock: world.clock.clone(),
        }
    }

    /// The agent an access token was given to.
    pub async fn authenticate(&self, token: &str) -> Result<Aid, RpcError> {
        let token = auth::VerifyToken { token: token.to_owned() };
        let verified = self.mesh.ask(Caller::service("gateway"), &token).await?;
        Aid::parse(&verified.aid).map_err(RpcError::internal)
    }

    /// The method, if an agent may call it. Unknown, internal and not advertised methods are the same to a client: they
    /// are not found. One whose service is down is not the same: the client may ask again.
    pub fn find(&self, name: &str) -> Result<&'static Method, RpcError> {
        let method =
            proto_schemas::find(name).filter(|method| method.access.is_for_agents() && !method.notification);
        let Some(method) = method else { return Err(not_found(name)) };
        let namespace = name.split('.').next().unwrap_or_default();
        if self.mesh.knows(namespace) && !self.mesh.has(namespace) {
            return Err(unavailable(namespace));
        }
        match self.capabilities.allows(name) || self.is_up(capabilities::needs_of_method(name))? {
            true => Ok(method),
            false => Err(not_found(name)),
        }
    }

    /// The same before login, where few methods may be called.
    pub fn find_public(&self, name: &str) -> Result<&'static Method, RpcError> {
        if proto_schemas::find(name).is_none_or(|method| method.access != Access::Public) {
            let sentence = "log in first: only registration, login and auth.connect are answered before that";
            return Err(RpcError::new(codes::NOT_INITIALIZED, sentence));
        }
        self.find(name)
    }

    /// Whether a call without a signature passes all steps as it was written: nothing has to be stripped from it, and
    /// its method has no rate of its own.
    pub fn passes_unchanged(&self, method: &Method, params: Option<&RawValue>) -> bool {
        method.access != Access::Internal
            && !method.notification
            && matches!(method.rate, Rate::Call | Rate::Ping)
            && self.capabilities.allows(method.name)
            && !params.is_some_and(|params| params::may_contain(params, "\"_"))
    }

    /// Registrations and logins have rates of their own, whether they come before login or after it.
    pub async fn within_rate(
        &self,
        address: IpAddr,
        method: &Method,
        params: Option<&RawValue>,
    ) -> Result<(), RpcError> {
        // Boxed, so that the future of a call without such a rate stays small.
        match method.rate {
            Rate::Register => Box::pin(self.limits.registration(address)).await,
            Rate::Login => Box::pin(self.within_login_rate(address, params)).await,
            Rate::Call | Rate::Ping => Ok(()),
        }
    }

    async fn within_login_rate(&self, address: IpAddr, params: Option<&RawValue>) -> Result<(), RpcError> {
        #[derive(Deserialize)]
        struct LoginName {
            aid: Aid,
        }
        // A login without a valid AID is refused by the service.
        let Ok(LoginName { aid }) = serde_json::from_str(params.map_or("{}", RawValue::get)) else {
            return Ok(());
        };
        self.limits.login(address, aid).await
    }

    /// Whether an HTTP path is answered; 5003 if a service it needs is down.
    pub fn serves(&self, path: &str) -> Result<bool, RpcError> {
        Ok(self.capabilities.serves(path) || self.is_up(capabilities::needs_of_route(path))?)
    }

    /// Whether the services that something needs are all up, although it is not advertised: then one of them came back a
    /// moment ago. The error names the one that is down; a server that never has one of them does not have the method.
    fn is_up(&self, needs: &[&'static str]) -> Result<bool, RpcError> {
        if !needs.iter().all(|namespace| self.mesh.knows(namespace)) {
            return Ok(false);
        }
        match needs.iter().find(|namespace| !self.mesh.has(namespace)) {
            Some(namespace) => Err(unavailable(namespace)),
            None => Ok(true),
        }
    }

    /// The answer to `meta.capabilities` and `GET /capabilities`.
    pub fn capabilities(&self) -> Arc<str> {
        self.capabilities.text()
    }

    /// The `capabilities` member of the answer to `auth.connect`.
    pub fn session_capabilities(&self) -> Arc<str> {
        self.documents.read().session.clone()
    }

    /// The answer to `rpc.discover`.
    pub fn openrpc(&self) -> Arc<str> {
        self.documents.read().openrpc.clone()
    }

    /// Looks at which namespaces answer now, and gives what that added and removed.
    pub fn refresh_capabilities(&self) -> Option<Value> {
        let change = self.capabilities.update(&self.mesh.namespaces())?;
        *self.documents.write() = AdvertisedDocuments::new(&self.capabilities, &self.mesh);
        Some(change)
    }
}

fn not_found(name: &str) -> RpcError {
    let name: String = name.chars().take(80).collect();
    RpcError::new(codes::METHOD_NOT_FOUND, format!("method not found: {name}"))
}
