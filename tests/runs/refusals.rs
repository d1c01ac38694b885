//! What is refused, with which status and which kind of failure, and that a refusal changes nothing. The tables of routes are made
//! from the schemas, so that a new route is in them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use futures_util::future::join_all;
use proto_schemas::{HttpRoute, HttpRouteBody, Method, methods};
use serde_json::{Map, Value, json};

use super::client::{
    ManagerAnswer, PROFILE, TENANT_OF_AGENTS, TestApi, TestBackEnd, TestManager, TestRunner,
    assert_contiguous, number, said, written,
};
use crate::support::agent::{random_hex, text};
use crate::support::{TestServer, until};

/// Everything of one tenant that a path can name.
struct RunFixture {
    back_end: TestBackEnd,
    runner: TestRunner,
    run: String,
    command: String,
    session: String,
    job: String,
}

const APPROVAL: &str = "ask-1";
/// What is not measured.
const SAID_OF_STORAGE: [&str; 4] = ["storageKind", "storage_kind", "storageEvictedAt", "storage_evicted_at"];

impl RunFixture {
    async fn new(back_end: TestBackEnd) -> RunFixture {
        let session = back_end.session().await;
        let run = back_end.run_of(&session).await;
        let command = back_end.turn(&run, "hello").await;
        let job = back_end.job(&run, &command).await;
        let mut runner = TestRunner::register(&back_end.api, &job).await;
        runner.claim().await;
        runner.acknowledge(&command).await;
        let question = json!({ "approvalId": APPROVAL, "reason": "may I?" });
        let ask = json!({ "clientEventId": "q", "type": "approval_request", "commandId": command, "payload": question });
        runner.append(json!([ask, said(&command, "s", "hello")])).await;
        RunFixture { back_end, runner, run, command, session, job: text(&job["runnerJobId"]) }
    }

    /// A good value of a member, by its name. A new member needs one here.
    fn good(&self, name: &str) -> Value {
        match name {
            "runId" => json!(self.run),
            "commandId" => json!(self.command),
            "sessionId" => json!(self.session),
            "runnerJobId" => json!(self.job),
            "validationId" => json!("val_0190163d868b7ce2a5f1c1b6d0b3a7e4"),
            "approvalId" => json!(APPROVAL),
            "runnerId" => json!(self.runner.id),
            "attemptId" => json!(self.runner.attempt),
            "epoch" => json!(self.runner.epoch),
            "profile" | "backendProfile" => json!(PROFILE),
            "tenantId" => json!(self.back_end.tenant),
            "projectId" => json!("acme/site"),
            "providerId" => json!("G14"),
            "workspaceRef" | "traceSink" => json!({}),
            "type" => json!("turn"),
            "payload" => json!({ "prompt": "x" }),
            "decision" => json!("accept"),
            "action" => json!("cancel"),
            "status" => json!("running"),
            "placement" => json!("host-process"),
            "sizeBytes" | "filesCount" => json!(1),
            other => panic!("tests/runs/refusals.rs has no value for the new member {other}"),
        }
    }

    /// The path of a route, and the rest of the required members: in the query, or as the body.
    fn request(&self, method: &Method, route: &HttpRoute) -> RunRequest {
        let mut path = route.path.strip_prefix("/api/v1").expect("it is one of ours").to_owned();
        let mut body = Map::new();
        for name in required(method) {
            let part = format!("{{{name}}}");
            let value = self.good(&name);
            if path.contains(&part) {
                path = path.replace(&part, &shown(&value));
            } else {
                body.insert(name, value);
            }
        }
        RunRequest { verb: route.method, path, has_body: route.body == HttpRouteBody::Params, members: body }
    }

    /// Everything that its owner can read of it.
    async fn stored(&self) -> Vec<Value> {
        let (api, run) = (&self.back_end.api, &self.run);
        let mut all = vec![
            self.back_end.read(run).await,
            self.back_end.read_command(run, &self.command).await,
            api.get(&format!("/runs/{run}/approvals")).await,
            api.get(&format!("/runs/{run}/runner-jobs")).await,
        ];
        for path in ["", "/storage"] {
            let mut read = api.get(&format!("/sessions/{}{path}", self.session)).await;
            // How long ago something was is another number every time, and storage is measured beside the answer to a runner.
            let measured =
                |name: &str| name.to_lowercase().starts_with("storage") && !SAID_OF_STORAGE.contains(&name);
            let aged = ["liveness", "supervisor"];
            let stays = |name: &str| !aged.contains(&name) && !measured(name);
            read.as_object_mut().expect("an object").retain(|name, _| stays(name));
            all.push(read);
        }
        all.extend(api.events(run).await);
        all
    }
}

/// A request whose members can be changed.
#[derive(Clone)]
struct RunRequest {
    verb: &'static str,
    path: String,
    has_body: bool,
    members: Map<String, Value>,
}

impl RunRequest {
    async fn send(&self, api: &TestApi) -> ManagerAnswer {
        if self.has_body {
            let body = Value::Object(self.members.clone());
            return api.call(self.verb, &self.path, &body).await;
        }
        let query: Vec<String> =
            self.members.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        api.call(self.verb, &format!("{}{mark}{}", self.path, query.join("&")), &Value::Null).await
    }

    fn without(&self, names: &[&str]) -> RunRequest {
        let mut changed = self.clone();
        changed.members.retain(|name, _| !names.contains(&name.as_str()));
        changed
    }

    fn with(&self, name: &str, value: Value) -> RunRequest {
        let mut changed = self.clone();
        changed.members.insert(name.to_owned(), value);
        changed
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn required(method: &Method) -> Vec<String> {
    let listed = method.doc()["params"]["required"].as_array().cloned().unwrap_or_default();
    listed.iter().map(text).collect()
}

/// What front ends ask is of agents, and refused in an envelope of its own.
fn is_about_runs(method: &Method) -> bool {
    method.namespace.service == "run" && method.namespace.name != "agui"
}

/// Every route of runs.
fn routes() -> impl Iterator<Item = (&'static Method, &'static HttpRoute)> {
    let all = methods().iter().flat_map(|method| method.http.iter().map(move |route| (method, route)));
    all.filter(|(method, _)| is_about_runs(method))
}

fn takes(route: &HttpRoute, kind: &str) -> bool {
    route.access.tokens.contains(&kind)
}

/// Whether the path or the required members name something that belongs to somebody.
fn names_something(method: &Method) -> bool {
    let owned = ["runId", "commandId", "sessionId", "runnerJobId", "approvalId"];
    required(method).iter().any(|name| owned.contains(&name.as_str()))
}

#[tokio::test]
async fn what_belongs_to_another_tenant_does_not_exist() {
    let manager = TestManager::shared().await;
    let owned = RunFixture::new(manager.back_end().await).await;
    let other = manager.back_end().await;
    let own = RunFixture::new(manager.back_end().await).await;
    let before = owned.stored().await;
    let mut seen = BTreeSet::new();
    for (method, route) in
        routes().filter(|(method, route)| takes(route, "tenant") && names_something(method))
    {
        let at = format!("{} {}", route.method, route.path);
        let request = owned.request(method, route);
        let answer = request.send(&other.api).await;
        assert_eq!((answer.status, answer.failure_kind()), (404, "not-found"), "{at}: {}", answer.body);
        // What does not exist at all is answered the same.
        let mut nowhere = request.clone();
        for id in [&owned.run, &owned.command, &owned.session, &owned.job] {
            let unknown = format!("{}_{}", id.split('_').next().expect("a prefix"), random_hex(16));
            nowhere.path = nowhere.path.replace(id.as_str(), &unknown);
        }
        let absent = nowhere.send(&other.api).await;
        assert_eq!((absent.status, absent.failure_kind()), (404, "not-found"), "{at}: {}", absent.body);
        assert_eq!(absent.body.get("details"), answer.body.get("details"), "{at}");
        // Its owner is not refused so, or this would say nothing.
        let mine = own.request(method, route).send(&own.back_end.api).await;
        assert!(mine.status != 404 && mine.status != 400, "{at}: {}", mine.body);
        seen.insert(method.name);
    }
    assert!(seen.len() >= 18, "{seen:?}");

    let (run, command) = (&owned.run, &owned.command);
    let own_run = other.run().await;
    let own_session = other.session().await;
    let mut of_foreign_session = other.new_run();
    of_foreign_session["sessionRef"] = json!({ "sessionId": owned.session });
    for (verb, path, body) in [
        ("GET", format!("/runs/{own_run}/result?commandId={command}"), json!(null)),
        ("GET", format!("/runs/{own_run}/commands/{command}"), json!(null)),
        ("GET", format!("/runs/{own_run}/commands/{command}/result"), json!(null)),
        ("GET", format!("/runs/{own_run}/runner-jobs/{}", owned.job), json!(null)),
        ("GET", format!("/sessions/{own_session}/trace?runId={run}"), json!(null)),
        ("GET", format!("/sessions/{own_session}/output?runId={run}"), json!(null)),
        (
            "POST",
            format!("/runs/{own_run}/runner-jobs"),
            json!({ "commandId": command, "launcher": "external" }),
        ),
        ("POST", format!("/runs/{own_run}/approvals/{APPROVAL}"), json!({ "decision": "accept" })),
        ("POST", "/runs".to_owned(), of_foreign_session),
    ] {
        other.api.refused(verb, &path, &body, (404, "not-found")).await;
    }
    let jobs = other.api.get(&format!("/runs/{own_run}/runner-jobs?commandId={command}")).await;
    assert_eq!(jobs["runnerJobs"], json!([]));
    for list in ["/runs?limit=200", "/sessions?state=all&limit=200"] {
        let listed = other.api.get(list).await.to_string();
        assert!(!listed.contains(run) && !listed.contains(&owned.session), "{list}");
    }
    let list = format!("/runs?tenantId={}", owned.back_end.tenant);
    other.api.refused("GET", &list, &Value::Null, (403, "tenant-policy-denied")).await;
    assert_eq!(owned.stored().await, before, "and nothing of it was changed");

    // The same for an agent, who asks over JSON-RPC and acts for another tenant.
    let agent = manager.server.agent("alice").await;
    for method in methods().iter().filter(|method| is_about_runs(method)) {
        if !method.access.is_for_agents() || !names_something(method) {
            continue;
        }
        let params = required(method).into_iter().map(|name| (name.clone(), owned.good(&name)));
        let params = Value::Object(params.collect());
        if method.name == "run.unsubscribe" {
            continue;
        }
        let error = agent.call_error(method.name, &params).await;
        assert_eq!(error["data"]["failureKind"], "not-found", "{} {params}: {error}", method.name);
    }
    assert_eq!(owned.stored().await, before);
}

#[tokio::test]
async fn a_token_opens_what_is_for_its_kind() {
    let manager = TestManager::shared().await;
    let owned = RunFixture::new(manager.back_end().await).await;
    let other = RunFixture::new(manager.back_end().await).await;
    let before = owned.stored().await;
    for (method, route) in routes() {
        let at = format!("{} {}", route.method, route.path);
        let request = owned.request(method, route);
        if !takes(route, "tenant") {
            let refused = request.send(&owned.back_end.api).await;
            assert_eq!(
                (refused.status, refused.failure_kind()),
                (403, "forbidden"),
                "{at}: {}",
                refused.body
            );
        }
        if !takes(route, "runner") {
            let refused = request.send(&owned.runner.api).await;
            assert_eq!(
                (refused.status, refused.failure_kind()),
                (403, "forbidden"),
                "{at}: {}",
                refused.body
            );
        } else if names_something(method) {
            let refused = request.send(&other.runner.api).await;
            assert_eq!(
                (refused.status, refused.failure_kind()),
                (403, "forbidden"),
                "the runner of another run, {at}: {}",
                refused.body
            );
        }
    }
    for (member, value) in [("runId", &owned.run), ("attemptId", &owned.runner.attempt)] {
        let body = json!({ "backendProfile": PROFILE, "placement": "host-process", member: value });
        other.runner.api.refused("POST", "/runners/register", &body, (403, "forbidden")).await;
    }
    // It is not told either what there is of others: what does not exist at all is refused the same.
    let runner = &owned.runner;
    let unknown = |prefix: &str| format!("{prefix}_{}", random_hex(16));
    let sized = runner.signed(json!({ "sizeBytes": 1, "filesCount": 1 }));
    for (verb, path, body) in [
        ("GET", format!("/runs/{}", unknown("run")), json!(null)),
        ("GET", format!("/runs/{}/events", unknown("run")), json!(null)),
        ("POST", format!("/commands/{}/ack", unknown("cmd")), runner.signed(json!({}))),
        (
            "PATCH",
            format!("/commands/{}/status", unknown("cmd")),
            runner.signed(json!({ "status": "completed" })),
        ),
        ("POST", format!("/sessions/{}/storage/refresh", unknown("sess")), sized),
    ] {
        runner.api.refused(verb, &path, &body, (403, "forbidden")).await;
    }
    // A runner of the same run has to be of the attempt that it says.
    let body = json!({ "runnerId": owned.runner.id, "attemptId": other.runner.attempt });
    let claim = format!("/runs/{}/claim", owned.run);
    owned.runner.api.refused("POST", &claim, &body, (403, "forbidden")).await;
    assert_eq!(owned.stored().await, before);
}

#[tokio::test]
async fn without_a_token_nothing_is_looked_at() {
    let manager = TestManager::shared().await;
    let owned = RunFixture::new(manager.back_end().await).await;
    let before = owned.stored().await;
    let admin = manager.admin().await;
    let unknown = format!("art_{}", "a".repeat(40));
    for (method, route) in routes() {
        let at = format!("{} {}", route.method, route.path);
        let request = owned.request(method, route);
        for token in [None, Some("forged"), Some(unknown.as_str())] {
            let refused = request.send(&admin.with(token)).await;
            assert_eq!((refused.status, refused.failure_kind()), (401, "unauthorized"), "{at} {token:?}");
            assert_eq!(refused.header("www-authenticate"), Some("Bearer"), "{at}");
        }
    }
    assert_eq!(owned.stored().await, before);

    // A token that was withdrawn is as unknown, wherever it was seen before.
    let back_end = manager.back_end().await;
    back_end.api.get("/runs").await;
    let whole = back_end.api.token.clone().expect("a token");
    let revoked = manager.server.by_operator("run.token_revoke", &json!({ "prefix": whole })).await;
    assert_eq!(revoked.expect("it is answered")["revoked"], 1);
    until("the token is refused", || async {
        let answer = back_end.api.call("GET", "/runs", &Value::Null).await;
        (answer.status == 401).then(|| assert_eq!(answer.failure_kind(), "unauthorized"))
    })
    .await;
}

#[tokio::test]
async fn the_first_missing_member_is_named() {
    let manager = TestManager::shared().await;
    let owned = RunFixture::new(manager.back_end().await).await;
    let admin = manager.admin().await;
    let before = owned.stored().await;
    let mut tried = 0;
    for (method, route) in routes() {
        let api = match route.access.tokens {
            ["admin"] => &admin,
            tokens if tokens.contains(&"tenant") => &owned.back_end.api,
            _ => &owned.runner.api,
        };
        let request = owned.request(method, route);
        let names: Vec<String> = required(method);
        let names: Vec<&str> =
            names.iter().map(String::as_str).filter(|name| request.members.contains_key(*name)).collect();
        for (at, first) in names.iter().enumerate() {
            for second in &names[at..] {
                let refused = request.without(&[first, second]).send(api).await;
                let said = (refused.status, refused.failure_kind(), refused.message());
                let expected = format!("{first} is required");
                assert_eq!(said, (400, "schema-invalid", expected.as_str()), "{} {second}", method.name);
                tried += 1;
            }
        }
    }
    assert!(tried > 60, "{tried}");
    assert_eq!(owned.stored().await, before);
}

/// A value that a member cannot have, by its schema.
fn malformed(schema: &Value) -> Option<Value> {
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| **kind != "null").cloned().unwrap_or_default(),
        kind => kind.clone(),
    };
    match kind.as_str() {
        Some("string" | "object") => Some(json!(7)),
        Some("integer" | "boolean" | "array") => Some(json!("seven")),
        // A reference is to a text; a list of words may have any of them.
        _ if schema.get("$ref").is_some() || schema.get("enum").is_some() => Some(json!(7)),
        _ => None,
    }
}

#[tokio::test]
async fn a_member_of_another_type_is_named() {
    let manager = TestManager::shared().await;
    let owned = RunFixture::new(manager.back_end().await).await;
    let admin = manager.admin().await;
    let before = owned.stored().await;
    let mut tried = 0;
    for (method, route) in routes().filter(|(_, route)| route.body == HttpRouteBody::Params) {
        let api = match route.access.tokens {
            ["admin"] => &admin,
            tokens if tokens.contains(&"tenant") => &owned.back_end.api,
            _ => &owned.runner.api,
        };
        let request = owned.request(method, route);
        let properties = method.doc()["params"]["properties"].as_object().cloned().unwrap_or_default();
        for (name, schema) in properties {
            if request.path.contains(&shown(&json!(name))) || route.path.contains(&format!("{{{name}}}")) {
                continue;
            }
            let Some(wrong) = malformed(&schema) else { continue };
            let refused = request.with(&name, wrong.clone()).send(api).await;
            assert_eq!(
                (refused.status, refused.failure_kind()),
                (400, "schema-invalid"),
                "{} {name} {wrong}: {}",
                method.name,
                refused.body
            );
            assert!(refused.message().starts_with(&name), "{} {name}: {}", method.name, refused.body);
            tried += 1;
        }
        for whole in ["7", "[]", "\"x\"", "{", "{\"a\":1,\"a\":2}", "nonsense"] {
            let refused = api.send(request.verb, &request.path, &[], whole).await;
            assert_eq!(
                (refused.status, refused.failure_kind()),
                (400, "schema-invalid"),
                "{} {whole}",
                method.name
            );
        }
    }
    assert!(tried > 40, "{tried}");
    assert_eq!(owned.stored().await, before);
}

#[tokio::test]
async fn of_two_members_that_are_wrong_the_earlier_one_is_named() {
    let manager = TestManager::shared().await;
    let owned = RunFixture::new(manager.back_end().await).await;
    let admin = manager.admin().await;
    let before = owned.stored().await;
    let mut tried = 0;
    for (method, route) in routes().filter(|(_, route)| route.body == HttpRouteBody::Params) {
        let api = match route.access.tokens {
            ["admin"] => &admin,
            tokens if tokens.contains(&"tenant") => &owned.back_end.api,
            _ => &owned.runner.api,
        };
        let good = owned.request(method, route);
        let schemas = &method.doc()["params"]["properties"];
        let names = required(method).into_iter().filter(|name| good.members.contains_key(name));
        let wrong: Vec<(String, Value)> =
            names.filter_map(|name| Some((name.clone(), malformed(&schemas[name.as_str()])?))).collect();
        for (at, (first, wrong_first)) in wrong.iter().enumerate() {
            for (second, wrong_second) in &wrong[at + 1..] {
                let both = good.with(first, wrong_first.clone()).with(second, wrong_second.clone());
                let refused = both.send(api).await;
                let shown = format!("{} {first} {second}: {}", method.name, refused.body);
                assert_eq!((refused.status, refused.failure_kind()), (400, "schema-invalid"), "{shown}");
                assert!(refused.message().starts_with(&format!("{first} ")), "{shown}");
                // What is missing comes before what is wrong, wherever it stands.
                let one = good.with(first, wrong_first.clone()).without(&[second.as_str()]);
                let refused = one.send(api).await;
                assert_eq!(
                    (refused.status, refused.message()),
                    (400, format!("{second} is required").as_str()),
                    "{} {first} {second}: {}",
                    method.name,
                    refused.body
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 25, "{tried}");
    assert_eq!(owned.stored().await, before);
}

#[tokio::test]
async fn words_and_ids_that_nobody_knows_are_refused() {
    let manager = TestManager::shared().await;
    let owned = RunFixture::new(manager.back_end().await).await;
    let (other_run, other_command, _other) = owned.back_end.working().await;
    let before = owned.stored().await;
    let (back_end, runner) = (&owned.back_end.api, &owned.runner);
    let path = |rest: &str| format!("/runs/{}{rest}", owned.run);
    let command = |rest: &str| format!("/commands/{}{rest}", owned.command);
    let job = |launcher: &str| json!({ "commandId": owned.command, "launcher": launcher });
    let invalid = (400, "schema-invalid");
    for (api, verb, path, body, expected) in [
        (
            back_end,
            "POST",
            path("/commands"),
            json!({ "type": "dance", "payload": { "prompt": "x" } }),
            invalid,
        ),
        (back_end, "POST", path("/runner-jobs"), job("rocket"), invalid),
        (back_end, "POST", path("/runner-jobs"), job("kubernetes"), invalid),
        (
            &runner.api,
            "POST",
            "/runners/register".to_owned(),
            json!({ "backendProfile": PROFILE, "placement": "moon" }),
            invalid,
        ),
        (&runner.api, "PATCH", command("/status"), runner.signed(json!({ "status": "done" })), invalid),
        (&runner.api, "PATCH", command("/status"), runner.signed(json!({ "status": "pending" })), invalid),
        (&runner.api, "PATCH", path("/status"), runner.signed(json!({ "status": "claimed" })), invalid),
        (
            &runner.api,
            "PATCH",
            path("/status"),
            runner.signed(json!({ "status": "failed", "failureKind": "bad-luck" })),
            invalid,
        ),
        // Of the same tenant, but of another run.
        (back_end, "GET", path(&format!("/commands/{other_command}")), json!(null), (404, "not-found")),
        (
            back_end,
            "POST",
            path("/runner-jobs"),
            json!({ "commandId": other_command, "launcher": "external" }),
            (404, "not-found"),
        ),
        (
            &runner.api,
            "POST",
            format!("/commands/{other_command}/ack"),
            runner.signed(json!({})),
            (403, "forbidden"),
        ),
    ] {
        api.refused(verb, &path, &body, expected).await;
    }
    let refused = runner.try_append(json!([said(&other_command, "of-other", "x")])).await;
    assert_eq!((refused.status, refused.failure_kind()), (404, "not-found"), "{}", refused.body);
    assert_eq!(owned.stored().await, before);
    assert_eq!(owned.back_end.read_command(&other_run, &other_command).await["state"], "acknowledged");
}

#[tokio::test]
async fn numbers_of_pages_have_their_bounds() {
    let manager = TestManager::shared().await;
    let owned = RunFixture::new(manager.back_end().await).await;
    let (api, run, session) = (&owned.back_end.api, &owned.run, &owned.session);
    let poll = owned.runner.poll_path(0, 0);
    for (api, path) in [
        (api, format!("/runs/{run}/events?limit=0")),
        (api, format!("/runs/{run}/events?limit=501")),
        (api, format!("/runs/{run}/events?limit=ten")),
        (api, format!("/runs/{run}/events?afterSeq=-1")),
        (api, format!("/runs/{run}/events?afterSeq=1.5")),
        (api, "/sessions?limit=0".to_owned()),
        (api, "/sessions?limit=201".to_owned()),
        (api, "/sessions?cursor=nonsense".to_owned()),
        (api, "/sessions?readerId=a%20b".to_owned()),
        (api, "/runs?limit=201".to_owned()),
        (api, "/runs?cursor=nonsense".to_owned()),
        (api, format!("/sessions/{session}/trace?limit=501")),
        (api, format!("/sessions/{session}/output?afterSeq=x")),
        (&owned.runner.api, format!("{poll}&limit=101")),
        (&owned.runner.api, format!("{poll}&limit=0")),
        (&owned.runner.api, poll.replace("waitMs=0", "waitMs=25001")),
        (&owned.runner.api, poll.replace("waitMs=0", "waitMs=-1")),
    ] {
        api.refused("GET", &path, &Value::Null, (400, "schema-invalid")).await;
    }
    // An empty value is the same as none.
    let page = api.get(&format!("/runs/{run}/events?afterSeq=&limit=")).await;
    assert_eq!(page["events"].as_array().map(Vec::len), Some(2), "{page}");
    for lease_ms in [4999, 600_001] {
        let refused = owned.runner.try_claim(lease_ms).await;
        assert_eq!((refused.status, refused.failure_kind()), (400, "schema-invalid"), "{lease_ms}");
    }
}

#[tokio::test]
async fn a_policy_is_never_widened() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end_of("careful").await;
    let with = |policy: Value| {
        let mut run = back_end.new_run();
        run["executionPolicy"] = policy;
        run
    };
    let made = back_end.api.ok("POST", "/runs", &with(json!({})), 201).await;
    let policy = &made["executionPolicy"];
    assert_eq!(
        (&policy["sandbox"], &policy["network"], &policy["timeoutMs"]),
        (&json!("read-only"), &json!("disabled"), &json!(60_000)),
        "what is left out is what the tenant may do at most"
    );
    for (policy, status, kind) in [
        (json!({ "sandbox": "workspace-write" }), 403, "tenant-policy-denied"),
        (json!({ "sandbox": "danger-full-access" }), 403, "tenant-policy-denied"),
        (json!({ "network": "enabled" }), 403, "tenant-policy-denied"),
        (json!({ "timeoutMs": 60_001 }), 403, "tenant-policy-denied"),
        (json!({ "timeoutMs": 999 }), 400, "schema-invalid"),
        (json!({ "timeoutMs": 7_200_001 }), 400, "schema-invalid"),
        (json!({ "sandbox": "none" }), 400, "schema-invalid"),
        (json!({ "approval": "always" }), 400, "schema-invalid"),
        (json!({ "network": true }), 400, "schema-invalid"),
        (json!("read-only"), 400, "schema-invalid"),
        (json!({ "secretScope": { "allowCredentialEcho": true } }), 403, "tenant-policy-denied"),
    ] {
        back_end.api.refused("POST", "/runs", &with(policy), (status, kind)).await;
    }
    for slug in ["Codex", "1st", "-a", "a_b", "a.b", "", &"a".repeat(64)] {
        let mut run = back_end.new_run();
        run["backendProfile"] = json!(slug);
        back_end.api.refused("POST", "/runs", &run, (400, "schema-invalid")).await;
    }
    for (member, bad) in [
        ("providerId", json!("a b")),
        ("providerId", json!("")),
        ("providerId", json!("x".repeat(65))),
        ("projectId", json!("")),
        ("projectId", json!("x".repeat(201))),
        ("projectId", json!("a\u{0}b")),
        ("traceSink", json!("log")),
        ("traceSink", json!([])),
        ("workspaceRef", json!("/srv")),
        ("workspaceRef", json!(null)),
        ("resourceBundleRef", json!("x")),
        ("sessionRef", json!("sess_x")),
    ] {
        let mut run = back_end.new_run();
        run[member] = bad.clone();
        let refused = back_end.api.refused("POST", "/runs", &run, (400, "schema-invalid")).await;
        assert!(text(&refused["message"]).starts_with(member), "{member} {bad}: {refused}");
    }
    let runs = back_end.api.get("/runs?limit=200").await;
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(1), "only the good one is stored");
}

#[tokio::test]
async fn a_secret_of_somebody_else_is_refused() {
    let manager = TestManager::shared().await;
    let (admin, back_end) = (manager.admin().await, manager.back_end().await);
    let profile = format!("p{}", random_hex(6));
    let own = format!("agentrun-v01-provider-{profile}");
    admin
        .ok(
            "PUT",
            &format!("/provider-profiles/{profile}/credential"),
            &json!({ "apiKey": "0123456789" }),
            200,
        )
        .await;
    let with = |scope: Value| {
        let mut run = back_end.new_run();
        run["backendProfile"] = json!(profile);
        run["executionPolicy"] = json!({ "secretScope": scope });
        run
    };
    let credential = |profile: &str, reference: Value| json!({ "profile": profile, "secretRef": reference });
    let mine = credential(&profile, json!({ "name": own, "keys": ["auth.json"] }));
    for credentials in [
        json!([credential("codex", json!({ "name": own }))]),
        json!([credential(&profile, json!({ "name": "agentrun-v01-provider-codex" }))]),
        json!([credential(&profile, json!({ "name": own, "keys": ["id_rsa"] }))]),
        json!([credential(&profile, json!({ "name": own, "keys": ["auth.json", "../auth.json"] }))]),
        json!([credential(&profile, json!({ "name": own, "namespace": "kube-system" }))]),
        json!([mine, mine]),
    ] {
        let scope = json!({ "providerCredentials": credentials });
        back_end.api.refused("POST", "/runs", &with(scope), (403, "tenant-policy-denied")).await;
    }
    let none = with(json!({ "providerCredentials": [] }));
    back_end.api.refused("POST", "/runs", &none, (409, "secret-unavailable")).await;
    for tool in [
        json!({ "tool": "aws", "secretRef": { "name": "agentrun-v01-tool-aws" } }),
        json!({ "tool": "github", "secretRef": { "name": "somebody-elses" } }),
        json!({ "tool": "github", "secretRef": { "name": own } }),
    ] {
        let scope = json!({ "toolCredentials": [tool] });
        back_end.api.refused("POST", "/runs", &with(scope), (403, "tenant-policy-denied")).await;
    }
    assert_eq!(back_end.api.get("/runs").await["runs"], json!([]), "nothing was stored");
    let tool = json!({ "tool": "github", "secretRef": { "name": "agentrun-v01-tool-github" } });
    let scope = json!({ "providerCredentials": [mine], "toolCredentials": [tool] });
    let run = back_end.api.ok("POST", "/runs", &with(scope), 201).await;
    back_end.api.ok("POST", &format!("/runs/{}/cancel", text(&run["runId"])), &json!({}), 200).await;
    admin.ok("DELETE", &format!("/provider-profiles/{profile}"), &Value::Null, 200).await;
}

#[tokio::test]
async fn a_workspace_does_not_leave_its_root() {
    let folder = tempfile::tempdir().expect("a folder");
    let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
    for path in [&root.join("inside/deeper"), &outside] {
        fs::create_dir_all(path).expect("a folder can be made");
    }
    fs::write(root.join("file"), "x").expect("a file can be written");
    symlink(&outside, root.join("out")).expect("a link");
    symlink("..", root.join("up")).expect("a link");
    symlink(root.join("inside"), root.join("in")).expect("a link");
    let settings = format!(
        "run.tenants.hwlab = {{}}\nrun.tenants.unidesk = {{}}\n\
         run.workspaces.site = {{ path = {root:?}, tenants = [\"hwlab\"] }}\n"
    );
    let manager = TestManager::of(TestServer::with(&settings).await);
    let back_end = manager.back_end_of("hwlab").await;
    let with = |reference: Value| {
        let mut run = back_end.new_run();
        run["workspaceRef"] = reference;
        run
    };
    for path in ["inside", "inside/deeper", "in", "in/deeper"] {
        let reference = json!({ "root": "site", "path": path, "branch": "main" });
        let made = back_end.api.ok("POST", "/runs", &with(reference.clone()), 201).await;
        assert_eq!(made["workspaceRef"], reference);
    }
    back_end.api.ok("POST", "/runs", &with(json!({ "root": "site" })), 201).await;
    let absolute = outside.to_str().expect("a path is text").to_owned();
    for path in [
        &absolute,
        "..",
        "../outside",
        "inside/../../outside",
        "inside/..",
        "out",
        "up/outside",
        "up",
        "file",
        "nowhere",
        "inside\u{0}",
    ] {
        let body = with(json!({ "root": "site", "path": path }));
        let refused = back_end.api.refused("POST", "/runs", &body, (400, "schema-invalid")).await;
        assert!(text(&refused["message"]).starts_with("workspaceRef"), "{path}: {refused}");
        assert!(!text(&refused["message"]).contains(root.to_str().expect("text")), "{refused}");
    }
    let unknown = with(json!({ "root": "elsewhere", "path": "inside" }));
    back_end.api.refused("POST", "/runs", &unknown, (403, "tenant-policy-denied")).await;
    back_end.api.refused("POST", "/runs", &with(json!({ "path": "../x" })), (400, "schema-invalid")).await;
    let other = manager.back_end_of("unidesk").await;
    let mut foreign = other.new_run();
    foreign["workspaceRef"] = json!({ "root": "site", "path": "inside" });
    other.api.refused("POST", "/runs", &foreign, (403, "tenant-policy-denied")).await;
    assert_eq!(back_end.api.get("/runs?limit=200").await["runs"].as_array().map(Vec::len), Some(5));
}

#[tokio::test]
async fn of_thirty_two_requests_with_one_key_one_wins() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (run, command) = {
        let run = back_end.run().await;
        let command = back_end.turn(&run, "x").await;
        (run, command)
    };
    let mut project = back_end.new_run();
    let turn = |n: usize| json!({ "type": "turn", "payload": { "prompt": format!("{n}") } });
    let job = |n: usize| json!({ "commandId": command, "launcher": "external", "idleTimeoutMs": 2000 + n });
    let mut new_run = |n: usize| {
        project["projectId"] = json!(format!("acme/{n}"));
        project.clone()
    };
    let bodies = |mut body: Box<dyn FnMut(usize) -> Value + '_>| -> Vec<Value> {
        (0..32).map(|n| body(n % 4)).collect()
    };
    for (path, bodies, id, existing) in [
        (format!("/runs/{run}/commands"), bodies(Box::new(turn)), "commandId", "existingCommandId"),
        (format!("/runs/{run}/runner-jobs"), bodies(Box::new(job)), "runnerJobId", "existingRunnerJobId"),
        ("/runs".to_owned(), bodies(Box::new(&mut new_run)), "runId", "existingRunId"),
    ] {
        let key = [("Idempotency-Key", "the-key")];
        let sent = bodies.iter().map(|body| back_end.api.send("POST", &path, &key, written(body)));
        let answers = join_all(sent).await;
        let (at, won) = answers
            .iter()
            .enumerate()
            .find(|(_, answer)| answer.status == 201)
            .unwrap_or_else(|| panic!("{path}: nobody won"));
        let stored = &won.body["data"][id];
        for (n, answer) in answers.iter().enumerate() {
            match n % 4 == at % 4 {
                true if n == at => {}
                true => assert_eq!((answer.status, &answer.body["data"][id]), (200, stored), "{path} {n}"),
                false => {
                    assert_eq!(
                        (answer.status, answer.failure_kind()),
                        (409, "idempotency-conflict"),
                        "{path} {n}"
                    );
                    assert_eq!(&answer.body["details"][existing], stored, "{path}");
                }
            }
        }
    }
    let jobs = back_end.api.get(&format!("/runs/{run}/runner-jobs")).await;
    assert_eq!(jobs["runnerJobs"].as_array().map(Vec::len), Some(1));
    let runs = back_end.api.get("/runs?limit=200").await;
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(2), "the first one, and one of the key");
    let next = back_end.api.ok("POST", &format!("/runs/{run}/commands"), &turn(9), 201).await;
    assert_eq!(next["seq"], 3, "one command was made with the key");
}

#[tokio::test]
async fn a_key_of_one_tenant_is_none_of_another() {
    let manager = TestManager::shared().await;
    let (one, other) = (manager.back_end().await, manager.back_end().await);
    let key = [("Idempotency-Key", "the-same-key")];
    let mut ids = BTreeSet::new();
    for back_end in [&one, &other] {
        let answer = back_end.api.send("POST", "/runs", &key, back_end.new_run().to_string()).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        ids.insert(text(&answer.body["data"]["runId"]));
    }
    assert_eq!(ids.len(), 2);
}

#[tokio::test]
async fn whoever_has_not_the_lease_changes_nothing() {
    let manager = TestManager::shared().await;
    let owned = RunFixture::new(manager.back_end().await).await;
    let idle = owned.runner.beside().await;
    let before = owned.stored().await;
    let mut seen = BTreeSet::new();
    let of_lease = |method: &Method| required(method).iter().any(|name| name == "epoch");
    for (method, route) in routes().filter(|(method, _)| of_lease(method)) {
        let good = owned.request(method, route);
        let epoch = owned.runner.epoch;
        let mut good = good;
        if method.name == "runner.append_events" {
            good = good.with("events", json!([said(&owned.command, "new", "new")]));
        }
        for wrong in [
            good.with("epoch", json!(epoch - 1)),
            good.with("epoch", json!(epoch + 1)),
            good.with("runnerId", json!(idle.id)),
            good.with("runnerId", json!(format!("runner_{}", random_hex(16)))),
        ] {
            let refused = wrong.send(&owned.runner.api).await;
            let at = format!("{} {:?}: {}", method.name, wrong.members, refused.body);
            assert_eq!((refused.status, refused.failure_kind()), (409, "runner-lease-conflict"), "{at}");
            let details = &refused.body["details"];
            assert_eq!(
                (&details["ownerRunnerId"], &details["retryable"]),
                (&json!(owned.runner.id), &json!(true)),
                "{at}"
            );
            assert!(details["leaseExpiresAt"].is_string() && details["retryAfterMs"].is_i64(), "{at}");
        }
        seen.insert(method.name);
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
    assert_eq!(owned.stored().await, before);
}

/// A payload of this many bytes. No text in it is so long that it would be cut.
fn sized_payload(bytes: usize) -> Value {
    let part = "x".repeat(60_000);
    let mut payload = json!({ "more": [part, part, part, part, ""] });
    payload["more"][4] = json!("x".repeat(bytes - payload.to_string().len()));
    payload
}

#[tokio::test]
async fn what_an_event_may_not_be() {
    let manager = TestManager::shared().await;
    let owned = RunFixture::new(manager.back_end().await).await;
    let (runner, command) = (&owned.runner, &owned.command);
    let before = owned.stored().await;
    let pending = owned.back_end.turn(&owned.run, "waits").await;
    let waits = owned.stored().await;
    let good = said(command, "good", "good");
    let event = |kind: &str, payload: Value| json!({ "clientEventId": "bad", "type": kind, "commandId": command, "payload": payload });
    let large = sized_payload((256 << 10) + 1);
    assert_eq!(large.to_string().len(), (256 << 10) + 1);
    for (bad, status, kind) in [
        (event("nonsense", json!({})), 400, "schema-invalid"),
        (event("terminal_status", json!({ "status": "completed", "scope": "run" })), 400, "schema-invalid"),
        (event("assistant_message", json!({})), 400, "schema-invalid"),
        (event("assistant_message", json!({ "text": 7 })), 400, "schema-invalid"),
        (event("assistant_message", json!([])), 400, "schema-invalid"),
        (event("command_output", json!({ "stream": "both", "text": "" })), 400, "schema-invalid"),
        (event("tool_call", json!({ "callId": "c", "exitCode": "0" })), 400, "schema-invalid"),
        (event("reasoning", large.clone()), 413, "payload-too-large"),
        (said(&format!("cmd_{}", random_hex(16)), "bad", "x"), 404, "not-found"),
        (said(&pending, "bad", "x"), 409, "schema-invalid"),
        (json!({ "clientEventId": "", "type": "reasoning", "payload": {} }), 400, "schema-invalid"),
        (
            json!({ "clientEventId": "x".repeat(201), "type": "reasoning", "payload": {} }),
            400,
            "schema-invalid",
        ),
        (json!({ "type": "reasoning", "payload": {} }), 400, "schema-invalid"),
    ] {
        let refused = runner.try_append(json!([good, bad])).await;
        let shown = &bad.to_string()[..200.min(bad.to_string().len())];
        assert_eq!((refused.status, refused.failure_kind()), (status, kind), "{shown}: {}", refused.body);
    }
    for events in [json!([]), json!(vec![good.clone(); 201]), json!("x")] {
        let refused = runner.try_append(events).await;
        assert_eq!((refused.status, refused.failure_kind()), (400, "schema-invalid"), "{}", refused.body);
    }
    assert_eq!(owned.stored().await, waits, "a batch with one of them leaves nothing");
    assert_eq!(waits[6..], before[6..], "nor does a waiting command");

    // One byte less is an event, and so are two hundred of them.
    let fits = sized_payload(256 << 10);
    runner.append(json!([event("reasoning", fits)])).await;
    let many: Vec<Value> = (0..200).map(|n| said(command, &format!("m-{n}"), "m")).collect();
    let appended = runner.append(json!(many)).await;
    assert_eq!(appended["appended"].as_array().map(Vec::len), Some(200));
    // A long text is cut, and says so.
    let long = json!({ "text": "é".repeat(40_000) });
    runner.append(json!([{ "clientEventId": "long", "type": "assistant_message", "commandId": command, "payload": long }])).await;
    let events = owned.back_end.api.events(&owned.run).await;
    let last = &events.last().expect("it was stored")["payload"];
    assert_eq!((last["text"].as_str().map(str::len), &last["textTruncated"]), (Some(64 << 10), &json!(true)));
    assert_contiguous(&events);

    // What was stored is answered again, with its number, also beside something new.
    let again = runner.append(json!([many[3], said(command, "newer", "newer"), many[3]])).await;
    let seqs: Vec<i64> =
        again["appended"].as_array().expect("a list").iter().map(|one| number(&one["seq"])).collect();
    let first = number(&appended["appended"][3]["seq"]);
    assert_eq!(seqs, [first, number(&again["lastSeq"]), first]);
    assert_eq!(number(&again["lastSeq"]), i64::try_from(events.len()).expect("few") + 1);
}

#[tokio::test]
async fn after_an_end_nothing_comes() {
    let manager = TestManager::shared().await;
    let owned = RunFixture::new(manager.back_end().await).await;
    let (runner, command, run) = (&owned.runner, &owned.command, &owned.run);
    runner.report(command, "completed").await;
    let refused = runner.try_append(json!([said(command, "late", "late")])).await;
    assert_eq!(refused.status, 409, "{}", refused.body);
    assert_eq!(runner.try_acknowledge(command).await.status, 409);
    assert_eq!(runner.try_report(command, "completed").await.status, 200, "the same end again");
    let other = runner.try_report(command, "failed").await;
    assert_eq!((other.status, other.failure_kind()), (409, "schema-invalid"), "{}", other.body);
    let replayed = runner.append(json!([said(command, "s", "hello")])).await;
    assert_eq!(replayed["appended"][0]["seq"], 2, "a repetition of what is stored is answered");

    assert_eq!(runner.try_report_run(json!({ "status": "completed" })).await.status, 200);
    let before = owned.stored().await;
    let path = |rest: &str| format!("/runs/{run}{rest}");
    let turn = json!({ "type": "turn", "payload": { "prompt": "x" } });
    let claim = json!({ "runnerId": runner.id, "attemptId": runner.attempt });
    let failed = runner.signed(json!({ "status": "failed" }));
    let job = json!({ "commandId": command, "launcher": "external" });
    for (api, verb, path, body) in [
        (&owned.back_end.api, "POST", path("/commands"), turn),
        (&owned.back_end.api, "POST", path("/runner-jobs"), job),
        (&runner.api, "POST", path("/claim"), claim),
        (&runner.api, "PATCH", path("/lease"), runner.signed(json!({}))),
        (&runner.api, "PATCH", path("/status"), failed),
        (
            &runner.api,
            "POST",
            path("/events"),
            runner.signed(json!({ "events": [said(command, "late", "x")] })),
        ),
        (&runner.api, "GET", runner.poll_path(0, 0), json!(null)),
    ] {
        let refused = api.refused(verb, &path, &body, (409, "schema-invalid")).await;
        assert_eq!(refused["message"], format!("run {run} is already terminal: completed"), "{path}");
    }
    let body = runner.signed(json!({ "status": "completed" }));
    runner.api.ok("PATCH", &path("/status"), &body, 200).await;
    assert_eq!(owned.stored().await, before);
}

/// The server answers before it has read everything, and closes: a client that is still writing may miss the answer.
async fn too_large(api: &TestApi, path: &str, body: String) -> ManagerAnswer {
    for _ in 0..20 {
        if let Ok(answer) = api.try_send("POST", path, &[], body.clone()).await {
            return answer;
        }
    }
    panic!("{path}: no answer was read");
}

#[tokio::test]
async fn a_body_has_a_size() {
    let manager = TestManager::shared().await;
    let owned = RunFixture::new(manager.back_end().await).await;
    let sized = |most: usize, before: &str, after: &str| {
        format!("{before}{}{after}", "x".repeat(most - before.len() - after.len()))
    };
    let path = format!("/runs/{}/commands", owned.run);
    let (before, after) = (r#"{"type":"turn","payload":{"prompt":"x"},"more":""#, r#""}"#);
    let refused = too_large(&owned.back_end.api, &path, sized((1 << 20) + 1, before, after)).await;
    assert_eq!((refused.status, refused.failure_kind()), (413, "payload-too-large"), "{}", refused.body);
    // One byte less is read. What the server stores of it has a size of its own.
    let (most, post) =
        (512 << 10, async |body: String| owned.back_end.api.send("POST", &path, &[], body).await);
    let stored = post(sized(1 << 20, before, after)).await;
    assert_eq!((stored.status, &stored.body["data"]["seq"]), (201, &json!(2)), "{}", stored.body);
    let prompt =
        |bytes: usize| format!(r#"{{"type":"turn","payload":{}}}"#, sized(bytes, r#"{"prompt":""#, r#""}"#));
    let refused = post(prompt(most + 1)).await;
    assert_eq!((refused.status, refused.failure_kind()), (413, "payload-too-large"), "{}", refused.body);
    let stored = post(prompt(most)).await;
    assert_eq!((stored.status, &stored.body["data"]["seq"]), (201, &json!(3)), "{}", stored.body);

    let path = format!("/runs/{}/events", owned.run);
    let before =
        format!(r#"{{"runnerId":"{}","epoch":{},"events":[],"more":""#, owned.runner.id, owned.runner.epoch);
    let refused = too_large(&owned.runner.api, &path, sized((4 << 20) + 1, &before, r#""}"#)).await;
    assert_eq!((refused.status, refused.failure_kind()), (413, "payload-too-large"), "{}", refused.body);
    let read = owned.runner.api.send("POST", &path, &[], sized(4 << 20, &before, r#""}"#)).await;
    assert_eq!(read.status, 400, "it was read, and has no event: {}", read.body);
}

#[tokio::test]
async fn an_environment_has_no_secrets_and_changes_no_process() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let run = back_end.run().await;
    let command = back_end.turn(&run, "x").await;
    let path = format!("/runs/{run}/runner-jobs");
    let with = |env: Value| json!({ "commandId": command, "launcher": "external", "env": env });
    for name in [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "PATH",
        "HOME",
        "CODEX_HOME",
        "AGENTRUN_X",
        "MY_TOKEN",
        "DB_PASSWORD",
        "API_KEY",
        "A_SECRET",
        "DSN",
        "lower",
        "1A",
        "A-B",
        "",
    ] {
        let body = with(json!({ name: "x" }));
        back_end.api.refused("POST", &path, &body, (400, "schema-invalid")).await;
    }
    let many: Map<String, Value> = (0..33).map(|n| (format!("A{n}"), json!("x"))).collect();
    for env in
        [json!(many), json!({ "A": "x".repeat(4096) }), json!({ "A": 7 }), json!({ "A": "\u{0}" }), json!([])]
    {
        back_end.api.refused("POST", &path, &with(env), (400, "schema-invalid")).await;
    }
    for idle in [999, 3_600_001] {
        let body = json!({ "commandId": command, "launcher": "external", "idleTimeoutMs": idle });
        back_end.api.refused("POST", &path, &body, (400, "schema-invalid")).await;
    }
    assert_eq!(back_end.api.get(&path).await["runnerJobs"], json!([]), "nothing was started");
    back_end.api.ok("POST", &path, &with(json!({ "LOG_LEVEL": "info", "LANG": "C.UTF-8" })), 201).await;
}

#[tokio::test]
async fn an_agent_without_a_tenant_is_refused() {
    let server = TestServer::shared_with("run.tenants.unidesk = {}").await;
    let agent = server.agent("alice").await;
    let error = agent.call_error("run.list", &json!({})).await;
    assert_eq!(
        (&error["code"], &error["data"]["failureKind"]),
        (&json!(-32004), &json!("forbidden")),
        "{error}"
    );
    let manager = TestManager::of(server);
    let api = manager.api(Some(agent.tokens.access.clone()));
    api.refused("GET", "/runs", &Value::Null, (403, "forbidden")).await;

    // One that acts for a tenant has it over both.
    let manager = TestManager::shared().await;
    let agent = manager.server.agent("bobb").await;
    let api = manager.api(Some(agent.tokens.access.clone()));
    let back_end = TestBackEnd { api, tenant: TENANT_OF_AGENTS.to_owned() };
    let run = back_end.run().await;
    let seen = agent.call("run.get", &json!({ "runId": run })).await;
    assert_eq!(seen["run"], back_end.read(&run).await);
    // What only a runner asks is no method of an agent.
    for method in methods().iter().filter(|method| method.name.starts_with("runner.")) {
        assert_eq!(agent.call_error(method.name, &json!({})).await["code"], -32601, "{}", method.name);
    }
}
