//! Jobs that start runners, and what is known of a runner that is not there.

use super::{PlayedRunner, id, new_job, new_run, new_turn};
use crate::tests::support::{TestRuns, refusal};
use serde_json::{Value, json};

#[tokio::test]
async fn a_job_is_active_until_its_runner_has_not_come_or_has_lost_its_lease() {
    let runs = TestRuns::open().await;
    let clock = &runs.test.world.clock;
    let run = new_run(&runs).await;
    let (first, second) = (new_turn(&runs, &run).await, new_turn(&runs, &run).await);
    let phase = async |job: &Value| {
        let of = json!({ "runId": run, "runnerJobId": job["runnerJobId"] });
        id(&runs.ok("run.runner_job_get", of).await["runnerJob"]["phase"])
    };
    let again = json!({ "runId": run, "commandId": first, "launcher": "external" });
    let is_refused = async || {
        let refused = runs.refused("run.runner_job_create", again.clone()).await;
        assert_eq!(refused, refusal("job-already-active", 409));
    };

    // Its runner has registered, and may claim still.
    let one = new_job(&runs, &run, &first).await;
    clock.advance_ms(30_000);
    PlayedRunner::register(&runs, &run, &id(&one["attemptId"])).await;
    clock.advance_ms(40_000);
    assert_eq!(phase(&one).await, "running");
    is_refused().await;
    let beside = new_job(&runs, &run, &second).await;
    clock.advance_ms(20_000);
    assert_eq!(phase(&one).await, "unknown", "a minute after it has registered");

    // Another one for the first command does not end that of the second one.
    let two = new_job(&runs, &run, &first).await;
    assert_eq!(
        (phase(&one).await, phase(&beside).await, phase(&two).await),
        ("failed".to_owned(), "creating".to_owned(), "creating".to_owned())
    );

    // With the lease its job is active, and when the lease has ended it is not.
    let mut played = PlayedRunner::register(&runs, &run, &id(&two["attemptId"])).await;
    played.take(&runs, 5000).await;
    let refused = runs.refused("run.runner_job_create", again.clone()).await;
    assert_eq!(refused, refusal("runner-lease-conflict", 409));
    clock.advance_ms(5000);
    assert_eq!(phase(&two).await, "unknown");
    let three = new_job(&runs, &run, &first).await;
    assert_eq!((phase(&two).await, phase(&three).await), ("failed".to_owned(), "creating".to_owned()));

    for launcher in ["local", "kubernetes"] {
        let job = json!({ "runId": run, "commandId": first, "launcher": launcher });
        assert_eq!(runs.refused("run.runner_job_create", job).await, refusal("schema-invalid", 400));
    }
}

/// What lies ahead of the clock is from before it was set back.
#[tokio::test]
async fn after_the_clock_was_set_back_no_job_is_active_for_hours() {
    let runs = TestRuns::open().await;
    let run = new_run(&runs).await;
    let commands = [new_turn(&runs, &run).await, new_turn(&runs, &run).await];
    let jobs = [new_job(&runs, &run, &commands[0]).await, new_job(&runs, &run, &commands[1]).await];
    PlayedRunner::register(&runs, &run, &id(&jobs[1]["attemptId"])).await;
    runs.test.world.clock.advance_ms(-3_600_000);
    for command in &commands {
        new_job(&runs, &run, command).await;
    }
    let listed = runs.ok("run.runner_jobs", json!({ "runId": run })).await;
    let phases =
        listed["runnerJobs"].as_array().unwrap().iter().map(|job| (&job["attemptId"], &job["phase"]));
    let old = [&jobs[0]["attemptId"], &jobs[1]["attemptId"]];
    for (attempt, phase) in phases {
        assert_eq!(phase, if old.contains(&attempt) { "failed" } else { "creating" }, "{listed}");
    }
}

/// A job whose runner waits for the lease of another attempt is not ended when that one gives it back.
#[tokio::test]
async fn a_lease_that_is_given_back_ends_its_own_job() {
    let runs = TestRuns::open().await;
    let run = new_run(&runs).await;
    let commands = [new_turn(&runs, &run).await, new_turn(&runs, &run).await];
    let jobs = [new_job(&runs, &run, &commands[0]).await, new_job(&runs, &run, &commands[1]).await];
    let mut one = PlayedRunner::register(&runs, &run, &id(&jobs[0]["attemptId"])).await;
    PlayedRunner::register(&runs, &run, &id(&jobs[1]["attemptId"])).await;
    one.take(&runs, 60_000).await;
    for command in commands {
        runs.ok("run.command_cancel", json!({ "commandId": command })).await;
    }
    let released = one.ask(&runs, "runner.heartbeat", json!({ "release": true })).await;
    assert_eq!(released["released"], true);
    let listed = runs.ok("run.runner_jobs", json!({ "runId": run })).await;
    let phases: Vec<&Value> =
        listed["runnerJobs"].as_array().unwrap().iter().map(|job| &job["phase"]).collect();
    assert_eq!(phases, ["succeeded", "running"], "{listed}");
}

#[tokio::test]
async fn after_the_clock_was_set_back_a_dead_runner_is_seen_and_a_time_out_is_no_longer() {
    let runs = TestRuns::open().await;
    let clock = &runs.test.world.clock;
    let run = new_run(&runs).await;
    let command = new_turn(&runs, &run).await;
    let mut played = PlayedRunner::register(&runs, &run, "attempt_1").await;
    played.take(&runs, 60_000).await;
    played.ask(&runs, "runner.acknowledge", json!({ "commandId": command })).await;
    // A run whose command nobody has taken is due at no time, and its lease lasts too long all the same.
    let waiting = new_run(&runs).await;
    new_turn(&runs, &waiting).await;
    PlayedRunner::register(&runs, &waiting, "attempt_1").await.take(&runs, 60_000).await;
    let phase = async |run: &str| {
        let result = runs.ok("run.result", json!({ "runId": run })).await;
        (id(&result["liveness"]["phase"]), result["liveness"]["lease"]["expired"].clone())
    };

    clock.advance_ms(-3_600_000);
    runs.run.store.look_at_all(runs.now()).await.unwrap();
    runs.run.sweep(runs.now()).await.unwrap();
    clock.advance_ms(59_999);
    assert_eq!(phase(&run).await, ("waiting-model".to_owned(), json!(false)));
    clock.advance_ms(1);
    assert_eq!(phase(&run).await, ("runner-heartbeat-stale".to_owned(), json!(true)));
    assert_eq!(phase(&waiting).await, ("waiting-runner".to_owned(), json!(true)));
    clock.advance_ms(100_000);
    runs.run.sweep(runs.now()).await.unwrap();
    let read = json!({ "runId": run, "commandId": command });
    let ended = runs.ok("run.command_get", read).await["command"].clone();
    assert_eq!((&ended["state"], &ended["failureKind"]), (&json!("failed"), &json!("backend-timeout")));
}
