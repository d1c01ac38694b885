//! `aund health`: the health of the process on a data folder, in one line and an exit code, for a supervisor.

use crate::admin;
use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// A supervisor asks every few seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Args)]
pub(super) struct HealthCommand {
    /// The data folder of the process
    #[arg(long, value_name = "DIR", default_value = "./data")]
    data: PathBuf,
    /// Fail unless this service answers, too; may be given more than once
    #[arg(long, value_name = "NAME")]
    needs: Vec<String>,
}

impl HealthCommand {
    /// A process that answers has opened its services. Services of other processes that are down are named, and fail the
    /// check only if they are needed.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let nothing = json!({});
        let asking = admin::ask(&self.data, "health", &nothing);
        let answer =
            tokio::time::timeout(ANSWER_TIMEOUT, asking).await.context("the server does not answer")??;
        let health = answer.with_context(|| format!("no server runs on {}", self.data.display()))?;
        let down: Vec<&str> =
            self.needs.iter().map(String::as_str).filter(|name| !is_up(&health, name)).collect();
        ensure!(down.is_empty(), "{} does not answer; {}", down.join(" and "), line(&health));
        println!("{}", line(&health));
        Ok(())
    }
}

fn is_up(health: &Value, name: &str) -> bool {
    health["services"][name] == "up"
}

/// `degraded: agent up, auth up, ca up, message down`.
fn line(health: &Value) -> String {
    let services = health["services"].as_object().into_iter().flatten();
    let services: Vec<String> =
        services.map(|(name, state)| format!("{name} {}", state.as_str().unwrap_or("?"))).collect();
    format!("{}: {}", health["status"].as_str().unwrap_or("?"), services.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_down_is_named() {
        let health = json!({ "status": "degraded", "services": { "auth": "up", "message": "down" } });
        assert_eq!(line(&health), "degraded: auth up, message down");
        assert!(is_up(&health, "auth") && !is_up(&health, "message") && !is_up(&health, "task"));
    }
}
