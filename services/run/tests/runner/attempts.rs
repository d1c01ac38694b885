//! Attempts: what the token of one is for and how long, and what else a runner names.

use super::{PlayedRunner, id, new_job, new_run, new_turn};
use crate::Settings;
use crate::tests::support::{TestRuns, hwlab, refusal, runner};
use futures_util::future::join_all;
use kernel::Caller;
use serde_json::json;

async fn verified(runs: &TestRuns, token: &str) -> bool {
    let caller = Caller::service("gateway");
    runs.call(&caller, "run.verify_token", json!({ "token": token })).await.is_ok()
}

/// On PostgreSQL a NUL in one of the names of a batch would fail all of its calls.
#[tokio::test]
async fn a_name_that_nothing_can_have_is_refused_alone() {
    let runs = TestRuns::open().await;
    let (run, nul) = (new_run(&runs).await, "x\u{0}");
    let command = new_turn(&runs, &run).await;
    let mut played = PlayedRunner::register(&runs, &run, "attempt_1").await;
    played.take(&runs, 60_000).await;
    let event = json!({ "clientEventId": "e", "type": "reasoning", "commandId": nul, "payload": {} });
    let mut of_session = json!({
        "tenantId": "hwlab", "projectId": "acme/site", "workspaceRef": {}, "providerId": "G14",
        "backendProfile": "example", "traceSink": null,
    });
    of_session["sessionRef"] = json!({ "sessionId": nul });
    let turn = |run: &str| json!({ "runId": run, "type": "turn", "payload": { "prompt": "x" } });
    let (missing, invalid) = (refusal("not-found", 404), refusal("schema-invalid", 400));
    let bad = [
        (hwlab(), "run.cancel", json!({ "runId": nul }), &missing),
        (hwlab(), "run.command_create", turn(nul), &missing),
        (hwlab(), "run.command_cancel", json!({ "commandId": nul }), &missing),
        (hwlab(), "run.create", of_session, &missing),
        (hwlab(), "run.runner_job_create", json!({ "runId": run, "commandId": nul }), &missing),
        (hwlab(), "run.approve", json!({ "runId": run, "approvalId": nul, "decision": "accept" }), &invalid),
        (Caller::Operator, "runner.acknowledge", played.signed(&json!({ "commandId": nul })), &missing),
        (
            Caller::Operator,
            "runner.set_command_status",
            played.signed(&json!({ "commandId": nul, "status": "completed" })),
            &missing,
        ),
        (
            played.caller.clone(),
            "runner.append_events",
            played.signed(&json!({ "events": [event] })),
            &missing,
        ),
        (
            Caller::Operator,
            "runner.claim",
            json!({ "runId": run, "runnerId": nul, "attemptId": "a" }),
            &missing,
        ),
        (hwlab(), "run.get", json!({ "runId": nul }), &missing),
        (hwlab(), "run.command_get", json!({ "runId": run, "commandId": nul }), &missing),
        (hwlab(), "run.runner_job_get", json!({ "runId": run, "runnerJobId": nul }), &missing),
        (hwlab(), "session.get", json!({ "sessionId": nul }), &missing),
        (hwlab(), "run.list", json!({ "cursor": "run_\u{0}" }), &invalid),
    ];
    let refused = bad.iter().map(async |(caller, method, params, expected)| {
        assert_eq!(runs.refused_to(caller, method, params.clone()).await, **expected, "{method}");
    });
    let good = (0..40).map(async |_| drop(runs.ok("run.command_create", turn(&run)).await));
    tokio::join!(join_all(refused), join_all(good));
    let acknowledged = played.ask(&runs, "runner.acknowledge", json!({ "commandId": command })).await;
    assert_eq!(acknowledged["command"]["state"], "acknowledged");
}

#[tokio::test]
async fn the_token_of_one_attempt_is_none_for_another_of_the_same_run() {
    let runs = TestRuns::open().await;
    let run = new_run(&runs).await;
    let command = new_turn(&runs, &run).await;
    let mut owner = PlayedRunner::register(&runs, &run, "attempt_1").await;
    let other = PlayedRunner::register(&runs, &run, "attempt_2").await;
    owner.take(&runs, 60_000).await;
    let forbidden = refusal("forbidden", 403);
    let stolen = runs.refused_to(&other.caller, "runner.claim", owner.claim(60_000)).await;
    assert_eq!(stolen, forbidden, "with the names of the other one");
    let event = json!({ "clientEventId": "e", "type": "reasoning", "payload": {} });
    let of_command = json!({ "commandId": command, "status": "running" });
    let asked = [
        ("runner.heartbeat", json!({})),
        ("runner.heartbeat", json!({ "release": true })),
        ("runner.poll_commands", json!({})),
        ("runner.append_events", json!({ "events": [event] })),
        ("runner.acknowledge", json!({ "commandId": command })),
        ("runner.set_command_status", of_command),
        ("runner.set_run_status", json!({ "status": "failed" })),
    ];
    for (method, more) in &asked {
        let params = owner.signed(more);
        assert_eq!(runs.refused_to(&other.caller, method, params.clone()).await, forbidden, "{method}");
        let mut late = params;
        late["epoch"] = json!(owner.epoch + 1);
        let refused = runs.refused_to(&other.caller, method, late).await;
        assert_eq!(refused, refusal("runner-lease-conflict", 409), "{method} of another epoch");
    }
    // Its owner may, and so may whoever acts for any attempt.
    for caller in [&owner.caller, &Caller::Operator] {
        for (method, more) in [&asked[0], &asked[2], &asked[4]] {
            runs.call(caller, method, owner.signed(more)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn whoever_waits_is_noted_once_with_its_own_attempt() {
    let runs = TestRuns::open().await;
    let run = new_run(&runs).await;
    new_turn(&runs, &run).await;
    let mut one = PlayedRunner::register(&runs, &run, "attempt_1").await;
    let mut other = PlayedRunner::register(&runs, &run, "attempt_2").await;
    let conflict = refusal("runner-lease-conflict", 409);
    one.take(&runs, 5000).await;
    for _ in 0..3 {
        let (owner, waits) = (&mut one, &mut other);
        for _ in 0..2 {
            let refused = runs.refused_to(&waits.caller, "runner.claim", waits.claim(5000)).await;
            assert_eq!(refused, conflict);
        }
        runs.test.world.clock.advance_ms(5000);
        waits.take(&runs, 5000).await;
        std::mem::swap(owner, waits);
    }
    let page = runs.ok("run.events", json!({ "runId": run })).await;
    let events = page["events"].as_array().unwrap();
    let of_phase = |phase: &str| -> Vec<(String, String)> {
        let found = events.iter().filter(|event| event["payload"]["phase"] == phase);
        found.map(|event| (id(&event["attemptId"]), id(&event["payload"]["attemptId"]))).collect()
    };
    let both = |attempt: &str| (attempt.to_owned(), attempt.to_owned());
    assert_eq!(of_phase("claim-waiting"), [both("attempt_2"), both("attempt_1")], "{events:?}");
    let recovered = [both("attempt_2"), both("attempt_1"), both("attempt_2")];
    assert_eq!(of_phase("claim-recovered"), recovered, "{events:?}");
}

/// Those who asked last are remembered, so that the row of a run stays short.
#[tokio::test]
async fn of_many_that_wait_the_last_ones_are_remembered() {
    let runs = TestRuns::open().await;
    let run = new_run(&runs).await;
    PlayedRunner::register(&runs, &run, "attempt_1").await.take(&runs, 600_000).await;
    let mut waiting = Vec::new();
    for _ in 0..33 {
        waiting.push(PlayedRunner::register(&runs, &run, "attempt_2").await);
    }
    let notes = async |asking: &[PlayedRunner]| {
        for one in asking {
            let refused = runs.refused_to(&one.caller, "runner.claim", one.claim(5000)).await;
            assert_eq!(refused, refusal("runner-lease-conflict", 409));
        }
        runs.ok("run.get", json!({ "runId": run })).await["run"]["lastSeq"].clone()
    };
    assert_eq!(notes(&waiting).await, 33);
    assert_eq!(notes(&waiting[1..]).await, 33, "each of these is remembered");
    assert_eq!(notes(&waiting[..1]).await, 34, "the first one was forgotten");
}

#[tokio::test]
async fn the_token_of_an_attempt_that_was_replaced_is_never_valid_again() {
    let runs = TestRuns::open().await;
    let clock = &runs.test.world.clock;
    let run = new_run(&runs).await;
    let command = new_turn(&runs, &run).await;
    let first = new_job(&runs, &run, &command).await;
    let mut one = PlayedRunner::register(&runs, &run, &id(&first["attemptId"])).await;
    one.take(&runs, 60_000).await;
    clock.advance_ms(61_000);
    let second = new_job(&runs, &run, &command).await;
    let (old, new) = (id(&first["runnerToken"]), id(&second["runnerToken"]));
    let mut other = PlayedRunner::register(&runs, &run, &id(&second["attemptId"])).await;
    other.take(&runs, 600_000).await;
    clock.advance_ms(598_999);
    assert!(verified(&runs, &old).await, "it is still told who has replaced it");
    clock.advance_ms(1);
    assert!(!verified(&runs, &old).await, "ten minutes after its last lease");
    PlayedRunner::register(&runs, &run, &other.attempt).await;
    other.ask(&runs, "runner.heartbeat", json!({})).await;
    assert!(!verified(&runs, &old).await, "whatever its successor does");
    other.ask(&runs, "runner.set_run_status", json!({ "status": "failed" })).await;
    assert_eq!(
        (verified(&runs, &old).await, verified(&runs, &new).await),
        (false, true),
        "the run has ended"
    );
    clock.advance_ms(600_000);
    assert_eq!((verified(&runs, &old).await, verified(&runs, &new).await), (false, false));
}

#[tokio::test]
async fn an_attempt_that_gets_the_lease_again_in_time_keeps_its_token() {
    let runs = TestRuns::open().await;
    let clock = &runs.test.world.clock;
    let run = new_run(&runs).await;
    let command = new_turn(&runs, &run).await;
    let first = new_job(&runs, &run, &command).await;
    let mut one = PlayedRunner::register(&runs, &run, &id(&first["attemptId"])).await;
    one.take(&runs, 60_000).await;
    clock.advance_ms(61_000);
    let second = new_job(&runs, &run, &command).await;
    let mut other = PlayedRunner::register(&runs, &run, &id(&second["attemptId"])).await;
    other.take(&runs, 5000).await;
    clock.advance_ms(6000);
    one.take(&runs, 600_000).await;
    // Without that its token had ended at 660 s; that of the other one ends at 666 s.
    clock.advance_ms(598_000);
    let tokens = [id(&first["runnerToken"]), id(&second["runnerToken"])];
    assert_eq!((verified(&runs, &tokens[0]).await, verified(&runs, &tokens[1]).await), (true, true));
    clock.advance_ms(1000);
    assert_eq!((verified(&runs, &tokens[0]).await, verified(&runs, &tokens[1]).await), (true, false));
}

#[tokio::test]
async fn a_runner_registers_for_a_run_that_is_open_and_its_tenant_pays() {
    let mut settings = Settings::default();
    settings.tenants.get_mut("hwlab").unwrap().kept_bytes = 16_384;
    let runs = TestRuns::with(settings).await;
    let stored = async || -> i64 {
        let count = sqlx::query_scalar("SELECT COUNT(*) FROM run_runner");
        count.fetch_one(runs.run.store.db().read()).await.unwrap()
    };
    let (run, ended) = (new_run(&runs).await, new_run(&runs).await);
    runs.ok("run.cancel", json!({ "runId": ended })).await;
    let register = json!({ "backendProfile": "example", "placement": "host-process" });
    let refused = runs.refused_to(&runner(&ended, "attempt_1"), "runner.register", register.clone()).await;
    assert_eq!((refused, stored().await), (refusal("cancelled", 409), 0), "nothing is stored for it");
    for attempt in ["a b", "a\u{1}", "a\n", "", "sk-0123456789abcdefghijklmnop"] {
        let mut named = register.clone();
        (named["runId"], named["attemptId"]) = (json!(run), json!(attempt));
        let refused = runs.refused_to(&Caller::Operator, "runner.register", named).await;
        assert_eq!(refused, refusal("schema-invalid", 400), "{attempt:?}");
    }
    let mut count = 0;
    let full = loop {
        match runs.call(&runner(&run, "attempt_1"), "runner.register", register.clone()).await {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
        assert!(count < 100, "it is never full");
    };
    assert_eq!((full.http_status().as_u16(), stored().await), (429, count));
    assert!(count > 2, "{full}");
    let recounted = runs.call(&Caller::Operator, "run.account", json!({ "recount": true })).await.unwrap();
    assert_eq!(recounted["corrected"], 0);
}

#[tokio::test]
async fn a_runner_does_not_learn_what_there_is_besides_its_run() {
    let runs = TestRuns::open().await;
    let (own, other) = (new_run(&runs).await, new_run(&runs).await);
    let foreign = new_turn(&runs, &other).await;
    let session = runs.session().await;
    let played = PlayedRunner::register(&runs, &own, "attempt_1").await;
    let storage = |session: &str| json!({ "sessionId": session, "runnerId": played.id, "epoch": 1, "sizeBytes": 1, "filesCount": 1 });
    let status = |command: &str| played.signed(&json!({ "commandId": command, "status": "running" }));
    for (method, there, nowhere) in [
        ("run.events", json!({ "runId": other }), json!({ "runId": "run_unknown" })),
        (
            "runner.acknowledge",
            played.signed(&json!({ "commandId": foreign })),
            played.signed(&json!({ "commandId": "cmd_unknown" })),
        ),
        ("runner.set_command_status", status(&foreign), status("cmd_unknown")),
        ("session.refresh_storage", storage(&session), storage("sess_unknown")),
    ] {
        let [there, nowhere] = [there, nowhere].map(async |params| {
            let error = runs.call(&played.caller, method, params).await.expect_err(method);
            (error.http_status().as_u16(), error.data("failureKind").cloned(), error.to_string())
        });
        let (there, nowhere) = (there.await, nowhere.await);
        assert_eq!((there.0, &there.1), (403, &Some(json!("forbidden"))), "{method}: {there:?}");
        assert_eq!(there, nowhere, "{method}");
    }
}
