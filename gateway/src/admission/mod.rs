//! What may be called: by whom, whether it is advertised now, how often, and with which signature.
//!
//! **One list** for every way in: a WebSocket call, a call before login, a member of a batch, an HTTP request, a relay of
//! another domain, and the operator's socket. Each makes a [`Call`], which says who is calling ([`CallSource`]), and nothing else
//! differs.
//!
//! In this order: an answer never tells more than the caller may know at that step.
//!
//! 1. [`Admission::authenticate`]: who. A session has done this when it was opened, a peer link with its hello.
//! 2. [`Admission::find`]: the method exists, for this kind of caller, and is advertised now; down is 5003.
//! 3. Its rate: of all calls of the agent, and then of the method's own class.
//! 4. [`Admission::signature`], if the call is signed; one that changes something is accepted once.
//! 5. [`strip_reserved`]: every `_key` is removed.
//!
//! [`Admission::admit`] walks the list. Where a way in must not wait for it, or has yet to read the parameters, it calls the two halves:
//! [`Admission::begin`] takes the steps that need nothing but the name of the method, [`Admission::finish`] the others.

mod call;
mod capabilities;
mod documents;
mod executed_calls;
mod limits;
mod login_failures;
mod open_streams;
mod rate_classes;
mod reserved;
mod signature;
mod signer;
mod source;
#[cfg(test)]
mod tests;
mod tokens;

pub use call::{AdmittedCall, Call, CalledMethod};
pub use limits::{AgentLimit, GatewayLimits, SocketLimit, SocketPermit, per_second, within_agent_rate};
pub use open_streams::{CountedStream, OpenStreams};
pub use signature::is_signed;
pub use signer::KnownSigner;
pub use source::CallSource;
pub use tokens::is_invalid_token;

use crate::config::Config;
use crate::frame::params;
use capabilities::AdvertisedCapabilities;
use documents::AdvertisedDocuments;
use executed_calls::{ExecutedCalls, SignatureClaim};
use kernel::{
    Aid, CallWay, CallingAgent, Clock, Mesh, MethodRefused, Network, RpcError, TokenCaller, World,
    unavailable,
};
use login_failures::{LoginFailures, is_login_class};
use parking_lot::RwLock;
use proto_schemas::requests::auth::VerifiedToken;
use proto_schemas::{HttpPrefix, Method, RateClass, Tag};
use rate_classes::{RateClasses, RateSubject};
use reserved::strip_reserved;
use serde_json::Value;
use serde_json::value::RawValue;
use std::net::IpAddr;
use std::sync::Arc;
use tokens::ServiceTokens;

/// Whose access token it is.
pub struct ProvenAgent {
    pub aid: Aid,
    /// From where it was registered, if it is new.
    pub network: Option<Network>,
    /// When its tokens were revoked for the last time before this one was made, if ever.
    pub tokens_revoked_at: Option<i64>,
}

pub struct Admission {
    pub limits: GatewayLimits,
    pub login_failures: LoginFailures,
    pub tokens: ServiceTokens,
    pub streams: Arc<OpenStreams>,
    rate_classes: RateClasses,
    capabilities: AdvertisedCapabilities,
    documents: RwLock<Arc<AdvertisedDocuments>>,
    executed: Arc<ExecutedCalls>,
    /// What is up besides the namespaces of the mesh: `federation`, where it is enabled.
    always_up: Vec<&'static str>,
    mesh: Arc<Mesh>,
    clock: Clock,
}

impl Admission {
    pub fn new(config: &Config, world: &World) -> Admission {
        let always_up: Vec<_> = config.federation.enabled.then_some("federation").into_iter().collect();
        let up: Vec<_> = world.mesh.advertised().into_iter().chain(always_up.iter().copied()).collect();
        let capabilities = AdvertisedCapabilities::new(&up);
        Admission {
            limits: GatewayLimits::new(&config.limits),
            login_failures: LoginFailures::new(&config.limits),
            tokens: ServiceTokens::new(&world.mesh),
            streams: OpenStreams::new(&config.limits),
            rate_classes: RateClasses::new(&config.limits, &world.bus),
            documents: RwLock::new(Arc::new(AdvertisedDocuments::new(&world.mesh))),
            capabilities,
            executed: Arc::default(),
            always_up,
            mesh: world.mesh.clone(),
            clock: world.clock.clone(),
        }
    }

    /// Who has this token. The service that gave it is asked.
    pub async fn authenticate(&self, token: &str, address: IpAddr) -> Result<TokenCaller, RpcError> {
        match self.tokens.rule_of(token) {
            Some(rule) => self.tokens.verify(rule, token, address).await,
            None => {
                let verified = self.tokens.verify_access(token).await?;
                let network = registered_from(&verified);
                let agent = CallingAgent { network, ..CallingAgent::without_session(verified.aid, address) };
                Ok(TokenCaller::access(agent))
            }
        }
    }

    /// The agent of an access token.
    pub async fn authenticate_session(&self, token: &str) -> Result<ProvenAgent, RpcError> {
        let verified = self.tokens.verify_access(token).await?;
        let (network, tokens_revoked_at) = (registered_from(&verified), verified.tokens_revoked_at);
        Ok(ProvenAgent { aid: verified.aid, network, tokens_revoked_at })
    }

    /// Counts a stream for whoever pays for its caller, until what this gives is dropped.
    pub fn open_stream(&self, source: &CallSource<'_>) -> Result<CountedStream, RpcError> {
        self.streams.open(source.payer().as_deref(), source.address())
    }

    /// The whole list.
    pub async fn admit<'a>(&self, call: Call<'a>) -> Result<AdmittedCall<'a>, RpcError> {
        let method = self.begin(&call)?;
        self.finish(call, method).await
    }

    /// The whole list for a source whose calls have no class and no signature, so that there is nothing to wait for: that of another
    /// domain, and the operator.
    pub fn admit_at_once<'a>(&self, call: Call<'a>) -> Result<AdmittedCall<'a>, RpcError> {
        let method = self.begin(&call)?;
        Ok(AdmittedCall { method, params: strip_reserved(call.params)?, claim: None })
    }

    /// The steps that need not wait: the method, and the rate of all calls of its caller.
    pub fn begin(&self, call: &Call<'_>) -> Result<&'static Method, RpcError> {
        let found = self.find(call);
        // Counted also where nothing is found: trying out names is not free.
        call.source.within_rate()?;
        found
    }

    /// The steps after those, which may have to ask another process.
    pub async fn finish<'a>(
        &self,
        call: Call<'a>,
        method: &'static Method,
    ) -> Result<AdmittedCall<'a>, RpcError> {
        let class = class_of(&call, method);
        let Call { source, params, .. } = call;
        // Boxed, so that the future of a call without these stays small.
        if let (Some(class), Some(address)) = (class, source.address()) {
            if is_login_class(class) {
                self.login_failures.within(address)?;
            }
            let subject = RateSubject { address, subject: source.subject(), params: params.as_deref() };
            Box::pin(self.rate_classes.within(class, subject)).await?;
        }
        let mut claim = None;
        if let (Some((aid, signer)), Some(params)) = (source.signer(), params.as_deref())
            && is_signed(params)
        {
            claim = Box::pin(self.signature(aid, signer, method, params)).await?.map(Box::new);
        }
        Ok(AdmittedCall { method, params: strip_reserved(params)?, claim })
    }

    /// The call has ended. A failed login counts for the address it came from, and a signature may be used again where nothing was
    /// done.
    pub fn ended(
        &self,
        source: &CallSource<'_>,
        method: &'static Method,
        claim: Option<Box<SignatureClaim>>,
        outcome: Result<&RawValue, &RpcError>,
    ) {
        if let (Some(claim), Err(error)) = (claim, outcome) {
            claim.failed(error);
        }
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
    fn find(&self, call: &Call<'_>) -> Result<&'static Method, RpcError> {
        let method = call.existing_method()?;
        let open = matches!(call.source, CallSource::Operator)
            || self.capabilities.allows(method)
            || method.tag.is_some_and(|tag| !tag.needs.is_empty()) && self.is_up(method.tag)?;
        match open {
            true => Ok(method),
            false => Err(MethodRefused::NotFound.error(method.name)),
        }
    }

    /// Whether an HTTP path is answered; 5003 if a service it needs is down.
    pub fn serves(&self, route: &HttpPrefix) -> Result<bool, RpcError> {
        Ok(route.tag.is_none_or(|tag| self.capabilities.has(tag)) || self.is_up(route.tag)?)
    }

    /// The steps for a request to a path that no method declares: who may use it, the rate of all calls of its caller, and that of the
    /// path.
    pub async fn admit_path(&self, source: &CallSource<'_>, path: &HttpPrefix) -> Result<(), RpcError> {
        source.kind().check_path(path.access).map_err(|refused| refused.error(path.path))?;
        source.within_rate()?;
        if let (Some(class), Some(address)) = (path.rate, source.address()) {
            let subject = RateSubject { address, subject: source.subject(), params: None };
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
        let documents = self.documents.read().clone();
        documents.openrpc(&self.capabilities)
    }

    /// The answer to `GET /openapi.json`.
    pub fn openapi(&self) -> Arc<str> {
        let documents = self.documents.read().clone();
        documents.openapi(&self.capabilities)
    }

    /// Looks at what answers now, and gives what that added and removed.
    pub fn refresh_capabilities(&self) -> Option<Value> {
        let mut up = self.mesh.advertised();
        up.extend(&self.always_up);
        let change = self.capabilities.update(&up)?;
        *self.documents.write() = Arc::new(AdvertisedDocuments::new(&self.mesh));
        Some(change)
    }

    /// Forgets callers that have been quiet, so that the tables do not grow with everyone ever seen.
    pub fn forget_quiet(&self) {
        self.limits.forget_quiet();
        self.login_failures.forget_quiet();
        self.rate_classes.forget_quiet();
        self.tokens.forget_quiet();
        self.executed.forget_before(self.oldest_signature());
    }
}

/// The limit that counts a call beside that of all calls: that of its method, or of its route where it has one for requests without a
/// token and this is one.
fn class_of(call: &Call<'_>, method: &'static Method) -> Option<&'static RateClass> {
    match (call.source, call.way) {
        (CallSource::Unauthenticated { .. }, CallWay::Route(route)) => route.public_rate.or(method.rate),
        _ => method.rate,
    }
}

fn registered_from(verified: &VerifiedToken) -> Option<Network> {
    verified.network.as_deref().and_then(|network| network.parse().ok())
}
