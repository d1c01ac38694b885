//! Streams both ways through the gateway, with the service in this process and behind the mesh.

mod run_routes;
mod streaming_server;
mod streaming_service;
mod ways_in;

use super::route::DeclaredPath;
use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{Request, Response};
use kernel::http::{CALLER, DEADLINE_MS, caller_header};
use kernel::{Caller, ServiceRoutes, World};
use proto_schemas::{ACCESS_TOKEN, HttpAccess, HttpEnvelope, HttpHost, HttpPrefix};
use ring::digest;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;
use streaming_server::{SERVICE, StreamingServer, StreamingShape, dial};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(60);
const UPLOAD_BYTES: usize = 32 << 20;
const SMALL_BYTES: usize = 1000;

/// What the `namespace.json` of the service would declare.
static PREFIXES: [HttpPrefix; 3] = [
    HttpPrefix { streams: true, body_bytes: UPLOAD_BYTES, cors: false, ..prefix("/test/") },
    HttpPrefix { body_bytes: SMALL_BYTES, ..prefix("/test/small/") },
    HttpPrefix { access: TOKEN, ..prefix("/test/token/") },
];

const TOKEN: HttpAccess = HttpAccess { public: false, tokens: &[ACCESS_TOKEN] };

const fn prefix(path: &'static str) -> HttpPrefix {
    HttpPrefix {
        host: HttpHost::Any,
        path,
        exact: false,
        tag: None,
        access: HttpAccess { public: true, tokens: &[ACCESS_TOKEN] },
        rate: None,
        body_bytes: 0,
        streams: false,
        stores: true,
        cors: true,
        envelope: &PLAIN,
    }
}

static PLAIN: LazyLock<HttpEnvelope> = LazyLock::new(|| {
    HttpEnvelope::parse(include_str!("../../../../proto-schemas/envelopes/plain.json")).unwrap()
});

pub(super) fn methods() -> impl Iterator<Item = &'static proto_schemas::Method> {
    run_routes::methods()
}

pub(super) fn declared_paths() -> impl Iterator<Item = DeclaredPath> {
    let all = PREFIXES.iter().chain(run_routes::PREFIXES.iter());
    all.map(|prefix| DeclaredPath { prefix, service: SERVICE })
}

async fn both() -> [StreamingServer; 2] {
    [StreamingServer::open(StreamingShape::Whole).await, StreamingServer::open(StreamingShape::Split).await]
}

async fn text(response: Response<Incoming>) -> String {
    let body = timeout(LONG, response.into_body().collect()).await.expect("the answer ends");
    String::from_utf8(body.unwrap().to_bytes().into()).unwrap()
}

fn request(method: &str, path: &str) -> hyper::http::request::Builder {
    Request::builder().method(method).uri(path).header("host", "x")
}

/// A body without a known length.
fn pieces(piece: Bytes, count: usize) -> Body {
    Body::from_stream(stream::iter(std::iter::repeat_n(piece, count)).map(Ok::<_, Infallible>))
}

#[tokio::test]
async fn events_arrive_while_they_happen_and_a_reader_that_leaves_ends_them() {
    for server in both().await {
        let response = server.get("/test/events").await;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let (mut body, mut received) = (response.into_body(), String::new());
        while !received.contains("data: 50\n\n") {
            let piece = timeout(LONG, body.frame()).await.expect("events go on").unwrap().unwrap();
            received += str::from_utf8(piece.data_ref().unwrap()).unwrap();
        }
        assert!(received.starts_with("data: 0\n\ndata: 1\n\n"), "{received}");
        drop(body);
        server.service.stream_ended().await;
    }
}

#[tokio::test]
async fn a_large_upload_passes_piece_by_piece() {
    let piece = Bytes::from((0..64 << 10).map(|n: u32| (n % 251) as u8).collect::<Vec<_>>());
    let count = UPLOAD_BYTES / piece.len();
    let mut hash = digest::Context::new(&digest::SHA256);
    (0..count).for_each(|_| hash.update(&piece));
    let sha256 = hex::encode(hash.finish());
    for server in both().await {
        let upload = request("POST", "/test/upload").body(pieces(piece.clone(), count)).unwrap();
        let answer: Value = serde_json::from_str(&text(server.send(upload).await).await).unwrap();
        assert_eq!((&answer["sha256"], &answer["bytes"]), (&json!(sha256), &json!(UPLOAD_BYTES)));
        let largest = answer["largest_piece"].as_u64().unwrap();
        assert!(largest <= 256 << 10, "{largest} bytes at once: it is collected somewhere");
    }
}

#[tokio::test]
async fn a_writer_that_leaves_ends_its_upload() {
    for server in both().await {
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        let head = "POST /test/upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nbegun";
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.flush().await.unwrap();
        drop(socket);
        server.service.stream_ended().await;
    }
}

#[tokio::test]
async fn a_slow_reader_is_closed() {
    for server in both().await {
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        socket.write_all(b"GET /test/flood HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        server.service.stream_ended().await;
        let closed = timeout(LONG, tokio::io::copy(&mut socket, &mut tokio::io::sink())).await;
        assert!(closed.is_ok(), "{:?}: the socket is still open", server.shape());
    }
}

#[tokio::test]
async fn a_slow_writer_is_closed() {
    for server in both().await {
        for path in ["/test/upload", "/test/small/upload"] {
            let mut socket = TcpStream::connect(server.address).await.unwrap();
            let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nbegun");
            socket.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            let closed = timeout(LONG, socket.read_to_string(&mut answer)).await;
            closed.expect("the socket is closed").unwrap();
            assert!(answer.starts_with("HTTP/1.1 408"), "{:?} {path}: {answer}", server.shape());
            server.service.stream_ended().await;
        }
    }
}

#[tokio::test]
async fn a_body_beyond_its_limit_is_413() {
    for server in both().await {
        let send = async |body: Body| {
            let request = request("POST", "/test/small/upload").body(body).unwrap();
            server.send(request).await.status()
        };
        let piece = Bytes::from_static(&[1; 100]);
        assert_eq!(send(pieces(piece.clone(), SMALL_BYTES / 100)).await, 200, "of exactly the limit");
        assert_eq!(send(pieces(piece, SMALL_BYTES / 100 + 1)).await, 413, "found while it comes");
        assert_eq!(send(Body::from(vec![1; SMALL_BYTES + 1])).await, 413, "known from its length");
    }
}

#[tokio::test]
async fn what_only_the_gateway_says_is_removed_from_what_a_client_sent() {
    for server in both().await {
        let forged = request("GET", "/test/headers")
            .header(CALLER, "\"operator\"")
            .header("X-Aund-Caller", "\"operator\"")
            .header("x-aund-host-agent", "alice.aid.pub")
            .header("x-aund-other", "1")
            .header("x-other", "1")
            .body(Body::empty())
            .unwrap();
        let headers: Vec<(String, String)> =
            serde_json::from_str(&text(server.send(forged).await).await).unwrap();
        let internal: Vec<_> = headers.iter().filter(|(name, _)| name.starts_with("x-aund-")).collect();
        assert_eq!(internal, [&(CALLER.to_owned(), r#"{"unauthenticated":"127.0.0.1"}"#.to_owned())]);
        assert!(headers.contains(&("x-other".to_owned(), "1".to_owned())), "{headers:?}");
    }
}

#[tokio::test]
async fn a_path_for_agents_needs_a_token_and_the_service_learns_whose_it_is() {
    for server in both().await {
        let send = async |token: Option<&str>| {
            let mut request = request("GET", "/test/token/headers");
            if let Some(token) = token {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            server.send(request.body(Body::empty()).unwrap()).await
        };
        for refused in [send(None).await, send(Some("forged")).await] {
            assert_eq!(
                (refused.status().as_u16(), &refused.headers()["www-authenticate"]),
                (401, &"Bearer".parse().unwrap())
            );
        }
        let answer = send(Some("token-of-alice.aid.pub")).await;
        let headers: Vec<(String, String)> = serde_json::from_str(&text(answer).await).unwrap();
        assert!(!headers.iter().any(|(name, _)| name == "authorization"), "a token is not passed on");
        let (_, caller) = headers.into_iter().find(|(name, _)| name == CALLER).unwrap();
        let caller: Caller = serde_json::from_str(&caller).unwrap();
        assert!(caller.local_agent().is_ok_and(|agent| agent.aid.as_str() == "alice.aid.pub"), "{caller:?}");
    }
}

#[tokio::test]
async fn on_an_open_path_a_token_that_is_not_valid_is_as_good_as_none_and_never_passed_on() {
    for server in both().await {
        let request = request("GET", "/test/headers").header("authorization", "Bearer of-somebody");
        let answer = server.send(request.body(Body::empty()).unwrap()).await;
        let headers: Vec<(String, String)> = serde_json::from_str(&text(answer).await).unwrap();
        assert!(!headers.iter().any(|(name, _)| name == "authorization"), "{headers:?}");
        assert!(
            headers.contains(&(CALLER.to_owned(), r#"{"unauthenticated":"127.0.0.1"}"#.to_owned())),
            "{headers:?}"
        );
    }
}

#[tokio::test]
async fn a_service_that_does_not_answer_in_time_is_504() {
    for server in both().await {
        assert_eq!(server.get("/test/small/never").await.status(), 504, "{:?}", server.shape());
    }
}

#[tokio::test]
async fn more_streams_than_one_connection_has_are_read_and_requests_are_answered_beside_them() {
    let server = StreamingServer::open(StreamingShape::Split).await;
    let Some(ServiceRoutes::Remote(remote)) = server.gateway.mesh.routes(SERVICE) else {
        panic!("it is remote")
    };
    let send = async |path: &str, within_ms: Option<u64>| {
        let caller = caller_header(&Caller::Unauthenticated(None)).unwrap();
        let mut request = Request::get(path).header(CALLER, caller);
        if let Some(ms) = within_ms {
            request = request.header(DEADLINE_MS, ms);
        }
        let sent = remote.send(request.body(Body::empty()).unwrap());
        timeout(LONG, sent).await.expect("no request waits for a stream").unwrap()
    };
    let mut readers = Vec::new();
    for n in 0..1030 {
        let mut body = send("/test/quiet", None).await.into_body();
        let first = timeout(LONG, body.frame()).await.expect("an event").unwrap().unwrap();
        assert_eq!(first.data_ref().unwrap(), "data: 0\n\n", "{n}");
        readers.push(body);
        if n % 100 == 0 {
            assert_eq!(send("/test/headers", Some(30_000)).await.status(), 200, "{n}");
        }
    }
    assert_eq!(send("/test/headers", None).await.status(), 200);
    assert_eq!(server.get("/test/small/headers").await.status(), 200);
    let all = readers.len();
    drop(readers);
    for _ in 0..all {
        server.service.stream_ended().await;
    }
}

/// Waits until the gateway counts so many streams.
async fn open_streams(server: &StreamingServer, count: usize) {
    let counted = async {
        while server.gateway.admission.streams.count() != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, counted).await.expect("a stream that ended counts no more");
}

#[tokio::test]
async fn a_caller_and_the_process_have_a_number_of_streams() {
    let settings = "limits.streams_per_caller = 2\nlimits.streams = 3";
    for shape in [StreamingShape::Whole, StreamingShape::Split] {
        let server = StreamingServer::with(shape, settings).await;
        let get = async |path: &str, name: Option<&str>| {
            let mut get = request("GET", path);
            if let Some(name) = name {
                get = get.header("authorization", format!("Bearer token-of-{name}.aid.pub"));
            }
            server.send(get.body(Body::empty()).unwrap()).await
        };
        let alice = [get("/test/quiet", Some("alice")).await, get("/test/quiet", Some("alice")).await];
        assert!(alice.iter().all(|response| response.status() == 200));
        for path in ["/test/quiet", "/test/small/events"] {
            let refused = get(path, Some("alice")).await;
            assert_eq!(refused.status(), 429, "{shape:?} {path}");
            let refused: Value = serde_json::from_str(&text(refused).await).unwrap();
            assert_eq!(refused["code"], "rate_limit_exceeded");
            assert_eq!(
                refused["error"],
                "at most 2 streams may be open per caller, and 2 are: close one first"
            );
        }
        assert_eq!(get("/test/small/headers", Some("alice")).await.status(), 200, "no stream");
        let nobody = get("/test/quiet", None).await;
        assert_eq!(nobody.status(), 200);
        let refused = text(get("/test/quiet", Some("bobb")).await).await;
        assert!(refused.contains("at most 3 streams may be open in this process"), "{refused}");
        drop((alice, nobody));
        open_streams(&server, 0).await;
        assert_eq!(get("/test/quiet", Some("alice")).await.status(), 200);
    }
}

#[tokio::test]
async fn a_handler_that_stores_is_finished_although_its_client_has_left() {
    for server in both().await {
        let (service, begun) = (&server.service, async || {
            timeout(LONG, server.service.begun.acquire()).await.expect("it begins").unwrap().forget();
        });
        let mut storing = TcpStream::connect(server.address).await.unwrap();
        storing
            .write_all(b"POST /test/store HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
            .await
            .unwrap();
        begun().await;
        let mut waiting = TcpStream::connect(server.address).await.unwrap();
        waiting.write_all(b"GET /test/store HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        begun().await;
        drop(storing);
        drop(waiting);
        // What stores nothing ends with its client. By then the gateway has noticed that the other one has left, too.
        service.stream_ended().await;
        open_streams(&server, 0).await;
        assert_eq!(service.stored(), 0);
        service.may_store.add_permits(1);
        // The stream that it answers has no reader, and ends.
        service.stream_ended().await;
        assert_eq!(service.stored(), 1, "{:?}", server.shape());
    }
}

#[tokio::test]
async fn streams_of_events_end_when_the_server_stops() {
    for server in both().await {
        let mut response = server.get("/test/events").await;
        let first = timeout(LONG, response.body_mut().frame()).await.expect("an event").unwrap().unwrap();
        assert!(first.data_ref().unwrap().starts_with(b"data: 0\n\n"));
        server.gateway.stop.cancel();
        // It ends whole: whoever collects it gets no error.
        text(response).await;
        server.service.stream_ended().await;
    }
}

#[tokio::test]
async fn pages_of_other_origins_read_what_is_declared_so() {
    let server = StreamingServer::open(StreamingShape::Whole).await;
    let allowed =
        |response: &Response<Incoming>| response.headers().contains_key("access-control-allow-origin");
    let ask = async |method: &str, path: &str| {
        server.send(request(method, path).body(Body::empty()).unwrap()).await
    };
    let preflight = ask("OPTIONS", "/test/small/upload").await;
    assert_eq!((preflight.status().as_u16(), allowed(&preflight)), (204, true));
    assert!(allowed(&ask("GET", "/test/small/nothing").await), "errors, too");
    let preflight = ask("OPTIONS", "/test/upload").await;
    assert_eq!((preflight.status().as_u16(), allowed(&preflight)), (405, false));
    assert!(!allowed(&ask("GET", "/test/headers").await));
}

#[tokio::test]
async fn a_process_that_is_not_the_gateway_may_not_speak_for_an_agent() {
    let server = StreamingServer::open(StreamingShape::Split).await;
    let mesh = server.mesh.as_ref().unwrap();
    let world = World::local("aid.pub", Path::new("unused"), "sqlite:".parse().unwrap());
    let context = mesh.context("message", &world);
    dial(&context, &mesh.url).await;
    let Some(ServiceRoutes::Remote(remote)) = world.mesh.routes(SERVICE) else { panic!("it is remote") };
    let send = async |caller: Option<&Caller>| {
        let mut request = Request::get("/test/headers");
        if let Some(caller) = caller {
            request = request.header(CALLER, caller_header(caller).unwrap());
        }
        remote.send(request.body(Body::empty()).unwrap()).await.unwrap().status().as_u16()
    };
    assert_eq!(send(Some(&Caller::Operator)).await, 403);
    assert_eq!(send(Some(&Caller::Unauthenticated(None))).await, 403);
    assert_eq!(send(Some(&Caller::service("gateway"))).await, 403);
    assert_eq!(send(None).await, 403);
    assert_eq!(send(Some(&Caller::service("message"))).await, 200, "for itself it may");
}
