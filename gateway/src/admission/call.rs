//! A call on its way in, whichever way that is.

use super::executed_calls::SignatureClaim;
use super::source::CallSource;
use kernel::{CallWay, MethodRefused, RpcError};
use proto_schemas::Method;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What every way in makes of a request, and hands to admission.
pub struct Call<'a> {
    pub source: &'a CallSource<'a>,
    pub way: CallWay<'a>,
    pub method: CalledMethod<'a>,
    pub params: Option<Cow<'a, RawValue>>,
}

/// The method that is called.
#[derive(Clone, Copy)]
pub enum CalledMethod<'a> {
    /// As the caller wrote it.
    Named(&'a str),
    /// What a route or a relay has found.
    Known(&'static Method),
}

/// A call that may be made.
#[derive(Debug)]
pub struct AdmittedCall<'a> {
    pub method: &'static Method,
    /// For the service.
    pub params: Option<Cow<'a, RawValue>>,
    /// Of a signed call that is accepted once: to be told how it ended.
    pub claim: Option<Box<SignatureClaim>>,
}

impl<'a> Call<'a> {
    /// A call as JSON-RPC.
    pub fn named(source: &'a CallSource<'a>, method: &'a str, params: Option<Cow<'a, RawValue>>) -> Call<'a> {
        Call { source, way: CallWay::Rpc, method: CalledMethod::Named(method), params }
    }

    pub(super) fn name(&self) -> &'a str {
        match self.method {
            CalledMethod::Named(name) => name,
            CalledMethod::Known(method) => method.name,
        }
    }

    /// The method, if this kind of caller can ever call it this way.
    pub(super) fn existing_method(&self) -> Result<&'static Method, RpcError> {
        let method = match self.method {
            CalledMethod::Named(name) => proto_schemas::find(name),
            CalledMethod::Known(method) => Some(method),
        };
        let checked = self.source.kind().check(method, self.way);
        checked.map_err(|refused| refused.error(self.name()))?;
        method.ok_or_else(|| MethodRefused::NotFound.error(self.name()))
    }
}
