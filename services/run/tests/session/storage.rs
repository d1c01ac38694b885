//! Storage of sessions.

use crate::tests::support::{TestRun, TestRuns, admin, hwlab, refusal, runner};
use serde_json::{Value, json};
use std::path::PathBuf;
use testing::DAY_MS;

fn folder(runs: &TestRuns, id: &str) -> PathBuf {
    runs.test.world.data.join(format!("sessions/agentrun-v01-session-{id}"))
}

fn report(id: &str) -> Value {
    json!({
        "sessionId": id, "runnerId": "runner_1", "epoch": 3, "sizeBytes": 46_210, "filesCount": 12, "sha256": "a1".repeat(32),
    })
}

#[tokio::test]
async fn the_runner_with_the_lease_reports_what_is_stored() {
    let runs = TestRuns::open().await;
    let id = runs.session().await;
    let bound = runs.ok("session.storage", json!({ "sessionId": id })).await;
    assert_eq!((&bound["pvcPhase"], &bound["storageSizeBytes"]), (&json!("Bound"), &json!(null)));
    let own = runner("run_1", "attempt_1");
    assert_eq!(
        runs.refused_to(&own, "session.refresh_storage", report(&id)).await,
        refusal("forbidden", 403)
    );
    let until = runs.now() + 60_000;
    runs.insert_run(&TestRun { session: Some(&id), leased_until: Some(until), ..TestRun::NEW }).await;

    let stored = runs.call(&own, "session.refresh_storage", report(&id)).await.unwrap();
    assert_eq!((&stored["storageSizeBytes"], &stored["storage_files_count"]), (&json!(46_210), &json!(12)));
    assert_eq!((&stored["storageSha256"], &stored["storage_kind"]), (&json!("a1".repeat(32)), &json!("pvc")));
    assert_eq!(runs.ok("session.storage", json!({ "sessionId": id })).await, stored);

    let with = |member: &str, value: Value| {
        let mut params = report(&id);
        params[member] = value;
        params
    };
    for (caller, params) in [
        (own.clone(), with("epoch", json!(2))),
        (own.clone(), with("runnerId", json!("runner_2"))),
        (runner("run_1", "attempt_2"), report(&id)),
    ] {
        let error = runs.call(&caller, "session.refresh_storage", params).await.unwrap_err();
        assert_eq!(error.data("failureKind"), Some(&json!("runner-lease-conflict")), "{error}");
        assert_eq!(error.data("ownerRunnerId"), Some(&json!("runner_1")));
    }
    let other = runner("run_2", "attempt_1");
    assert_eq!(
        runs.refused_to(&other, "session.refresh_storage", report(&id)).await,
        refusal("forbidden", 403)
    );
    for bad in [with("sizeBytes", json!(-1)), with("sha256", json!("A1"))] {
        let refused = runs.refused_to(&own, "session.refresh_storage", bad).await;
        assert_eq!(refused, refusal("schema-invalid", 400));
    }
    assert!(runs.call(&hwlab(), "session.refresh_storage", report(&id)).await.is_err());
    runs.test.inside("session.refresh_storage", with("epoch", json!(0))).await;
}

#[tokio::test]
async fn storage_that_is_deleted_is_gone() {
    let runs = TestRuns::open().await;
    let id = runs.session().await;
    std::fs::write(folder(&runs, &id).join("file"), "x").unwrap();
    let deleted = runs.ok("session.delete_storage", json!({ "sessionId": id })).await;
    assert_eq!((&deleted["storageKind"], &deleted["pvcPhase"]), (&json!("evicted"), &json!("Lost")));
    assert_eq!(deleted["storageEvictedAt"], "2026-11-15T00:16:01.000Z");
    assert!(!folder(&runs, &id).exists());
    runs.test.world.clock.advance_ms(1000);
    assert_eq!(runs.ok("session.delete_storage", json!({ "sessionId": id })).await, deleted, "again");
    let got = runs.ok("session.get", json!({ "sessionId": id })).await;
    assert_eq!(got["session"]["storageKind"], "evicted");
}

#[tokio::test]
async fn storage_in_which_a_runner_works_is_removed_after_its_lease() {
    let runs = TestRuns::open().await;
    let id = runs.session().await;
    let until = runs.now() + 90_000;
    runs.insert_run(&TestRun { session: Some(&id), leased_until: Some(until), ..TestRun::NEW }).await;
    let deleted = runs.ok("session.delete_storage", json!({ "sessionId": id })).await;
    assert_eq!(deleted["storageKind"], "evicted");
    runs.run.remove_evicted().await.unwrap();
    assert!(folder(&runs, &id).exists(), "the runner works in it");
    let own = runner("run_1", "attempt_1");
    let refused = runs.refused_to(&own, "session.refresh_storage", report(&id)).await;
    assert_eq!(refused, refusal("session-store-evicted", 409));

    runs.test.world.clock.advance_ms(90_000);
    runs.run.remove_evicted().await.unwrap();
    assert!(!folder(&runs, &id).exists());
    runs.run.remove_evicted().await.unwrap();
}

#[tokio::test]
async fn sessions_that_have_expired_and_have_no_active_run_lose_their_storage() {
    let runs = TestRuns::open().await;
    let (idle, active) = (runs.session().await, runs.session().await);
    runs.insert_run(&TestRun { session: Some(&active), ..TestRun::NEW }).await;
    assert_eq!(runs.run.collect_expired().await.unwrap(), 0);
    runs.test.world.clock.advance_ms(30 * DAY_MS - 1);
    assert_eq!(runs.run.collect_expired().await.unwrap(), 0);
    runs.test.world.clock.advance_ms(1);
    let collected = runs.call(&admin(), "session.collect_storage", json!({})).await.unwrap();
    assert_eq!(collected["evicted"], 1);
    assert!(!folder(&runs, &idle).exists() && folder(&runs, &active).exists());
    let storage = runs.ok("session.storage", json!({ "sessionId": idle })).await;
    assert_eq!(storage["storageKind"], "evicted");
    assert_eq!(runs.run.collect_expired().await.unwrap(), 0, "again");
    runs.sql("UPDATE run_session SET active_run = NULL").await;
    assert_eq!(runs.run.collect_expired().await.unwrap(), 1);
    assert!(!folder(&runs, &active).exists());
    assert!(runs.call(&hwlab(), "session.collect_storage", json!({})).await.is_err());
}
