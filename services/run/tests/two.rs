//! Two processes on one database: each waits for the other where they are about the same, and never both at once. On SQLite there is
//! one process.

use super::support::{TestRun, TestRuns, runner};
use crate::settings::TenantSettings;
use crate::{RunService, Settings, rpc};
use kernel::{Caller, RpcError, TokenCaller};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use std::sync::Arc;
use testing::DAY_MS;
use tokio::task::JoinSet;

type Answers = JoinSet<Result<Value, RpcError>>;

/// The service as two processes have it, each with a queue of its own.
struct TwoProcesses {
    runs: TestRuns,
    both: [Arc<RunService>; 2],
}

impl TwoProcesses {
    async fn open(settings: Settings) -> Option<TwoProcesses> {
        if testing::store_url().starts_with("sqlite") {
            return None;
        }
        let runs = TestRuns::with(settings.clone()).await;
        let second = RunService::open(&runs.test.world, &settings).await.unwrap();
        let both = [runs.run.clone(), second];
        Some(TwoProcesses { runs, both })
    }

    fn spawn(&self, calls: &mut Answers, process: usize, caller: Caller, method: &str, params: Value) {
        let (methods, method) = (rpc(self.both[process % 2].clone()), method.to_owned());
        calls.spawn(async move {
            let params = to_raw_value(&params).unwrap();
            let answer = methods.call(caller, &method, Some(&params)).unwrap().await?;
            Ok(serde_json::from_str(answer.result.get()).unwrap())
        });
    }

    async fn run_of(&self, tenant: &str) -> String {
        let new = json!({
            "tenantId": tenant, "projectId": "acme/site", "workspaceRef": {}, "providerId": "G14",
            "backendProfile": "example", "traceSink": null,
        });
        let created = self.runs.call(&tenant_caller(tenant), "run.create", new).await.unwrap();
        created["run"]["runId"].as_str().unwrap().to_owned()
    }

    async fn assert_counted(&self) {
        let recount = json!({ "recount": true });
        let recounted = self.runs.call(&Caller::Operator, "run.account", recount).await.unwrap();
        assert_eq!(recounted["corrected"], 0);
    }
}

fn tenant_caller(tenant: &str) -> Caller {
    let tenant = tenant.to_owned();
    Caller::Token(TokenCaller { kind: "tenant".into(), subject: tenant, agent: None, payer: None })
}

/// Each refused claim is in the log of its run, and so in the account of its tenant. Commits that are about several tenants would take
/// those accounts in the order of their rows.
#[tokio::test]
async fn commits_about_the_same_tenants_wait_for_each_other_and_not_for_ever() {
    let mut settings = Settings::default();
    let tenants: Vec<String> = (0..8).map(|number| format!("t{number}")).collect();
    settings.tenants.extend(tenants.iter().map(|name| (name.clone(), TenantSettings::default())));
    let Some(two) = TwoProcesses::open(settings).await else { return };
    let mut claims = Vec::new();
    for tenant in &tenants {
        for process in 0..2 {
            let run = two.run_of(tenant).await;
            let caller = runner(&run, "attempt_1");
            for number in 0..8 {
                let register = json!({ "backendProfile": "example", "placement": "host-process" });
                let registered = two.runs.call(&caller, "runner.register", register).await.unwrap();
                let claim = json!({
                    "runId": run, "runnerId": registered["runnerId"], "attemptId": "attempt_1", "leaseMs": 600_000,
                });
                match number {
                    0 => drop(two.runs.call(&caller, "runner.claim", claim).await.unwrap()),
                    _ => claims.push((process, caller.clone(), claim)),
                }
            }
        }
    }
    let mut calls = JoinSet::new();
    for (process, caller, claim) in claims {
        two.spawn(&mut calls, process, caller, "runner.claim", claim);
    }
    for answer in calls.join_all().await {
        let error = answer.expect_err("another runner has the lease");
        assert_eq!(error.data("failureKind"), Some(&json!("runner-lease-conflict")), "{error}");
    }
    two.assert_counted().await;
}

#[tokio::test]
async fn active_runs_are_counted_once_for_both() {
    let Some(two) = TwoProcesses::open(Settings { active_runs: 5, ..Settings::default() }).await else {
        return;
    };
    let mut calls = JoinSet::new();
    for process in 0..40 {
        let run = two.run_of("hwlab").await;
        let turn = json!({ "runId": run, "type": "turn", "payload": { "prompt": "x" } });
        two.spawn(&mut calls, process, tenant_caller("hwlab"), "run.command_create", turn);
    }
    let answers = calls.join_all().await;
    for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        assert_eq!(error.data("scope"), Some(&json!("tenant.runs")), "{error}");
    }
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 5);
}

#[tokio::test]
async fn a_run_that_a_commit_is_about_is_removed_later() {
    let Some(two) = TwoProcesses::open(Settings::default()).await else { return };
    let ended_at = Some(two.runs.now());
    two.runs.insert_run(&TestRun { ended_at, ..TestRun::NEW }).await;
    let mut commit = two.runs.run.store.begin().await.unwrap();
    sqlx::query("SELECT id FROM run FOR UPDATE").execute(&mut *commit).await.unwrap();
    let later = two.runs.now() + 31 * DAY_MS;
    assert_eq!(two.both[1].remove_ended(later).await.unwrap(), 0, "and nobody waits for it");
    commit.rollback().await.unwrap();
    assert_eq!(two.both[1].remove_ended(later).await.unwrap(), 1);
}

#[tokio::test]
async fn two_processes_remove_a_run_with_all_of_its_events() {
    let Some(two) = TwoProcesses::open(Settings::default()).await else { return };
    for name in ["run_1", "run_2", "run_3"] {
        let ended_at = Some(two.runs.now());
        two.runs.insert_run(&TestRun { id: name, ended_at, ..TestRun::NEW }).await;
    }
    two.runs
        .sql(
            "INSERT INTO run_event (run_id, seq, kind, payload, created_at)
             SELECT run.id, n, 'reasoning', '{}', 0 FROM run CROSS JOIN generate_series(1, 4500) AS n",
        )
        .await;
    two.runs.sql("UPDATE run SET event_rows = 4500, event_bytes = 9000, last_seq = 4500").await;
    let later = two.runs.now() + 31 * DAY_MS;
    let (one, other) = tokio::join!(two.both[0].remove_ended(later), two.both[1].remove_ended(later));
    let removed = one.unwrap() + other.unwrap() + two.both[0].remove_ended(later).await.unwrap();
    assert_eq!(removed, 3, "each once");
    let left: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM run_event")
        .fetch_one(two.runs.run.store.db().read())
        .await
        .unwrap();
    assert_eq!(left, 0);
    two.assert_counted().await;
}
