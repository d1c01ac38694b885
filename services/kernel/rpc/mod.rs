//! `Rpc`: a service's method table, and its callers.

mod access;
mod answer;
mod caller;
mod params;

pub use access::{CallWay, CallerKind, MethodRefused};
pub use answer::{Answer, AnswerRef, CallerEvent, IntoAnswer, PendingAnswer, ResultText};
pub use caller::{Caller, CallingAgent, Generation, Relayed, TokenCaller};

use crate::RpcError;
use params::parse;
pub use params::read_params;
use proto_schemas::Request;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;

type Handler = Box<dyn Fn(Caller, Option<&RawValue>) -> PendingAnswer + Send + Sync>;

/// A service's method table: cheap to clone, and a call through it is a function call.
#[derive(Clone, Default)]
pub struct Methods(Arc<HashMap<&'static str, Handler>>);

impl Methods {
    /// Begins a call, if there is such a method.
    pub fn call(&self, caller: Caller, method: &str, params: Option<&RawValue>) -> Option<PendingAnswer> {
        self.0.get(method).map(|handler| handler(caller, params))
    }

    /// The names of all methods.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.keys().copied()
    }
}

/// Builds a service's method table. For each call: check access, parse, run, turn the service's error into an `RpcError`.
pub struct Rpc<Service> {
    service: Arc<Service>,
    entries: HashMap<&'static str, Handler>,
}

impl<Service: Send + Sync + 'static> Rpc<Service> {
    pub fn new(service: Arc<Service>) -> Self {
        Rpc { service, entries: HashMap::new() }
    }

    /// Adds the method whose request the handler takes and whose result it gives. The schema says who may call it.
    #[must_use]
    pub fn method<R, A, E, Fut>(mut self, handler: fn(Arc<Service>, Caller, R) -> Fut) -> Self
    where
        R: Request + DeserializeOwned + Send + 'static,
        A: IntoAnswer<R::Result> + Send + 'static,
        E: Into<RpcError> + Send + 'static,
        Fut: Future<Output = Result<A, E>> + Send + 'static,
    {
        let name = R::METHOD;
        let method = proto_schemas::find(name).unwrap_or_else(|| panic!("{name} has no schema"));
        let service = self.service.clone();
        let call = move |caller: Caller, params: Option<&RawValue>| -> PendingAnswer {
            if let Err(refused) = caller.kind().check(Some(method), CallWay::Any) {
                return Box::pin(ready(Err(refused.error(name))));
            }
            // Parsed while they are borrowed: they need not be copied first.
            let params = match parse(method, params) {
                Ok(params) => params,
                Err(error) => return Box::pin(ready(Err(error))),
            };
            let service = service.clone();
            Box::pin(async move {
                // Begun in here, where it stays: the future of a method is large and must not be moved.
                let answer = match caller.trace() {
                    None => handler(service, caller, params).await,
                    // Boxed, so that the future of a call without a trace has no space for it.
                    Some(call) => {
                        let answering = Box::pin(handler(service, caller, params));
                        call.answered_by(method.namespace.name, answering).await
                    }
                };
                let answer = answer.map_err(Into::into);
                let answer = answer.and_then(|answer| answer.into_answer().map_err(RpcError::internal));
                answer.map_err(|error| error.logged(name))
            })
        };
        let before = self.entries.insert(name, Box::new(call));
        assert!(before.is_none(), "{name} is in the table twice");
        self
    }
}

impl<Service> From<Rpc<Service>> for Methods {
    fn from(rpc: Rpc<Service>) -> Methods {
        Methods(Arc::new(rpc.entries))
    }
}
