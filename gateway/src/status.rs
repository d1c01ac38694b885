//! How the operator's tools see a process: `/health` and `/metrics`, for those that have no gateway, too.

use crate::http::{json_reply, openmetrics, refuse};
use crate::telemetry::Metrics;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Map, Value, json};
use services::kernel::{Mesh, World};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

/// A scrape is a short visit.
const VISIT: Duration = Duration::from_secs(10);

pub async fn answer(listener: TcpListener, world: World, metrics: Arc<Metrics>) {
    let visits = TaskTracker::new();
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
        visits.spawn(async move {
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(VISIT);
            let visit = http.serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(VISIT, visit).await;
        });
    }
    visits.close();
    visits.wait().await;
}

fn reply(request: &Request<Incoming>, world: &World, metrics: &Metrics) -> Response<Full<Bytes>> {
    match request.uri().path() {
        "/health" => {
            let (status, health) = health(&world.mesh);
            json_reply(status, &health).done()
        }
        "/metrics" => openmetrics(&metrics_of(world, metrics)).done(),
        _ => refuse(StatusCode::NOT_FOUND, "not_found", "/health and /metrics are here").done(),
    }
}

/// All that this process counts, as it is right now.
pub fn metrics_of(world: &World, metrics: &Metrics) -> String {
    metrics.take_bus(world.bus.stats().unwrap_or_default(), world.presence.count());
    metrics.text()
}

/// What works. A server without its logins helps nobody; one without another part is only degraded.
pub fn health(mesh: &Mesh) -> (StatusCode, Value) {
    let services = mesh.health();
    let word = |up: bool| if up { "up" } else { "down" };
    let all_up = services.iter().all(|(_, up)| *up);
    let usable = services.iter().all(|(namespace, up)| *up || !matches!(*namespace, "auth" | "ca"));
    let status = match (usable, all_up) {
        (true, true) => "ok",
        (true, false) => "degraded",
        (false, _) => "down",
    };
    let services: Map<String, Value> =
        services.into_iter().map(|(namespace, up)| (namespace.to_owned(), word(up).into())).collect();
    let code = if usable { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, json!({ "status": status, "services": services }))
}
