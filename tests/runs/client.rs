//! The HTTP API of runs as back ends and runners use it. Every answer is looked at whole: it is JSON, in the envelope of runs, and
//! its ids agree with its headers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio_util::task::TaskTracker;

use crate::support::agent::{random_hex, text};
use crate::support::{TestServer, within};

/// How many tenants there are besides those of the seed, so that every test has one of its own.
const TENANTS: usize = 160;
/// The tenant for which every agent of the domain acts.
pub const TENANT_OF_AGENTS: &str = "agents";
/// The profile that needs no credential.
pub const PROFILE: &str = "example";

/// The settings of the server that most of these tests share.
pub static SETTINGS: LazyLock<String> = LazyLock::new(|| {
    let mut settings = String::from(
        "limits.calls_per_second = 1000000\nlimits.http_per_second = 1000000\nlimits.connects_per_second = 100000\n\
         run.active_runs = 1000000\nrun.tenants.unidesk = {}\nrun.tenants.hwlab = {}\n\
         run.tenants.careful = { sandbox = \"read-only\", network = \"disabled\", timeout_ms = 60000 }\n\
         run.tenants.agents = { aids = [\"*\"] }\n",
    );
    for number in 0..TENANTS {
        settings.push_str(&format!("run.tenants.t{number} = {{}}\n"));
    }
    settings
});

/// The shared server, and a client of it.
pub struct TestManager {
    pub server: TestServer,
    http: Arc<TestHttp>,
}

impl TestManager {
    pub async fn shared() -> TestManager {
        TestManager::of(TestServer::shared_with(&SETTINGS).await)
    }

    pub fn of(server: TestServer) -> TestManager {
        let http = Arc::new(TestHttp::new(&server));
        TestManager { server, http }
    }

    /// After the server was started again its ports are others.
    pub fn dial_again(&self) {
        *self.http.to.lock().expect("nobody panics with it") = address(&self.server);
        self.http.idle.lock().expect("nobody panics with it").clear();
    }

    /// A back end of a tenant that no other test has.
    pub async fn back_end(&self) -> TestBackEnd {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % TENANTS;
        self.back_end_of(&format!("t{number}")).await
    }

    pub async fn back_end_of(&self, tenant: &str) -> TestBackEnd {
        let made = self.server.by_operator("run.token_create", &json!({ "tenantId": tenant })).await;
        let token = text(&made.expect("the operator may make tokens")["token"]);
        TestBackEnd { api: self.api(Some(token)), tenant: tenant.to_owned() }
    }

    pub async fn admin(&self) -> TestApi {
        let made = self.server.by_operator("run.token_create", &json!({ "admin": true })).await;
        self.api(Some(text(&made.expect("the operator may make tokens")["token"])))
    }

    /// The API with this token, or without one.
    pub fn api(&self, token: Option<String>) -> TestApi {
        TestApi { http: self.http.clone(), token }
    }
}

fn address(server: &TestServer) -> SocketAddr {
    (server.host(), server.plain_port).into()
}

/// Sooner than a server closes a connection that nobody uses: a test that does something else for longer would not have noticed.
const KEPT_IDLE: Duration = Duration::from_secs(5);

/// Connections to one server, which are used again.
struct TestHttp {
    to: Mutex<SocketAddr>,
    from: Ipv4Addr,
    host: String,
    idle: Mutex<Vec<(Instant, SendRequest<Full<Bytes>>)>>,
    tracker: TaskTracker,
}

impl TestHttp {
    fn new(server: &TestServer) -> TestHttp {
        let random = u32::from_str_radix(&random_hex(4), 16).expect("it is hexadecimal");
        let [_, a, b, c] = random.to_be_bytes();
        TestHttp {
            to: Mutex::new(address(server)),
            // Limits before the token is known count by address.
            from: Ipv4Addr::new(127, a % 15 + 1, b, c.clamp(2, 250)),
            host: format!("gateway.{}", server.issuer),
            idle: Mutex::default(),
            tracker: TaskTracker::new(),
        }
    }

    async fn dial(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((self.from, 0).into()).expect("an address of the loopback network");
        let to = *self.to.lock().expect("nobody panics with it");
        let stream = socket.connect(to).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).expect("an option");
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        self.tracker.spawn(async move {
            let _ = connection.await;
        });
        Ok(sender)
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<ManagerAnswer, String> {
        let mut request = request;
        loop {
            let idle = self.idle.lock().expect("nobody panics with it").pop();
            let (mut sender, used) = match idle {
                Some((since, _)) if since.elapsed() > KEPT_IDLE => continue,
                Some((_, sender)) => (sender, true),
                None => (self.dial().await?, false),
            };
            if sender.ready().await.is_err() {
                continue;
            }
            let answered = match sender.try_send_request(request).await {
                Ok(answered) => answered,
                Err(mut error) => match error.take_message().filter(|_| used) {
                    // The server closed it before it read anything.
                    Some(unsent) => {
                        request = unsent;
                        continue;
                    }
                    None => return Err(error.into_error().to_string()),
                },
            };
            let answer = ManagerAnswer::read(answered).await?;
            if sender.is_ready() || sender.ready().await.is_ok() {
                self.idle.lock().expect("nobody panics with it").push((Instant::now(), sender));
            }
            return Ok(answer);
        }
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub struct ManagerAnswer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl ManagerAnswer {
    async fn read(answered: Response<Incoming>) -> Result<ManagerAnswer, String> {
        let (head, body) = answered.into_parts();
        let bytes = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
        let body = serde_json::from_slice(&bytes)
            .map_err(|_| format!("{}: no JSON: {:?}", head.status, String::from_utf8_lossy(&bytes)))?;
        Ok(ManagerAnswer { status: head.status.as_u16(), headers: head.headers, body })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn failure_kind(&self) -> &str {
        self.body["failureKind"].as_str().unwrap_or_default()
    }

    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// The form that every answer has, whatever it says.
    fn assert_form(&self, at: &str) {
        let kind = self.header("content-type").unwrap_or_default();
        assert!(kind.starts_with("application/json"), "{at}: {kind:?}");
        let trace = self.header("x-trace-id").unwrap_or_default();
        let hex = |text: &str| text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        assert!(hex(trace), "{at}: X-Trace-Id is {trace:?}");
        if self.status < 300 {
            assert_eq!(self.body["ok"], true, "{at}: {}", self.body);
            assert!(self.body.get("data").is_some(), "{at}: {}", self.body);
            return;
        }
        let body = &self.body;
        assert_eq!(body["ok"], false, "{at}: {body}");
        assert!(!self.failure_kind().is_empty() && !self.message().is_empty(), "{at}: {body}");
        assert_eq!(body["traceId"], trace, "{at}: {body}");
        let request = body["requestId"].as_str().unwrap_or_default();
        assert!(request.len() > 4 && request.starts_with("req_"), "{at}: {body}");
        let known = ["ok", "failureKind", "message", "traceId", "requestId", "details"].map(str::to_owned);
        let names = body.as_object().expect("a failure is an object").keys();
        assert!(names.into_iter().all(|name| known.contains(name)), "{at}: {body}");
    }
}

/// The API with one token.
#[derive(Clone)]
pub struct TestApi {
    http: Arc<TestHttp>,
    pub token: Option<String>,
}

impl TestApi {
    /// The same connections with another token.
    pub fn with(&self, token: Option<&str>) -> TestApi {
        TestApi { http: self.http.clone(), token: token.map(str::to_owned) }
    }

    /// A request that may find nobody who answers.
    pub async fn try_send(
        &self,
        verb: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<ManagerAnswer, String> {
        let mut request = Request::builder().method(verb).uri(format!("/api/v1{path}"));
        request = request.header("Host", &self.http.host).header("Content-Type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).expect("a request can be written");
        let answer = self.http.send(request).await?;
        // Front ends have an envelope of their own.
        if !path.starts_with("/agent/") {
            answer.assert_form(&format!("{verb} {path}"));
        }
        Ok(answer)
    }

    pub async fn send(
        &self,
        verb: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> ManagerAnswer {
        let answered = within("an HTTP answer", self.try_send(verb, path, headers, body)).await;
        answered.unwrap_or_else(|error| panic!("{verb} {path}: {error}"))
    }

    /// A request with a body of JSON; `null` stands for none.
    pub async fn call(&self, verb: &str, path: &str, body: &Value) -> ManagerAnswer {
        self.send(verb, path, &[], written(body)).await
    }

    /// The data of an answer with this status.
    pub async fn ok(&self, verb: &str, path: &str, body: &Value, status: u16) -> Value {
        let mut answer = self.call(verb, path, body).await;
        assert_eq!(answer.status, status, "{verb} {path} {body:.500}: {}", answer.body);
        answer.body["data"].take()
    }

    pub async fn get(&self, path: &str) -> Value {
        self.ok("GET", path, &Value::Null, 200).await
    }

    /// The body of a refusal with this status and kind of failure.
    pub async fn refused(&self, verb: &str, path: &str, body: &Value, expected: (u16, &str)) -> Value {
        let answer = self.call(verb, path, body).await;
        assert_eq!(
            (answer.status, answer.failure_kind()),
            expected,
            "{verb} {path} {body:.500}: {}",
            answer.body
        );
        answer.body
    }

    /// The log of a run as an event stream.
    pub async fn watch(&self, path: &str, headers: &[(&str, &str)]) -> TestEventStream {
        let mut request = Request::builder().method("GET").uri(format!("/api/v1{path}"));
        request = request.header("Host", &self.http.host).header("Accept", "text/event-stream");
        request =
            request.header("Authorization", format!("Bearer {}", self.token.as_deref().unwrap_or_default()));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::default()).expect("a request can be written");
        let mut sender = self.http.dial().await.expect("the server accepts connections");
        let answered = within("a stream", sender.send_request(request)).await.expect("an answer");
        TestEventStream { status: answered.status().as_u16(), sender, body: answered, unread: Vec::new() }
    }

    /// All events of a run, page by page.
    pub async fn events(&self, run: &str) -> Vec<Value> {
        let (mut events, mut after) = (Vec::new(), 0);
        loop {
            let page = self.get(&format!("/runs/{run}/events?afterSeq={after}&limit=500")).await;
            let more = page["events"].as_array().expect("a page has events");
            events.extend(more.iter().cloned());
            after = number(&page["nextAfterSeq"]);
            if page["hasMore"] == false {
                return events;
            }
        }
    }
}

/// An event stream that is read as far as the test reads it.
pub struct TestEventStream {
    pub status: u16,
    /// The connection lives as long as this.
    #[expect(dead_code, reason = "it keeps the connection")]
    sender: SendRequest<Full<Bytes>>,
    body: Response<Incoming>,
    unread: Vec<u8>,
}

/// One event of a stream.
#[derive(Debug, PartialEq)]
pub struct StreamedEvent {
    pub id: String,
    pub name: String,
    pub data: Value,
}

impl TestEventStream {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.body.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// The next event; nothing when the stream has ended, which it does in order.
    pub async fn next(&mut self) -> Option<StreamedEvent> {
        self.try_next().await.expect("the stream ends in order")
    }

    /// The next event; nothing when the stream has ended, and a failure when it was cut off.
    pub async fn try_next(&mut self) -> Result<Option<StreamedEvent>, hyper::Error> {
        loop {
            while let Some(end) = self.unread.windows(2).position(|two| two == b"\n\n") {
                let frame: Vec<u8> = self.unread.drain(..end + 2).collect();
                let frame = String::from_utf8(frame).expect("an event is text");
                // A comment keeps the connection; it may stand before an event.
                if frame.lines().any(|line| line.starts_with("data:")) {
                    return Ok(Some(StreamedEvent::parse(&frame)));
                }
            }
            let Some(frame) = within("an event", self.body.body_mut().frame()).await else {
                return Ok(None);
            };
            let data = frame?.into_data().expect("it has no trailers");
            self.unread.extend_from_slice(&data);
        }
    }

    /// Everything up to its end.
    pub async fn rest(&mut self) -> Vec<StreamedEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        let is_whole =
            self.unread.is_empty() || self.unread.starts_with(b":") && self.unread.ends_with(b"\n");
        assert!(is_whole, "it ends after a whole event");
        events
    }
}

impl StreamedEvent {
    fn parse(frame: &str) -> StreamedEvent {
        let member = |name: &str| {
            let lines = frame.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            lines.collect::<Vec<_>>().join("\n")
        };
        let data = serde_json::from_str(&member("data")).unwrap_or_else(|error| panic!("{frame}: {error}"));
        StreamedEvent { id: member("id"), name: member("event"), data }
    }
}

/// A body of JSON; `null` stands for none.
pub fn written(body: &Value) -> String {
    if body.is_null() { String::new() } else { body.to_string() }
}

pub fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The seqs of a log are 1, 2, 3 and so on.
pub fn assert_contiguous(events: &[Value]) {
    let seqs: Vec<i64> = events.iter().map(|event| number(&event["seq"])).collect();
    let expected: Vec<i64> = (1..).take(events.len()).collect();
    assert_eq!(seqs, expected, "a log has no gap and nothing twice");
}

/// The types of events, in order.
pub fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().expect("an event has a type")).collect()
}

/// A back end of one tenant.
#[derive(Clone)]
pub struct TestBackEnd {
    pub api: TestApi,
    pub tenant: String,
}

impl TestBackEnd {
    /// The body with which a run is created.
    pub fn new_run(&self) -> Value {
        json!({
            "tenantId": self.tenant, "projectId": "acme/site", "workspaceRef": {}, "providerId": "G14",
            "backendProfile": PROFILE, "traceSink": null,
        })
    }

    /// The id of a new run.
    pub async fn run(&self) -> String {
        text(&self.api.ok("POST", "/runs", &self.new_run(), 201).await["runId"])
    }

    /// The id of a new run of a session.
    pub async fn run_of(&self, session: &str) -> String {
        let mut new = self.new_run();
        new["sessionRef"] = json!({ "sessionId": session });
        text(&self.api.ok("POST", "/runs", &new, 201).await["runId"])
    }

    /// The id of a new session.
    pub async fn session(&self) -> String {
        let new = json!({ "tenantId": self.tenant, "projectId": "acme/site", "backendProfile": PROFILE });
        text(&self.api.ok("POST", "/sessions", &new, 201).await["sessionId"])
    }

    /// The id of a new turn.
    pub async fn turn(&self, run: &str, prompt: &str) -> String {
        self.command(run, &json!({ "type": "turn", "payload": { "prompt": prompt } })).await
    }

    pub async fn command(&self, run: &str, body: &Value) -> String {
        let path = format!("/runs/{run}/commands");
        text(&self.api.ok("POST", &path, body, 201).await["commandId"])
    }

    pub async fn read(&self, run: &str) -> Value {
        self.api.get(&format!("/runs/{run}")).await
    }

    pub async fn read_command(&self, run: &str, command: &str) -> Value {
        self.api.get(&format!("/runs/{run}/commands/{command}")).await
    }

    pub async fn result(&self, run: &str, command: &str) -> Value {
        self.api.get(&format!("/runs/{run}/commands/{command}/result")).await
    }

    /// A runner job for a runner that the test plays.
    pub async fn job(&self, run: &str, command: &str) -> Value {
        let body = json!({ "commandId": command, "launcher": "external" });
        self.api.ok("POST", &format!("/runs/{run}/runner-jobs"), &body, 201).await
    }

    /// A runner that has registered.
    pub async fn runner(&self, run: &str, command: &str) -> TestRunner {
        TestRunner::register(&self.api, &self.job(run, command).await).await
    }

    /// A runner that has the lease of a run with one turn, which it has acknowledged.
    pub async fn working(&self) -> (String, String, TestRunner) {
        let run = self.run().await;
        let command = self.turn(&run, "hello").await;
        let mut runner = self.runner(&run, &command).await;
        runner.claim().await;
        runner.acknowledge(&command).await;
        (run, command, runner)
    }
}

/// A runner of one run, as one attempt.
#[derive(Clone)]
pub struct TestRunner {
    pub api: TestApi,
    pub run: String,
    pub id: String,
    pub attempt: String,
    pub epoch: i64,
}

impl TestRunner {
    /// Registers with the token of a job.
    pub async fn register(api: &TestApi, job: &Value) -> TestRunner {
        let api = api.with(Some(&text(&job["runnerToken"])));
        let (run, attempt) = (text(&job["runId"]), text(&job["attemptId"]));
        let id = register(&api).await;
        TestRunner { api, run, id, attempt, epoch: 0 }
    }

    /// Another runner of the same attempt.
    pub async fn beside(&self) -> TestRunner {
        TestRunner { id: register(&self.api).await, epoch: 0, ..self.clone() }
    }

    /// The members that every request of a lease has, with more of them.
    pub fn signed(&self, more: Value) -> Value {
        let mut body = json!({ "runnerId": self.id, "epoch": self.epoch });
        let more = more.as_object().cloned().unwrap_or_default();
        body.as_object_mut().expect("it is an object").extend(more);
        body
    }

    pub async fn try_claim(&self, lease_ms: i64) -> ManagerAnswer {
        let body = json!({ "runnerId": self.id, "attemptId": self.attempt, "leaseMs": lease_ms });
        self.api.call("POST", &format!("/runs/{}/claim", self.run), &body).await
    }

    /// Takes a lease that outlasts the test.
    pub async fn claim(&mut self) -> Value {
        self.claim_for(600_000).await
    }

    pub async fn claim_for(&mut self, lease_ms: i64) -> Value {
        let mut answer = self.try_claim(lease_ms).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        self.epoch = number(&answer.body["data"]["lease"]["epoch"]);
        answer.body["data"].take()
    }

    pub async fn try_lease(&self, more: Value) -> ManagerAnswer {
        self.api.call("PATCH", &format!("/runs/{}/lease", self.run), &self.signed(more)).await
    }

    pub async fn heartbeat(&self) -> Value {
        self.api.ok("PATCH", &format!("/runs/{}/lease", self.run), &self.signed(json!({})), 200).await
    }

    pub async fn release(&self) -> Value {
        let body = self.signed(json!({ "release": true }));
        self.api.ok("PATCH", &format!("/runs/{}/lease", self.run), &body, 200).await
    }

    /// The path of a poll from this seq on, with a time to wait.
    pub fn poll_path(&self, after: i64, wait_ms: i64) -> String {
        format!(
            "/runs/{}/commands?runnerId={}&epoch={}&afterSeq={after}&waitMs={wait_ms}",
            self.run, self.id, self.epoch
        )
    }

    pub async fn poll(&self) -> Value {
        self.api.get(&self.poll_path(0, 0)).await
    }

    pub async fn try_append(&self, events: Value) -> ManagerAnswer {
        let body = self.signed(json!({ "events": events }));
        self.api.call("POST", &format!("/runs/{}/events", self.run), &body).await
    }

    pub async fn append(&self, events: Value) -> Value {
        let mut answer = self.try_append(events).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body["data"].take()
    }

    /// One event that says something, of a command.
    pub async fn say(&self, command: &str, id: &str, words: &str) -> i64 {
        let event = said(command, id, words);
        number(&self.append(json!([event])).await["lastSeq"])
    }

    pub async fn try_acknowledge(&self, command: &str) -> ManagerAnswer {
        let path = format!("/commands/{command}/ack");
        self.api.call("POST", &path, &self.signed(json!({}))).await
    }

    pub async fn acknowledge(&self, command: &str) -> Value {
        let mut answer = self.try_acknowledge(command).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body["data"].take()
    }

    pub async fn try_report(&self, command: &str, status: &str) -> ManagerAnswer {
        let path = format!("/commands/{command}/status");
        self.api.call("PATCH", &path, &self.signed(json!({ "status": status }))).await
    }

    /// Reports the status of a command.
    pub async fn report(&self, command: &str, status: &str) -> Value {
        let mut answer = self.try_report(command, status).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body["data"].take()
    }

    pub async fn try_report_run(&self, more: Value) -> ManagerAnswer {
        self.api.call("PATCH", &format!("/runs/{}/status", self.run), &self.signed(more)).await
    }
}

async fn register(api: &TestApi) -> String {
    let body = json!({ "backendProfile": PROFILE, "placement": "host-process" });
    text(&api.ok("POST", "/runners/register", &body, 200).await["runnerId"])
}

/// An event that says something, of a command.
pub fn said(command: &str, id: &str, words: &str) -> Value {
    json!({ "clientEventId": id, "type": "assistant_message", "commandId": command, "payload": { "text": words } })
}

/// An event that says what the reply of a command is.
pub fn replied(command: &str, id: &str, words: &str) -> Value {
    let payload = json!({ "text": words, "final": true, "replyAuthority": true });
    json!({ "clientEventId": id, "type": "assistant_message", "commandId": command, "payload": payload })
}
