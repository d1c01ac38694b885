//! A store that is away: runners and back ends are told to retry, nothing half-done stays, and nothing that was acknowledged is lost.

use std::fs;

use serde_json::{Value, json};

use super::client::{ManagerAnswer, SETTINGS, TestApi, TestManager, assert_contiguous, number, said};
use crate::support::blocker::Blocker;
use crate::support::database::TestDatabase;
use crate::support::{TestServer, on_sqlite, split, until};

/// The refusal of somebody who shall ask again.
fn assert_retryable(answer: &ManagerAnswer, status: u16) {
    assert_eq!((answer.status, answer.failure_kind()), (status, "infra-failed"), "{}", answer.body);
    assert_eq!(answer.body["details"]["retryable"], true, "{}", answer.body);
    for word in ["sqlite", "postgres", "sqlx", "SELECT"] {
        assert!(!answer.message().contains(word), "the cause stays on our side: {}", answer.body);
    }
}

async fn refused_with_503(api: &TestApi, verb: &str, path: &str, body: &Value) {
    let refused = until("it is noticed", || async {
        let answer = api.call(verb, path, body).await;
        (answer.status >= 500).then_some(answer)
    })
    .await;
    assert_retryable(&refused, 503);
}

#[tokio::test]
async fn while_postgres_is_away_everybody_is_told_to_retry_and_nothing_is_lost() {
    if on_sqlite() {
        return;
    }
    let database = TestDatabase::new();
    let mut server = TestServer::prepared_on(database.store(), &SETTINGS);
    server.start_again();
    let manager = TestManager::of(server);
    let back_end = manager.back_end().await;
    let (run, command, runner) = back_end.working().await;
    runner.say(&command, "e-0", "e-0").await;
    for round in 1..=3 {
        database.close();
        let id = format!("e-{round}");
        let append = runner.signed(json!({ "events": [said(&command, &id, &id)] }));
        let turn = json!({ "type": "turn", "payload": { "prompt": "x" }, "idempotencyKey": id });
        let of_run = |rest: &str| format!("/runs/{run}{rest}");
        refused_with_503(&runner.api, "POST", &of_run("/events"), &append).await;
        refused_with_503(&runner.api, "PATCH", &of_run("/lease"), &runner.signed(json!({}))).await;
        refused_with_503(&back_end.api, "POST", &of_run("/commands"), &turn).await;
        refused_with_503(&back_end.api, "GET", &of_run(""), &Value::Null).await;
        refused_with_503(&back_end.api, "POST", "/runs", &back_end.new_run()).await;
        // Nobody can say whose this token is, so nobody may say that it is none.
        let unknown = format!("art_{}", "a".repeat(40));
        refused_with_503(&back_end.api.with(Some(&unknown)), "GET", "/runs", &Value::Null).await;
        let ready = until("health says so", || async {
            let ready = manager.server.get("/api/v1/health/readiness").await;
            (ready.status == 503).then(|| ready.json())
        })
        .await;
        assert_eq!(ready["failureKind"], "infra-failed", "{ready}");
        assert_eq!(manager.server.get("/api/v1/health/live").await.status, 200);

        database.open();
        until("the store is back", || async {
            (back_end.api.call("GET", &of_run(""), &Value::Null).await.status == 200).then_some(())
        })
        .await;
        // The same again: whether the first one was stored after all or not.
        let appended = until("runners go on", || async {
            let answer = runner.api.call("POST", &of_run("/events"), &append).await;
            (answer.status == 200).then(|| answer.body["data"].clone())
        })
        .await;
        assert_eq!(appended["appended"][0]["seq"], json!(round + 1), "{appended}");
        let submitted = back_end.api.call("POST", &of_run("/commands"), &turn).await;
        assert!([200, 201].contains(&submitted.status), "{}", submitted.body);
        assert_eq!(submitted.body["data"]["seq"], json!(round + 1), "once: {}", submitted.body);
    }
    runner.report(&command, "completed").await;
    let events = back_end.api.events(&run).await;
    assert_contiguous(&events);
    assert_eq!(events.len(), 5, "four of the runner, and the end");
    assert_eq!(number(&back_end.read(&run).await["lease"]["epoch"]), runner.epoch);
}

#[tokio::test]
async fn while_the_store_is_held_by_somebody_else_nothing_is_half_done() {
    if !on_sqlite() || split() {
        return;
    }
    let manager = TestManager::of(TestServer::with(&SETTINGS).await);
    let back_end = manager.back_end().await;
    let (run, command, runner) = back_end.working().await;
    let before = back_end.read(&run).await;
    let blocker = Blocker::hold(&manager.server, "run", "run");
    let append = json!([said(&command, "e-1", "e-1"), said(&command, "e-2", "e-2")]);
    let (appended, reported) =
        tokio::join!(runner.try_append(append.clone()), runner.try_report(&command, "completed"));
    assert_retryable(&appended, 503);
    assert_retryable(&reported, 503);
    assert_eq!(back_end.read(&run).await, before, "reading goes on, and nothing was changed");
    blocker.release();
    let appended = runner.append(append).await;
    assert_eq!(appended["lastSeq"], 2, "{appended}");
    runner.report(&command, "completed").await;
    assert_contiguous(&back_end.api.events(&run).await);
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_given_up_and_can_be_made_again() {
    // The blocker looks for a SQLite file where a server of one process has it.
    if on_sqlite() && split() {
        return;
    }
    let settings = format!("{}limits.call_timeout_ms = 1500\n", *SETTINGS);
    let manager = TestManager::of(TestServer::with(&settings).await);
    let back_end = manager.back_end().await;
    let (run, command, runner) = back_end.working().await;
    let blocker = Blocker::hold(&manager.server, "run", "run");
    let append = json!([said(&command, "e-1", "e-1")]);
    assert_retryable(&runner.try_append(append.clone()).await, 504);
    blocker.release();
    let stored = until("the same is answered", || async {
        let answer = runner.try_append(append.clone()).await;
        (answer.status == 200).then(|| answer.body["data"].clone())
    })
    .await;
    assert_eq!(stored["appended"][0]["seq"], 1, "once, whichever try it was");
    runner.say(&command, "e-2", "e-2").await;
    let events = back_end.api.events(&run).await;
    assert_contiguous(&events);
    assert_eq!(events.len(), 2);
}

/// Where the gateway lives on, it answers in the place of a service that is gone.
#[tokio::test]
async fn while_no_process_of_the_service_answers_everybody_is_told_to_retry() {
    if !split() {
        return;
    }
    let manager = TestManager::of(TestServer::with(&SETTINGS).await);
    let back_end = manager.back_end().await;
    let (run, command, runner) = back_end.working().await;
    let (held, pid) = (manager.server.beside("split/run1.hold"), manager.server.beside("split/run1.pid"));
    fs::write(&held, "").expect("a file can be written");
    let pid = fs::read_to_string(pid).expect("it has a process");
    let killed = std::process::Command::new("kill").args(["-KILL", pid.trim()]).status();
    assert!(killed.is_ok_and(|status| status.success()), "it was there");
    let path = format!("/runs/{run}");
    let append = runner.signed(json!({ "events": [said(&command, "e-1", "e-1")] }));
    refused_with_503(&back_end.api, "GET", &path, &Value::Null).await;
    refused_with_503(&runner.api, "POST", &format!("{path}/events"), &append).await;
    assert_eq!(back_end.api.watch(&format!("{path}/events"), &[]).await.status, 503);
    let health = manager.server.get("/api/v1/health/readiness").await;
    assert_eq!((health.status, &health.json()["failureKind"]), (503, &json!("infra-failed")));
    assert_eq!(manager.server.get("/health/live").await.status, 200, "the gateway lives on");
    fs::remove_file(held).expect("it is there");
    let appended = until("it is back", || async {
        let answer = runner.api.call("POST", &format!("{path}/events"), &append).await;
        (answer.status == 200).then(|| answer.body["data"].clone())
    })
    .await;
    assert_eq!(appended["lastSeq"], 1, "{appended}");
}
