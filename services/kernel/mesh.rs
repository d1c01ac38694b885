//! The mesh: call a namespace, wherever it lives.

use super::{Caller, RpcError, codes};
use jsonrpsee::core::server::MethodCallback;
use jsonrpsee::{Extensions, Methods};
use jsonrpsee_types::{ErrorObjectOwned, Id, Params};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long one room waits for another.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Mesh {
    routes: RwLock<BTreeMap<&'static str, Route>>,
}

enum Route {
    /// The room lives in this process: a function call.
    Local(Methods),
}

impl Mesh {
    pub fn add_local(&self, namespace: &'static str, methods: Methods) {
        self.routes.write().insert(namespace, Route::Local(methods));
    }

    /// Takes a namespace out of service: its methods answer `unavailable` from now on.
    pub fn remove(&self, namespace: &str) {
        self.routes.write().remove(namespace);
    }

    /// The namespaces that answer right now.
    pub fn namespaces(&self) -> Vec<&'static str> {
        self.routes.read().keys().copied().collect()
    }

    pub fn has(&self, namespace: &str) -> bool {
        self.routes.read().contains_key(namespace)
    }

    /// Calls a method and gives its result as it was written.
    pub async fn call(
        &self,
        caller: Caller,
        method: &str,
        params: Option<Box<RawValue>>,
    ) -> Result<Box<RawValue>, RpcError> {
        let namespace = method.split('.').next().unwrap_or_default();
        // The lock is held only to clone the callback, never across an await.
        let callback = match self.routes.read().get(namespace) {
            Some(Route::Local(methods)) => methods.method(method).cloned(),
            None => return Err(unavailable(namespace)),
        };
        let Some(MethodCallback::Async(callback)) = callback else {
            return Err(RpcError::new(codes::METHOD_NOT_FOUND, format!("there is no method {method}")));
        };
        let mut extensions = Extensions::new();
        extensions.insert(caller);
        let params = Params::new(params.as_deref().map(RawValue::get)).into_owned();
        let response = callback(Id::Number(0), params, Default::default(), usize::MAX, extensions).await;
        read(&response.into_json())
    }

    /// Asks another room, with typed parameters and a typed answer, within [`PATIENCE`].
    pub async fn ask<T: DeserializeOwned>(
        &self,
        caller: Caller,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Result<T, RpcError> {
        let params = to_raw_value(params).map_err(RpcError::internal)?;
        let answer = tokio::time::timeout(PATIENCE, self.call(caller, method, Some(params))).await;
        let answer = answer.map_err(|_| {
            RpcError::new(
                codes::UNAVAILABLE,
                format!("{method} did not answer within {} s", PATIENCE.as_secs()),
            )
        })??;
        serde_json::from_str(answer.get()).map_err(RpcError::internal)
    }
}

pub fn unavailable(namespace: &str) -> RpcError {
    RpcError::new(codes::UNAVAILABLE, format!("the {namespace} service is not available right now"))
}

#[derive(Deserialize)]
struct Response {
    result: Option<Box<RawValue>>,
    error: Option<ErrorObjectOwned>,
}

fn read(response: &RawValue) -> Result<Box<RawValue>, RpcError> {
    match serde_json::from_str::<Response>(response.get()) {
        Ok(Response { error: Some(error), .. }) => Err(error.into()),
        Ok(Response { result: Some(result), .. }) => Ok(result),
        // `result: null` reads as absent; no method of ours answers null.
        Ok(Response { result: None, error: None }) => Ok(RawValue::NULL.to_owned()),
        Err(error) => Err(RpcError::internal(error)),
    }
}
