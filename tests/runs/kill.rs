//! kill -9 while runners append, claim, acknowledge and finish, and back ends submit and cancel, as fast as they can: nothing that was
//! acknowledged is missing, nothing is there twice, and every log is whole.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::client::{
    ManagerAnswer, SETTINGS, TestBackEnd, TestManager, TestRunner, assert_contiguous, number, said, types,
};
use crate::support::agent::text;
use crate::support::{TestServer, as_often, setting, split, within};

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
    // While it is written it is empty.
    let written = async || {
        crate::support::until("it has a process", || async { Some(process()).filter(|id| !id.is_empty()) })
            .await
    };
    let before = written().await;
    let killed = std::process::Command::new("kill").args(["-KILL", &before]).status();
    assert!(killed.is_ok_and(|status| status.success()), "it was there");
    crate::support::until("it is started again", || async { (written().await != before).then_some(()) })
        .await;
}

/// Cuts off what goes on, in the middle of something: the server is killed and started again, or the service under a gateway that lives on.
async fn cut_off(
    manager: &mut TestManager,
    storm: impl Future,
    begun: impl Future<Output = ()>,
    after: Duration,
) {
    let storm = async {
        storm.await;
        std::future::pending::<()>().await;
    };
    let interruption = async {
        within("something is done", begun).await;
        sleep(after).await;
        if split() {
            kill_service(&manager.server).await;
        }
    };
    tokio::select! {
        () = storm => {}
        () = interruption => {}
    }
    if !split() {
        manager.server.kill();
        manager.server.start_again();
        manager.dial_again();
    }
}

#[tokio::test]
async fn a_storm_of_runners_that_is_killed_leaves_whole_logs_with_everything_acknowledged() {
    let mut manager = TestManager::of(TestServer::with(&SETTINGS).await);
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(StormyRun::new(&manager).await);
    }
    let rounds =
        setting("AUND_TEST_KILLS").and_then(|rounds| rounds.parse().ok()).unwrap_or_else(|| as_often(30, 10));
    for round in 0..rounds {
        let begun: Vec<Notify> = runs.iter().map(|_| Notify::new()).collect();
        let storm = join_all(runs.iter_mut().zip(&begun).map(|(run, begun)| run.go(begun)));
        let after = Duration::from_millis(40 + 7 * (round % 13));
        cut_off(&mut manager, storm, all_begun(&begun), after).await;
        if round % 5 == 4 || round + 1 == rounds {
            assert_whole(&manager, &runs).await;
        }
    }
    let acknowledged: usize = runs.iter().map(|run| run.seqs.len()).sum();
    assert!(acknowledged > 0, "nothing was acknowledged");
    println!("{rounds} kills, {acknowledged} acknowledged events");
}

/// Whoever comes first may find that nobody answers yet. Of several gateways each finds the service again by itself, so it is asked over
/// many connections at once.
pub async fn answers(back_end: &TestBackEnd) {
    let all = || async {
        let asked = (0..16).map(|_| back_end.api.call("GET", "/runs?limit=1", &Value::Null));
        join_all(asked).await.iter().all(|answer| answer.status == 200).then_some(())
    };
    crate::support::until("the service answers", all).await;
}

async fn assert_whole(manager: &TestManager, runs: &[StormyRun]) {
    answers(&runs[0].back_end).await;
    join_all(runs.iter().map(StormyRun::assert_whole)).await;
    let accounts = manager.server.by_operator("run.account", &json!({ "recount": true })).await;
    assert_eq!(accounts.expect("it is answered")["corrected"], 0, "accounts are what their rows are");
}

/// Four runners hand a run to each other: whoever gets it gives it back.
async fn hand_over(runner: &mut TestRunner, given: &std::sync::Mutex<BTreeMap<i64, String>>, begun: &Notify) {
    loop {
        let claimed = runner.try_claim(600_000).await;
        match (claimed.status, claimed.failure_kind()) {
            (200, _) => {
                runner.epoch = number(&claimed.body["data"]["lease"]["epoch"]);
                let other =
                    given.lock().expect("nobody panics with it").insert(runner.epoch, runner.id.clone());
                assert!(
                    other.is_none_or(|other| other == runner.id),
                    "epoch {} was given twice",
                    runner.epoch
                );
                begun.notify_one();
                // Whether it was given back, where nobody answers, is seen with the next claim.
                let released = runner.try_lease(json!({ "release": true })).await;
                assert!([200, 503, 504].contains(&released.status), "{}", released.body);
            }
            (409, "runner-lease-conflict") => sleep(Duration::from_millis(1)).await,
            (503 | 504, "infra-failed") => sleep(Duration::from_millis(20)).await,
            _ => panic!("{}: {}", claimed.status, claimed.body),
        }
    }
}

#[tokio::test]
async fn an_epoch_is_given_to_one_runner_whatever_is_killed() {
    let mut manager = TestManager::of(TestServer::with(&SETTINGS).await);
    let back_end = manager.back_end().await;
    let run = back_end.run().await;
    let command = back_end.turn(&run, "x").await;
    let first = back_end.runner(&run, &command).await;
    // Without a command that waits, the lease can be given back.
    back_end.api.ok("POST", &format!("/commands/{command}/cancel"), &json!({}), 200).await;
    let mut runners = vec![first.beside().await, first.beside().await, first.beside().await, first];
    let given: std::sync::Mutex<BTreeMap<i64, String>> = std::sync::Mutex::default();
    for round in 0..8 {
        let begun = Notify::new();
        let storm = join_all(runners.iter_mut().map(|runner| hand_over(runner, &given, &begun)));
        let after = Duration::from_millis(30 + 7 * (round % 5));
        cut_off(&mut manager, storm, begun.notified(), after).await;
    }
    answers(&back_end).await;
    let most = given.lock().expect("nobody panics with it").keys().next_back().copied().unwrap_or_default();
    let mut known = BTreeSet::new();
    for runner in &runners {
        let claimed = runner.try_claim(600_000).await;
        if claimed.status == 200 {
            known.insert(number(&claimed.body["data"]["lease"]["epoch"]));
        }
    }
    assert_eq!(known.len(), 1, "one of them has it: {known:?}");
    assert!(known.first() >= Some(&most), "{known:?}, and {most} was acknowledged");
    assert_contiguous(&back_end.api.events(&run).await);
}

/// A cancel ends a run and its command together, or neither.
#[tokio::test]
async fn a_cancel_that_a_kill_cuts_off_is_whole() {
    let mut manager = TestManager::of(TestServer::with(&SETTINGS).await);
    let back_end = manager.back_end().await;
    for round in 0..3 {
        let mut runs = Vec::new();
        for _ in 0..16 {
            let run = back_end.run().await;
            runs.push((run.clone(), back_end.turn(&run, "x").await));
        }
        let (begun, acknowledged) = (Notify::new(), std::sync::Mutex::new(BTreeSet::new()));
        let cancel = async |run: &String| {
            let asked = back_end.api.call("POST", &format!("/runs/{run}/cancel"), &json!({})).await;
            if finished(asked).is_ok() {
                acknowledged.lock().expect("nobody panics with it").insert(run.clone());
                begun.notify_one();
            }
        };
        let storm = join_all(runs.iter().map(|(run, _)| cancel(run)));
        cut_off(&mut manager, storm, begun.notified(), Duration::from_millis(round)).await;
        answers(&back_end).await;
        for (run, command) in &runs {
            let read = back_end.read(run).await;
            let is_cancelled = read["status"] == "cancelled";
            assert!(is_cancelled || !acknowledged.lock().expect("nobody panics with it").contains(run));
            let state = if is_cancelled { "cancelled" } else { "pending" };
            assert_eq!(back_end.read_command(run, command).await["state"], state, "{read}");
            let path = format!("/runs/{run}/cancel");
            back_end.api.ok("POST", &path, &json!({}), 200).await;
            let events = back_end.api.events(run).await;
            assert_contiguous(&events);
            assert_eq!(types(&events), ["terminal_status", "terminal_status"], "each ends once");
        }
    }
}

/// Somebody who reads the log as a stream, and goes on where it was cut off.
async fn read_on(back_end: &TestBackEnd, run: &str, seen: &mut Vec<Value>) {
    loop {
        let after = seen.len().to_string();
        let path = format!("/runs/{run}/events");
        let mut stream = back_end.api.watch(&path, &[("Last-Event-ID", &after)]).await;
        if stream.status != 200 {
            assert_eq!(stream.status, 503);
            sleep(Duration::from_millis(20)).await;
            continue;
        }
        while let Ok(Some(event)) = stream.try_next().await {
            seen.push(event.data);
        }
    }
}

#[tokio::test]
async fn a_stream_that_a_kill_cuts_off_is_resumed_without_a_gap() {
    let mut manager = TestManager::of(TestServer::with(&SETTINGS).await);
    let mut run = StormyRun::new(&manager).await;
    let (back_end, id) = (run.back_end.clone(), run.run.clone());
    let mut seen = Vec::new();
    for round in 0..6 {
        let begun = Notify::new();
        let storm = futures_util::future::join(run.go(&begun), read_on(&back_end, &id, &mut seen));
        let after = Duration::from_millis(40 + 7 * round);
        cut_off(&mut manager, storm, begun.notified(), after).await;
    }
    assert_whole(&manager, std::slice::from_ref(&run)).await;
    let events = back_end.api.events(&id).await;
    assert!(!seen.is_empty(), "nothing was streamed");
    let mut rest = back_end.api.watch(&format!("/runs/{id}/events?afterSeq={}", seen.len()), &[]).await;
    while seen.len() < events.len() {
        seen.push(rest.next().await.expect("it goes on").data);
    }
    assert_eq!(seen, events);
}

/// The connection lives on where the gateway does, and its subscription does not: it is resumed from the last seq.
#[tokio::test]
async fn a_subscription_is_resumed_after_its_service_was_killed() {
    if !split() {
        return;
    }
    let manager = TestManager::of(TestServer::with(&SETTINGS).await);
    let agent = manager.server.agent("alice").await;
    let back_end = manager.back_end_of(super::client::TENANT_OF_AGENTS).await;
    let (run, command, runner) = back_end.working().await;
    agent.call("run.subscribe", &json!({ "runId": run, "afterSeq": 0 })).await;
    runner.say(&command, "e-1", "before").await;
    assert_eq!(agent.next_event().await["params"]["seq"], 1);
    kill_service(&manager.server).await;
    crate::support::until("runners go on", || async {
        (runner.try_append(json!([said(&command, "e-2", "after")])).await.status == 200).then_some(())
    })
    .await;
    let again = json!({ "runId": run, "afterSeq": 1 });
    crate::support::until("agents go on", || async { agent.try_call("run.subscribe", &again).await.ok() })
        .await;
    assert_eq!(agent.next_event().await["params"]["seq"], 2);
    runner.say(&command, "e-3", "more").await;
    assert_eq!(agent.next_event().await["params"]["seq"], 3);
}
