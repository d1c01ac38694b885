//! `/health` and `/metrics` of a process, for the operator's tools; also of a process without the gateway.

use super::reply::{openmetrics, plain_failure};
use crate::health::{HealthSources, ProcessHealth};
use crate::telemetry::Metrics;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kernel::{RpcError, World, codes};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

/// How long one connection of a tool may take.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

pub async fn answer(listener: TcpListener, world: World, metrics: Arc<Metrics>, health: HealthSources) {
    let connections = TaskTracker::new();
    while let Some(accepted) = world.stop.run_until_cancelled(listener.accept()).await {
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (world, metrics, health) = (world.clone(), metrics.clone(), health.clone());
        let service = service_fn(move |request| {
            let reply = reply(&request, &world, &metrics, &health);
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

fn reply(request: &Request<Incoming>, world: &World, metrics: &Metrics, health: &HealthSources) -> Response {
    match request.uri().path() {
        "/metrics" => openmetrics(metrics_of(world, metrics)),
        path => ProcessHealth::answer(path, health).unwrap_or_else(|| {
            let sentence = "only /health, /health/live, /health/readiness and /metrics are served here";
            plain_failure(&RpcError::new(codes::NOT_FOUND, sentence))
        }),
    }
}

/// All metrics of this process, as they are right now.
pub fn metrics_of(world: &World, metrics: &Metrics) -> String {
    metrics.set_bus(world.bus.stats().unwrap_or_default(), world.presence.count());
    metrics.text()
}
