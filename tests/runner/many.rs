//! More runs at once than the server may have runners: those that are refused ask again, and each gets its turn.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::local::{WAITS, files_with, go_on, nothing_is_left, runners, scripted, server};
use crate::runs::client::{TestBackEnd, TestManager, assert_contiguous};
use crate::support::agent::text;
use crate::support::wait::WAIT_TIMEOUT;
use crate::support::{as_often, until};

/// What the server may have.
const RUNNERS: usize = 4;
/// Its turn ends at once.
const QUICK: &str = r#"read -r line
    printf '{"type":"message","itemId":"1","text":"done"}\n{"type":"done","status":"completed"}\n'; read -r line"#;
/// How long somebody waits who was refused.
const PAUSE: Duration = Duration::from_millis(500);

/// What the runs of this test have in common.
struct ManyRuns {
    back_end: TestBackEnd,
    refused: AtomicUsize,
    ended: AtomicUsize,
}

impl ManyRuns {
    async fn begin(manager: &TestManager) -> ManyRuns {
        let back_end = manager.back_end_of("l0").await;
        ManyRuns { back_end, refused: AtomicUsize::new(0), ended: AtomicUsize::new(0) }
    }

    async fn run(&self, profile: &str) -> (String, String) {
        let mut new = self.back_end.new_run();
        new["backendProfile"] = json!(profile);
        let run = text(&self.back_end.api.ok("POST", "/runs", &new, 201).await["runId"]);
        let command = self.back_end.turn(&run, "x").await;
        (run, command)
    }

    /// A runner, as soon as there is a place for one. That may take long, but not without anybody's end meanwhile.
    async fn job(&self, run: &str, command: &str) -> Value {
        let body = json!({ "commandId": command, "idempotencyKey": "start", "idleTimeoutMs": 1000 });
        let (mut seen, mut waited) = (self.ended.load(Ordering::Relaxed), Duration::ZERO);
        loop {
            let mut answer = self.back_end.api.call("POST", &format!("/runs/{run}/runner-jobs"), &body).await;
            if answer.status == 201 {
                return answer.body["data"].take();
            }
            assert_eq!((answer.status, answer.failure_kind()), (429, "rate-limited"), "{}", answer.body);
            self.refused.fetch_add(1, Ordering::Relaxed);
            let ended = self.ended.load(Ordering::Relaxed);
            if seen != ended {
                (seen, waited) = (ended, Duration::ZERO);
            }
            assert!(waited < WAIT_TIMEOUT, "{run} gets no runner, and nobody's ends");
            sleep(PAUSE).await;
            waited += PAUSE;
        }
    }

    /// One run from its beginning to its end.
    async fn worked(&self) -> (String, Value) {
        let (run, command) = self.run("quick").await;
        let job = self.job(&run, &command).await;
        self.completed(&run, &command).await;
        assert_eq!(self.back_end.result(&run, &command).await["reply"], "done");
        self.cancel(&run).await;
        self.ended.fetch_add(1, Ordering::Relaxed);
        (run, job)
    }

    async fn completed(&self, run: &str, command: &str) {
        let ended = || async {
            let read = self.back_end.read_command(run, command).await;
            (!read["terminalStatus"].is_null()).then_some(read)
        };
        let Ok(ended) = timeout(WAIT_TIMEOUT * 9 / 10, until("the turn ends", ended)).await else {
            let jobs = self.back_end.api.get(&format!("/runs/{run}/runner-jobs")).await;
            panic!("the turn does not end: {jobs} {:?}", self.back_end.api.events(run).await);
        };
        assert_eq!(ended["state"], "completed", "{ended}");
    }

    /// So that its runner need not wait for another turn, which does not come.
    async fn cancel(&self, run: &str) {
        self.back_end.api.ok("POST", &format!("/runs/{run}/cancel"), &json!({}), 200).await;
    }
}

#[tokio::test]
async fn of_many_runs_at_once_each_gets_a_runner_in_the_end_and_nothing_is_left() {
    let profiles = format!("{}{}", scripted("quick", QUICK), scripted("waits", WAITS));
    let settings = format!("{profiles}run.local_runners = {RUNNERS}\nrun.session_gc_interval_ms = 500\n");
    let manager = server(&settings);
    let many = ManyRuns::begin(&manager).await;
    let all = join_all((0..as_often(100, 40)).map(|_| many.worked())).await;
    assert!(many.refused.load(Ordering::Relaxed) > 0, "they were more than there were places");
    for (run, job) in &all {
        nothing_is_left(&manager, job).await;
        let storage = runners(&manager).join("storage").join(run);
        until("its storage is removed", || async { (!storage.exists()).then_some(()) }).await;
        assert_eq!(many.back_end.read(run).await["status"], "cancelled");
        assert_contiguous(&many.back_end.api.events(run).await);
    }
    assert!(files_with(&runners(&manager), "arr_").is_empty(), "no token is in a file");

    // Every place is free again, and there are no more than before.
    let mut held = Vec::new();
    for _ in 0..RUNNERS {
        let (run, command) = many.run("waits").await;
        held.push((many.job(&run, &command).await, run));
    }
    let (run, command) = many.run("waits").await;
    let path = format!("/runs/{run}/runner-jobs");
    many.back_end.api.refused("POST", &path, &json!({ "commandId": command }), (429, "rate-limited")).await;
    for (job, run) in &held {
        go_on(&runners(&manager), run);
        many.completed(run, &text(&job["commandId"])).await;
        many.cancel(run).await;
        nothing_is_left(&manager, job).await;
    }
}
