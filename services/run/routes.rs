//! The health of this service, open to everybody, and what is answered over HTTP without a method.

use crate::RunService;
use crate::agui::serve_to_runner;
use crate::known_profiles::{BUILT_IN, secret_name};
use crate::runs::watch_events;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use kernel::http::json_text;
use kernel::{Engine, RpcError};
use proto_schemas::requests::run::LauncherKind;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The name of the service for those who know AgentRun.
const SERVICE_ID: &str = "agentrun-mgr";
/// For how long an answer is given again: whoever asks all the time must not keep the store busy.
const REMEMBERED_MS: i64 = 1000;
/// The commit that this was built from, where the build says it.
const SOURCE_COMMIT: Option<&str> = option_env!("AUND_SOURCE_COMMIT");

pub(crate) fn routes(run: Arc<RunService>) -> Router {
    Router::new()
        .route("/api/v1/health", get(readiness))
        .route("/api/v1/health/live", get(live))
        .route("/api/v1/health/readiness", get(readiness))
        .with_state(Arc::new(Health { run: run.clone(), last: Mutex::default() }))
        .merge(
            Router::new()
                .route("/api/v1/runs/{runId}/events", get(watch_events))
                .route("/api/v1/runs/{runId}/attachments/{attachmentId}", get(serve_to_runner))
                .with_state(run),
        )
}

struct Health {
    run: Arc<RunService>,
    /// What was answered last, and when. Those who ask at the same time wait for one answer.
    last: Mutex<Option<(i64, HealthReport)>>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HealthReport {
    service_id: &'static str,
    ready: bool,
    store: StoreHealth,
    secrets: SecretsHealth,
    build: BuildHealth,
    launcher: LauncherHealth,
    failure_kind: Option<&'static str>,
    message: Option<&'static str>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StoreHealth {
    adapter: &'static str,
    reachable: bool,
    migration_ready: bool,
    migration_id: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SecretsHealth {
    refs: Vec<SecretHealth>,
    values_printed: bool,
}

#[derive(Clone, Debug, Serialize)]
struct SecretHealth {
    name: String,
    present: bool,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BuildHealth {
    version: &'static str,
    source_commit: &'static str,
}

#[derive(Clone, Debug, Serialize)]
struct LauncherHealth {
    kind: LauncherKind,
    ready: bool,
}

async fn live() -> Response {
    json_text(StatusCode::OK, json!({ "ok": true, "serviceId": SERVICE_ID }).to_string())
}

async fn readiness(State(health): State<Arc<Health>>) -> Result<Response, RpcError> {
    let report = health.report().await;
    let status = if report.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(json_text(status, serde_json::to_string(&report).map_err(RpcError::internal)?))
}

impl Health {
    async fn report(&self) -> HealthReport {
        let (mut last, now) = (self.last.lock().await, self.run.clock.now_ms());
        if let Some((at, report)) = &*last
            && (0..REMEMBERED_MS).contains(&(now - at))
        {
            return report.clone();
        }
        let report = self.run.health().await;
        *last = Some((now, report.clone()));
        report
    }
}

impl RunService {
    async fn health(&self) -> HealthReport {
        let reachable = self.store.db().answers().await.is_ok();
        let secrets = self.secrets.list().await;
        let launcher = LauncherHealth { kind: self.launcher.kind(), ready: self.launcher.is_ready() };
        let message = match (reachable, &secrets, launcher.ready) {
            (false, _, _) => Some("the store does not answer"),
            (true, Err(_), _) => Some("the store of credentials cannot be read"),
            (true, Ok(_), false) => Some("runners cannot be started"),
            (true, Ok(_), true) => None,
        };
        let configured: BTreeSet<String> = secrets.unwrap_or_default().into_iter().collect();
        let with_secret = BUILT_IN.iter().filter(|profile| self.settings.needs_credential(profile));
        let refs = with_secret.map(|profile| SecretHealth {
            name: secret_name(profile),
            present: configured.contains(*profile),
        });
        HealthReport {
            service_id: SERVICE_ID,
            ready: message.is_none(),
            store: StoreHealth {
                adapter: match self.store.db().engine() {
                    Engine::Sqlite => "sqlite",
                    Engine::Postgres => "postgres",
                },
                reachable,
                // The service does not open before its tables are up to date.
                migration_ready: true,
                migration_id: migration_id(),
            },
            secrets: SecretsHealth { refs: refs.collect(), values_printed: false },
            build: BuildHealth {
                version: env!("CARGO_PKG_VERSION"),
                source_commit: SOURCE_COMMIT.unwrap_or("unknown"),
            },
            launcher,
            failure_kind: message.map(|_| "infra-failed"),
            message,
        }
    }
}

/// `0001_run`, as the file is called.
fn migration_id() -> String {
    let last = crate::store::MIGRATIONS.iter().last();
    last.map(|last| format!("{:04}_{}", last.version, last.description.replace(' ', "_"))).unwrap_or_default()
}
