//! Runners and their server are killed again and again while they work: no turn is done twice, nothing that was acknowledged is missing, and
//! at the end nothing is left of any runner.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::local::{files_with, nothing_is_left, runners, scripted, server, signal};
use crate::runs::client::{ManagerAnswer, TestBackEnd, TestManager, assert_contiguous, number};
use crate::runs::kill::{answers, kill_service};
use crate::support::agent::text;
use crate::support::{as_often, setting, split, until};

const RUNS: usize = 4;
/// It writes down by itself which turns it has begun and done.
const SCRIPT: &str = r#"while read -r line; do case $line in *'"type":"turn"'*)
    id=${line#*'"commandId":"'}; id=${id%%'"'*}
    echo "$id" >> begun; printf '{"type":"text","itemId":"%s","delta":"working "}\n' "$id"
    sleep 0.2; echo "$id" >> done
    printf '{"type":"message","itemId":"%s","text":"done %s"}\n{"type":"done","status":"completed"}\n' "$id" "$id";;
  esac; done"#;

/// A run that gets one turn after the other. What was cut off is done again: each step may be repeated.
struct KilledRun {
    back_end: TestBackEnd,
    run: String,
    turns: usize,
    current: Option<String>,
    jobs: BTreeMap<String, Value>,
    /// How each turn has ended that was seen to end.
    ends: BTreeMap<String, String>,
}

/// The data of an answer, unless nobody answered. What is refused for now is no answer either.
fn answered(mut answer: ManagerAnswer) -> Option<Value> {
    match (answer.status, answer.failure_kind()) {
        (200 | 201, _) => Some(answer.body["data"].take()),
        (503 | 504, "infra-failed") | (429, "rate-limited") => None,
        (409, "runner-lease-conflict" | "job-already-active" | "schema-invalid") => None,
        _ => panic!("{}: {}", answer.status, answer.body),
    }
}

impl KilledRun {
    async fn new(manager: &TestManager, number: usize) -> KilledRun {
        let back_end = manager.back_end_of(&format!("l{number}")).await;
        let mut new = back_end.new_run();
        new["backendProfile"] = json!("counts");
        let run = text(&back_end.api.ok("POST", "/runs", &new, 201).await["runId"]);
        KilledRun { back_end, run, turns: 0, current: None, jobs: BTreeMap::new(), ends: BTreeMap::new() }
    }

    async fn step(&mut self) {
        let api = &self.back_end.api;
        let Some(command) = self.current.clone() else {
            let key = format!("turn-{}", self.turns);
            let body = json!({ "type": "turn", "payload": { "prompt": "x" }, "idempotencyKey": key });
            let made = api.call("POST", &format!("/runs/{}/commands", self.run), &body).await;
            self.current = answered(made).map(|made| text(&made["commandId"]));
            return;
        };
        let read = api.call("GET", &format!("/runs/{}/commands/{command}", self.run), &Value::Null).await;
        if let Some(read) = answered(read)
            && !read["terminalStatus"].is_null()
        {
            self.ends.insert(command, text(&read["state"]));
            (self.turns, self.current) = (self.turns + 1, None);
            return;
        }
        let body = json!({ "commandId": command, "idleTimeoutMs": 1000 });
        let made = api.call("POST", &format!("/runs/{}/runner-jobs", self.run), &body).await;
        if let Some(job) = answered(made) {
            self.jobs.insert(text(&job["runnerJobId"]), job);
        }
        sleep(Duration::from_millis(50)).await;
    }

    async fn go(&mut self) {
        loop {
            self.step().await;
        }
    }

    /// The runner that works, if there is one.
    fn pid(&self) -> Option<i64> {
        let last =
            self.jobs.values().filter(|job| job["pid"].is_i64()).max_by_key(|job| text(&job["createdAt"]))?;
        let pid = number(&last["pid"]);
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&text(&last["runnerJobId"])).then_some(pid)
    }

    /// What its back end has written down.
    fn written(&self, manager: &TestManager, name: &str) -> Vec<String> {
        let folder = runners(manager).join("storage").join(&self.run).join("workspace");
        let written = fs::read_to_string(folder.join(name)).unwrap_or_default();
        written.lines().map(str::to_owned).collect()
    }

    async fn assert_whole(&self, manager: &TestManager) {
        assert_contiguous(&self.back_end.api.events(&self.run).await);
        let (begun, done) = (self.written(manager, "begun"), self.written(manager, "done"));
        for written in [&begun, &done] {
            let once: BTreeSet<&String> = written.iter().collect();
            assert_eq!(once.len(), written.len(), "a turn was worked on twice: {written:?}");
        }
        for (command, state) in &self.ends {
            let read = self.back_end.read_command(&self.run, command).await;
            assert_eq!(read["state"], state.as_str(), "its end was told: {read}");
            match state.as_str() {
                "completed" => assert!(done.contains(command), "{read}"),
                _ => assert!(
                    ["backend-failed", "infra-failed"].contains(&text(&read["failureKind"]).as_str()),
                    "{read}"
                ),
            }
        }
    }
}

#[tokio::test]
async fn nothing_is_done_twice_or_left_over_whatever_is_killed() {
    let kills = setting("AUND_TEST_KILLS").map_or(as_often(30, 6), |kills| kills.parse().expect("a number"));
    let settings = format!("{}run.session_gc_interval_ms = 500\n", scripted("counts", SCRIPT));
    let mut manager = server(&settings);
    let mut runs = Vec::new();
    for number in 0..RUNS {
        runs.push(KilledRun::new(&manager, number).await);
    }
    for round in 0..kills {
        let storm = join_all(runs.iter_mut().map(KilledRun::go));
        // Long enough for a turn, and never the same moment of it.
        let cut_off = timeout(Duration::from_millis(700 + 37 * (round as u64 % 11)), storm).await;
        assert!(cut_off.is_err(), "they work until they are cut off");
        let (kills_runner, kills_server) = (round % 3 != 1, round % 3 != 0);
        if kills_server && !split() {
            manager.server.kill();
        }
        if kills_runner && let Some(pid) = runs[round % RUNS].pid() {
            signal(pid, "KILL");
        }
        match (kills_server, split()) {
            (true, true) => kill_service(&manager.server).await,
            (true, false) => manager.server.start_again(),
            (false, _) => {}
        }
        manager.dial_again();
        answers(&runs[0].back_end).await;
    }
    for run in &mut runs {
        while run.current.is_some() || run.turns == 0 {
            run.step().await;
        }
    }
    let turns: usize = runs.iter().map(|run| run.turns).sum();
    let completed =
        runs.iter().flat_map(|run| run.ends.values()).filter(|state| state.as_str() == "completed").count();
    eprintln!("{kills} kills, {turns} turns, {completed} of them completed");
    assert!(completed > 0, "somebody worked");
    for run in &runs {
        run.assert_whole(&manager).await;
    }
    for run in &runs {
        run.back_end.api.ok("POST", &format!("/runs/{}/cancel", run.run), &json!({}), 200).await;
        let ended = || async { (run.back_end.read(&run.run).await["status"] == "cancelled").then_some(()) };
        until("the run ends", ended).await;
        let jobs = run.back_end.api.get(&format!("/runs/{}/runner-jobs", run.run)).await;
        for job in jobs["runnerJobs"].as_array().expect("a list") {
            assert!(["succeeded", "failed"].contains(&text(&job["phase"]).as_str()), "{job}");
            nothing_is_left(&manager, job).await;
        }
        let storage = runners(&manager).join("storage").join(&run.run);
        until("its storage is removed", || async { (!storage.exists()).then_some(()) }).await;
    }
    assert!(files_with(&runners(&manager), "arr_").is_empty(), "no token is in a file");
}
