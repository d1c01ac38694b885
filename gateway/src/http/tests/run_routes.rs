//! Ten routes as the run manager will declare them, with the envelopes of runs and of run input: what the contract has to express.

use super::prefix;
use super::streaming_server::{SERVICE, StreamingServer};
use crate::admission::Admission;
use crate::config::Config;
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use futures_util::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use hyper::{Request, Response};
use kernel::{
    CallTerm, Caller, CallingAgent, OnAnswer, PendingAnswer, RemoteService, RpcError, ServiceRoutes, World,
    codes, http,
};
use proto_schemas::{
    Access, HttpAccess, HttpEnvelope, HttpPrefix, HttpRoute, HttpRouteBody, HttpRouteStatus, MOST_BODY_BYTES,
    Method, RUN_ENVELOPE,
};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::future::ready;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::time::sleep;

static DETAIL_ENVELOPE: LazyLock<HttpEnvelope> = LazyLock::new(|| {
    let text = r#"{
        "envelope": "detail",
        "summary": "the result as it is; {detail, code, traceId} for what did not work",
        "success": "$body",
        "failure": { "detail": "$message", "code": "$word", "traceId": "$trace_id", "errors": "$details.violations?" },
        "words": "name",
        "errors": {
            "UNAUTHENTICATED": { "message": "Not authenticated" },
            "TOKEN_INVALID": { "message": "Not authenticated" },
            "INVALID_PARAMS": { "status": 422, "word": "RUN_INPUT_INVALID" },
            "PARSE_ERROR": { "status": 422, "word": "RUN_INPUT_INVALID", "message": "invalid RunAgentInput" }
        }
    }"#;
    HttpEnvelope::parse(text).unwrap()
});

const PUBLIC_BYTES: usize = 1 << 20;

pub(super) static PREFIXES: [HttpPrefix; 2] = [
    HttpPrefix {
        access: HttpAccess { public: false, tokens: &["access", "agent"] },
        body_bytes: PUBLIC_BYTES,
        cors: false,
        envelope: &RUN_ENVELOPE,
        ..prefix("/test/v1/")
    },
    HttpPrefix { body_bytes: PUBLIC_BYTES, envelope: &DETAIL_ENVELOPE, ..prefix("/test/v1/agent/") },
];

/// In this test the tokens that the service gives stand for those of runners.
const RUNNER: HttpAccess = HttpAccess { public: false, tokens: &["agent"] };
const EVERYBODY: HttpAccess = HttpAccess { public: false, tokens: &["access", "agent"] };
const PARAMS: HttpRouteBody = HttpRouteBody::Params;
const CREATED: HttpRouteStatus = HttpRouteStatus::ByMember { member: "created", yes: 201, no: 200 };

static DOC: LazyLock<Value> = LazyLock::new(
    || json!({ "params": { "properties": { "afterSeq": { "type": "integer" }, "limit": { "type": "integer" } } } }),
);

/// Those of `runner.*` are internal: only their routes open them.
static METHODS: LazyLock<Vec<Method>> = LazyLock::new(|| {
    let run = "/test/v1/runs/{runId}";
    let at = |verb: &'static str, end: &str| HttpRoute::new(verb, format!("{run}{end}").leak());
    let (public, internal) = (Access::Session, Access::Internal);
    let all = [
        (
            "create",
            public,
            HttpRoute {
                body: PARAMS,
                headers: &[("idempotency-key", "idempotencyKey")],
                result: Some("run"),
                status: CREATED,
                ..HttpRoute::new("POST", "/test/v1/runs")
            },
        ),
        ("get", public, HttpRoute { result: Some("run"), etag: Some("updatedAt"), ..at("GET", "") }),
        (
            "events",
            public,
            HttpRoute {
                query: &["afterSeq", "limit"],
                access: EVERYBODY,
                stream: true,
                ..at("GET", "/events")
            },
        ),
        ("cancel", public, HttpRoute { body: PARAMS, result: Some("run"), ..at("POST", "/cancel") }),
        (
            "command",
            public,
            HttpRoute { body: PARAMS, result: Some("command"), status: CREATED, ..at("POST", "/commands") },
        ),
        (
            "commands",
            internal,
            HttpRoute { query: &["afterSeq", "limit"], access: RUNNER, ..at("GET", "/commands") },
        ),
        (
            "append",
            internal,
            HttpRoute {
                body: PARAMS,
                access: RUNNER,
                body_bytes: Some(MOST_BODY_BYTES),
                ..at("POST", "/events")
            },
        ),
        (
            "lease",
            internal,
            HttpRoute {
                body: PARAMS,
                access: RUNNER,
                headers: &[("if-match", "epoch")],
                ..at("PATCH", "/lease")
            },
        ),
        (
            "start",
            public,
            HttpRoute {
                body: PARAMS,
                status: HttpRouteStatus::Always(202),
                stream: true,
                ..HttpRoute::new("POST", "/test/v1/agent/runs")
            },
        ),
        (
            "history",
            public,
            HttpRoute { query: &["threadId", "before"], ..HttpRoute::new("GET", "/test/v1/agent/history") },
        ),
    ];
    let base = *proto_schemas::find("agent.get").unwrap();
    let method = |(name, access, route): (&str, Access, HttpRoute)| {
        let http: &'static [HttpRoute] = Box::leak(Box::new([route]));
        let name: &'static str = format!("agent.run_{name}").leak();
        let mut method = base;
        (method.name, method.access, method.http) = (name, access, http);
        (method.tag, method.rate) = (None, None);
        method.with_file("{}", &DOC)
    };
    all.map(method).to_vec()
});

pub(super) fn methods() -> impl Iterator<Item = &'static Method> {
    METHODS.iter()
}

/// Answers with what it was asked, and by whom.
struct TestRunService;

impl RemoteService for TestRunService {
    fn call(&self, caller: Caller, method: &str, params: Option<&RawValue>, _: Duration) -> PendingAnswer {
        let params: Value = params.map_or(Value::Null, |params| serde_json::from_str(params.get()).unwrap());
        let subject = caller.token().map(|token| token.subject.clone());
        let run = json!({ "runId": params["runId"], "params": params, "by": subject, "updatedAt": "v1" });
        let answer = match (method, &params) {
            ("agent.verify_token", params) if params["token"] == "hsk_good" => {
                Ok(json!({ "subject": "runner-1" }))
            }
            ("agent.verify_token", _) => Err(RpcError::plain(codes::TOKEN_INVALID)),
            ("agent.run_create", params) if params["tenantId"] == "other" => {
                let refused = RpcError::new(codes::PERMISSION_DENIED, "tenant other is not yours");
                Err(refused.with("failureKind", "tenant-policy-denied").with("tenantId", "other"))
            }
            ("agent.run_create", params) if params.get("tenantId").is_none() => {
                let violations = json!([{ "path": "/tenantId", "message": "tenantId is required" }]);
                Err(RpcError::new(codes::INVALID_PARAMS, "tenantId is required")
                    .with("violations", violations))
            }
            ("agent.run_create", params) => Ok(json!({ "run": run, "created": params["again"] != true })),
            ("agent.run_get" | "agent.run_cancel", _) => Ok(json!({ "run": run })),
            ("agent.run_command", _) => Ok(json!({ "command": run, "created": false })),
            ("agent.run_append", params) => Ok(json!({ "bytes": params["events"].as_str().map(str::len) })),
            ("agent.run_start", params) if params.get("threadId").is_none() => {
                let violations = json!([{ "path": "/threadId", "message": "threadId is required" }]);
                Err(RpcError::new(codes::INVALID_PARAMS, "threadId is required")
                    .with("violations", violations))
            }
            _ => Ok(run),
        };
        let answer = answer.map(|answer| to_raw_value(&answer).unwrap().into());
        Box::pin(ready(answer))
    }

    fn send(&self, _: &CallingAgent, _: &str, _: Option<&RawValue>, _: CallTerm, _: OnAnswer) {
        unreachable!("nobody has a session here")
    }

    fn is_up(&self) -> bool {
        true
    }
}

/// The part of the router that streams, and one path that refuses.
fn router() -> Router {
    // It lasts longer than a call may.
    let events = || async {
        let all = stream::iter(1..=3).then(|number| async move {
            sleep(CALL_TIMEOUT / 2).await;
            Ok::<_, Infallible>(format!("data: {number}\n\n"))
        });
        ([("content-type", "text/event-stream")], Body::from_stream(all))
    };
    let refused = || async { http::refuse(hyper::StatusCode::GONE, "gone_for_good", "it is gone") };
    Router::new()
        .route("/test/v1/runs/{id}/events", get(events))
        .route("/test/v1/agent/runs", axum::routing::post(events))
        .route("/test/v1/gone", get(refused))
}

async fn server() -> StreamingServer {
    let settings = format!("limits.call_timeout_ms = {}", CALL_TIMEOUT.as_millis());
    let config = Config::parse(&settings, &crate::config::test_services()).unwrap();
    let world = World::local(&config.issuer, Path::new("unused"), config.store_url().unwrap());
    world.mesh.add_remote(SERVICE, Arc::new(TestRunService));
    world.mesh.add_routes(SERVICE, ServiceRoutes::Local(http::routes_of(router(), &world.disk)));
    let admission = Arc::new(Admission::new(&config, &world));
    StreamingServer::of(config, &world, admission).await
}

const CALL_TIMEOUT: Duration = Duration::from_secs(2);
const ALICE: &str = "token-of-alice.aid.pub";
const RUNNER_TOKEN: &str = "hsk_good";

/// A request, the head of its answer, and its body: JSON where it is, or a text.
async fn send(
    server: &StreamingServer,
    token: Option<&str>,
    verb: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> (Response<()>, Value) {
    let mut request = Request::builder().method(verb).uri(path).header("host", "x");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (head, body) = server.send(request.body(body.into()).unwrap()).await.into_parts();
    let text = body.collect().await.unwrap().to_bytes();
    let value = serde_json::from_slice(&text).unwrap_or_else(|_| String::from_utf8_lossy(&text).into());
    (Response::from_parts(head, ()), value)
}

#[tokio::test]
async fn what_works_is_in_the_envelope_of_runs_with_its_status() {
    let server = server().await;
    let json = [("content-type", "application/json"), ("idempotency-key", "k-1")];
    let (made, body) =
        send(&server, Some(ALICE), "POST", "/test/v1/runs", &json, r#"{"tenantId":"t"}"#).await;
    assert_eq!((made.status().as_u16(), &body["ok"]), (201, &json!(true)), "{body}");
    let expected = json!({ "tenantId": "t", "idempotencyKey": "k-1" });
    assert_eq!((&body["data"]["params"], &body["data"]["by"]), (&expected, &json!("alice.aid.pub")));
    assert_eq!(body.as_object().unwrap().len(), 2, "created is the status: {body}");
    let again = r#"{"tenantId":"t","again":true}"#;
    let (again, _) = send(&server, Some(ALICE), "POST", "/test/v1/runs", &json, again).await;
    assert_eq!(again.status(), 200);

    let (read, _) = send(&server, Some(ALICE), "GET", "/test/v1/runs/r%201", &[], "").await;
    assert_eq!(read.status(), 200);
    assert_eq!(read.headers()["etag"], "\"v1\"");
    let known = [("if-none-match", "W/\"v1\"")];
    let (unchanged, _) = send(&server, Some(ALICE), "GET", "/test/v1/runs/r1", &known, "").await;
    assert_eq!(unchanged.status(), 304);
    let (head, body) = send(&server, Some(ALICE), "HEAD", "/test/v1/runs/r1", &[], "").await;
    assert_eq!((head.status().as_u16(), body), (200, json!("")));

    let path = "/test/v1/runs/r1/events?afterSeq=7&limit=&other=1";
    let (_, page) = send(&server, Some(RUNNER_TOKEN), "GET", path, &[], "").await;
    assert_eq!(page["data"]["params"], json!({ "runId": "r1", "afterSeq": 7 }), "numbers, and no empty ones");
    assert_eq!(page["data"]["by"], "runner-1", "who need not be an agent");
    let (_, lease) =
        send(&server, Some(RUNNER_TOKEN), "PATCH", "/test/v1/runs/r1/lease", &[("if-match", "3")], "").await;
    assert_eq!(lease["data"]["params"], json!({ "runId": "r1", "epoch": "3" }));
}

#[tokio::test]
async fn a_header_that_means_something_and_cannot_be_read_is_refused() {
    let server = server().await;
    let lease = async |values: &[&[u8]]| {
        let mut request = Request::patch("/test/v1/runs/r1/lease").header("host", "x");
        request = request.header("authorization", format!("Bearer {RUNNER_TOKEN}"));
        for value in values {
            request = request.header("if-match", *value);
        }
        let (head, body) = server.send(request.body(Body::empty()).unwrap()).await.into_parts();
        let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        (head.status.as_u16(), body["message"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(lease(&[b"3"]).await.0, 200);
    let (status, sentence) = lease(&[b"\xe9"]).await;
    assert_eq!((status, &*sentence), (400, "if-match: has characters that are not visible ASCII"));
    assert_eq!(lease(&[b"3", b"4"]).await, (400, "if-match: is given twice".to_owned()));
}

#[tokio::test]
async fn the_largest_body_is_that_of_its_route() {
    let server = server().await;
    let events = |bytes: usize| format!("{{\"events\":\"{}\"}}", "x".repeat(bytes));
    let path = "/test/v1/runs/r1/events";
    let large = MOST_BODY_BYTES - 100;
    let (appended, body) = send(&server, Some(RUNNER_TOKEN), "POST", path, &[], events(large)).await;
    assert_eq!((appended.status().as_u16(), &body["data"]["bytes"]), (200, &json!(large)), "{body}");
    let (refused, body) = send(&server, Some(RUNNER_TOKEN), "POST", path, &[], events(MOST_BODY_BYTES)).await;
    assert_eq!((refused.status().as_u16(), &body["failureKind"]), (413, &json!("payload-too-large")));
    let path = "/test/v1/runs/r1/cancel";
    let (refused, _) = send(&server, Some(ALICE), "POST", path, &[], events(PUBLIC_BYTES)).await;
    assert_eq!(refused.status(), 413);
}

/// Token, HTTP method, path, headers and body; and the status and the word of the refusal.
type RefusedRequest<'a> =
    (Option<&'a str>, &'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, u16, &'a str);

#[tokio::test]
async fn whoever_refuses_is_shown_in_the_envelope_of_runs() {
    let server = server().await;
    let trace = ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let text = ("content-type", "text/plain");
    #[rustfmt::skip]
    let cases: [RefusedRequest; 15] = [
        (None,                 "GET",    "/test/v1/runs/r1",          &[],     "",                     401, "unauthorized"),
        (Some("hsk_bad"),      "GET",    "/test/v1/runs/r1/events",   &[],     "",                     401, "unauthorized"),
        (Some("forged"),       "GET",    "/test/v1/runs/r1",          &[],     "",                     401, "unauthorized"),
        (Some(RUNNER_TOKEN),   "GET",    "/test/v1/runs/r1",          &[],     "",                     403, "forbidden"),
        (Some(ALICE),          "POST",   "/test/v1/runs/r1/events",   &[],     "{}",                   403, "forbidden"),
        (Some(ALICE),          "GET",    "/test/v1/nothing",          &[],     "",                     404, "not-found"),
        (Some(ALICE),          "DELETE", "/test/v1/runs/r1",          &[],     "",                     405, "method-not-allowed"),
        (Some(ALICE),          "POST",   "/test/v1/runs",             &[text], "{}",                   415, "unsupported-media-type"),
        (Some(ALICE),          "POST",   "/test/v1/runs",             &[],     "{",                    400, "schema-invalid"),
        (Some(ALICE),          "POST",   "/test/v1/runs",             &[],     "[]",                   400, "schema-invalid"),
        (Some(ALICE),          "POST",   "/test/v1/runs",             &[],     r#"{"a":1,"a":2}"#,     400, "schema-invalid"),
        (Some(ALICE),          "POST",   "/test/v1/runs",             &[],     "{}",                   400, "schema-invalid"),
        (Some(ALICE),          "POST",   "/test/v1/runs",             &[],     r#"{"tenantId":"other"}"#, 403, "tenant-policy-denied"),
        (Some(ALICE),          "GET",    "/test/v1/runs/%ff",         &[],     "",                     400, "schema-invalid"),
        (Some(ALICE),          "GET",    "/test/v1/gone",             &[],     "",                     410, "gone-for-good"),
    ];
    for (token, verb, path, headers, body, status, word) in cases {
        let headers: Vec<(&str, &str)> = headers.iter().copied().chain([trace]).collect();
        let (refused, shown) = send(&server, token, verb, path, &headers, body.to_owned()).await;
        let at = format!("{verb} {path} {body}: {shown}");
        assert_eq!((refused.status().as_u16(), &shown["failureKind"]), (status, &json!(word)), "{at}");
        assert_eq!(
            (&shown["ok"], &shown["traceId"]),
            (&json!(false), &json!("4bf92f3577b34da6a3ce929d0e0e4736")),
            "{at}"
        );
        assert_eq!(refused.headers()["x-trace-id"], "4bf92f3577b34da6a3ce929d0e0e4736", "{at}");
        assert!(shown["requestId"].as_str().is_some_and(|id| id.starts_with("req_")), "{at}");
        assert!(shown["message"].as_str().is_some_and(|text| !text.is_empty()), "{at}");
        assert_eq!(status == 401, refused.headers().contains_key("www-authenticate"), "{at}");
        if status == 405 {
            assert_eq!(refused.headers()["allow"], "GET, HEAD, OPTIONS");
        }
        if word == "tenant-policy-denied" {
            assert_eq!(shown["details"], json!({ "tenantId": "other" }));
        }
    }
    let (options, _) = send(&server, None, "OPTIONS", "/test/v1/runs/r1", &[], "").await;
    assert_eq!(options.status(), 204);
    assert_eq!(options.headers()["allow"], "GET, HEAD, OPTIONS");
    server.gateway.mesh.remove(SERVICE);
    let (down, shown) = send(&server, Some(ALICE), "GET", "/test/v1/runs/r1", &[], "").await;
    assert_eq!((down.status().as_u16(), &shown["failureKind"]), (503, &json!("infra-failed")));
    assert_eq!(shown["details"]["retryable"], json!(true), "{shown}");
}

#[tokio::test]
async fn run_input_has_an_envelope_of_its_own_and_streams_for_those_who_ask() {
    let server = server().await;
    let path = "/test/v1/agent/runs";
    let (started, body) = send(&server, Some(ALICE), "POST", path, &[], r#"{"threadId":"t"}"#).await;
    assert_eq!((started.status().as_u16(), &body["by"]), (202, &json!("alice.aid.pub")), "{body}");
    let (refused, body) = send(&server, None, "POST", path, &[], "{}").await;
    assert_eq!((refused.status().as_u16(), &body["detail"]), (401, &json!("Not authenticated")));
    let (refused, body) = send(&server, Some(ALICE), "POST", path, &[], "{}").await;
    assert_eq!((refused.status().as_u16(), &body["code"]), (422, &json!("RUN_INPUT_INVALID")));
    assert_eq!(body["errors"][0]["path"], "/threadId");
    let (_, broken) = send(&server, Some(ALICE), "POST", path, &[], "{").await;
    assert_eq!(broken["detail"], "invalid RunAgentInput");

    let accept = [("accept", "text/event-stream")];
    let (streamed, body) = send(&server, Some(ALICE), "POST", path, &accept, "{}").await;
    assert_eq!(
        (&streamed.headers()["content-type"], body),
        (&"text/event-stream".parse().unwrap(), json!("data: 1\n\ndata: 2\n\ndata: 3\n\n"))
    );
    let (_, body) = send(&server, Some(RUNNER_TOKEN), "GET", "/test/v1/runs/r1/events", &accept, "").await;
    assert_eq!(body, json!("data: 1\n\ndata: 2\n\ndata: 3\n\n"));
    let (refused, _) = send(&server, None, "GET", "/test/v1/runs/r1/events", &accept, "").await;
    assert_eq!(refused.status(), 401, "a stream is below the same list");
}
