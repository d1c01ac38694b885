//! `Rpc`: a service's method table, and its callers.

mod access;
mod answer;
mod caller;
mod params;

pub use access::{CallWay, CallerKind, MethodRefused};
pub use answer::{Answer, AnswerRef, CallerEvent, IntoAnswer, PendingAnswer, ResultText};
pub use caller::{Caller, CallingAgent, Generation, Relayed, TokenCaller};

use crate::{Disk, RpcError};
pub use params::read_params;
use params::{check_bounds, parse};
use proto_schemas::{Method, Request};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;

type Handler = Box<dyn Fn(Caller, Option<&RawValue>) -> PendingAnswer + Send + Sync>;

/// A method as its schema declares it, and what answers it.
struct MethodEntry {
    method: &'static Method,
    handler: Handler,
}

/// A service's method table: cheap to clone, and a call through it is a function call.
#[derive(Clone, Default)]
pub struct Methods {
    entries: Arc<HashMap<&'static str, MethodEntry>>,
    disk: Disk,
}

impl Methods {
    /// Begins a call, if there is such a method. Every call of this process comes through here, whoever made it and whatever carried
    /// it, so what its schema declares is held here: who may call it, and whether there is space for what it stores.
    pub fn call(&self, caller: Caller, name: &str, params: Option<&RawValue>) -> Option<PendingAnswer> {
        let MethodEntry { method, handler } = self.entries.get(name)?;
        let admitted = caller.kind().check(Some(method), CallWay::Any).map_err(|refused| refused.error(name));
        Some(match admitted.and_then(|()| self.disk.check(method, params)) {
            Ok(()) => handler(caller, params),
            Err(refused) => Box::pin(ready(Err(refused))),
        })
    }

    /// The same methods, which store on this disk.
    #[must_use]
    pub fn on_disk(self, disk: &Disk) -> Methods {
        Methods { disk: disk.clone(), ..self }
    }

    /// The names of all methods.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entries.keys().copied()
    }
}

/// Builds a service's method table. For each call that is admitted: parse, run, turn the service's error into an `RpcError`.
pub struct Rpc<Service> {
    service: Arc<Service>,
    entries: HashMap<&'static str, MethodEntry>,
    bounded: bool,
}

impl<Service: Send + Sync + 'static> Rpc<Service> {
    pub fn new(service: Arc<Service>) -> Self {
        Rpc { service, entries: HashMap::new(), bounded: false }
    }

    /// For methods that are added from here on: whatever exceeds the bounds of a schema, in length or number, is refused before the
    /// method is asked. A service without this checks them itself.
    #[must_use]
    pub fn within_bounds(self) -> Self {
        Rpc { bounded: true, ..self }
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
        let (service, bounded) = (self.service.clone(), self.bounded);
        let call = move |caller: Caller, params: Option<&RawValue>| -> PendingAnswer {
            // Parsed while they are borrowed: they need not be copied first.
            let bounds = if bounded { check_bounds(method, params) } else { Ok(()) };
            let params = match bounds.and_then(|()| parse(method, params)) {
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
        let before = self.entries.insert(name, MethodEntry { method, handler: Box::new(call) });
        assert!(before.is_none(), "{name} is in the table twice");
        self
    }
}

impl<Service> From<Rpc<Service>> for Methods {
    fn from(rpc: Rpc<Service>) -> Methods {
        Methods { entries: Arc::new(rpc.entries), disk: Disk::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DiskReading, codes};
    use serde::{Deserialize, Serialize};
    use serde_json::{Value, json};

    #[derive(Serialize, Deserialize)]
    struct AnyMessage {}

    impl Request for AnyMessage {
        const METHOD: &'static str = "message.send";
        type Result = Value;
    }

    async fn send(_: Arc<()>, _: Caller, _: AnyMessage) -> Result<Value, RpcError> {
        Ok(json!({}))
    }

    #[tokio::test]
    async fn a_call_without_space_is_refused_to_those_who_may_make_it() {
        let disk = Disk::default();
        let methods = Methods::from(Rpc::new(Arc::new(())).method(send)).on_disk(&disk);
        let code = async |caller: Caller| {
            let answer = methods.call(caller, "message.send", None).unwrap().await;
            answer.err().map(|error| error.code())
        };
        assert_eq!(code(Caller::Operator).await, None);
        disk.set(DiskReading::of_disk(0, 1));
        assert_eq!(code(Caller::Operator).await, Some(codes::UNAVAILABLE.code));
        let unknown = code(Caller::Unauthenticated(None)).await;
        assert_eq!(unknown, Some(codes::NOT_INITIALIZED.code), "it learns nothing of the disk");
    }
}
