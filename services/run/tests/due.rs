//! What the service does by itself, when its time has come: commands that nobody ends, clocks that are set back, runs and storage that
//! nobody needs any more, runners that never came.

use super::support::{TestRuns, hwlab, refusal, runner};
use crate::Settings;
use kernel::Caller;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use testing::DAY_MS;
use tokio::time::{sleep, timeout};

const ATTEMPT: &str = "attempt_1";

/// A run with a turn that its runner has taken, for a lease of a minute.
struct TakenRun {
    run: String,
    command: String,
    runner: String,
    caller: Caller,
}

fn id(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn new_run(timeout_ms: i64) -> Value {
    json!({
        "tenantId": "hwlab", "projectId": "acme/site", "workspaceRef": {}, "providerId": "G14",
        "backendProfile": "example", "traceSink": null, "executionPolicy": { "timeoutMs": timeout_ms },
    })
}

async fn turn(runs: &TestRuns, run: &str) -> String {
    let turn = json!({ "runId": run, "type": "turn", "payload": { "prompt": "x" } });
    id(&runs.ok("run.command_create", turn).await["command"]["commandId"])
}

impl TakenRun {
    async fn begin(runs: &TestRuns, timeout_ms: i64) -> TakenRun {
        let run = id(&runs.ok("run.create", new_run(timeout_ms)).await["run"]["runId"]);
        let command = turn(runs, &run).await;
        let caller = runner(&run, ATTEMPT);
        let register = json!({ "backendProfile": "example", "placement": "host-process" });
        let runner = id(&runs.call(&caller, "runner.register", register).await.unwrap()["runnerId"]);
        let taken = TakenRun { run, command, runner, caller };
        let claim = json!({
            "runId": taken.run, "runnerId": taken.runner, "attemptId": ATTEMPT, "leaseMs": 60_000,
        });
        runs.call(&taken.caller, "runner.claim", claim).await.unwrap();
        let acknowledge = taken.signed(json!({ "commandId": taken.command }));
        runs.call(&taken.caller, "runner.acknowledge", acknowledge).await.unwrap();
        taken
    }

    fn signed(&self, mut more: Value) -> Value {
        (more["runnerId"], more["epoch"]) = (json!(self.runner), json!(1));
        more
    }

    async fn read(&self, runs: &TestRuns) -> Value {
        runs.ok("run.get", json!({ "runId": self.run })).await["run"].clone()
    }

    async fn read_command(&self, runs: &TestRuns) -> Value {
        let of = json!({ "runId": self.run, "commandId": self.command });
        runs.ok("run.command_get", of).await["command"].clone()
    }

    async fn last_event(&self, runs: &TestRuns) -> Value {
        let page = runs.ok("run.events", json!({ "runId": self.run, "limit": 500 })).await;
        page["events"].as_array().unwrap().last().unwrap().clone()
    }
}

#[tokio::test]
async fn a_command_that_nobody_ends_fails_a_minute_after_its_time_out() {
    let runs = TestRuns::open().await;
    let taken = TakenRun::begin(&runs, 1000).await;
    runs.test.world.clock.advance_ms(60_999);
    runs.run.sweep(runs.now()).await.unwrap();
    assert_eq!(taken.read_command(&runs).await["state"], "acknowledged", "its runner may still say it");
    runs.test.world.clock.advance_ms(1);
    runs.run.sweep(runs.now()).await.unwrap();
    let ended = taken.read_command(&runs).await;
    assert_eq!(
        (&ended["state"], &ended["failureKind"], &ended["terminalStatus"]),
        (&json!("failed"), &json!("backend-timeout"), &json!("failed"))
    );
    let end = taken.last_event(&runs).await;
    assert_eq!(
        (&end["type"], &end["commandId"], &end["payload"]["scope"], &end["payload"]["failureKind"]),
        (&json!("terminal_status"), &json!(taken.command), &json!("command"), &json!("backend-timeout"))
    );
    assert!(taken.read(&runs).await["terminalStatus"].is_null(), "the run goes on");
    let late = taken.signed(json!({ "commandId": taken.command, "status": "completed" }));
    let refused = runs.refused_to(&taken.caller, "runner.set_command_status", late).await;
    assert_eq!(refused, refusal("schema-invalid", 409), "it ended otherwise");
    let seq = end["seq"].clone();
    runs.run.sweep(runs.now()).await.unwrap();
    assert_eq!(taken.last_event(&runs).await["seq"], seq, "it ends once");
}

#[tokio::test]
async fn a_command_whose_cancel_nobody_confirms_ends_with_the_lease() {
    let runs = TestRuns::open().await;
    let taken = TakenRun::begin(&runs, 7_200_000).await;
    let cancel = json!({ "commandId": taken.command, "reason": "enough" });
    let asked = runs.ok("run.command_cancel", cancel).await["command"].clone();
    assert_eq!((&asked["state"], asked["cancelRequestedAt"].is_string()), (&json!("acknowledged"), true));
    runs.test.world.clock.advance_ms(59_999);
    runs.run.sweep(runs.now()).await.unwrap();
    assert_eq!(taken.read_command(&runs).await["state"], "acknowledged", "its runner has the lease");
    runs.test.world.clock.advance_ms(1);
    runs.run.sweep(runs.now()).await.unwrap();
    let ended = taken.read_command(&runs).await;
    assert_eq!(
        (&ended["state"], &ended["failureKind"], &ended["failureMessage"]),
        (&json!("cancelled"), &json!("cancelled"), &json!("enough"))
    );
    assert!(taken.read(&runs).await["terminalStatus"].is_null(), "only the command was cancelled");
}

/// The loop itself, with the clock an hour back: without a look at everything the run would wait that hour.
#[tokio::test]
async fn after_the_clock_was_set_back_nothing_waits_for_the_old_time() {
    let runs = TestRuns::open().await;
    let taken = TakenRun::begin(&runs, 7_200_000).await;
    runs.ok("run.cancel", json!({ "runId": taken.run })).await;
    let ends = async {
        runs.test.world.clock.advance_ms(-3_600_000);
        // Far less than the hour passes, and more than a lease has.
        while taken.read(&runs).await["status"] != "cancelled" {
            runs.test.world.clock.advance_ms(10_000);
            sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        biased;
        () = runs.run.sweep_due() => unreachable!("it goes on"),
        ended = timeout(Duration::from_secs(20), ends) => ended.expect("it does not wait for the old time"),
    }
    assert_eq!(taken.read_command(&runs).await["state"], "cancelled");
}

#[tokio::test]
async fn a_run_is_removed_after_its_retention_with_everything_that_belongs_to_it() {
    let runs = TestRuns::open().await;
    let (ended, open) = (TakenRun::begin(&runs, 7_200_000).await, TakenRun::begin(&runs, 7_200_000).await);
    let completed = ended.signed(json!({ "commandId": ended.command, "status": "completed" }));
    runs.call(&ended.caller, "runner.set_command_status", completed).await.unwrap();
    let of_run = ended.signed(json!({ "runId": ended.run, "status": "completed" }));
    runs.call(&ended.caller, "runner.set_run_status", of_run).await.unwrap();
    runs.test.world.clock.advance_ms(30 * DAY_MS);
    assert_eq!(runs.run.remove_ended(runs.now()).await.unwrap(), 0, "not before");
    runs.test.world.clock.advance_ms(1);
    assert_eq!(runs.run.remove_ended(runs.now()).await.unwrap(), 1);
    assert_eq!(runs.run.remove_ended(runs.now()).await.unwrap(), 0, "again");
    for (method, params) in [
        ("run.get", json!({ "runId": ended.run })),
        ("run.events", json!({ "runId": ended.run })),
        ("run.result", json!({ "runId": ended.run })),
        ("run.command_get", json!({ "runId": ended.run, "commandId": ended.command })),
    ] {
        assert_eq!(runs.refused(method, params).await, refusal("not-found", 404), "{method}");
    }
    for table in ["run_event", "run_command", "run_runner", "run_job", "run_approval", "run_token"] {
        let text = format!("SELECT COUNT(*) FROM {table} WHERE run_id = '{}'", ended.run);
        let left: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(text))
            .fetch_one(runs.run.store.db().read())
            .await
            .unwrap();
        assert_eq!(left, 0, "{table}");
    }
    assert!(open.read(&runs).await["terminalStatus"].is_null(), "an open run stays, however old");
    let recounted = runs.call(&Caller::Operator, "run.account", json!({ "recount": true })).await.unwrap();
    assert_eq!(recounted["corrected"], 0, "what it kept was given back");
}

#[tokio::test]
async fn a_job_without_a_runner_is_over_after_a_minute() {
    let runs = TestRuns::open().await;
    let run = id(&runs.ok("run.create", new_run(60_000)).await["run"]["runId"]);
    let command = turn(&runs, &run).await;
    let job = json!({ "runId": run, "commandId": command, "launcher": "external" });
    let first = runs.ok("run.runner_job_create", job.clone()).await["runnerJob"].clone();
    let phase = async || {
        let of = json!({ "runId": run, "runnerJobId": first["runnerJobId"] });
        id(&runs.ok("run.runner_job_get", of).await["runnerJob"]["phase"])
    };
    assert_eq!(phase().await, "creating");
    runs.test.world.clock.advance_ms(59_999);
    assert_eq!(phase().await, "creating");
    assert_eq!(runs.refused("run.runner_job_create", job.clone()).await, refusal("job-already-active", 409));
    runs.test.world.clock.advance_ms(1);
    assert_eq!(phase().await, "failed");
    let second = runs.ok("run.runner_job_create", job).await["runnerJob"].clone();
    assert_ne!(second["attemptId"], first["attemptId"]);
    assert_eq!((phase().await, &second["phase"]), ("failed".to_owned(), &json!("creating")));
}

fn folder(runs: &TestRuns, session: &str) -> PathBuf {
    runs.test.world.data.join(format!("sessions/agentrun-v01-session-{session}"))
}

#[tokio::test]
async fn without_its_folder_or_with_too_much_in_it_a_session_gets_no_runner() {
    let runs = TestRuns::with(Settings { session_bytes: 1000, ..Settings::default() }).await;
    let session = runs.session().await;
    let mut new = new_run(60_000);
    new["sessionRef"] = json!({ "sessionId": session });
    let run = id(&runs.ok("run.create", new).await["run"]["runId"]);
    let command = turn(&runs, &run).await;
    let job = json!({ "runId": run, "commandId": command, "launcher": "external" });
    let folder = folder(&runs, &session);

    std::fs::write(folder.join("big"), [0; 1001]).unwrap();
    let error = runs.call(&hwlab(), "run.runner_job_create", job.clone()).await.unwrap_err();
    assert_eq!(
        (error.http_status().as_u16(), error.data("failureKind")),
        (409, Some(&json!("infra-failed")))
    );
    assert!(error.to_string().contains("session storage is over its quota"), "{error}");

    std::fs::remove_dir_all(&folder).unwrap();
    let storage = runs.ok("session.storage", json!({ "sessionId": session })).await;
    assert_eq!((&storage["storageKind"], &storage["pvcPhase"]), (&json!("pvc"), &json!("Lost")));
    let refused = runs.refused("run.runner_job_create", job.clone()).await;
    assert_eq!(refused, refusal("session-store-evicted", 409), "nobody evicted it, and it is not there");
    let jobs = runs.ok("run.runner_jobs", json!({ "runId": run })).await;
    assert_eq!(jobs["runnerJobs"], json!([]), "no job was made");

    // It is not measured again for a minute.
    std::fs::create_dir(&folder).unwrap();
    let error = runs.refused("run.runner_job_create", job.clone()).await;
    assert_eq!(error, refusal("infra-failed", 409));
    runs.test.world.clock.advance_ms(60_000);
    runs.ok("run.runner_job_create", job).await;
}

#[tokio::test]
async fn expired_storage_is_collected_without_being_asked() {
    let runs = TestRuns::with(Settings { session_gc_interval_ms: 10, ..Settings::default() }).await;
    let session = runs.session().await;
    let folder = folder(&runs, &session);
    let collected = async {
        sleep(Duration::from_millis(100)).await;
        assert!(folder.exists(), "it has not expired");
        runs.test.world.clock.advance_ms(30 * DAY_MS);
        while folder.exists() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = runs.run.collect_storage_always() => unreachable!("it goes on"),
        done = timeout(Duration::from_secs(20), collected) => done.expect("it is collected"),
    }
    let storage = runs.ok("session.storage", json!({ "sessionId": session })).await;
    assert_eq!((&storage["storageKind"], storage["storageEvictedAt"].is_string()), (&json!("evicted"), true));
}
