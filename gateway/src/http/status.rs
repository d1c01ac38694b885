//! `/health` and `/metrics` of a process, for the operator's tools; also of a process without the gateway.

use super::reply::openmetrics;
use crate::telemetry::Metrics;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Map, Value, json};
use services::kernel::http::{json_text, refuse};
use services::kernel::{Mesh, Tasks, World};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

/// How long one connection of a tool may take.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

pub async fn answer(listener: TcpListener, world: World, metrics: Arc<Metrics>) {
    let connections = TaskTracker::new();
    while let Some(accepted) = world.stop.run_until_cancelled(listener.accept()).await {
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (world, metrics) = (world.clone(), metrics.clone());
        let service = service_fn(move |request| {
            let reply = reply(&request, &world, &metrics);
            async move { Ok::<_, Infallible>(reply) }
        });
        connections.spawn(async move {
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(CONNECTION_TIMEOUT);
            let connection = http.serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
        });
    }
    connections.close();
    connections.wait().await;
}

fn reply(request: &Request<Incoming>, world: &World, metrics: &Metrics) -> Response {
    match request.uri().path() {
        "/health" => {
            let (status, health) = health(&world.mesh, &world.tasks);
            json_text(status, health.to_string())
        }
        "/metrics" => openmetrics(metrics_of(world, metrics)),
        _ => refuse(StatusCode::NOT_FOUND, "not_found", "only /health and /metrics are served here"),
    }
}

/// All metrics of this process, as they are right now.
pub fn metrics_of(world: &World, metrics: &Metrics) -> String {
    metrics.set_bus(world.bus.stats().unwrap_or_default(), world.presence.count());
    metrics.text()
}

/// Which services are up. A server where nobody can log in is down; one without another service is degraded.
///
/// A task of a service that is not running is one that panicked and waits to be started again.
pub fn health(mesh: &Mesh, tasks: &Tasks) -> (StatusCode, Value) {
    let services = mesh.health();
    let word = |up: bool| if up { "up" } else { "down" };
    let tasks = tasks.statuses();
    let all_up = services.iter().all(|(_, up)| *up) && tasks.iter().all(|(_, task)| task.running);
    let usable = services.iter().all(|(namespace, up)| *up || !matches!(*namespace, "auth" | "ca"));
    let status = match (usable, all_up) {
        (true, true) => "ok",
        (true, false) => "degraded",
        (false, _) => "down",
    };
    let services: Map<String, Value> =
        services.into_iter().map(|(namespace, up)| (namespace.to_owned(), word(up).into())).collect();
    let code = if usable { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let tasks: Map<String, Value> = tasks
        .into_iter()
        .map(|((service, task), status)| (format!("{service}.{task}"), word(status.running).into()))
        .collect();
    (code, json!({ "status": status, "services": services, "tasks": tasks }))
}
