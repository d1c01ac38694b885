//! `/health`, `/health/live` and `/health/readiness`: how a process is, for clients, for the operator's tools, and for whoever
//! starts it again or sends it clients.

use axum::response::Response;
use hyper::StatusCode;
use kernel::http::json_text;
use kernel::{Disk, DiskSpace, Mesh, Stores, Tasks, World};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What is looked at to say how a process is.
#[derive(Clone)]
pub struct HealthSources {
    mesh: Arc<Mesh>,
    tasks: Tasks,
    stores: Stores,
    disk: Disk,
    /// Whether agents connect to this process.
    gateway: bool,
    /// Whether the operator asks, who is told more than a word about the free space.
    operator: bool,
}

/// How a process is right now.
pub struct ProcessHealth {
    /// Whether an agent could log in, as far as this process knows.
    can_log_in: bool,
    /// Whether this process can do its own work: its stores answer, and where agents connect to it, they can log in.
    ready: bool,
    body: Value,
}

impl HealthSources {
    pub fn new(world: &World, gateway: bool) -> HealthSources {
        HealthSources {
            mesh: world.mesh.clone(),
            tasks: world.tasks.clone(),
            stores: world.stores.clone(),
            disk: world.disk.clone(),
            gateway,
            operator: false,
        }
    }

    /// For those who can only be the operator.
    #[must_use]
    pub fn for_operator(self) -> HealthSources {
        HealthSources { operator: true, ..self }
    }
}

impl ProcessHealth {
    /// A server where nobody can log in is down; one without another service is degraded. Only a service of another process can be
    /// up without its store: that process says so itself.
    ///
    /// A task of a service that is not running is one that panicked and waits to be started again.
    ///
    /// A process that has no space for new bytes is degraded, and ready: sending its clients elsewhere would only keep them from
    /// reading, acknowledging and deleting.
    pub fn of(sources: &HealthSources) -> ProcessHealth {
        let (services, stores, tasks) =
            (sources.mesh.health(), sources.stores.up(), sources.tasks.statuses());
        let can_log_in = services.iter().chain(&stores).all(|(name, up)| *up || !login_needs(name));
        let stores_up = stores.iter().all(|(_, up)| *up);
        let ready = stores_up && (can_log_in || !sources.gateway);
        let reading = sources.disk.reading();
        let has_space = sources.disk.space() != DiskSpace::Full;
        let all_up = stores_up
            && has_space
            && services.iter().all(|(_, up)| *up)
            && tasks.iter().all(|(_, task)| task.running);
        let status = match (can_log_in, all_up) {
            (true, true) => "ok",
            (true, false) => "degraded",
            (false, _) => "down",
        };
        let tasks =
            tasks.into_iter().map(|((service, task), status)| (format!("{service}.{task}"), status.running));
        let mut body = json!({
            "status": status,
            "ready": ready,
            "services": words(services.into_iter().map(|(name, up)| (name.to_owned(), up))),
            "stores": words(stores.into_iter().map(|(name, up)| (name.to_owned(), up))),
            "tasks": words(tasks),
        });
        if let Some(reading) = reading {
            body["free_space"] = word_of(reading.space()).into();
            if let Some(notice) = reading.notice().filter(|_| sources.operator) {
                body["free_space_notice"] = format!("{notice}; {}", reading.remedy()).into();
            }
        }
        ProcessHealth { can_log_in, ready, body }
    }

    pub fn into_body(self) -> Value {
        self.body
    }

    /// None if the path is another one.
    ///
    /// SDKs up to 0.5.4 ask `/health` before each attempt to reconnect and skip it on anything but 200, so it is 503 only
    /// where an attempt would be in vain. `/health/live` is for whoever starts a process again that hangs: that another one is
    /// down, or a store, is no reason.
    pub fn answer(path: &str, sources: &HealthSources) -> Option<Response> {
        let code = |good: bool| if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let health = match path {
            "/health/live" => {
                return Some(json_text(StatusCode::OK, json!({ "status": "live" }).to_string()));
            }
            "/health" | "/health/readiness" => ProcessHealth::of(sources),
            _ => return None,
        };
        let good = if path == "/health" { health.can_log_in } else { health.ready };
        Some(json_text(code(good), health.into_body().to_string()))
    }
}

fn login_needs(name: &str) -> bool {
    matches!(name, "auth" | "ca")
}

fn word_of(space: DiskSpace) -> &'static str {
    match space {
        DiskSpace::Enough => "enough",
        DiskSpace::Low => "low",
        DiskSpace::Full => "full",
    }
}

fn words(states: impl Iterator<Item = (String, bool)>) -> Map<String, Value> {
    states.map(|(name, up)| (name, if up { "up" } else { "down" }.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::{DiskReading, StoreUrl};
    use std::path::Path;

    fn world() -> World {
        World::local("a.example", Path::new(""), StoreUrl::Sqlite("".into()))
    }

    #[test]
    fn a_full_disk_is_told_and_is_no_reason_to_send_clients_elsewhere() {
        let world = world();
        let sources = HealthSources::new(&world, true);
        let body = |sources: &HealthSources| ProcessHealth::of(sources).into_body();
        assert_eq!(body(&sources).get("free_space"), None, "nothing was measured");
        for (free, word, status) in [(200, "enough", "ok"), (199, "low", "ok"), (99, "full", "degraded")] {
            world.disk.set(DiskReading::of_disk(free, 100));
            let seen = body(&sources);
            assert_eq!((&seen["free_space"], &seen["status"]), (&json!(word), &json!(status)));
            assert_eq!(seen["ready"], true);
            assert_eq!(seen.get("free_space_notice"), None, "clients are told one word");
            let told = body(&sources.clone().for_operator());
            let notice = told["free_space_notice"].as_str().unwrap_or_default();
            assert_eq!(notice.contains("store.free_bytes"), word != "enough", "{notice}");
        }
        let ready = ProcessHealth::answer("/health/readiness", &sources).unwrap();
        assert_eq!(ready.status(), StatusCode::OK);
    }
}
