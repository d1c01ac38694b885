//! An agent with a conversation, and the runner that works on it.

use crate::Settings;
use crate::settings::FrontEndSettings;
use crate::tests::support::{TestRuns, runner};
use axum::http::Request;
use kernel::{Aid, Caller, CallingAgent, RpcError};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

pub const THREAD: &str = "550e8400-e29b-41d4-a716-446655440000";

pub struct FrontEnd {
    pub runs: TestRuns,
    pub alice: Caller,
    events: AtomicUsize,
}

/// What has the lease of the conversation's run.
pub struct WorkingRunner {
    pub run: String,
    runner: String,
    caller: Caller,
    epoch: i64,
}

impl FrontEnd {
    pub async fn open() -> FrontEnd {
        FrontEnd::with(FrontEndSettings::default()).await
    }

    pub async fn with(agui: FrontEndSettings) -> FrontEnd {
        let runs = TestRuns::with(Settings { agui, ..Settings::default() }).await;
        FrontEnd { runs, alice: agent("alice.aid.pub"), events: AtomicUsize::default() }
    }

    pub async fn ask(&self, caller: &Caller, method: &str, params: Value) -> Result<Value, RpcError> {
        self.runs.call(caller, method, params).await
    }

    /// As alice.
    pub async fn ok(&self, method: &str, params: Value) -> Value {
        self.ask(&self.alice, method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The sentence and the status of a refusal.
    pub async fn refused(&self, method: &str, params: Value) -> (String, u16) {
        let error = self.ask(&self.alice, method, params).await.expect_err(method);
        (error.to_string(), error.http_status().as_u16())
    }

    pub async fn run(&self, input: Value) -> Value {
        self.ok("agui.run", json!({ "input": input })).await
    }

    pub async fn run_refused(&self, input: Value) -> (String, u16) {
        self.refused("agui.run", json!({ "input": input })).await
    }

    /// A runner with the lease of the run in which the conversation is.
    pub async fn runner(&self) -> WorkingRunner {
        let run = self.run_of_thread().await;
        let attempt = format!("attempt_{}", self.next());
        let caller = runner(&run, &attempt);
        let register = json!({ "runId": run, "backendProfile": "example", "placement": "host-process" });
        let registered = self.ask(&caller, "runner.register", register).await.unwrap();
        let name = registered["runnerId"].as_str().unwrap().to_owned();
        let claim = json!({ "runId": run, "runnerId": name, "attemptId": attempt, "leaseMs": 600_000 });
        let claimed = self.ask(&caller, "runner.claim", claim).await.unwrap();
        WorkingRunner { run, runner: name, caller, epoch: claimed["lease"]["epoch"].as_i64().unwrap() }
    }

    pub async fn run_of_thread(&self) -> String {
        self.runs.run.store.thread(THREAD).await.unwrap().unwrap().run_id
    }

    fn next(&self) -> usize {
        self.events.fetch_add(1, Ordering::Relaxed)
    }

    pub async fn acknowledge(&self, runner: &WorkingRunner, command: &str) {
        self.as_runner(runner, "runner.acknowledge", json!({ "commandId": command })).await;
    }

    pub async fn say(&self, runner: &WorkingRunner, command: &str, events: &[(&str, Value)]) {
        let events: Vec<Value> = events
            .iter()
            .map(|(kind, payload)| {
                let id = format!("event {}", self.next());
                json!({ "clientEventId": id, "type": kind, "commandId": command, "payload": payload })
            })
            .collect();
        self.as_runner(runner, "runner.append_events", json!({ "events": events })).await;
    }

    pub async fn end(&self, runner: &WorkingRunner, command: &str, status: &str) {
        let end = json!({ "commandId": command, "status": status });
        self.as_runner(runner, "runner.set_command_status", end).await;
    }

    async fn as_runner(&self, runner: &WorkingRunner, method: &str, mut params: Value) -> Value {
        params["runnerId"] = json!(runner.runner);
        params["epoch"] = json!(runner.epoch);
        if method == "runner.append_events" {
            params["runId"] = json!(runner.run);
        }
        let answer = self.ask(&runner.caller, method, params).await;
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// A whole turn with one message.
    pub async fn answer(&self, runner: &WorkingRunner, command: &str, text: &str) {
        self.acknowledge(runner, command).await;
        let message = json!({ "itemId": format!("{command}-said"), "text": text, "final": false });
        let reply = json!({ "itemId": format!("{command}-said"), "text": text, "final": true, "replyAuthority": true });
        self.say(runner, command, &[("assistant_message", message), ("assistant_message", reply)]).await;
        self.end(runner, command, "completed").await;
    }

    /// The frames of a run that is over, as `id type`, and their data.
    pub async fn frames(&self, query: &str, last: Option<&str>) -> Vec<(String, Value)> {
        let uri = format!("/api/v1/agent/runs/{THREAD}/events?{query}");
        let mut request = Request::builder().uri(uri);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let answer = self.runs.test.http("run", &self.alice, request).await;
        assert!([200, 204].contains(&answer.status), "{}", answer.status);
        frames_of(answer.text())
    }

    pub async fn http(&self, request: axum::http::request::Builder, body: &str) -> testing::TestAnswer {
        self.runs.test.http_with("run", &self.alice, request, body).await
    }
}

pub fn agent(aid: &str) -> Caller {
    let agent = CallingAgent::without_session(Aid::parse(aid).unwrap(), [127, 0, 0, 1].into());
    Caller::Agent(CallingAgent { connection: 1, ..agent })
}

/// An input with one message.
pub fn input(run: &str, text: &str) -> Value {
    json!({
        "threadId": THREAD, "runId": run, "messages": [{ "id": format!("msg-{run}"), "role": "user", "content": text }],
        "forwardedProps": { "runtime_mode": "chat" },
    })
}

pub fn task(accepted: &Value) -> String {
    accepted["taskId"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned()
}

pub fn frames_of(text: &str) -> Vec<(String, Value)> {
    let blocks = text.split("\n\n").filter(|block| block.starts_with("id: "));
    let frames = blocks.map(|block| {
        let line = |name: &str| {
            let found = block.lines().find_map(|line| line.strip_prefix(name));
            found.unwrap_or_else(|| panic!("{block}")).to_owned()
        };
        let data: Value = serde_json::from_str(&line("data: ")).unwrap();
        assert_eq!(data["type"], json!(line("event: ")));
        (line("id: "), data)
    });
    frames.collect()
}

pub fn kinds(frames: &[(String, Value)]) -> Vec<&str> {
    frames.iter().map(|(_, data)| data["type"].as_str().unwrap()).collect()
}
