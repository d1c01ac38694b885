//! What a run and a tenant may have, and that a limit of one is none of another. And what the guide says of limits.

use super::support::{TestRuns, hwlab, runner, unidesk};
use crate::Settings;
use kernel::{Caller, RpcError};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn id(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

async fn run_of(runs: &TestRuns, caller: &Caller, tenant: &str) -> Result<String, RpcError> {
    let new = json!({
        "tenantId": tenant, "projectId": "acme/site", "workspaceRef": {}, "providerId": "G14",
        "backendProfile": "example", "traceSink": null,
    });
    Ok(id(&runs.call(caller, "run.create", new).await?["run"]["runId"]))
}

async fn turn(runs: &TestRuns, caller: &Caller, run: &str) -> Result<String, RpcError> {
    let turn = json!({ "runId": run, "type": "turn", "payload": { "prompt": "x" } });
    Ok(id(&runs.call(caller, "run.command_create", turn).await?["command"]["commandId"]))
}

/// The refusal names what is full, with how much of how many there is.
fn assert_full(error: &RpcError, scope: &str, limit: i64) {
    assert_eq!(
        (error.http_status().as_u16(), error.data("failureKind"), error.data("scope"), error.data("limit")),
        (429, Some(&json!("rate-limited")), Some(&json!(scope)), Some(&json!(limit))),
        "{error}"
    );
    // A log never empties; commands and runs end.
    assert_eq!(error.data("retryable"), Some(&json!(scope != "run.events")), "{error}");
}

#[tokio::test]
async fn a_run_has_so_many_waiting_commands() {
    let runs = TestRuns::with(Settings { waiting_commands: 2, ..Settings::default() }).await;
    let run = run_of(&runs, &hwlab(), "hwlab").await.unwrap();
    let first = turn(&runs, &hwlab(), &run).await.unwrap();
    turn(&runs, &hwlab(), &run).await.unwrap();
    assert_full(&turn(&runs, &hwlab(), &run).await.unwrap_err(), "run.commands", 2);
    let other = run_of(&runs, &hwlab(), "hwlab").await.unwrap();
    turn(&runs, &hwlab(), &other).await.unwrap();
    runs.ok("run.command_cancel", json!({ "commandId": first })).await;
    turn(&runs, &hwlab(), &run).await.unwrap();
}

#[tokio::test]
async fn a_tenant_has_so_many_active_runs() {
    let runs = TestRuns::with(Settings { active_runs: 2, ..Settings::default() }).await;
    let mut own = Vec::new();
    for _ in 0..3 {
        own.push(run_of(&runs, &hwlab(), "hwlab").await.unwrap());
    }
    let first = turn(&runs, &hwlab(), &own[0]).await.unwrap();
    turn(&runs, &hwlab(), &own[1]).await.unwrap();
    assert_full(&turn(&runs, &hwlab(), &own[2]).await.unwrap_err(), "tenant.runs", 2);
    turn(&runs, &hwlab(), &own[0]).await.expect("it is active already");
    let other = run_of(&runs, &unidesk(), "unidesk").await.unwrap();
    turn(&runs, &unidesk(), &other).await.expect("another tenant has its own");
    runs.ok("run.command_cancel", json!({ "commandId": first })).await;
    assert_full(&turn(&runs, &hwlab(), &own[2]).await.unwrap_err(), "tenant.runs", 2);
    runs.ok("run.cancel", json!({ "runId": own[0] })).await;
    turn(&runs, &hwlab(), &own[2]).await.expect("one has ended");
}

#[tokio::test]
async fn a_log_has_so_many_bytes_and_takes_its_end_all_the_same() {
    let runs = TestRuns::with(Settings { event_bytes: 4096, ..Settings::default() }).await;
    let run = run_of(&runs, &hwlab(), "hwlab").await.unwrap();
    let command = turn(&runs, &hwlab(), &run).await.unwrap();
    let caller = runner(&run, "attempt_1");
    let register = json!({ "backendProfile": "example", "placement": "host-process" });
    let own = id(&runs.call(&caller, "runner.register", register).await.unwrap()["runnerId"]);
    let signed = |mut more: Value| {
        (more["runnerId"], more["epoch"]) = (json!(own), json!(1));
        more
    };
    let claim = json!({ "runId": run, "runnerId": own, "attemptId": "attempt_1" });
    runs.call(&caller, "runner.claim", claim).await.unwrap();
    runs.call(&caller, "runner.acknowledge", signed(json!({ "commandId": command }))).await.unwrap();
    let append = async |name: &str, bytes: usize| {
        let event = json!({
            "clientEventId": name, "type": "reasoning", "commandId": command, "payload": { "text": "x".repeat(bytes) },
        });
        runs.call(&caller, "runner.append_events", signed(json!({ "runId": run, "events": [event] }))).await
    };
    append("1", 3000).await.unwrap();
    assert_full(&append("2", 2000).await.unwrap_err(), "run.events", 4096);
    append("1", 3000).await.expect("a repetition needs no space");
    append("3", 500).await.expect("less fits");
    let completed = signed(json!({ "commandId": command, "status": "completed" }));
    runs.call(&caller, "runner.set_command_status", completed).await.expect("the end is short");
    let page = runs.ok("run.events", json!({ "runId": run })).await;
    let seqs: Vec<i64> =
        page["events"].as_array().unwrap().iter().filter_map(|one| one["seq"].as_i64()).collect();
    assert_eq!(seqs, [1, 2, 3], "what was refused left no gap");
}

#[tokio::test]
async fn a_tenant_keeps_so_many_bytes() {
    let mut settings = Settings::default();
    settings.tenants.get_mut("hwlab").unwrap().kept_bytes = 8192;
    let runs = TestRuns::with(settings).await;
    let mut created = 0;
    let error = loop {
        match run_of(&runs, &hwlab(), "hwlab").await {
            Ok(_) => created += 1,
            Err(error) => break error,
        }
        assert!(created < 100, "it is never full");
    };
    assert!(created > 0 && error.http_status().as_u16() == 429, "{created}: {error}");
    run_of(&runs, &unidesk(), "unidesk").await.expect("another tenant pays for itself");
    let recounted = runs.call(&Caller::Operator, "run.account", json!({ "recount": true })).await.unwrap();
    assert_eq!(recounted["corrected"], 0, "what was refused is not counted");
}

/// Active is what has a lease or a command that waits: a runner that died has no lease when it has expired.
#[tokio::test]
async fn a_run_whose_lease_has_expired_is_not_active() {
    let runs = TestRuns::with(Settings { active_runs: 1, ..Settings::default() }).await;
    let first = run_of(&runs, &hwlab(), "hwlab").await.unwrap();
    let command = turn(&runs, &hwlab(), &first).await.unwrap();
    let caller = runner(&first, "attempt_1");
    let register = json!({ "backendProfile": "example", "placement": "host-process" });
    let own = id(&runs.call(&caller, "runner.register", register).await.unwrap()["runnerId"]);
    let claim = json!({ "runId": first, "runnerId": own, "attemptId": "attempt_1", "leaseMs": 60_000 });
    runs.call(&caller, "runner.claim", claim).await.unwrap();
    let taken = json!({ "commandId": command, "runnerId": own, "epoch": 1 });
    runs.call(&caller, "runner.acknowledge", taken.clone()).await.unwrap();
    let mut completed = taken;
    completed["status"] = json!("completed");
    runs.call(&caller, "runner.set_command_status", completed).await.unwrap();
    let second = run_of(&runs, &hwlab(), "hwlab").await.unwrap();
    assert_full(&turn(&runs, &hwlab(), &second).await.unwrap_err(), "tenant.runs", 1);
    runs.test.world.clock.advance_ms(60_000);
    runs.run.sweep(runs.now()).await.unwrap();
    turn(&runs, &hwlab(), &second).await.expect("nobody works on the first one, and nothing waits there");
}

/// A server with a setting that does not exist does not start, so the guide must not list one; nor may it forget one.
#[test]
fn the_guide_lists_the_settings_that_there_are() {
    let guide = include_str!("../../../docs/run-manager.md");
    let rows = guide.lines().skip_while(|line| !line.starts_with("| `[run]` |")).skip(2);
    let names = rows.map_while(|row| row.strip_prefix("| `")?.split('`').next());
    let listed: BTreeSet<&str> = names.collect();
    let settings = serde_json::to_value(Settings::default()).unwrap();
    let tables = ["tenants", "workspaces"];
    let known = settings.as_object().unwrap().keys().map(String::as_str);
    let known: BTreeSet<&str> = known.filter(|name| !tables.contains(name)).collect();
    assert_eq!(listed, known);
}
