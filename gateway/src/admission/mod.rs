//! What may be called: by whom, whether it is advertised now, how often, and with which signature.
//!
//! **One list** for every way in: a WebSocket call, a call before login, a member of a batch, an HTTP request, a relay of
//! another domain, and the operator's socket. Each way in says who is calling ([`CallSource`]), and nothing else differs.
//!
//! In this order: an answer never tells more than the caller may know at that step.
//!
//! 1. [`Admission::authenticate`]: who. A session has done this when it was opened, a peer link with its hello.
//! 2. [`Admission::find`]: the method exists, for this kind of caller, and is advertised now; down is 5003.
//! 3. Its rate: of all calls of the agent, and then of the method's own class.
//! 4. [`Admission::signature`], if the call is signed; one that changes something is accepted once.
//! 5. [`strip_reserved`]: every `_key` is removed.
//!
//! [`Admission::begin`] does the first three without waiting, [`Admission::finish`] the others.

mod capabilities;
mod documents;
mod executed_calls;
mod limits;
mod login_failures;
mod rate_classes;
mod recent_keys;
mod reserved;
mod signature;
mod signer;
mod source;
#[cfg(test)]
mod tests;

pub use limits::{AgentLimit, GatewayLimits, SocketLimit, SocketPermit, per_second, within_agent_rate};
pub use recent_keys::{KeyedRates, keyed_rates};
pub use reserved::strip_reserved;
pub use signature::is_signed;
pub use signer::KnownSigner;
pub use source::CallSource;

use crate::config::Config;
use crate::frame::params;
use capabilities::AdvertisedCapabilities;
use documents::AdvertisedDocuments;
use executed_calls::{ExecutedCalls, SignatureClaim};
use kernel::{Aid, Caller, Clock, Mesh, MethodRefused, RpcError, World, unavailable};
use login_failures::{LoginFailures, is_login_class};
use parking_lot::RwLock;
use proto_schemas::requests::auth;
use proto_schemas::{HttpPrefix, Method, Tag};
use rate_classes::{RateClasses, RateSubject};
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;

pub struct Admission {
    pub limits: GatewayLimits,
    pub login_failures: LoginFailures,
    rate_classes: RateClasses,
    capabilities: AdvertisedCapabilities,
    documents: RwLock<AdvertisedDocuments>,
    executed: Arc<ExecutedCalls>,
    /// What is up besides the namespaces of the mesh: `federation`, where it is enabled.
    always_up: Vec<&'static str>,
    mesh: Arc<Mesh>,
    clock: Clock,
}

/// A call that may be made.
#[derive(Debug)]
pub struct AdmittedCall {
    /// For the service.
    pub params: Option<Box<RawValue>>,
    /// Of a signed call that is accepted once: to be told how it ended.
    pub claim: Option<Box<SignatureClaim>>,
}

impl Admission {
    pub fn new(config: &Config, world: &World) -> Admission {
        let always_up: Vec<_> = config.federation.enabled.then_some("federation").into_iter().collect();
        let up: Vec<_> = world.mesh.namespaces().into_iter().chain(always_up.iter().copied()).collect();
        let capabilities = AdvertisedCapabilities::new(&up);
        Admission {
            limits: GatewayLimits::new(&config.limits),
            login_failures: LoginFailures::new(&config.limits),
            rate_classes: RateClasses::new(&config.limits, &world.bus),
            documents: RwLock::new(AdvertisedDocuments::new(&capabilities, &world.mesh)),
            capabilities,
            executed: Arc::default(),
            always_up,
            mesh: world.mesh.clone(),
            clock: world.clock.clone(),
        }
    }

    /// The agent an access token was given to.
    pub async fn authenticate(&self, token: &str) -> Result<Aid, RpcError> {
        let (aid, _) = self.authenticate_session(token).await?;
        Ok(aid)
    }

    /// The same, with the time when the agent's tokens were revoked for the last time before this one was made, if ever.
    pub async fn authenticate_session(&self, token: &str) -> Result<(Aid, Option<i64>), RpcError> {
        let token = auth::VerifyToken { token: token.to_owned() };
        let verified = self.mesh.ask(Caller::service("gateway"), &token).await?;
        Ok((verified.aid, verified.tokens_revoked_at))
    }

    /// The steps that need not wait: the method, and the rate of all calls of its caller.
    pub fn begin(&self, source: &CallSource<'_>, name: &str) -> Result<&'static Method, RpcError> {
        let found = self.find(source, name);
        // Counted also where nothing is found: trying out names is not free.
        if let Some(limit) = source.limit() {
            within_agent_rate(limit)?;
        }
        found
    }

    /// The steps after those, which may have to ask another process.
    pub async fn finish(
        &self,
        source: &CallSource<'_>,
        method: &'static Method,
        params: Option<Box<RawValue>>,
    ) -> Result<AdmittedCall, RpcError> {
        // Boxed, so that the future of a call without these stays small.
        if let (Some(class), Some(address)) = (method.rate, source.address()) {
            if is_login_class(class) {
                self.login_failures.within(address)?;
            }
            let subject = RateSubject { address, aid: source.aid(), params: params.as_deref() };
            Box::pin(self.rate_classes.within(class, subject)).await?;
        }
        let mut claim = None;
        if let (Some((aid, signer)), Some(params)) = (source.signer(), params.as_deref())
            && is_signed(params)
        {
            claim = Box::pin(self.signature(aid, signer, method, params)).await?.map(Box::new);
        }
        Ok(AdmittedCall { params: strip_reserved(params)?, claim })
    }

    /// The service has answered. Counts a failed login for the address it came from; other calls are not counted here.
    pub fn answered(
        &self,
        source: &CallSource<'_>,
        method: &'static Method,
        outcome: Result<&RawValue, &RpcError>,
    ) {
        if let (Some(class), Some(address)) = (method.rate, source.address())
            && is_login_class(class)
        {
            self.login_failures.count_answer(address, method, outcome.map(RawValue::get));
        }
    }

    /// Whether [`finish`](Self::finish) would change nothing and refuse nothing: the call has no signature, nothing has to
    /// be stripped from it, and its method has no rate of its own.
    pub fn is_finished(method: &Method, params: Option<&RawValue>) -> bool {
        let plain = |params: &RawValue| !params::may_contain(params, "\"_") && !is_signed(params);
        method.rate.is_none() && params.is_none_or(plain)
    }

    /// The method, if this kind of caller may call it and it is advertised. Unknown, internal and not advertised methods
    /// are the same to a client: they are not found. One whose service is down is not the same: the client may ask again.
    pub fn find(&self, source: &CallSource<'_>, name: &str) -> Result<&'static Method, RpcError> {
        let method = source.find(name)?;
        let open = matches!(source, CallSource::Operator)
            || self.capabilities.allows(method)
            || method.tag.is_some_and(|tag| !tag.needs.is_empty()) && self.is_up(method.tag)?;
        match open {
            true => Ok(method),
            false => Err(MethodRefused::NotFound.error(name)),
        }
    }

    /// Whether an HTTP path is answered; 5003 if a service it needs is down.
    pub fn serves(&self, route: &HttpPrefix) -> Result<bool, RpcError> {
        Ok(route.tag.is_none_or(|tag| self.capabilities.has(tag)) || self.is_up(route.tag)?)
    }

    /// The steps for a request to a route of a service: the rate of all calls of its caller, and that of the route.
    pub async fn admit_route(&self, source: &CallSource<'_>, route: &HttpPrefix) -> Result<(), RpcError> {
        if let Some(limit) = source.limit() {
            within_agent_rate(limit)?;
        }
        if let (Some(class), Some(address)) = (route.rate, source.address()) {
            let subject = RateSubject { address, aid: source.aid(), params: None };
            self.rate_classes.within(class, subject).await?;
        }
        Ok(())
    }

    /// Whether all that a tag needs is up, although it is not advertised: then something came back a moment ago. The error
    /// names what is down; a server that never has it does not have the method.
    fn is_up(&self, tag: Option<&Tag>) -> Result<bool, RpcError> {
        let needs = tag.map_or(&[][..], |tag| tag.needs);
        let needed = || needs.iter().filter(|need| !self.always_up.contains(need));
        if !needed().all(|namespace| self.mesh.knows(namespace)) {
            return Ok(false);
        }
        match needed().find(|namespace| !self.mesh.has(namespace)) {
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

    /// Looks at what answers now, and gives what that added and removed.
    pub fn refresh_capabilities(&self) -> Option<Value> {
        let mut up = self.mesh.namespaces();
        up.extend(&self.always_up);
        let change = self.capabilities.update(&up)?;
        *self.documents.write() = AdvertisedDocuments::new(&self.capabilities, &self.mesh);
        Some(change)
    }

    /// Forgets callers that have been quiet, so that the tables do not grow with everyone ever seen.
    pub fn forget_quiet(&self) {
        self.limits.forget_quiet();
        self.login_failures.forget_quiet();
        self.rate_classes.forget_quiet();
        self.executed.forget_before(self.oldest_signature());
    }
}
