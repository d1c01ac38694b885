//! A call of a method over HTTP, by `/rpc` or by a route: admitted, timed, counted, and answered by the gateway or a service.

use super::caller::HttpCaller;
use crate::admission::{AdmittedCall, Call};
use crate::gateway::GatewayState;
use crate::telemetry::MethodMetrics;
use crate::trace;
use kernel::{Caller, RpcError, TracedCall, catch_panic_of, read_params, timed_out};
use proto_schemas::requests::{ca, meta};
use proto_schemas::{Method, Request as _};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;
use tokio::time::timeout;
use tracing::Instrument as _;

/// A call that has ended.
pub(super) struct EndedHttpCall {
    pub outcome: Result<Box<RawValue>, RpcError>,
    pub traced: Option<Arc<TracedCall>>,
}

/// Makes the call. `begun` is the method, where the first half of admission is done already.
pub(super) async fn make(
    gateway: &GatewayState,
    caller: &HttpCaller,
    call: Call<'_>,
    begun: Option<&'static Method>,
    metrics: &MethodMetrics,
) -> EndedHttpCall {
    let (started, limit, name) = (Instant::now(), gateway.call_timeout(), metrics.name);
    let params = call.params.as_deref().filter(|_| caller.is_logged_in());
    let traced = params.and_then(|params| trace::requested(params, &gateway.clock));
    let route = traced.as_ref().and_then(|call| call.begin_at("gateway", "route", started));
    let span = trace::span(name, traced.as_deref());
    let calling = catch_panic_of(name, admit_and_call(gateway, caller, call, begun, traced.clone()));
    let outcome = timeout(limit, calling).instrument(span).await;
    let outcome = outcome.unwrap_or_else(|_| Err(timed_out(name, limit)));
    let code = outcome.as_ref().err().map_or(0, RpcError::code);
    gateway.metrics.answered(metrics, code, started.elapsed().as_secs_f64());
    drop(route);
    EndedHttpCall { outcome: outcome.map_err(|error| error.logged(name)), traced }
}

async fn admit_and_call(
    gateway: &GatewayState,
    caller: &HttpCaller,
    call: Call<'_>,
    begun: Option<&'static Method>,
    trace: Option<Arc<TracedCall>>,
) -> Result<Box<RawValue>, RpcError> {
    let admitting = trace.as_ref().and_then(|call| call.begin("gateway", "admit"));
    let (admission, source) = (&gateway.admission, call.source);
    let AdmittedCall { method, params, claim } = match begun {
        Some(method) => admission.finish(call, method).await?,
        None => admission.admit(call).await?,
    };
    drop(admitting);
    let params = params.map(Cow::into_owned);
    let answered = answer(gateway, caller, method.name, params, trace).await;
    admission.ended(source, method, claim, answered.as_deref());
    answered
}

/// What the gateway answers itself, or a service.
async fn answer(
    gateway: &GatewayState,
    caller: &HttpCaller,
    method: &'static str,
    params: Option<Box<RawValue>>,
    trace: Option<Arc<TracedCall>>,
) -> Result<Box<RawValue>, RpcError> {
    let text = match method {
        "meta.ping" => format!("{{\"pong\":true,\"timestamp\":{}}}", gateway.clock.now_seconds()),
        "meta.capabilities" => {
            // Nobody is told of changes over HTTP; what is wrong is wrong here, too.
            let _: meta::Capabilities = read_params(method, params.as_deref())?;
            gateway.admission.capabilities().to_string()
        }
        "rpc.discover" => gateway.admission.openrpc().to_string(),
        "meta.trust_roots" => {
            return gateway.mesh.call(Caller::service("gateway"), ca::GetTrustRoots::METHOD, None).await;
        }
        "meta.account" => {
            let source = caller.caller(None);
            let account = gateway.agent_account(&source.local_agent()?.aid).await?;
            serde_json::to_string(&account).map_err(RpcError::internal)?
        }
        name => {
            let within = gateway.call_timeout();
            return gateway.mesh.call_within(caller.caller(trace), name, params, within).await;
        }
    };
    RawValue::from_string(text).map_err(RpcError::internal)
}
