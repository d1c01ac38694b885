//! `aund health`: the health of the process on a data folder, in one line and an exit code, for a supervisor.

use crate::output;
use anyhow::{Context as _, ensure};
use clap::Args;
use gateway::admin;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// A supervisor asks every few seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Args)]
pub(in crate::cli) struct HealthCommand {
    /// The data folder of the process
    #[arg(long, value_name = "DIR", default_value = "./data")]
    data: PathBuf,
    /// Also fail if this service does not answer; repeatable
    #[arg(long, value_name = "NAME")]
    needs: Vec<String>,
    /// Fail only if the process does not answer (liveness probe)
    #[arg(long, conflicts_with = "needs")]
    live: bool,
}

impl HealthCommand {
    /// A process that answers has opened its services. One whose stores do not answer is not healthy. Services of other processes
    /// that are down are named, and fail the check only if they are needed: whoever they wait for must not wait for them.
    pub(in crate::cli) async fn run(self) -> anyhow::Result<()> {
        let nothing = json!({});
        let asking = admin::ask(&self.data, "health", &nothing);
        let answer =
            tokio::time::timeout(ANSWER_TIMEOUT, asking).await.context("the server does not answer")??;
        let health = answer.with_context(|| format!("no server runs on {}", self.data.display()))?;
        let down: Vec<&str> =
            self.needs.iter().map(String::as_str).filter(|name| !is_up(&health, name)).collect();
        ensure!(down.is_empty(), "{} does not answer; {}", down.join(" and "), line(&health));
        let stores = stores_down(&health);
        ensure!(
            self.live || stores.is_empty(),
            "the store of {} does not answer; {}",
            stores.join(" and "),
            line(&health)
        );
        Ok(output::line(&line(&health))?)
    }
}

fn is_up(health: &Value, name: &str) -> bool {
    health["services"][name] == "up"
}

fn stores_down(health: &Value) -> Vec<&str> {
    let stores = health["stores"].as_object().into_iter().flatten();
    stores.filter(|(_, state)| *state != "up").map(|(name, _)| name.as_str()).collect()
}

/// `degraded: agent up, auth up, ca up, message down`, and what is to be said of the free space.
fn line(health: &Value) -> String {
    let services = health["services"].as_object().into_iter().flatten();
    let services: Vec<String> =
        services.map(|(name, state)| format!("{name} {}", state.as_str().unwrap_or("?"))).collect();
    let notice = health["free_space_notice"].as_str().map(|notice| format!("; {notice}"));
    let status = health["status"].as_str().unwrap_or("?");
    format!("{status}: {}{}", services.join(", "), notice.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_down_is_named() {
        let health = json!({ "status": "degraded", "services": { "auth": "up", "message": "down" } });
        assert_eq!(line(&health), "degraded: auth up, message down");
        assert!(is_up(&health, "auth") && !is_up(&health, "message") && !is_up(&health, "task"));
        assert!(stores_down(&health).is_empty(), "a process may have none");
        let health = json!({ "stores": { "auth": "up", "ca": "down" } });
        assert_eq!(stores_down(&health), ["ca"]);
        let health = json!({ "status": "ok", "services": { "ca": "up" }, "free_space_notice": "5 MiB free" });
        assert_eq!(line(&health), "ok: ca up; 5 MiB free");
    }
}
