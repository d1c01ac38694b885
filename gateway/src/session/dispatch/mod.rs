//! One request of a session: what the gateway answers itself, what goes to another process, and what needs a task.

mod answer;
mod batch;
mod builtin;
mod call;
mod in_flight;
mod notification_route;
mod routed;
mod unauthenticated;

pub use batch::spawn_batch;
pub use call::spawn;
pub use unauthenticated::unauthenticated_call;

use crate::admission::Admission;
use crate::connection::Connection;
use crate::frame::RpcRequest;
use crate::gateway::GatewayState;
use proto_schemas::Method;
use std::sync::Arc;
use std::time::Instant;

/// What became of a request in the socket's own task.
pub enum Handled {
    /// It is answered with this text, or without any if it is a notification.
    Now(Option<String>),
    /// It was sent to another process, whose answer goes to the outbox.
    Routed,
    /// Its service is in this process, or it has to be checked first: a task answers it through the outbox. What admission
    /// found is not looked up again, and the call is not counted twice.
    NeedsTask(&'static Method),
}

/// Answers what the gateway knows by itself, without a task and almost without allocating, and sends on what another
/// process answers.
///
/// The frames that are read together share `began`, as far as durations are measured.
pub fn handle(
    gateway: &GatewayState,
    connection: &Arc<Connection>,
    request: &RpcRequest<'_>,
    began: &mut Option<Instant>,
) -> Handled {
    let Some(open) = connection.session() else { return Handled::Now(None) };
    if request.method == "meta.ping" && request.params.is_none_or(|params| params.get() == "{}") {
        return Handled::Now(builtin::ping(gateway, open, request.id));
    }
    let started = *began.get_or_insert_with(Instant::now);
    match builtin::answer(gateway, connection, open, request, started) {
        Handled::NeedsTask(method)
            if Admission::is_finished(method, request.params)
                && routed::send(gateway, connection, open, method, request, started) =>
        {
            Handled::Routed
        }
        handled => handled,
    }
}
