//! The private routes of a manager, as far as one turn needs them.

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::HOST;
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

/// A manager with one run that has one command.
pub struct FakeManager {
    listener: TcpListener,
    state: Mutex<FakeState>,
}

#[derive(Default)]
struct FakeState {
    /// The events in their order, and where each id is.
    printed: Vec<String>,
    known: BTreeMap<String, usize>,
    is_taken: bool,
    ends: Vec<String>,
    loses: bool,
    takes_nothing: bool,
    answers: usize,
    lost: usize,
    refused: usize,
    /// What the last request called this manager.
    host: String,
}

impl FakeManager {
    pub async fn start() -> FakeManager {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        FakeManager { listener, state: Mutex::default() }
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
        let is_poll = path.ends_with("/commands");
        let is_first = request.uri().query().is_some_and(|query| query.contains("afterSeq=0"));
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let host = host.to_owned();
        let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if is_poll && !is_first {
            sleep(Duration::from_millis(50)).await;
        }
        let mut state = self.state.lock();
        state.host = host;
        let answered = state.answer(&path, &body);
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
        Response::builder().status(status).body(Full::from(body.to_string())).map_err(io::Error::other)
    }
}

impl FakeState {
    /// What was asked is done; nothing where it is not.
    fn answer(&mut self, path: &str, body: &Value) -> Option<Value> {
        let news = json!({ "cancelRequested": false, "commandIds": [], "approvals": [] });
        let with = |more: Value| {
            let mut data = news.clone();
            data.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
            Some(data)
        };
        let lease = json!({ "runnerId": "runner_1", "attemptId": "attempt_1", "epoch": 1, "expiresAt": "" });
        match path.rsplit('/').next().unwrap_or_default() {
            "register" => {
                Some(json!({ "runnerId": "runner_1", "registeredAt": "", "heartbeatIntervalMs": 20 }))
            }
            "claim" => Some(json!({ "run": run(), "lease": lease, "recovered": false })),
            "lease" if body["release"] == true => with(json!({ "released": true })),
            "lease" => with(json!({ "lease": lease })),
            "commands" => {
                let commands =
                    if self.ends.is_empty() && !self.is_taken { vec![command()] } else { Vec::new() };
                with(json!({ "commands": commands, "nextAfterSeq": 1 }))
            }
            "ack" => {
                self.is_taken = true;
                Some(command())
            }
            "events" if self.takes_nothing => None,
            "events" => Some(self.append(body)),
            "status" => {
                let end = format!("cmd_1 {}", body["status"].as_str().unwrap_or_default());
                if !self.ends.contains(&end) {
                    self.ends.push(end);
                }
                Some(command())
            }
            other => panic!("a runner does not ask for {other}"),
        }
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

fn command() -> Value {
    serde_json::to_value(crate::test_commands::command(1, "turn", json!({ "prompt": "hello" })))
        .expect("it is JSON")
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
