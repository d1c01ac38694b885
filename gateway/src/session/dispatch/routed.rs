//! Calls whose service is in another process: sent from the socket's own task, without one of their own.

use super::answer::{CallFrames, CallId, EndedCall};
use super::in_flight::InFlight;
use crate::connection::{Connection, OpenSession};
use crate::frame::RpcRequest;
use crate::gateway::GatewayState;
use kernel::{CallTerm, RpcError, codes, timed_out};
use proto_schemas::Method;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Sends a call to the process that has its service, and says whether it did. Nothing waits for the answer: whoever reads
/// it from the other process puts it into the outbox. A call that has to be checked or changed first needs a task.
pub fn send(
    gateway: &GatewayState,
    connection: &Arc<Connection>,
    open: &OpenSession,
    method: &'static Method,
    request: &RpcRequest<'_>,
    started: Instant,
) -> bool {
    if connection.drains.load(Ordering::Relaxed) {
        return false;
    }
    let position = method.position;
    let term = CallTerm { began: started, within: gateway.call_timeout() };
    gateway.mesh.send(&open.session, method.name, request.params, term, || {
        let (guard, id) = (InFlight::new(gateway, connection), request.id.map(|id| CallId::new(id.get())));
        Box::new(move |outcome, now| {
            let outcome = outcome.map_err(|error| with_own_timeout(error, method.name, term.within));
            // The connection has everything an answer needs. Counting references to the gateway's state here would have all
            // connections write to one counter.
            let metrics = guard.connection.outbox.metrics();
            let method = metrics.method_at(position);
            let ended = EndedCall { metrics, method, id: id.as_ref().map(CallId::get), started, now };
            CallFrames::of(&ended, outcome.as_ref().copied()).push(&guard.connection);
        })
    })
}

/// A timeout reads the same, whether it was noticed here or in the other process.
fn with_own_timeout(error: RpcError, method: &str, within: Duration) -> RpcError {
    let late = error.data("kind").is_some_and(|kind| kind == codes::HANDLER_TIMEOUT.kind().as_str());
    if late { timed_out(method, within) } else { error }
}
