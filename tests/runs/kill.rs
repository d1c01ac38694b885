//! kill -9 while runners append, claim, acknowledge and finish, and back ends submit and cancel, as fast as they can: nothing that was
//! acknowledged is missing, nothing is there twice, and every log is whole.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::client::{
    ManagerAnswer, SETTINGS, TestBackEnd, TestManager, TestRunner, assert_contiguous, number, said,
};
use crate::support::agent::text;
use crate::support::{TestServer, setting, split};

/// Runs that are worked on at once.
const RUNS: usize = 6;

/// What one runner and its back end do, one step after the other. A step that was cut off is done again: each may be repeated.
struct StormyRun {
    back_end: TestBackEnd,
    runner: TestRunner,
    run: String,
    /// How many commands were submitted, and the one that is worked on.
    submitted: usize,
    current: String,
    step: usize,
    events: usize,
    /// The number that each acknowledged event got.
    seqs: BTreeMap<String, i64>,
    /// The state that was acknowledged of each command.
    states: BTreeMap<String, &'static str>,
}

impl StormyRun {
    async fn new(manager: &TestManager) -> StormyRun {
        let back_end = manager.back_end().await;
        let (run, current, runner) = back_end.working().await;
        let states = BTreeMap::from([(current.clone(), "acknowledged")]);
        StormyRun {
            back_end,
            runner,
            run,
            submitted: 0,
            current,
            step: 0,
            events: 0,
            seqs: BTreeMap::new(),
            states,
        }
    }

    /// A turn: events, a heartbeat, an end or a cancel, and the next one.
    async fn next_step(&mut self) -> Result<(), String> {
        let (runner, current) = (&self.runner, self.current.clone());
        let cancels = self.submitted % 4 == 3;
        match self.step {
            0..=3 => {
                let ids: Vec<String> = (self.events..self.events + 3).map(|n| format!("e-{n}")).collect();
                let events: Vec<Value> = ids.iter().map(|id| said(&current, id, id)).collect();
                let answer = finished(runner.try_append(json!(events)).await)?;
                for appended in answer["appended"].as_array().expect("a list") {
                    self.seqs.insert(text(&appended["clientEventId"]), number(&appended["seq"]));
                }
                self.events += ids.len();
            }
            4 => drop(finished(runner.try_lease(json!({ "leaseMs": 600_000 })).await)?),
            5 => drop(finished(runner.try_claim(600_000).await)?),
            6 if cancels => {
                let path = format!("/commands/{current}/cancel");
                let asked = self.back_end.api.call("POST", &path, &json!({})).await;
                assert!(finished(asked)?["cancelRequestedAt"].is_string());
            }
            6 => {}
            7 => {
                let status = if cancels { "cancelled" } else { "completed" };
                assert_eq!(finished(runner.try_report(&current, status).await)?["state"], status);
                self.states.insert(current, status);
            }
            8 => {
                let body = json!({ "type": "turn", "payload": { "prompt": "x" }, "idempotencyKey": format!("k-{}", self.submitted) });
                let path = format!("/runs/{}/commands", self.run);
                let made = finished(self.back_end.api.call("POST", &path, &body).await)?;
                self.current = text(&made["commandId"]);
                self.states.insert(self.current.clone(), "pending");
                self.submitted += 1;
            }
            _ => {
                finished(runner.try_acknowledge(&current).await)?;
                self.states.insert(current, "acknowledged");
            }
        }
        self.step = (self.step + 1) % 10;
        Ok(())
    }

    /// As fast as it can, until it is cut off.
    async fn go(&mut self, begun: &Notify) {
        let mut steps = 0;
        loop {
            match self.next_step().await {
                Ok(()) => steps += 1,
                // Nobody is there for a moment.
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
            if steps == 3 {
                begun.notify_one();
            }
        }
    }

    async fn assert_whole(&self) {
        let events = self.back_end.api.events(&self.run).await;
        assert_contiguous(&events);
        let mut once = BTreeSet::new();
        for event in events.iter().filter(|event| event["type"] == "assistant_message") {
            assert!(once.insert(text(&event["payload"]["text"])), "twice: {event}");
        }
        for (id, seq) in &self.seqs {
            let at = usize::try_from(*seq - 1).expect("a seq");
            assert_eq!(events[at]["payload"]["text"], json!(id), "event {seq} was acknowledged");
        }
        let mut ends = BTreeSet::new();
        for event in events.iter().filter(|event| event["type"] == "terminal_status") {
            assert!(ends.insert(text(&event["commandId"])), "a command ends once: {event}");
        }
        for (command, known) in &self.states {
            let read = self.back_end.read_command(&self.run, command).await;
            let state = text(&read["state"]);
            let order = ["pending", "acknowledged", "running", "completed", "cancelled"];
            let at = |state: &str| order.iter().position(|one| *one == state).map(|at| at.min(3));
            assert!(at(&state) >= at(known), "{known} was acknowledged: {read}");
            assert_eq!(at(&state) == Some(3), ends.contains(command), "its end is in the log: {read}");
            assert!(at(known) < Some(3) || state == *known, "{known} was acknowledged: {read}");
        }
        let read = self.back_end.read(&self.run).await;
        assert_eq!(read["lastSeq"].as_u64(), Some(events.len() as u64));
        assert_eq!(number(&read["lease"]["epoch"]), self.runner.epoch);
    }
}

/// The data of an answer, unless nobody answered.
fn finished(mut answer: ManagerAnswer) -> Result<Value, String> {
    match answer.status {
        200 | 201 => Ok(answer.body["data"].take()),
        503 | 504 if answer.failure_kind() == "infra-failed" => Err(answer.body.to_string()),
        _ => panic!("{}: {}", answer.status, answer.body),
    }
}

/// Until everybody has done something.
async fn all_begun(begun: &[Notify]) {
    for run in begun {
        run.notified().await;
    }
}

/// SIGKILL to the process of the service, which is started again by itself; everybody else goes on.
pub async fn kill_service(server: &TestServer) {
    let file = server.beside("split/run1.pid");
    let process = || std::fs::read_to_string(&file).expect("it has a process");
    let before = process();
    let killed = std::process::Command::new("kill").args(["-KILL", &before]).status();
    assert!(killed.is_ok_and(|status| status.success()), "it was there");
    crate::support::until("it is started again", || async { (process() != before).then_some(()) }).await;
}

#[tokio::test]
async fn a_storm_of_runners_that_is_killed_leaves_whole_logs_with_everything_acknowledged() {
    let mut manager = TestManager::of(TestServer::with(&SETTINGS).await);
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(StormyRun::new(&manager).await);
    }
    let rounds = setting("AUND_TEST_KILLS").and_then(|rounds| rounds.parse().ok()).unwrap_or(30);
    for round in 0..rounds {
        let begun: Vec<Notify> = runs.iter().map(|_| Notify::new()).collect();
        {
            let storm = join_all(runs.iter_mut().zip(&begun).map(|(run, begun)| run.go(begun)));
            let interruption = async {
                all_begun(&begun).await;
                // Anywhere in the middle of something.
                sleep(Duration::from_millis(40 + 7 * (round % 13))).await;
                if split() {
                    kill_service(&manager.server).await;
                }
            };
            tokio::select! {
                _ = storm => {}
                () = interruption => {}
            }
        }
        if !split() {
            manager.server.kill();
            manager.server.start_again();
            manager.dial_again();
        }
        if round % 5 == 4 || round + 1 == rounds {
            assert_whole(&manager, &runs).await;
        }
    }
    let acknowledged: usize = runs.iter().map(|run| run.seqs.len()).sum();
    assert!(acknowledged > 0, "nothing was acknowledged");
    println!("{rounds} kills, {acknowledged} acknowledged events");
}

async fn assert_whole(manager: &TestManager, runs: &[StormyRun]) {
    // Whoever comes first may find that nobody answers yet.
    // Of several gateways each finds it again by itself, so it is asked over many connections at once.
    let answers = || async {
        let asked = (0..16).map(|_| runs[0].back_end.api.call("GET", "/runs?limit=1", &Value::Null));
        join_all(asked).await.iter().all(|answer| answer.status == 200).then_some(())
    };
    crate::support::until("the service answers", answers).await;
    join_all(runs.iter().map(StormyRun::assert_whole)).await;
    let accounts = manager.server.by_operator("run.account", &json!({ "recount": true })).await;
    assert_eq!(accounts.expect("it is answered")["corrected"], 0, "accounts are what their rows are");
}
