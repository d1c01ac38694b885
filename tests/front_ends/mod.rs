//! Conversations while everything that works on them is killed again and again: every run that was accepted ends, and the history has each
//! message once.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::runner::local::{server, signal};
use crate::runs::client::{ManagerAnswer, TestApi, TestManager, written};
use crate::runs::kill::{answers, kill_service};
use crate::support::agent::{random_hex, text};
use crate::support::{as_often, setting, split, until};

const THREADS: usize = 5;

/// A front end that says one thing after the other. What was cut off is said again: it is the same run then.
struct TalkingFrontEnd {
    api: TestApi,
    thread: String,
    said: usize,
    /// The runs that were accepted, and their turns.
    accepted: BTreeMap<String, String>,
}

impl TalkingFrontEnd {
    async fn new(manager: &TestManager, number: usize) -> TalkingFrontEnd {
        let identity = manager.server.register(&format!("talks-{number}-{}", random_hex(3))).await;
        let token = manager.server.login(&identity).await.access;
        let hex = random_hex(16);
        let thread =
            format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
        let api = manager.api(Some(token));
        TalkingFrontEnd { api, thread, said: 0, accepted: BTreeMap::new() }
    }

    async fn say(&mut self) {
        let run = format!("run-{}", self.said);
        let input = json!({
            "threadId": self.thread, "runId": run, "forwardedProps": { "runtime_mode": "chat" },
            "messages": [{ "id": format!("message-{}", self.said), "role": "user", "content": format!("say {run} /tool") }],
        });
        match self.api.try_send("POST", "/agent/runs", &[], written(&input)).await {
            Ok(ManagerAnswer { status: 202, body, .. }) => {
                self.accepted.insert(run, text(&body["taskId"]));
                self.said += 1;
            }
            // As many wait as may.
            Ok(ManagerAnswer { status: 429 | 502 | 503 | 504, .. }) | Err(_) => {}
            Ok(other) => panic!("{}: {}", other.status, other.body),
        }
        sleep(Duration::from_millis(40)).await;
    }

    async fn talk(&mut self) {
        loop {
            self.say().await;
        }
    }

    async fn history(&self) -> Vec<Value> {
        let path = format!("/agent/history?threadId={}", self.thread);
        let read = self.api.call("GET", &path, &Value::Null).await;
        assert_eq!(read.status, 200, "{}", read.body);
        read.body["messages"].as_array().expect("a list").clone()
    }

    /// The kinds of the frames of a run, from its start to its end.
    async fn frames(&self, run: &str) -> Vec<String> {
        let path = format!("/agent/runs/{}/events?runId={run}", self.thread);
        let mut stream = self.api.watch(&path, &[]).await;
        stream.rest().await.iter().map(|event| event.name.clone()).collect()
    }
}

#[tokio::test]
async fn every_accepted_run_ends_and_the_history_has_each_message_once_whatever_is_killed() {
    let kills = setting("AUND_TEST_KILLS").map_or(as_often(30, 6), |kills| kills.parse().expect("a number"));
    let mut manager = server("run.agui.idle_ms = 1000\n");
    let back_end = manager.back_end_of("l0").await;
    let mut talking = Vec::new();
    for number in 0..THREADS {
        talking.push(TalkingFrontEnd::new(&manager, number).await);
    }
    for round in 0..kills {
        let storm = join_all(talking.iter_mut().map(TalkingFrontEnd::talk));
        let cut_off = timeout(Duration::from_millis(300 + 37 * (round as u64 % 11)), storm).await;
        assert!(cut_off.is_err(), "they talk until they are cut off");
        let (kills_runner, kills_server) = (round % 3 != 1, round % 3 != 0);
        if kills_server && !split() {
            manager.server.kill();
        }
        if kills_runner {
            kill_a_runner(&manager, round);
        }
        match (kills_server, split()) {
            (true, true) => kill_service(&manager.server).await,
            (true, false) => manager.server.start_again(),
            (false, _) => {}
        }
        manager.dial_again();
        answers(&back_end).await;
    }
    for front_end in &talking {
        assert!(!front_end.accepted.is_empty(), "somebody talked");
        for run in front_end.accepted.keys() {
            let frames = front_end.frames(run).await;
            let ends = |kind: &&String| ["RUN_FINISHED", "RUN_ERROR"].contains(&kind.as_str());
            assert_eq!(frames.iter().filter(ends).count(), 1, "{run}: {frames:?}");
            assert!(frames.last().is_some_and(|last| ends(&last)), "{run}: {frames:?}");
        }
        let history = front_end.history().await;
        let of = |role: &str| -> Vec<String> {
            let said = history.iter().filter(|row| row["role"] == role);
            said.map(|row| text(&row["content"])).collect()
        };
        let (asked, answered) = (of("user"), of("assistant"));
        let wanted: Vec<String> = (0..front_end.said).map(|n| format!("say run-{n} /tool")).collect();
        assert_eq!(asked[..wanted.len()], wanted, "each once, in their order");
        // The last one may have been accepted although its answer was cut off.
        assert!(asked.len() <= wanted.len() + 1, "{asked:?}");
        let mut once = answered.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), answered.len(), "{answered:?}");
        assert!(answered.iter().all(|said| said.starts_with("You said: say run-")), "{answered:?}");
    }
    let accounts = manager.server.by_operator("run.account", &json!({ "recount": true })).await;
    assert_eq!(accounts.expect("it is answered")["corrected"], 0, "accounts are what their rows are");
    // One that waits for the lease of a runner that was killed ends a minute later, when it has found nothing to do.
    for _ in 0..100 {
        if runners_of(&manager).is_empty() {
            break;
        }
        sleep(Duration::from_secs(1)).await;
    }
    until("no runner is left", || async { runners_of(&manager).is_empty().then_some(()) }).await;
}

/// The processes of runners that this server has started.
fn runners_of(manager: &TestManager) -> Vec<i64> {
    let data = manager.server.data().display().to_string();
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let ids = processes.filter_map(|process| process.file_name().to_str()?.parse::<i64>().ok());
    let is_runner = |id: &i64| {
        let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        let command = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&data)
            && String::from_utf8_lossy(&command).contains("\0runner\0")
    };
    ids.filter(is_runner).collect()
}

fn kill_a_runner(manager: &TestManager, round: usize) {
    let runners = runners_of(manager);
    if !runners.is_empty() {
        signal(runners[round % runners.len()], "KILL");
    }
}

#[tokio::test]
async fn a_connection_is_told_the_frames_that_a_stream_has() {
    let manager = server("");
    let identity = manager.server.register(&format!("told-{}", random_hex(3))).await;
    let agent = manager.server.connect(&identity, |_| ()).await;
    let token = manager.server.login(&identity).await.access;
    let thread = "550e8400-e29b-41d4-a716-446655440000";
    let input = json!({
        "threadId": thread, "runId": "run-1", "forwardedProps": { "runtime_mode": "chat" },
        "messages": [{ "id": "message-1", "role": "user", "content": "What time is it? /tool" }],
    });
    agent.call("agui.run", &json!({ "input": input })).await;
    agent.call("agui.subscribe", &json!({ "threadId": thread, "runId": "run-1" })).await;
    let mut told = Vec::new();
    while told.last().is_none_or(|(_, frame): &(String, Value)| frame["type"] != "RUN_FINISHED") {
        let event = agent.next_event().await;
        assert_eq!(
            (&event["method"], &event["params"]["threadId"]),
            (&json!("event/agui.frame"), &json!(thread))
        );
        assert_eq!(event["params"]["runId"], "run-1");
        told.push((text(&event["params"]["id"]), event["params"]["frame"].clone()));
    }
    let api = manager.api(Some(token));
    let mut stream = api.watch(&format!("/agent/runs/{thread}/events?runId=run-1"), &[]).await;
    let streamed: Vec<(String, Value)> =
        stream.rest().await.into_iter().map(|event| (event.id, event.data)).collect();
    assert_eq!(told, streamed);
    // It ends with its run.
    let ended = || async {
        let left = agent.call("agui.unsubscribe", &json!({ "threadId": thread })).await;
        (left["unsubscribed"] == false).then_some(())
    };
    until("the subscription has ended", ended).await;
}
