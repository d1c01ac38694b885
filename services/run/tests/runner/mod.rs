//! Runners and their leases: which of them a token is for and how long, what they may learn and ask, and the jobs that start them.

mod attempts;
mod jobs;
mod leases;
mod questions;
mod tokens;

use crate::tests::support::{TestRuns, runner};
use kernel::Caller;
use serde_json::{Value, json};

fn id(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

async fn new_run(runs: &TestRuns) -> String {
    let new = json!({
        "tenantId": "hwlab", "projectId": "acme/site", "workspaceRef": {}, "providerId": "G14",
        "backendProfile": "example", "traceSink": null, "executionPolicy": { "timeoutMs": 100_000 },
    });
    id(&runs.ok("run.create", new).await["run"]["runId"])
}

async fn new_turn(runs: &TestRuns, run: &str) -> String {
    let turn = json!({ "runId": run, "type": "turn", "payload": { "prompt": "x" } });
    id(&runs.ok("run.command_create", turn).await["command"]["commandId"])
}

async fn new_job(runs: &TestRuns, run: &str, command: &str) -> Value {
    let job = json!({ "runId": run, "commandId": command, "launcher": "external" });
    runs.ok("run.runner_job_create", job).await["runnerJob"].clone()
}

/// A runner of one attempt, as a test plays it.
struct PlayedRunner {
    run: String,
    id: String,
    attempt: String,
    epoch: i64,
    caller: Caller,
}

impl PlayedRunner {
    async fn register(runs: &TestRuns, run: &str, attempt: &str) -> PlayedRunner {
        let caller = runner(run, attempt);
        let register = json!({ "backendProfile": "example", "placement": "host-process" });
        let registered = runs.call(&caller, "runner.register", register).await.unwrap();
        let (run, attempt) = (run.to_owned(), attempt.to_owned());
        PlayedRunner { run, id: id(&registered["runnerId"]), attempt, epoch: 0, caller }
    }

    /// Its own words, with more of them.
    fn signed(&self, more: &Value) -> Value {
        let mut all = json!({ "runId": self.run, "runnerId": self.id, "epoch": self.epoch });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    }

    fn claim(&self, lease_ms: i64) -> Value {
        json!({ "runId": self.run, "runnerId": self.id, "attemptId": self.attempt, "leaseMs": lease_ms })
    }

    async fn take(&mut self, runs: &TestRuns, lease_ms: i64) {
        let claimed = runs.call(&self.caller, "runner.claim", self.claim(lease_ms)).await.unwrap();
        self.epoch = claimed["lease"]["epoch"].as_i64().unwrap();
    }

    async fn ask(&self, runs: &TestRuns, method: &str, more: Value) -> Value {
        runs.call(&self.caller, method, self.signed(&more)).await.unwrap_or_else(|e| panic!("{method}: {e}"))
    }
}
