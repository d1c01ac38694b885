//! How turns and runners end: by a cancel, by time, by a signal, and by what is wrong.

use serde_json::json;

use super::process::{RunnerProcess, RunnerWords, WorkedRun, said_in};
use crate::runs::client::TestManager;
use crate::support::agent::text;

#[tokio::test]
async fn a_cancelled_command_is_interrupted_and_the_runner_goes_on() {
    let manager = TestManager::shared().await;
    let work = WorkedRun::begin(&manager, "/slow", &RunnerWords::default()).await;
    work.said("word2").await;
    let path = format!("/commands/{}/cancel", work.command);
    work.back_end.api.ok("POST", &path, &json!({ "reason": "enough" }), 200).await;
    assert_eq!(work.outcome(&work.command).await, ("cancelled".to_owned(), "cancelled".to_owned()));
    assert_eq!(work.turn("go on").await["reply"], "You said: go on");
}

#[tokio::test]
async fn a_cancelled_run_ends_with_its_runner() {
    let manager = TestManager::shared().await;
    let mut work = WorkedRun::begin(&manager, "/slow", &RunnerWords::default()).await;
    let waits = work.back_end.turn(&work.run, "never").await;
    work.said("word2").await;
    let path = format!("/runs/{}/cancel", work.run);
    work.back_end.api.ok("POST", &path, &json!({}), 200).await;
    assert_eq!(work.outcome(&work.command).await.0, "cancelled");
    assert_eq!(work.outcome(&waits).await.0, "cancelled");
    assert!(work.runner.ended().await.success(), "{}", work.runner.log());
    assert_eq!(work.back_end.read(&work.run).await["status"], "cancelled");
}

#[tokio::test]
async fn a_turn_has_the_time_of_its_policy() {
    let manager = TestManager::shared().await;
    let change = |run: &mut serde_json::Value| run["executionPolicy"] = json!({ "timeoutMs": 1000 });
    let work = WorkedRun::begin_with(&manager, "/slow", &RunnerWords::default(), change).await;
    assert_eq!(work.outcome(&work.command).await, ("failed".to_owned(), "backend-timeout".to_owned()));
    assert!(said_in(&work.events().await).contains("word1"));
    assert_eq!(work.turn("quick").await["reply"], "You said: quick");
}

#[tokio::test]
async fn a_program_that_does_not_hear_is_ended_in_time() {
    let manager = TestManager::shared().await;
    let deaf = RunnerWords::default().with_program(
        r#"echo $$ > pid; echo '{"type":"text","itemId":"m","delta":"I do not listen. "}'; exec sleep 1000"#,
    );
    let work = WorkedRun::begin(&manager, "hello", &deaf).await;
    work.said("I do not listen").await;
    let path = format!("/commands/{}/cancel", work.command);
    work.back_end.api.ok("POST", &path, &json!({}), 200).await;
    assert_eq!(work.outcome(&work.command).await.0, "cancelled");
    let pid = std::fs::read_to_string(work.runner.file("pid")).expect("it has a pid");
    assert!(!std::path::Path::new(&format!("/proc/{}", pid.trim())).exists(), "it has ended");
}

#[tokio::test]
async fn a_runner_that_is_told_to_end_says_so_and_gives_its_lease_back() {
    let manager = TestManager::shared().await;
    let mut work = WorkedRun::begin(&manager, "/slow", &RunnerWords::default()).await;
    work.said("word2").await;
    work.runner.signal("TERM");
    assert!(work.runner.ended().await.success(), "{}", work.runner.log());
    assert_eq!(work.outcome(&work.command).await, ("failed".to_owned(), "infra-failed".to_owned()));
    assert_eq!(work.back_end.read(&work.run).await["lease"], json!(null));
    // Another one goes on at once.
    let command = work.back_end.turn(&work.run, "next").await;
    let job = work.back_end.job(&work.run, &command).await;
    let _next = RunnerProcess::start(&manager.server, &job, &RunnerWords::default());
    assert_eq!(work.completed(&command).await["reply"], "You said: next");
}

#[tokio::test]
async fn broken_programs_fail_their_turn_and_not_the_runner() {
    let manager = TestManager::shared().await;
    for (script, message) in [
        ("exit 3", "exit status: 3"),
        ("read turn; kill -9 $$", "signal: 9"),
        ("read turn; echo what?; sleep 100", "no message of its protocol"),
        ("read turn; head -c 2097152 /dev/zero | tr '\\0' x; sleep 100", "more than 1048576 bytes"),
        ("read turn; sleep 100 & exit 0", "exit status: 0"),
    ] {
        let work = WorkedRun::begin(&manager, "hello", &RunnerWords::default().with_program(script)).await;
        let ended = work.ended(&work.command).await;
        assert_eq!((&ended["state"], &ended["failureKind"]), (&json!("failed"), &json!("backend-failed")));
        assert!(text(&ended["failureMessage"]).contains(message), "{script}: {ended}");
        let again = work.back_end.turn(&work.run, "again").await;
        assert_eq!(work.outcome(&again).await.0, "failed", "the runner goes on");
    }
    let missing = RunnerWords { program: vec!["/no/such/program".to_owned()], ..RunnerWords::default() };
    let work = WorkedRun::begin(&manager, "hello", &missing).await;
    let ended = work.ended(&work.command).await;
    assert!(text(&ended["failureMessage"]).contains("cannot be started"), "{ended}");
}

#[tokio::test]
async fn what_the_manager_refuses_fails_the_turn() {
    let manager = TestManager::shared().await;
    let script = r#"while read turn; do
        echo '{"type":"approval","approvalId":"same","reason":"x"}'
        echo '{"type":"approval","approvalId":"same","reason":"x"}'; done"#;
    let work = WorkedRun::begin(&manager, "hello", &RunnerWords::default().with_program(script)).await;
    let ended = work.ended(&work.command).await;
    assert_eq!(
        (&ended["state"], &ended["failureKind"]),
        (&json!("failed"), &json!("backend-failed")),
        "{ended}"
    );
}

#[tokio::test]
async fn a_runner_that_is_not_accepted_says_why() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let run = back_end.run().await;
    let command = back_end.turn(&run, "hello").await;
    let mut job = back_end.job(&run, &command).await;
    job["runnerToken"] = json!("arr_000000000000000000000000000000000000000");
    let mut runner = RunnerProcess::start(&manager.server, &job, &RunnerWords::default());
    assert_eq!(runner.ended().await.code(), Some(1));
    assert!(runner.log().contains("the manager refuses this runner"), "{}", runner.log());
    job["runnerToken"] = json!("not a token");
    let mut runner = RunnerProcess::start(&manager.server, &job, &RunnerWords::default());
    assert_eq!(runner.ended().await.code(), Some(1));
    assert!(
        runner.log().contains("begins with arr_") && !runner.log().contains("not a token"),
        "{}",
        runner.log()
    );
}
