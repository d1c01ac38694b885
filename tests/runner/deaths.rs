//! Who dies: the runner, the manager, and a runner that only seems dead.

use serde_json::Value;

use super::process::{RunnerProcess, RunnerWords, WorkedRun, payloads, said_in};
use crate::runs::client::{SETTINGS, TestManager, assert_contiguous};
use crate::runs::kill::{answers, kill_service};
use crate::support::agent::text;
use crate::support::{TestServer, split, until};

/// The shortest lease, so that its end is soon.
fn short_lease() -> RunnerWords {
    RunnerWords::of(&["--lease-ms", "5000"])
}

/// What an event says, without what depends on the runner.
fn runner_phases(events: &[Value]) -> Vec<String> {
    payloads(events, "runner_status").into_iter().map(|payload| text(&payload["phase"])).collect()
}

#[tokio::test]
async fn a_turn_whose_runner_died_is_not_run_again() {
    let manager = TestManager::shared().await;
    let mut work = WorkedRun::begin(&manager, "/slow", &short_lease()).await;
    work.said("word2").await;
    work.runner.kill();
    let before = said_in(&work.events().await);
    let job = work.next_job(&work.command).await;
    let _replacement = RunnerProcess::start(&manager.server, &job, &short_lease());
    assert_eq!(work.outcome(&work.command).await, ("failed".to_owned(), "backend-failed".to_owned()));
    assert_eq!(work.turn("go on").await["reply"], "You said: go on");
    let events = work.events().await;
    assert_contiguous(&events);
    assert_eq!(said_in(&events).matches("word1 ").count(), 1, "{before}");
    assert_eq!(runner_phases(&events), ["claim-recovered"]);
}

#[tokio::test]
async fn a_runner_outlives_its_manager_and_nothing_is_lost_or_told_twice() {
    let mut manager = TestManager::of(TestServer::on_ports_that_stay(&SETTINGS));
    let work = WorkedRun::begin(&manager, "/slow", &short_lease()).await;
    work.said("word2").await;
    if split() {
        kill_service(&manager.server).await;
    } else {
        manager.server.kill();
        manager.server.start_again();
        manager.dial_again();
    }
    answers(&work.back_end).await;
    let result = work.completed(&work.command).await;
    let words: Vec<String> = (1..=50).map(|number| format!("word{number}")).collect();
    let reply = format!("{}\nYou said: /slow", words.join(" "));
    assert_eq!(result["reply"], reply.as_str());
    let events = work.events().await;
    assert_contiguous(&events);
    assert_eq!(said_in(&events), reply, "each part was told once");
    assert_eq!(work.turn("go on").await["reply"], "You said: go on");
}

#[tokio::test]
async fn a_runner_that_lost_its_lease_ends_without_a_word() {
    let manager = TestManager::shared().await;
    let mut work = WorkedRun::begin(&manager, "/slow", &short_lease()).await;
    work.said("word2").await;
    // It only seems dead.
    work.runner.signal("STOP");
    let job = work.next_job(&work.command).await;
    let _replacement = RunnerProcess::start(&manager.server, &job, &short_lease());
    assert_eq!(work.outcome(&work.command).await, ("failed".to_owned(), "backend-failed".to_owned()));
    let told = work.events().await.len();
    work.runner.signal("CONT");
    assert_eq!(work.runner.ended().await.code(), Some(1));
    assert!(work.runner.log().contains("another runner has the lease"), "{}", work.runner.log());
    assert_eq!(work.events().await.len(), told, "it has said nothing more");
    assert_eq!(work.turn("go on").await["reply"], "You said: go on");
}

#[tokio::test]
async fn a_runner_waits_for_the_lease_of_another_one() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let run = back_end.run().await;
    let command = back_end.turn(&run, "/slow").await;
    let job = back_end.job(&run, &command).await;
    let runner = RunnerProcess::start(&manager.server, &job, &short_lease());
    let mut work = WorkedRun { back_end, run, command, runner };
    work.said("word2").await;
    let _second = RunnerProcess::start(&manager.server, &job, &short_lease());
    let waits =
        || async { runner_phases(&work.events().await).contains(&"claim-waiting".to_owned()).then_some(()) };
    until("the second one waits", waits).await;
    work.runner.kill();
    assert_eq!(work.outcome(&work.command).await, ("failed".to_owned(), "backend-failed".to_owned()));
    assert_eq!(work.turn("go on").await["reply"], "You said: go on");
    assert_eq!(runner_phases(&work.events().await), ["claim-waiting", "claim-recovered"]);
}
