//! The mesh: call a namespace, in this process or another.

mod forward;

use super::federation::Forwarder;
use super::rpc::{AnswerRef, CallingAgent, MethodRefused, Methods, PendingAnswer};
use super::{Caller, RpcError, codes, trace};
use axum::response::Response;
use parking_lot::RwLock;
use proto_schemas::Request;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long one service waits for another.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a call may take where its caller has no deadline of its own.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

pub struct Mesh {
    routes: RwLock<Routes>,
    changed: watch::Sender<()>,
    /// How often a process of a namespace went away without draining.
    losses: RwLock<BTreeMap<&'static str, u64>>,
    /// The gateway, where it is in this process.
    forwarder: RwLock<Option<Arc<dyn Forwarder>>>,
    /// The HTTP of the services, by service.
    http: RwLock<BTreeMap<&'static str, ServiceRoutes>>,
    /// Namespaces of this process that answer and are not advertised.
    turned_off: RwLock<BTreeSet<&'static str>>,
}

/// In the order of their names. There are a dozen: comparing lengths is faster than a tree.
#[derive(Default)]
struct Routes(Vec<(&'static str, Route)>);

impl Routes {
    fn get(&self, namespace: &str) -> Option<&Route> {
        self.0.iter().find(|(name, _)| *name == namespace).map(|(_, route)| route)
    }

    fn insert(&mut self, namespace: &'static str, route: Route) {
        self.remove(namespace);
        let position = self.0.partition_point(|(name, _)| *name < namespace);
        self.0.insert(position, (namespace, route));
    }

    fn remove(&mut self, namespace: &str) {
        self.0.retain(|(name, _)| *name != namespace);
    }
}

#[derive(Clone)]
enum Route {
    /// The service runs in this process: a function call.
    Local(Methods),
    /// The service runs in other processes: the same call, over the wire.
    Remote(Arc<dyn RemoteService>),
}

/// Where the HTTP of a service is answered.
#[derive(Clone)]
pub enum ServiceRoutes {
    Local(axum::Router),
    Remote(Arc<dyn RemoteRoutes>),
}

/// A response that is on its way; its body may take longer.
pub type PendingResponse = Pin<Box<dyn Future<Output = Result<Response, RpcError>> + Send>>;

/// The HTTP of a service in other processes.
pub trait RemoteRoutes: Send + Sync {
    /// Bodies are streamed both ways. Whoever drops the future or the body of the response cancels the request.
    fn send(&self, request: axum::extract::Request) -> PendingResponse;
}

/// Called with how a call ended and when: with its answer, or with its error. It runs wherever the answer arrives, so it
/// does little and never waits.
pub type OnAnswer = Box<dyn FnOnce(Result<AnswerRef<'_>, RpcError>, Instant) + Send>;

/// When a call began, and how long it may take.
#[derive(Clone, Copy)]
pub struct CallTerm {
    pub began: Instant,
    pub within: Duration,
}

/// A namespace in other processes, as the mesh sees it. The socket is not the kernel's business.
pub trait RemoteService: Send + Sync {
    /// The caller waits for `within`: work on the call longer than that is of no use.
    fn call(
        &self,
        caller: Caller,
        method: &str,
        params: Option<&RawValue>,
        within: Duration,
    ) -> PendingAnswer;

    /// The same for a session, without a future to await: `then` is called once, shortly after the end of the term at the
    /// latest.
    fn send(
        &self,
        session: &CallingAgent,
        method: &str,
        params: Option<&RawValue>,
        term: CallTerm,
        then: OnAnswer,
    );

    /// Whether a call would reach a process right now.
    fn is_up(&self) -> bool;

    /// Whether the operator turned the namespace off in a process that a call could reach.
    fn is_turned_off(&self, _: &str) -> bool {
        false
    }
}

impl Default for Mesh {
    fn default() -> Mesh {
        Mesh {
            routes: RwLock::default(),
            changed: watch::Sender::new(()),
            losses: RwLock::default(),
            forwarder: RwLock::default(),
            http: RwLock::default(),
            turned_off: RwLock::default(),
        }
    }
}

impl Mesh {
    pub fn add_local(&self, namespace: &'static str, methods: Methods) {
        self.routes.write().insert(namespace, Route::Local(methods));
        self.touch();
    }

    pub fn add_remote(&self, namespace: &'static str, remote: Arc<dyn RemoteService>) {
        self.routes.write().insert(namespace, Route::Remote(remote));
        self.touch();
    }

    pub fn add_routes(&self, service: &'static str, routes: ServiceRoutes) {
        self.http.write().insert(service, routes);
    }

    pub fn routes(&self, service: &str) -> Option<ServiceRoutes> {
        self.http.read().get(service).cloned()
    }

    /// Takes a namespace out of service: its methods answer `unavailable` from now on.
    pub fn remove(&self, namespace: &str) {
        self.routes.write().remove(namespace);
        self.http.write().remove(namespace);
        if namespace == "gateway" {
            *self.forwarder.write() = None;
        }
        self.touch();
    }

    /// The methods of a namespace of this process only say that it is turned off: it is not advertised.
    pub fn turn_off(&self, namespace: &'static str) {
        self.turned_off.write().insert(namespace);
        self.touch();
    }

    /// The namespaces of this process that are turned off.
    pub fn turned_off(&self) -> Vec<&'static str> {
        self.turned_off.read().iter().copied().collect()
    }

    /// The namespaces that answer right now and that clients are told of.
    pub fn advertised(&self) -> Vec<&'static str> {
        let (routes, turned_off) = (self.routes.read(), self.turned_off.read());
        let is_on = |namespace: &str, route: &Route| match route {
            Route::Local(_) => !turned_off.contains(namespace),
            Route::Remote(remote) => remote.is_up() && !remote.is_turned_off(namespace),
        };
        let on = routes.0.iter().filter(|(namespace, route)| is_on(namespace, route));
        on.map(|(namespace, _)| *namespace).collect()
    }

    /// The namespaces that answer right now.
    pub fn namespaces(&self) -> Vec<&'static str> {
        let routes = self.routes.read();
        routes.0.iter().filter(|(_, route)| route.is_up()).map(|(namespace, _)| *namespace).collect()
    }

    /// Every namespace of this server, and whether it answers.
    pub fn health(&self) -> Vec<(&'static str, bool)> {
        self.routes.read().0.iter().map(|(namespace, route)| (*namespace, route.is_up())).collect()
    }

    pub fn has(&self, namespace: &str) -> bool {
        self.routes.read().get(namespace).is_some_and(Route::is_up)
    }

    /// Whether the namespace runs in other processes of this server.
    pub fn is_elsewhere(&self, namespace: &str) -> bool {
        matches!(self.routes.read().get(namespace), Some(Route::Remote(_)))
    }

    /// Whether the namespace belongs to this server, though it may not answer right now.
    pub fn knows(&self, namespace: &str) -> bool {
        self.routes.read().get(namespace).is_some()
    }

    /// A namespace came or went.
    pub fn touch(&self) {
        self.changed.send_replace(());
    }

    /// A process went away in the middle of its work.
    pub fn lost(&self, namespace: &'static str) {
        *self.losses.write().entry(namespace).or_default() += 1;
        self.touch();
    }

    pub fn losses(&self, namespace: &str) -> u64 {
        self.losses.read().get(namespace).copied().unwrap_or_default()
    }

    /// Wakes whenever a namespace came or went.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Calls a method and gives its result as it was written. An event for the caller's own connection is dropped.
    pub async fn call(
        &self,
        caller: Caller,
        method: &str,
        params: Option<Box<RawValue>>,
    ) -> Result<Box<RawValue>, RpcError> {
        self.call_within(caller, method, params, CALL_TIMEOUT).await
    }

    /// The same for a caller that times the call itself: the process that does the work gets the deadline, too.
    pub async fn call_within(
        &self,
        caller: Caller,
        method: &str,
        params: Option<Box<RawValue>>,
        within: Duration,
    ) -> Result<Box<RawValue>, RpcError> {
        Ok(self.begin(caller, method, params.as_deref(), within)?.await?.result)
    }

    /// The same in two steps, for borrowed parameters: they have been read when this returns.
    pub fn begin(
        &self,
        caller: Caller,
        method: &str,
        params: Option<&RawValue>,
        within: Duration,
    ) -> Result<PendingAnswer, RpcError> {
        let (namespace, route) = self.route(method);
        let answering = match route {
            Some(Route::Local(methods)) => methods.call(caller, method, params),
            // A certificate of the mesh names services; no process would believe that the operator calls through another one.
            Some(Route::Remote(_)) if matches!(caller, Caller::Operator) => {
                return Err(operator_elsewhere(method, namespace));
            }
            Some(Route::Remote(remote)) => Some(remote.call(caller, method, params, within)),
            None => return Err(unavailable(namespace)),
        };
        answering.ok_or_else(|| MethodRefused::NotFound.error(method))
    }

    /// Sends a session's call to another process, where the namespace runs in one; returns whether it does. A call that
    /// only passes through needs no task that awaits it.
    pub fn send(
        &self,
        session: &CallingAgent,
        method: &str,
        params: Option<&RawValue>,
        term: CallTerm,
        then: impl FnOnce() -> OnAnswer,
    ) -> bool {
        let namespace = namespace_of(method);
        // Locked meanwhile, because nothing in it waits, and a clone's reference count would be one more thing that all
        // threads write.
        let routes = self.routes.read();
        let Some(Route::Remote(remote)) = routes.get(namespace) else { return false };
        remote.send(session, method, params, term, then());
        true
    }

    /// Begins a call to a service of this process: what another process asks is never passed on.
    pub fn call_here(
        &self,
        caller: Caller,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<PendingAnswer, RpcError> {
        let namespace = namespace_of(method);
        // Locked meanwhile: a call that is only begun waits for nothing.
        match self.routes.read().get(namespace) {
            Some(Route::Local(methods)) => {
                methods.call(caller, method, params).ok_or_else(|| MethodRefused::NotFound.error(method))
            }
            _ => Err(unavailable(namespace)),
        }
    }

    /// The namespace of a method, and its route. The lock is held only to look it up.
    fn route<'m>(&self, method: &'m str) -> (&'m str, Option<Route>) {
        let namespace = namespace_of(method);
        (namespace, self.routes.read().get(namespace).cloned())
    }

    /// Asks another service, within [`ASK_TIMEOUT`].
    pub async fn ask<R: Request>(&self, caller: Caller, request: &R) -> Result<R::Result, RpcError> {
        let _step = trace::step("mesh", "ask");
        self.ask_within(caller, request, ASK_TIMEOUT).await
    }

    async fn ask_within<R: Request>(
        &self,
        caller: Caller,
        request: &R,
        within: Duration,
    ) -> Result<R::Result, RpcError> {
        self.ask_named_within(caller, R::METHOD, request, within).await
    }

    /// The same for a method whose name is known only at run time.
    pub async fn ask_named<T: DeserializeOwned>(
        &self,
        caller: Caller,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Result<T, RpcError> {
        let _step = trace::step("mesh", "ask");
        self.ask_named_within(caller, method, params, ASK_TIMEOUT).await
    }

    async fn ask_named_within<T: DeserializeOwned>(
        &self,
        caller: Caller,
        method: &str,
        params: &(impl Serialize + ?Sized),
        within: Duration,
    ) -> Result<T, RpcError> {
        let params = to_raw_value(params).map_err(RpcError::internal)?;
        let answer =
            tokio::time::timeout(within, self.call_within(caller, method, Some(params), within)).await;
        let answer = answer.map_err(|_| {
            RpcError::new(
                codes::UNAVAILABLE,
                format!("{method} did not answer within {} s", within.as_secs()),
            )
        })??;
        serde_json::from_str(answer.get()).map_err(RpcError::internal)
    }
}

impl Route {
    fn is_up(&self) -> bool {
        match self {
            Route::Local(_) => true,
            Route::Remote(remote) => remote.is_up(),
        }
    }
}

fn namespace_of(method: &str) -> &str {
    let end = method.bytes().position(|byte| byte == b'.').unwrap_or(method.len());
    &method[..end]
}

pub fn unavailable(namespace: &str) -> RpcError {
    RpcError::new(codes::UNAVAILABLE, format!("the {namespace} service is not available"))
}

fn operator_elsewhere(method: &str, namespace: &str) -> RpcError {
    let sentence = format!(
        "{method} is for the operator of the process that runs {namespace}: use the data folder of that process"
    );
    RpcError::new(codes::PERMISSION_DENIED, sentence)
}

/// Clients recognise it by its first words.
pub fn timed_out(method: &str, within: Duration) -> RpcError {
    RpcError::new(
        codes::HANDLER_TIMEOUT,
        format!("rpc handler timeout: {method} took longer than {within:?}"),
    )
}
