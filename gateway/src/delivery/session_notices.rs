//! Tells the services that asked for it of sessions: a namespace says so in its `namespace.json`.

use futures_util::FutureExt as _;
use futures_util::future::{join_all, try_join_all};
use kernel::{Caller, Mesh, RpcError, SessionNotice, codes};
use proto_schemas::Namespace;
use serde_json::value::RawValue;
use std::sync::{Arc, LazyLock};
use tokio_util::task::TaskTracker;

/// The namespaces that are told, with the names of their methods.
struct ToldNamespace {
    name: &'static str,
    opened: String,
    resync: String,
    closed: String,
}

static TOLD: LazyLock<Vec<ToldNamespace>> = LazyLock::new(|| {
    let told = |namespace: &&Namespace| namespace.sessions;
    let methods = |namespace: &Namespace| ToldNamespace {
        name: namespace.name,
        opened: format!("{}.session_opened", namespace.name),
        resync: format!("{}.session_resync", namespace.name),
        closed: format!("{}.session_closed", namespace.name),
    };
    proto_schemas::namespaces().iter().filter(told).map(methods).collect()
});

/// Tells every such service that a session opens, before its agent is told. Gives whether all of them know: a login does
/// not fail because a service is down, and it is told when it is back.
pub async fn opened(mesh: &Mesh, notice: &SessionNotice) -> Result<bool, RpcError> {
    let told = TOLD.iter().map(|namespace| async move {
        if !mesh.has(namespace.name) {
            return Ok(!mesh.knows(namespace.name));
        }
        match tell(mesh, &namespace.opened, notice).await {
            Ok(()) => Ok(true),
            Err(error) if is_down(&error) => Ok(false),
            Err(error) => Err(error),
        }
    });
    Ok(try_join_all(told).await?.into_iter().all(|knows| knows))
}

/// Tells every such service that a device may have missed events. Gives whether it is done, or has to be tried again: a
/// service that is down is told when it is back, and one that does not have the method never will have it.
pub async fn resync(mesh: &Mesh, notice: &SessionNotice) -> bool {
    let told = TOLD.iter().filter(|namespace| mesh.knows(namespace.name)).map(|namespace| async move {
        !tell(mesh, &namespace.resync, notice).await.is_err_and(|error| is_down(&error))
    });
    join_all(told).await.into_iter().all(|done| done)
}

/// Tells every such service that a session ended, as far as they can be reached: nobody waits for it.
pub fn closed(mesh: &Arc<Mesh>, tracker: &TaskTracker, notice: SessionNotice) {
    let mesh = mesh.clone();
    let mut telling = Box::pin(async move {
        let up = TOLD.iter().filter(|namespace| mesh.has(namespace.name));
        join_all(up.map(|namespace| tell(&mesh, &namespace.closed, &notice))).await;
    });
    // In one process it ends at once, and needs no task.
    if (&mut telling).now_or_never().is_none() {
        tracker.spawn(telling);
    }
}

/// What a service answers means nothing here.
async fn tell(mesh: &Mesh, method: &str, notice: &SessionNotice) -> Result<(), RpcError> {
    let _: Box<RawValue> = mesh.ask_named(Caller::service("gateway"), method, notice).await?;
    Ok(())
}

pub(super) fn is_down(error: &RpcError) -> bool {
    [codes::UNAVAILABLE.code, codes::SERVICE_STOPPING.code].contains(&error.code())
}
