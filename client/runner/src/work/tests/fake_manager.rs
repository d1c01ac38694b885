//! The private routes of a manager, as far as turns need them.

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, HOST};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::sleep;

/// A manager with one run that has one command, unless it is told otherwise.
pub struct FakeManager {
    listener: TcpListener,
    state: Mutex<FakeState>,
}

#[derive(Default)]
struct FakeState {
    /// The payloads of the turns `cmd_1`, `cmd_2` and so on.
    turns: Vec<Value>,
    /// The answers for attachments, by their paths.
    attachments: BTreeMap<String, FakeAttachment>,
    /// The paths of attachments that were asked for.
    asked: Vec<String>,
    /// Commands that are to be cancelled.
    cancelled: Vec<String>,
    /// The events in their order, and where each id is.
    printed: Vec<String>,
    known: BTreeMap<String, usize>,
    ends: Vec<String>,
    /// The sentences of the ends that have one.
    failures: Vec<String>,
    loses: bool,
    takes_nothing: bool,
    answers: usize,
    lost: usize,
    refused: usize,
    /// What the last request called this manager.
    host: String,
}

/// How an attachment is answered.
#[derive(Clone, Debug)]
pub enum FakeAttachment {
    Bytes(Vec<u8>),
    /// Refused with a status so many times, and then bytes.
    After(usize, u16, Vec<u8>),
    /// Never.
    Silent,
}

impl FakeManager {
    pub async fn start() -> FakeManager {
        FakeManager::with_turns(vec![json!({ "prompt": "hello" })]).await
    }

    pub async fn with_turns(turns: Vec<Value>) -> FakeManager {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        FakeManager { listener, state: Mutex::new(FakeState { turns, ..FakeState::default() }) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("it listens")
    }

    pub fn host(&self) -> String {
        self.state.lock().host.clone()
    }

    /// `segment` is the last one of the path, as it is sent.
    pub fn attach(&self, segment: &str, attachment: FakeAttachment) {
        let path = format!("/api/v1/runs/run_1/attachments/{segment}");
        self.state.lock().attachments.insert(path, attachment);
    }

    pub fn asked(&self) -> usize {
        self.state.lock().asked.len()
    }

    pub fn cancel(&self, command_id: &str) {
        self.state.lock().cancelled.push(command_id.to_owned());
    }

    pub fn lose_every_other_answer(&self) {
        self.state.lock().loses = true;
    }

    pub fn take_nothing(&self, takes_nothing: bool) {
        self.state.lock().takes_nothing = takes_nothing;
    }

    pub fn printed(&self) -> Vec<String> {
        self.state.lock().printed.clone()
    }

    pub fn ends(&self) -> Vec<String> {
        self.state.lock().ends.clone()
    }

    pub fn failures(&self) -> Vec<String> {
        self.state.lock().failures.clone()
    }

    pub fn lost(&self) -> usize {
        self.state.lock().lost
    }

    pub fn refused(&self) -> usize {
        self.state.lock().refused
    }

    /// All connections, until it is dropped.
    pub async fn serve(&self) {
        let mut open = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    let (stream, _) = accepted.expect("it listens");
                    let service = service_fn(|request| self.answer(request));
                    open.push(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
                }
                // A connection that broke is one whose answer was lost.
                Some(_) = open.next() => {}
            }
        }
    }

    /// The answer, which may be lost after what was asked has been done.
    async fn answer(&self, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
        let path = request.uri().path().to_owned();
        if path.contains("/attachments/") {
            assert_eq!(request.headers()[AUTHORIZATION], "Bearer arr_0123456789");
            return self.attachment(&path).await;
        }
        let after = after_seq(request.uri().query().unwrap_or_default());
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let host = host.to_owned();
        let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if after.is_some_and(|after| after > 0) {
            sleep(Duration::from_millis(50)).await;
        }
        let mut state = self.state.lock();
        state.host = host;
        let answered = state.answer(&path, after.unwrap_or_default(), &body);
        state.answers += 1;
        if state.loses && state.answers.is_multiple_of(2) {
            state.lost += 1;
            return Err(io::Error::other("this answer is lost"));
        }
        let (status, body) = match answered {
            Some(data) => (200, json!({ "ok": true, "data": data })),
            None => {
                state.refused += 1;
                (503, json!({ "ok": false, "failureKind": "infra-failed", "message": "not now" }))
            }
        };
        answered_with(status, body.to_string().into_bytes())
    }

    async fn attachment(&self, path: &str) -> io::Result<Response<Full<Bytes>>> {
        let answer = {
            let mut state = self.state.lock();
            state.asked.push(path.to_owned());
            let answer = state.attachments.get(path).cloned();
            if let Some(FakeAttachment::After(times @ 1.., ..)) = state.attachments.get_mut(path) {
                *times -= 1;
            }
            answer
        };
        let refused = |kind: &str| json!({ "ok": false, "failureKind": kind, "message": "no attachment" });
        match answer {
            None => answered_with(404, refused("not-found").to_string().into_bytes()),
            Some(FakeAttachment::Bytes(bytes) | FakeAttachment::After(0, _, bytes)) => {
                answered_with(200, bytes)
            }
            Some(FakeAttachment::After(_, status, _)) => {
                answered_with(status, refused("infra-failed").to_string().into_bytes())
            }
            Some(FakeAttachment::Silent) => std::future::pending().await,
        }
    }
}

fn answered_with(status: u16, body: Vec<u8>) -> io::Result<Response<Full<Bytes>>> {
    Response::builder().status(status).body(Full::from(body)).map_err(io::Error::other)
}

/// Behind which command a poll asks.
fn after_seq(query: &str) -> Option<usize> {
    let after = query.split('&').find_map(|pair| pair.strip_prefix("afterSeq="));
    after.map(|after| after.parse().expect("a number"))
}

impl FakeState {
    /// What was asked is done; nothing where it is not.
    fn answer(&mut self, path: &str, after: usize, body: &Value) -> Option<Value> {
        let cancelled = &self.cancelled;
        let news =
            json!({ "cancelRequested": !cancelled.is_empty(), "commandIds": cancelled, "approvals": [] });
        let with = |more: Value| {
            let mut data = news.clone();
            data.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
            Some(data)
        };
        let lease = json!({ "runnerId": "runner_1", "attemptId": "attempt_1", "epoch": 1, "expiresAt": "" });
        let mut segments = path.rsplit('/');
        match segments.next().unwrap_or_default() {
            "register" => {
                Some(json!({ "runnerId": "runner_1", "registeredAt": "", "heartbeatIntervalMs": 20 }))
            }
            "claim" => Some(json!({ "run": run(), "lease": lease, "recovered": false })),
            "lease" if body["release"] == true => with(json!({ "released": true })),
            "lease" => with(json!({ "lease": lease })),
            "commands" => {
                let commands: Vec<Value> =
                    (after + 1..=self.turns.len()).map(|seq| self.command(seq)).collect();
                with(json!({ "commands": commands, "nextAfterSeq": self.turns.len() }))
            }
            "ack" => Some(self.command_of(segments.next())),
            "events" if self.takes_nothing => None,
            "events" => Some(self.append(body)),
            "status" => {
                let command_id = segments.next();
                let status = body["status"].as_str().unwrap_or_default();
                let end = format!("{} {status}", command_id.unwrap_or_default());
                if !self.ends.contains(&end) {
                    self.ends.push(end);
                    self.failures.extend(body["failureMessage"].as_str().map(str::to_owned));
                }
                Some(self.command_of(command_id))
            }
            other => panic!("a runner does not ask for {other}"),
        }
    }

    fn command(&self, seq: usize) -> Value {
        let number = i64::try_from(seq).expect("a small number");
        let payload = self.turns[seq - 1].clone();
        serde_json::to_value(crate::test_commands::command(number, "turn", payload)).expect("it is JSON")
    }

    fn command_of(&self, command_id: Option<&str>) -> Value {
        let seq = command_id.and_then(|id| id.strip_prefix("cmd_")).expect("an id of a command");
        self.command(seq.parse().expect("a number"))
    }

    fn append(&mut self, body: &Value) -> Value {
        let mut appended = Vec::new();
        for event in body["events"].as_array().expect("a list") {
            let id = event["clientEventId"].as_str().expect("an id").to_owned();
            let seq = *self.known.entry(id.clone()).or_insert_with(|| {
                self.printed.push(event["payload"]["text"].as_str().unwrap_or_default().to_owned());
                self.printed.len()
            });
            appended.push(json!({ "clientEventId": id, "seq": seq }));
        }
        json!({ "appended": appended, "lastSeq": self.printed.len() })
    }
}

fn run() -> Value {
    json!({
        "runId": "run_1", "tenantId": "t", "projectId": "p", "workspaceRef": {}, "providerId": "x",
        "backendProfile": "example", "traceSink": null, "sessionRef": null, "resourceBundleRef": null,
        "executionPolicy": {
            "sandbox": "workspace-write", "approval": "never", "timeoutMs": 60000, "network": "enabled", "secretScope": {},
        },
        "status": "claimed", "terminalStatus": null, "failureKind": null, "failureMessage": null, "lease": null,
        "lastSeq": 0, "createdAt": "", "updatedAt": "", "cancelRequestedAt": null,
    })
}
