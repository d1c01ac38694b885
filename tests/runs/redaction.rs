//! No known form of a secret is in an answer, a row or the log of the server, through whichever text of whichever request it came;
//! and ordinary text passes as it is.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::client::{SETTINGS, TestApi, TestBackEnd, TestManager, TestRunner, replied, said};
use crate::support::agent::text;
use crate::support::{TestServer, on_sqlite};

/// A form of a secret, and the part of it that nobody may see.
struct KnownSecret {
    written: String,
    hidden: String,
}

/// Every known form, each with a value that says where it was put.
fn secrets(at: usize) -> Vec<KnownSecret> {
    let value = format!("V{at:04}q7Zx9");
    let long = format!("{value}{}", "a".repeat(40 - value.len()));
    let form = |written: String, hidden: &str| KnownSecret { written, hidden: hidden.to_owned() };
    vec![
        form(format!("https://user:{value}@example.com/x"), &value),
        form(format!("postgres://aund:${value}@db:5432/run"), &value),
        form(format!("{{\"url\":\"https:\\/\\/user:{{it's{value}@example.com\"}}"), &value),
        form(format!("Bearer {long}"), &long),
        form(format!("sk-{long}"), &long),
        form(format!("hsk_{long}"), &long),
        form(format!("art_{long}"), &long),
        form(format!("ara_{long}"), &long),
        form(format!("arr_{long}"), &long),
        form(format!("eyJhbGciOi{value}.eyJzdWIiOi{value}.c2lnbmF0{value}"), &value),
        form(format!("-----BEGIN PRIVATE KEY-----\nMIG{value}\n-----END PRIVATE KEY-----"), &value),
        form(format!("-----BEGIN PRIVATE KEY-----\nMIG{long}\nMIG{long}"), &long),
    ]
}

/// Names of members whose texts are secrets, whatever they look like.
const NAMES: [&str; 10] = [
    "token",
    "access_token",
    "clientSecret",
    "password",
    "apiKey",
    "api_key",
    "Authorization",
    "auth.json",
    "config.toml",
    "dsn",
];

/// A place where a text can stand, as a JSON pointer.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| pointers(item, &format!("{at}/{n}"), found));
        }
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| pointers(member, &format!("{at}/{name}"), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// What was put in, and what came back although it should not have.
#[derive(Default)]
struct SecretsSent {
    count: usize,
    sent: Vec<(String, String)>,
    shown: Vec<String>,
}

impl SecretsSent {
    /// Sends the request once for every text in its body and every form of a secret, and looks at each answer.
    async fn everywhere(&mut self, api: &TestApi, verb: &str, path: &str, body: &Value, but: &[&str]) {
        let mut places = Vec::new();
        pointers(body, "", &mut places);
        for place in places.iter().filter(|place| !but.contains(&place.as_str())) {
            for secret in self.next() {
                let mut changed = body.clone();
                *changed.pointer_mut(place).expect("it is there") = json!(secret.written);
                self.send(api, verb, path, &changed, (&format!("{verb} {path} {place}"), &secret)).await;
            }
        }
    }

    fn next(&mut self) -> Vec<KnownSecret> {
        self.count += 1;
        secrets(self.count)
    }

    async fn send(
        &mut self,
        api: &TestApi,
        verb: &str,
        path: &str,
        body: &Value,
        (at, secret): (&str, &KnownSecret),
    ) {
        // Each is another request, and not a repetition of the one before.
        let mut body = body.clone();
        if let Some(id) = body.pointer_mut("/events/0/clientEventId").filter(|id| !text(id).contains("q7Zx9"))
        {
            *id = json!(format!("{}-{}", self.count, self.sent.len()));
        }
        let answer = api.call(verb, path, &body).await;
        if answer.body.to_string().contains(&secret.hidden) {
            self.shown.push(format!("the answer {} to {at}: {}", answer.status, answer.body));
        }
        self.sent.push((at.to_owned(), secret.hidden.clone()));
    }

    /// In what is stored and logged.
    fn look_in(&mut self, what: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let mut places: Vec<&str> = Vec::new();
        for (at, hidden) in &self.sent {
            if text.contains(hidden) && places.last() != Some(&at.as_str()) {
                places.push(at);
            }
        }
        self.shown.extend(places.into_iter().map(|at| format!("{what}, from {at}")));
    }
}

/// The files of a store that is in a folder.
fn files(folder: &Path, name: &str) -> Vec<u8> {
    let parts = ["", "-wal", "-journal"].map(|end| folder.join(format!("{name}.db{end}")));
    parts.iter().filter_map(|path| std::fs::read(path).ok()).flatten().collect()
}

/// A run, a turn, and a runner that works on it.
async fn working(back_end: &TestBackEnd) -> (String, String, TestRunner) {
    back_end.working().await
}

/// The same with a run of a session.
async fn working_in(back_end: &TestBackEnd, session: &str) -> (String, String, TestRunner) {
    let run = back_end.run_of(session).await;
    let command = back_end.turn(&run, "hello").await;
    let mut runner = back_end.runner(&run, &command).await;
    runner.claim().await;
    runner.acknowledge(&command).await;
    (run, command, runner)
}

#[tokio::test]
async fn no_known_secret_is_in_an_answer_a_row_or_the_log() {
    let manager = TestManager::of(TestServer::with(&SETTINGS).await);
    let (back_end, admin) = (manager.back_end().await, manager.admin().await);
    let session = back_end.session().await;
    let (run, command, runner) = working_in(&back_end, &session).await;
    let mut sent = SecretsSent::default();

    let mut new_run = back_end.new_run();
    new_run["workspaceRef"] = json!({ "branch": "x", "list": ["x", { "deep": "x" }] });
    new_run["traceSink"] = json!({ "endpoint": "x" });
    new_run["resourceBundleRef"] = json!({ "kind": "gitbundle", "url": "x" });
    new_run["idempotencyKey"] = json!("x");
    new_run["executionPolicy"] =
        json!({ "sandbox": "read-only", "approval": "never", "network": "disabled" });
    sent.everywhere(&back_end.api, "POST", "/runs", &new_run, &[]).await;
    let new_session =
        json!({ "tenantId": back_end.tenant, "projectId": "x", "backendProfile": "example", "title": "x" });
    sent.everywhere(&back_end.api, "POST", "/sessions", &new_session, &[]).await;
    let path = format!("/sessions/{session}");
    sent.everywhere(&back_end.api, "POST", &format!("{path}/read"), &json!({ "readerId": "x" }), &[]).await;
    sent.everywhere(&back_end.api, "POST", &format!("{path}/control"), &json!({ "action": "x" }), &[]).await;
    let report = json!({ "runnerId": runner.id, "epoch": 1, "sizeBytes": 1, "filesCount": 1, "sha256": "x" });
    sent.everywhere(&runner.api, "POST", &format!("{path}/storage/refresh"), &report, &[]).await;

    // A command's payload is stored as it came, and only the runner gets it so: see below.
    let commands = format!("/runs/{run}/commands");
    let turn = json!({ "type": "turn", "payload": { "prompt": "x" }, "idempotencyKey": "x" });
    sent.everywhere(&back_end.api, "POST", &commands, &turn, &["/payload/prompt"]).await;
    let job = json!({
        "commandId": command, "idempotencyKey": "x", "attemptId": "x", "launcher": "external", "env": { "LEVEL": "x" },
    });
    let other = back_end.run().await;
    let waiting = back_end.turn(&other, "x").await;
    let mut job_of_other = job.clone();
    job_of_other["commandId"] = json!(waiting);
    for body in [&job, &job_of_other] {
        let of = if body["commandId"] == json!(waiting) { &other } else { &run };
        sent.everywhere(&back_end.api, "POST", &format!("/runs/{of}/runner-jobs"), body, &[]).await;
    }
    for (n, path) in ["runs", "commands", "sessions"].into_iter().enumerate() {
        // A text in the path, too.
        for secret in secrets(9000 + n) {
            let encoded =
                percent_encoding::utf8_percent_encode(&secret.written, percent_encoding::NON_ALPHANUMERIC);
            let (verb, path) = match path {
                "commands" => ("POST", format!("/commands/{encoded}/cancel")),
                path => ("GET", format!("/{path}/{encoded}")),
            };
            sent.send(&back_end.api, verb, &path, &Value::Null, (&path, &secret)).await;
        }
    }

    let register = json!({
        "runId": run, "attemptId": runner.attempt, "backendProfile": "example", "placement": "host-process",
        "sourceCommit": "x", "jobName": "x", "podName": "x", "logRef": "x", "capabilities": ["x"],
    });
    sent.everywhere(&runner.api, "POST", "/runners/register", &register, &[]).await;
    let claim = json!({ "runnerId": runner.id, "attemptId": runner.attempt });
    sent.everywhere(&runner.api, "POST", &format!("/runs/{run}/claim"), &claim, &[]).await;
    let lease = runner.signed(json!({}));
    sent.everywhere(&runner.api, "PATCH", &format!("/runs/{run}/lease"), &lease, &[]).await;
    sent.everywhere(&runner.api, "POST", &format!("/commands/{command}/ack"), &lease, &[]).await;
    for (kind, payload) in [
        ("assistant_message", json!({ "text": "x", "itemId": "x", "other": { "deep": ["x"] } })),
        ("command_output", json!({ "stream": "stdout", "text": "x" })),
        (
            "tool_call",
            json!({ "callId": "x", "method": "x", "toolName": "x", "status": "x", "command": "x", "args": { "a": "x" } }),
        ),
        ("reasoning", json!({ "text": "x" })),
        ("plan", json!({ "steps": ["x"] })),
        ("diff", json!({ "text": "x" })),
        ("backend_status", json!({ "phase": "x", "threadId": "x", "stage": "x" })),
        ("runner_status", json!({ "phase": "x" })),
        ("steer_delivery", json!({ "targetCommandId": "x", "error": "x" })),
        (
            "approval_request",
            json!({ "approvalId": "x", "reason": "x", "message": "x", "callId": "x", "options": ["x"] }),
        ),
        ("error", json!({ "failureKind": "backend-failed", "message": "x" })),
    ] {
        let event = json!({ "clientEventId": "x", "type": kind, "commandId": command, "payload": payload });
        let body = runner.signed(json!({ "events": [event] }));
        sent.everywhere(&runner.api, "POST", &format!("/runs/{run}/events"), &body, &["/epoch"]).await;
    }
    let question = json!({ "approvalId": "ask", "reason": "?" });
    runner.append(json!([{ "clientEventId": "ask", "type": "approval_request", "commandId": command, "payload": question }])).await;
    let answer = json!({ "decision": "accept", "payload": { "note": "x", "list": ["x"] } });
    sent.everywhere(
        &back_end.api,
        "POST",
        &format!("/runs/{run}/approvals/ask"),
        &answer,
        &["/payload/note", "/payload/list/0"],
    )
    .await;
    for secret in sent.next() {
        let body = json!({ "decision": "accept", "payload": { "note": secret.written } });
        sent.send(
            &back_end.api,
            "POST",
            &format!("/runs/{run}/approvals/ask"),
            &body,
            ("an approval's payload", &secret),
        )
        .await;
    }

    // Members are secrets by their names.
    for name in NAMES {
        let hidden = format!("plain words of {name} that nobody reads");
        let secret = KnownSecret { written: hidden.clone(), hidden: hidden.clone() };
        let mut members = Map::new();
        members.insert(name.to_owned(), json!(hidden));
        let payload = json!({ "text": "x", "deep": [members] });
        let event = json!({ "clientEventId": name, "type": "assistant_message", "commandId": command, "payload": payload });
        let body = runner.signed(json!({ "events": [event] }));
        sent.send(
            &runner.api,
            "POST",
            &format!("/runs/{run}/events"),
            &body,
            (&format!("an event's {name}"), &secret),
        )
        .await;
        for member in ["workspaceRef", "traceSink", "resourceBundleRef"] {
            let mut body = back_end.new_run();
            body[member] = Value::Object(members.clone());
            sent.send(&back_end.api, "POST", "/runs", &body, (&format!("{member}'s {name}"), &secret)).await;
        }
    }

    // The credential of a profile is written, and read by nobody.
    let credential =
        json!({ "apiKey": "x", "configToml": "x", "baseUrl": "https://example.com", "model": "x" });
    sent.everywhere(&admin, "PUT", "/provider-profiles/redacted/credential", &credential, &[]).await;
    let whole = json!({ "authJson": "{\"OPENAI_API_KEY\":\"x\"}" });
    sent.everywhere(&admin, "PUT", "/provider-profiles/redacted/credential", &whole, &[]).await;

    let second = back_end.turn(&other, "x").await;
    let reason = json!({ "reason": "x" });
    sent.everywhere(&back_end.api, "POST", &format!("/commands/{second}/cancel"), &reason, &[]).await;
    sent.everywhere(&back_end.api, "POST", &format!("/runs/{other}/cancel"), &reason, &[]).await;
    // What a runner leaves for the thread of its session is given to the next one.
    for secret in sent.next() {
        let turn = back_end.turn(&run, "x").await;
        runner.acknowledge(&turn).await;
        let state = json!({ "threadId": secret.written, "deep": [{ "token": "x" }] });
        let body = runner.signed(json!({ "status": "completed", "sessionRef": state }));
        let path = format!("/commands/{turn}/status");
        sent.send(&runner.api, "PATCH", &path, &body, ("the state of a session", &secret)).await;
        let claimed = runner.api.call("POST", &format!("/runs/{run}/claim"), &claim).await;
        let given = &claimed.body["data"]["sessionState"];
        assert_eq!(given["deep"], json!([{ "token": "[redacted]" }]), "{}", claimed.body);
        assert!(!claimed.body.to_string().contains(&secret.hidden), "{}", claimed.body);
    }
    for (path, names) in
        [(format!("/commands/{command}/status"), true), (format!("/runs/{run}/status"), false)]
    {
        let mut body = runner
            .signed(json!({ "status": "failed", "failureKind": "backend-failed", "failureMessage": "x" }));
        if names {
            body["sessionRef"] = json!({ "threadId": "x" });
        }
        sent.everywhere(&runner.api, "PATCH", &path, &body, &[]).await;
    }

    // Everything that can be read.
    let mut read = Vec::new();
    for run in back_end.api.get("/runs?limit=200").await["runs"].as_array().expect("runs") {
        let id = text(&run["runId"]);
        read.push(run.clone());
        for path in ["/events?limit=500", "/result", "/approvals", "/runner-jobs"] {
            read.push(back_end.api.get(&format!("/runs/{id}{path}")).await);
        }
    }
    for path in ["/sessions?state=all&limit=200", "/provider-profiles", "/backends"] {
        read.push(back_end.api.get(path).await);
    }
    read.push(manager.server.get("/api/v1/health").await.json());
    sent.look_in("a later answer", json!(read).to_string().as_bytes());
    if on_sqlite() {
        sent.look_in("a row", &files(&manager.server.data_of("run"), "run"));
    }
    sent.look_in("the log", manager.server.log().as_bytes());
    assert!(sent.sent.len() > 800, "{}", sent.sent.len());
    let shown: Vec<&str> = sent.shown.iter().map(|shown| &shown[..shown.len().min(400)]).collect();
    assert!(shown.is_empty(), "{} times a secret is shown:\n{}", shown.len(), shown.join("\n"));
}

#[tokio::test]
async fn what_a_turn_says_reaches_its_runner_as_it_is_and_nobody_else() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (run, first, runner) = working(&back_end).await;
    runner.report(&first, "completed").await;
    for secret in secrets(9500) {
        let payload = json!({ "prompt": secret.written, "context": { "token": "a plain word", "n": 7 } });
        let path = format!("/runs/{run}/commands");
        let made = back_end.api.ok("POST", &path, &json!({ "type": "turn", "payload": payload }), 201).await;
        let command = text(&made["commandId"]);
        let polled = runner.poll().await;
        assert_eq!(polled["commands"][0]["payload"], payload, "its runner needs it");
        let read = back_end.read_command(&run, &command).await;
        for shown in [&made, &read, &runner.api.get(&format!("/runs/{run}/commands/{command}")).await] {
            assert!(!shown.to_string().contains(&secret.hidden), "{shown}");
            assert_eq!(shown["payload"]["context"], json!({ "token": "[redacted]", "n": 7 }));
        }
        runner.acknowledge(&command).await;
        runner.report(&command, "completed").await;
    }
}

#[tokio::test]
async fn ordinary_text_passes_as_it_is() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (run, command, runner) = working(&back_end).await;
    let ordinary = [
        "the token count is 7, and the secret of good prose is brevity",
        "https://example.com/a/b?c=d#e and user@example.com, git@github.com:acme/site.git",
        "sk-short, task-1234567890123456789, art_work, para_1, ask_me_anything",
        "Bearer of good news",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "/usr/lib/python3.11/site-packages/pip/_internal/cli.py",
        "fn main() {\n\tprintln!(\"{}\", 1 << 3); // ünïcödé 中文 🎉\n}",
        "eyJ is how a token begins; a.b.c is none",
        "-----BEGIN and never END",
        "s.replace(\"-----BEGIN PUBLIC KEY-----\", \"\").replace(\"-----END PUBLIC KEY-----\", \"\")",
        "Acme,https://acme.com,info@acme.com\nBeta;https://beta.io:8443;hello@beta.io",
        "postgres://app:${DB_PASSWORD}@db/app and -H \"Authorization: Bearer $TOKEN\"",
        "postgres://localhost:5432/run?sslmode=disable",
        "",
    ];
    let events: Vec<Value> =
        ordinary.iter().enumerate().map(|(n, words)| said(&command, &format!("e-{n}"), words)).collect();
    runner.append(json!(events)).await;
    let numbers = json!({ "text": "x", "usage": { "input_tokens": 7, "tokens": [1, 2], "secret": null, "password": true } });
    runner.append(json!([{ "clientEventId": "n", "type": "reasoning", "payload": numbers }])).await;
    runner.append(json!([replied(&command, "end", &ordinary.join("\n"))])).await;
    let stored = back_end.api.events(&run).await;
    for (event, words) in stored.iter().zip(ordinary) {
        assert_eq!(event["payload"]["text"], json!(words));
    }
    assert_eq!(stored[ordinary.len()]["payload"], numbers, "only texts are secrets");
    assert_eq!(back_end.result(&run, &command).await["reply"], json!(ordinary.join("\n")));
    let turn = json!({ "prompt": ordinary.join("\n"), "more": ordinary });
    let made = back_end
        .api
        .ok("POST", &format!("/runs/{run}/commands"), &json!({ "type": "turn", "payload": turn }), 201)
        .await;
    assert_eq!(made["payload"], turn);
}

#[tokio::test]
async fn a_secret_that_is_the_name_of_a_member_is_shown_nowhere() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (run, command, runner) = working(&back_end).await;
    let names = ["sk-V1q7Zx9aaaaaaaaaaaaaaaaaaa", "sk-V2q7Zx9aaaaaaaaaaaaaaaaaaa"];
    let mut payload = json!({ "text": "x".repeat(70_000) });
    for (n, name) in names.into_iter().enumerate() {
        payload[name] = json!(n);
    }
    let event = json!({ "clientEventId": "n", "type": "assistant_message", "commandId": command, "payload": payload });
    runner.append(json!([event])).await;
    let stored = &back_end.api.events(&run).await[0]["payload"];
    assert_eq!((&stored["[redacted]"], &stored["[redacted 2]"]), (&json!(0), &json!(1)), "no member is lost");
    assert_eq!(stored["textTruncated"], true);

    // No answer repeats a name that is there twice.
    let twice = format!("{{\"{0}\":1,\"{0}\":2}}", names[0]);
    let answer = back_end.api.send("POST", "/runs", &[], twice).await;
    assert_eq!((answer.status, answer.failure_kind()), (400, "schema-invalid"), "{}", answer.body);
    assert!(!answer.body.to_string().contains("q7Zx9"), "{}", answer.body);
    assert!(answer.message().contains("a key twice in one object at line 1 column"), "{}", answer.body);
}
