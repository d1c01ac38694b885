//! Validations of profiles, with runners that a test plays: how they end, and their runs with them.

use super::support::{TestRuns, admin, refusal, runner};
use crate::store::{ValidationEnd, ValidationRow};
use kernel::Caller;
use serde_json::{Value, json};

const ATTEMPT: &str = "attempt_1";
const LAST: i64 = 180_000;

fn id(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

async fn store(runs: &TestRuns, row: &ValidationRow) {
    let store = &runs.run.store;
    let mut tx = store.db().begin().await.unwrap();
    store.insert_validation(&mut tx, row).await.unwrap();
    store.db().commit(tx).await.unwrap();
}

/// A validation whose run is not there.
fn without_run(runs: &TestRuns, id: &str, profile: &str) -> ValidationRow {
    ValidationRow {
        id: id.to_owned(),
        profile: profile.to_owned(),
        run_id: "run_gone".to_owned(),
        command_id: "cmd_gone".to_owned(),
        job_id: "rjob_gone".to_owned(),
        failed: 0,
        failure_kind: None,
        created_at: runs.now(),
        ended_at: None,
    }
}

async fn end(runs: &TestRuns, id: &str, failure: Option<&str>) {
    let end = ValidationEnd { failed: failure.is_some(), failure_kind: failure.map(str::to_owned) };
    runs.run.store.end_validation(id, &end, runs.now()).await.unwrap();
}

/// A validation of the profile `example` whose runner is not there yet.
struct OpenValidation {
    row: ValidationRow,
}

impl OpenValidation {
    async fn begin(runs: &TestRuns) -> OpenValidation {
        let new = json!({
            "tenantId": "hwlab", "projectId": "profile-validation", "workspaceRef": {}, "providerId": "local",
            "backendProfile": "example", "traceSink": null, "executionPolicy": { "timeoutMs": 120_000 },
        });
        let run_id = id(&runs.ok("run.create", new).await["run"]["runId"]);
        let turn = json!({ "runId": run_id, "type": "turn", "payload": { "prompt": "x" } });
        let command_id = id(&runs.ok("run.command_create", turn).await["command"]["commandId"]);
        let job = json!({
            "runId": run_id, "commandId": command_id, "launcher": "external", "attemptId": ATTEMPT,
        });
        let job_id = id(&runs.ok("run.runner_job_create", job).await["runnerJob"]["runnerJobId"]);
        let row = ValidationRow { run_id, command_id, job_id, ..without_run(runs, "val_1", "example") };
        store(runs, &row).await;
        OpenValidation { row }
    }

    async fn ask(&self, runs: &TestRuns, method: &str, params: Value) -> Value {
        let answered = runs.call(&runner(&self.row.run_id, ATTEMPT), method, params).await;
        answered.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// A runner takes its turn; gives the runner.
    async fn take(&self, runs: &TestRuns) -> String {
        let register = json!({ "backendProfile": "example", "placement": "host-process" });
        let runner = id(&self.ask(runs, "runner.register", register).await["runnerId"]);
        let claim = json!({
            "runId": self.row.run_id, "runnerId": runner, "attemptId": ATTEMPT, "leaseMs": 60_000,
        });
        self.ask(runs, "runner.claim", claim).await;
        let taken = json!({ "commandId": self.row.command_id, "runnerId": runner, "epoch": 1 });
        self.ask(runs, "runner.acknowledge", taken).await;
        runner
    }

    async fn report(&self, runs: &TestRuns, runner: &str, mut report: Value) {
        report["commandId"] = json!(self.row.command_id);
        (report["runnerId"], report["epoch"]) = (json!(runner), json!(1));
        self.ask(runs, "runner.set_command_status", report).await;
    }

    async fn read(&self, runs: &TestRuns) -> Value {
        let of = json!({ "profile": self.row.profile, "validationId": self.row.id });
        runs.call(&admin(), "profile.validation_get", of).await.unwrap()
    }

    async fn run_status(&self, runs: &TestRuns) -> Value {
        runs.ok("run.get", json!({ "runId": self.row.run_id })).await["run"]["status"].clone()
    }

    /// That it has ended like this, stays so, and has no open run.
    async fn assert_ended(&self, runs: &TestRuns, status: &str, failure: Option<&str>) -> Value {
        let ended = self.read(runs).await;
        assert_eq!((&ended["status"], &ended["failureKind"]), (&json!(status), &json!(failure)), "{ended}");
        assert_eq!(self.run_status(runs).await, "cancelled");
        assert_eq!(self.read(runs).await, ended);
        ended
    }
}

async fn last_of(runs: &TestRuns, profile: &str) -> Value {
    let got = runs.ok("profile.get", json!({ "profile": profile })).await["profile"].clone();
    let listed = runs.ok("profile.list", json!({})).await["profiles"].clone();
    let listed = listed.as_array().unwrap().iter().find(|one| one["profile"] == profile).unwrap();
    assert_eq!(*listed, got);
    got["lastValidation"].clone()
}

#[tokio::test]
async fn a_validation_passes_with_its_turn_and_then_its_run_is_cancelled() {
    let runs = TestRuns::open().await;
    assert_eq!(last_of(&runs, "example").await, json!(null));
    let validation = OpenValidation::begin(&runs).await;
    let runner = validation.take(&runs).await;
    let running = validation.read(&runs).await;
    assert_eq!((&running["status"], &running["endedAt"]), (&json!("running"), &json!(null)));
    let last = json!({
        "validationId": "val_1", "status": "running", "failureKind": null, "at": running["createdAt"],
    });
    assert_eq!(last_of(&runs, "example").await, last);
    assert_ne!(validation.run_status(&runs).await, "cancelled");

    runs.test.world.clock.advance_ms(5);
    validation.report(&runs, &runner, json!({ "status": "completed" })).await;
    let ended = validation.assert_ended(&runs, "passed", None).await;
    for (member, value) in [
        ("runId", &validation.row.run_id),
        ("commandId", &validation.row.command_id),
        ("runnerJobId", &validation.row.job_id),
    ] {
        assert_eq!(ended[member], value.as_str(), "{member}");
    }
    let last = json!({
        "validationId": "val_1", "status": "passed", "failureKind": null, "at": ended["endedAt"],
    });
    assert_eq!(last_of(&runs, "example").await, last);
    let other = json!({ "profile": "codex", "validationId": "val_1" });
    let refused = runs.refused_to(&admin(), "profile.validation_get", other).await;
    assert_eq!(refused, refusal("not-found", 404), "it is of another profile");
}

#[tokio::test]
async fn a_validation_fails_as_its_turn_does() {
    for status in ["failed", "blocked"] {
        let runs = TestRuns::open().await;
        let validation = OpenValidation::begin(&runs).await;
        let runner = validation.take(&runs).await;
        let report =
            json!({ "status": status, "failureKind": "provider-auth-failed", "failureMessage": "no" });
        validation.report(&runs, &runner, report).await;
        validation.assert_ended(&runs, "failed", Some("provider-auth-failed")).await;
    }
}

#[tokio::test]
async fn without_a_runner_a_validation_has_failed() {
    let runs = TestRuns::open().await;
    let validation = OpenValidation::begin(&runs).await;
    runs.sql("UPDATE run_job SET ended_at = 1, failed = 1").await;
    validation.assert_ended(&runs, "failed", Some("infra-failed")).await;

    // With one that has taken the turn before, and whose lease is over.
    let runs = TestRuns::open().await;
    let validation = OpenValidation::begin(&runs).await;
    validation.take(&runs).await;
    runs.sql("UPDATE run_job SET ended_at = 1, failed = 1").await;
    assert_eq!(validation.read(&runs).await["status"], "running", "somebody may go on with its lease");
    runs.test.world.clock.advance_ms(60_000);
    validation.assert_ended(&runs, "failed", Some("infra-failed")).await;
}

#[tokio::test]
async fn nobody_waits_longer_than_three_minutes() {
    for (is_taken, failure) in [(false, "infra-failed"), (true, "backend-timeout")] {
        let runs = TestRuns::open().await;
        let validation = OpenValidation::begin(&runs).await;
        if is_taken {
            validation.take(&runs).await;
        }
        runs.test.world.clock.advance_ms(LAST - 1);
        runs.run.settle_validations().await.unwrap();
        assert_eq!(last_of(&runs, "example").await["status"], "running");
        runs.test.world.clock.advance_ms(1);
        runs.run.settle_validations().await.unwrap();
        assert_eq!(validation.run_status(&runs).await, "cancelled", "without being asked");
        assert_eq!(last_of(&runs, "example").await["failureKind"], failure);
        validation.assert_ended(&runs, "failed", Some(failure)).await;
    }
}

#[tokio::test]
async fn a_run_that_was_left_open_is_cancelled_later() {
    let runs = TestRuns::open().await;
    let validation = OpenValidation::begin(&runs).await;
    // The server ended in between.
    end(&runs, "val_1", None).await;
    runs.run.settle_validations().await.unwrap();
    assert_eq!(validation.run_status(&runs).await, "cancelled");
    validation.assert_ended(&runs, "passed", None).await;
}

#[tokio::test]
async fn a_run_whose_validation_was_never_stored_is_cancelled_later() {
    let runs = TestRuns::open().await;
    let status = async |run: &str| runs.ok("run.get", json!({ "runId": run })).await["run"]["status"].clone();
    // The server ended before it had stored the validation.
    let lost = runs.run.run_of_validation("example", "val_lost").unwrap();
    let lost = runs.run.clone().create(Caller::Operator, lost).await.unwrap().run.run_id;
    let stored = runs.run.run_of_validation("example", "val_1").unwrap();
    let stored = runs.run.clone().create(Caller::Operator, stored).await.unwrap().run.run_id;
    store(&runs, &ValidationRow { run_id: stored.clone(), ..without_run(&runs, "val_1", "example") }).await;
    // One that a client has created may look alike.
    let of_client = json!({
        "tenantId": "hwlab", "projectId": "profile-validation", "workspaceRef": {}, "providerId": "local",
        "backendProfile": "example", "traceSink": null, "idempotencyKey": "validation",
    });
    let of_client = id(&runs.ok("run.create", of_client).await["run"]["runId"]);

    runs.test.world.clock.advance_ms(LAST);
    runs.run.settle_validations().await.unwrap();
    assert_eq!(status(&lost).await, "pending", "it may still be stored");
    runs.test.world.clock.advance_ms(1);
    runs.run.settle_validations().await.unwrap();
    assert_eq!(status(&lost).await, "cancelled");
    for other in [&stored, &of_client] {
        assert_eq!(status(other).await, "pending");
    }
}

#[tokio::test]
async fn the_last_twenty_of_a_profile_are_stored_and_those_that_go_on() {
    let runs = TestRuns::open().await;
    store(&runs, &without_run(&runs, "val_00", "example")).await;
    for number in 1..25 {
        let validation = format!("val_{number:02}");
        store(&runs, &without_run(&runs, &validation, "example")).await;
        end(&runs, &validation, Some("backend-failed")).await;
    }
    store(&runs, &without_run(&runs, "val_99", "codex")).await;
    let text = "SELECT id FROM run_validation WHERE profile = 'example' ORDER BY id";
    let stored: Vec<String> = sqlx::query_scalar(text).fetch_all(runs.run.store.db().read()).await.unwrap();
    let expected = [0].into_iter().chain(5..25).map(|number: i64| format!("val_{number:02}"));
    assert_eq!(stored, expected.collect::<Vec<_>>());
    assert_eq!(last_of(&runs, "example").await["validationId"], "val_24");
    assert_eq!(last_of(&runs, "codex").await["validationId"], "val_99");

    // One that goes on, and whose run is gone, says nothing any more.
    for validation in ["val_00", "val_01"] {
        let of = json!({ "profile": "example", "validationId": validation });
        let refused = runs.refused_to(&admin(), "profile.validation_get", of).await;
        assert_eq!(refused, refusal("not-found", 404), "{validation}");
    }
    let of = json!({ "profile": "example", "validationId": "val_05" });
    let read = runs.call(&admin(), "profile.validation_get", of).await.unwrap();
    assert_eq!(read["failureKind"], "backend-failed", "its end is stored: {read}");
}

#[tokio::test]
async fn validations_are_removed_with_the_credential() {
    let runs = TestRuns::open().await;
    let credential = json!({ "profile": "my-own", "apiKey": "a-key" });
    runs.call(&admin(), "profile.set_credential", credential).await.unwrap();
    store(&runs, &without_run(&runs, "val_1", "my-own")).await;
    end(&runs, "val_1", None).await;
    assert_eq!(last_of(&runs, "my-own").await["status"], "passed");
    let mine = json!({ "profile": "my-own" });
    let deleted = runs.call(&admin(), "profile.delete", mine).await.unwrap();
    assert_eq!(deleted["profile"]["lastValidation"], json!(null));
    let of = json!({ "profile": "my-own", "validationId": "val_1" });
    let refused = runs.refused_to(&admin(), "profile.validation_get", of).await;
    assert_eq!(refused, refusal("not-found", 404));
}
