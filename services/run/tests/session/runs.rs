//! Runs of sessions: what one leaves to the next, and the storage that they share.

use crate::Settings;
use crate::store::ReportingLease;
use crate::tests::support::{TestRun, TestRuns, admin, hwlab, refusal, runner};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use serde_json::{Value, json};
use std::path::PathBuf;
use testing::DAY_MS;

/// A key as providers give them.
const SECRET: &str = "sk-Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2Yz3Ab4Cd5";
const GIB: i64 = 1 << 30;

fn id(value: &Value) -> String {
    value.as_str().expect("an id").to_owned()
}

fn folder(runs: &TestRuns, session: &str) -> PathBuf {
    runs.test.world.data.join(format!("sessions/agentrun-v01-session-{session}"))
}

/// A run with a turn, and a runner for it that a test plays.
struct ScriptedRun {
    run: String,
    command: String,
    attempt: String,
    runner: String,
    epoch: i64,
}

impl ScriptedRun {
    async fn begin(runs: &TestRuns, session: Option<&str>) -> ScriptedRun {
        let new = json!({
            "tenantId": "hwlab", "projectId": "acme/site", "workspaceRef": {}, "providerId": "G14",
            "backendProfile": "example", "traceSink": null,
            "sessionRef": session.map(|session| json!({ "sessionId": session })),
        });
        let run = id(&runs.ok("run.create", new).await["run"]["runId"]);
        let mut played = ScriptedRun {
            run,
            command: String::new(),
            attempt: String::new(),
            runner: String::new(),
            epoch: 0,
        };
        played.turn(runs).await;
        played
    }

    async fn turn(&mut self, runs: &TestRuns) {
        let turn = json!({ "runId": self.run, "type": "turn", "payload": { "prompt": "x" } });
        self.command = id(&runs.ok("run.command_create", turn).await["command"]["commandId"]);
    }

    fn job(&self) -> Value {
        json!({ "runId": self.run, "commandId": self.command, "launcher": "external" })
    }

    async fn ask(&self, runs: &TestRuns, method: &str, mut params: Value) -> Value {
        params["runId"] = json!(self.run);
        params["runnerId"] = json!(self.runner);
        params["epoch"] = json!(self.epoch);
        let answered = runs.call(&runner(&self.run, &self.attempt), method, params).await;
        answered.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Starts a runner, which takes the lease and the command; gives what its claim was answered.
    async fn start(&mut self, runs: &TestRuns) -> Value {
        let job = runs.ok("run.runner_job_create", self.job()).await["runnerJob"].clone();
        self.attempt = id(&job["attemptId"]);
        let register = json!({ "backendProfile": "example", "placement": "host-process" });
        let registered = runs.call(&runner(&self.run, &self.attempt), "runner.register", register).await;
        self.runner = id(&registered.expect("it registers")["runnerId"]);
        let claimed = self.ask(runs, "runner.claim", json!({ "attemptId": self.attempt })).await;
        self.epoch = claimed["lease"]["epoch"].as_i64().expect("a number");
        self.ask(runs, "runner.acknowledge", json!({ "commandId": self.command })).await;
        claimed
    }

    /// Ends its command with this state of the session.
    async fn complete(&self, runs: &TestRuns, state: Value) {
        let params = json!({ "commandId": self.command, "status": "completed", "sessionRef": state });
        self.ask(runs, "runner.set_command_status", params).await;
    }

    async fn release(&self, runs: &TestRuns) {
        let released = self.ask(runs, "runner.heartbeat", json!({ "release": true })).await;
        assert_eq!(released["released"], true);
    }

    async fn report(&self, runs: &TestRuns, session: &str, bytes: i64) {
        let params = json!({ "sessionId": session, "sizeBytes": bytes, "filesCount": 1 });
        self.ask(runs, "session.refresh_storage", params).await;
    }

    fn lease(&self) -> ReportingLease {
        ReportingLease { run: self.run.clone(), runner: self.runner.clone(), epoch: self.epoch }
    }
}

async fn stored_bytes(runs: &TestRuns, session: &str) -> Value {
    runs.ok("session.storage", json!({ "sessionId": session })).await["storageSizeBytes"].clone()
}

#[tokio::test]
async fn what_a_runner_leaves_for_the_thread_reaches_the_next_one_without_secrets() {
    let runs = TestRuns::open().await;
    let session = runs.session().await;
    let mut first = ScriptedRun::begin(&runs, Some(&session)).await;
    let claimed = first.start(&runs).await;
    assert!(claimed.get("sessionState").is_none(), "{claimed}");
    let long = json!({
        "commandId": first.command, "status": "completed", "sessionRef": { "x": "x".repeat(16 << 10) },
        "runnerId": first.runner, "epoch": first.epoch,
    });
    let own = runner(&first.run, &first.attempt);
    let refused = runs.refused_to(&own, "runner.set_command_status", long).await;
    assert_eq!(refused, refusal("payload-too-large", 413));
    let state = json!({ "threadId": "t-1", "note": SECRET, "token": "plain words", "n": [7, null] });
    first.complete(&runs, state).await;
    let kept = json!({ "threadId": "t-1", "note": "[redacted]", "token": "[redacted]", "n": [7, null] });
    let stored: String = sqlx::query_scalar("SELECT back_end FROM run_session")
        .fetch_one(runs.run.store.db().read())
        .await
        .unwrap();
    assert_eq!(serde_json::from_str::<Value>(&stored).unwrap(), kept);

    first.release(&runs).await;
    first.turn(&runs).await;
    assert_eq!(first.start(&runs).await["sessionState"], kept, "a replacement");
    first.complete(&runs, json!(null)).await;
    first.release(&runs).await;
    runs.ok("run.cancel", json!({ "runId": first.run })).await;
    let mut second = ScriptedRun::begin(&runs, Some(&session)).await;
    assert_eq!(second.start(&runs).await["sessionState"], kept, "the next run");
    let mut alone = ScriptedRun::begin(&runs, None).await;
    assert!(alone.start(&runs).await.get("sessionState").is_none());
    let got = runs.ok("session.get", json!({ "sessionId": session })).await;
    assert!(!got.to_string().contains("t-1"), "it is for runners: {got}");
}

#[tokio::test]
async fn what_a_runner_reports_of_its_storage_stays_while_the_folder_here_is_empty() {
    let runs = TestRuns::open().await;
    let session = runs.session().await;
    let mut played = ScriptedRun::begin(&runs, Some(&session)).await;
    played.start(&runs).await;
    played.report(&runs, &session, 2 * GIB).await;
    played.complete(&runs, json!(null)).await;
    runs.run.measured(&session, Some(&played.lease())).await.unwrap();
    assert_eq!(stored_bytes(&runs, &session).await, json!(2 * GIB));

    // The quota is that of the report.
    played.release(&runs).await;
    played.turn(&runs).await;
    for wait_ms in [0, 600_000] {
        runs.test.world.clock.advance_ms(wait_ms);
        let refused = runs.call(&hwlab(), "run.runner_job_create", played.job()).await.unwrap_err();
        assert_eq!(refused.data("failureKind"), Some(&json!("infra-failed")), "{refused}");
        assert!(refused.to_string().contains("over its quota"), "{refused}");
        assert_eq!(stored_bytes(&runs, &session).await, json!(2 * GIB));
    }

    // A runner that works here, and reports nothing, is measured.
    let next = ReportingLease { epoch: played.epoch + 1, ..played.lease() };
    runs.run.measured(&session, Some(&next)).await.unwrap();
    assert_eq!(stored_bytes(&runs, &session).await, json!(2 * GIB), "nothing is here");
    std::fs::write(folder(&runs, &session).join("file"), [0; 9]).unwrap();
    runs.run.measured(&session, None).await.unwrap();
    runs.run.measured(&session, Some(&played.lease())).await.unwrap();
    assert_eq!(stored_bytes(&runs, &session).await, json!(2 * GIB), "it was reported under this lease");
    runs.run.measured(&session, Some(&next)).await.unwrap();
    assert_eq!(stored_bytes(&runs, &session).await, json!(9));
    runs.ok("run.runner_job_create", played.job()).await;
}

#[tokio::test]
async fn storage_is_measured_when_nothing_else_refuses_a_runner() {
    let runs = TestRuns::open().await;
    let session = runs.session().await;
    let played = ScriptedRun::begin(&runs, Some(&session)).await;
    std::fs::write(folder(&runs, &session).join("file"), [0; 9]).unwrap();
    let with = |member: &str, value: &str| {
        let mut job = played.job();
        job[member] = json!(value);
        job
    };
    let unknown = with("commandId", "cmd_unknown");
    assert_eq!(runs.refused("run.runner_job_create", unknown).await, refusal("not-found", 404));
    assert_eq!(stored_bytes(&runs, &session).await, json!(null), "nothing was measured");
    let job = with("idempotencyKey", "once");
    runs.ok("run.runner_job_create", job.clone()).await;
    assert_eq!(stored_bytes(&runs, &session).await, json!(9));

    std::fs::write(folder(&runs, &session).join("more"), [0; 9]).unwrap();
    runs.test.world.clock.advance_ms(50_000);
    assert_eq!(runs.ok("run.runner_job_create", job.clone()).await["created"], false, "a repetition");
    let active = runs.refused("run.runner_job_create", played.job()).await;
    assert_eq!(active, refusal("job-already-active", 409));
    runs.test.world.clock.advance_ms(9_999);
    runs.sql("UPDATE run_job SET ended_at = 1").await;
    runs.ok("run.runner_job_create", played.job()).await;
    assert_eq!(stored_bytes(&runs, &session).await, json!(9), "it was measured a moment ago");
    runs.test.world.clock.advance_ms(60_001);
    runs.ok("run.runner_job_create", played.job()).await;
    assert_eq!(stored_bytes(&runs, &session).await, json!(18));
}

#[tokio::test]
async fn storage_that_is_too_much_to_be_measured_is_over_the_quota_and_can_be_deleted() {
    let runs = TestRuns::open().await;
    let session = runs.session().await;
    let played = ScriptedRun::begin(&runs, Some(&session)).await;
    let open = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = openat(CWD, folder(&runs, &session), open, Mode::empty()).unwrap();
    for _ in 0..4500 {
        mkdirat(&at, "deep.er", Mode::RWXU).unwrap();
        at = openat(&at, "deep.er", open, Mode::empty()).unwrap();
    }
    for _ in 0..2 {
        let refused = runs.call(&hwlab(), "run.runner_job_create", played.job()).await.unwrap_err();
        assert!(refused.to_string().contains("over its quota"), "{refused}");
    }
    let deleted = runs.ok("session.delete_storage", json!({ "sessionId": session })).await;
    assert_eq!((&deleted["storageKind"], &deleted["pvcPhase"]), (&json!("evicted"), &json!("Lost")));
    assert!(!folder(&runs, &session).exists());
}

#[tokio::test]
async fn the_removal_of_folders_goes_on_where_it_ended() {
    let runs = TestRuns::open().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(runs.session().await);
    }
    ids.sort();
    runs.sql("UPDATE run_session SET storage_kind = 'evicted', evicted_at = 1").await;
    let there = || ids.iter().map(|session| folder(&runs, session).exists()).collect::<Vec<_>>();
    runs.run.storage.go_on_after(&ids[1]);
    runs.run.remove_evicted().await.unwrap();
    assert_eq!(there(), [true, true, false]);
    runs.run.remove_evicted().await.unwrap();
    assert_eq!(there(), [false, false, false]);
}

#[tokio::test]
async fn a_tenant_has_a_number_of_sessions_and_those_without_storage_do_not_count() {
    let runs = TestRuns::with(Settings { sessions: 2, ..Settings::default() }).await;
    let new = || json!({ "tenantId": "hwlab", "projectId": "acme/site", "backendProfile": "example" });
    let first = runs.session().await;
    runs.session().await;
    let refused = runs.call(&hwlab(), "session.create", new()).await.unwrap_err();
    let said = |name: &str| refused.data(name).cloned().unwrap_or_default();
    assert_eq!((refused.http_status().as_u16(), said("scope")), (429, json!("run.sessions")), "{refused}");
    assert_eq!((said("limit"), said("held"), said("retryable")), (json!(2), json!(2), json!(false)));
    assert_eq!(std::fs::read_dir(runs.test.world.data.join("sessions")).unwrap().count(), 2);
    let mut other = new();
    other["tenantId"] = json!("unidesk");
    runs.call(&admin(), "session.create", other).await.unwrap();
    runs.ok("session.delete_storage", json!({ "sessionId": first })).await;
    runs.ok("session.create", new()).await;
}

#[tokio::test]
async fn an_evicted_session_is_removed_after_the_retention_and_its_last_run() {
    let runs = TestRuns::open().await;
    let kept = async || {
        serde_json::to_value(runs.run.store.account.list(Default::default()).await.unwrap()).unwrap()
    };
    runs.session().await;
    let before = kept().await;
    let (idle, used) = (runs.session().await, runs.session().await);
    for session in [&idle, &used] {
        runs.end_a_command(session).await;
        runs.ok("session.read", json!({ "sessionId": session, "readerId": "phone" })).await;
        runs.ok("session.delete_storage", json!({ "sessionId": session })).await;
    }
    runs.insert_run(&TestRun { session: Some(&used), ..TestRun::NEW }).await;
    runs.test.world.clock.advance_ms(30 * DAY_MS);
    assert_eq!(runs.run.remove_over().await.unwrap(), 0);
    runs.test.world.clock.advance_ms(1);
    let collected = runs.call(&admin(), "session.collect_storage", json!({})).await;
    collected.expect("an administrator may collect");
    let get = |session: &str| json!({ "sessionId": session });
    assert_eq!(runs.refused("session.get", get(&idle)).await, refusal("not-found", 404));
    runs.ok("session.get", get(&used)).await;
    runs.sql("UPDATE run_session SET active_run = NULL").await;
    runs.sql("UPDATE run SET ended_at = 1").await;
    assert_eq!(runs.run.remove_over().await.unwrap(), 0, "its run is there");
    runs.sql("DELETE FROM run").await;
    assert_eq!(runs.run.remove_over().await.unwrap(), 1);
    assert_eq!(runs.refused("session.read", get(&used)).await, refusal("not-found", 404));
    let readers: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM run_session_reader")
        .fetch_one(runs.run.store.db().read())
        .await
        .unwrap();
    assert_eq!((readers, kept().await), (0, before), "nobody pays for them any more");
}

#[tokio::test]
async fn a_session_shows_who_works_on_its_run() {
    let runs = TestRuns::open().await;
    let session = runs.session().await;
    let got = async || runs.ok("session.get", json!({ "sessionId": session })).await["session"].clone();
    assert!(got().await.get("supervisor").is_none(), "without a run");
    let mut played = ScriptedRun::begin(&runs, Some(&session)).await;
    let seen = got().await;
    let nobody = json!({
        "runId": played.run, "runnerJobId": null, "jobPhase": null, "runnerId": null, "attemptId": null,
        "leaseExpiresAt": null, "leaseExpired": null, "heartbeatAgeMs": null, "recovery": ["launch-runner"],
    });
    assert_eq!(seen["supervisor"], nobody);
    played.start(&runs).await;
    runs.test.world.clock.advance_ms(1000);
    let (seen, job) = (got().await, runs.ok("run.runner_jobs", json!({ "runId": played.run })).await);
    let supervisor = &seen["supervisor"];
    assert_eq!(supervisor["runnerJobId"], job["runnerJobs"][0]["runnerJobId"]);
    assert_eq!(
        (&supervisor["runnerId"], &supervisor["attemptId"], &supervisor["jobPhase"]),
        (&json!(played.runner), &json!(played.attempt), &json!("running"))
    );
    assert_eq!((&supervisor["leaseExpired"], &supervisor["heartbeatAgeMs"]), (&json!(false), &json!(1000)));
    assert_eq!(supervisor["leaseExpiresAt"], seen["liveness"]["lease"]["expiresAt"]);
    assert_eq!(supervisor["recovery"], json!(["wait"]));
    runs.test.world.clock.advance_ms(600_000);
    let seen = got().await;
    assert_eq!(
        (&seen["supervisor"]["leaseExpired"], &seen["supervisor"]["recovery"]),
        (&json!(true), &json!(["replace-runner"]))
    );
}
