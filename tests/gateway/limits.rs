//! Nobody can ask for too much, hold too much, or make others wait.

use std::time::Duration;

use certs::{Curve, Key};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::agent::{aid, public_key};
use crate::support::{TestServer, until, within};

/// Whoever says nothing is not waited for.
const SHORT_HANDSHAKES: &str = "limits.handshake_timeout_ms = 400";

fn is_rate_limit(error: &Value) -> bool {
    let wait = error["data"]["retry_after_ms"].as_u64();
    error["code"] == -32029 && error["data"]["retryable"] == true && wait.is_some_and(|ms| ms >= 1)
}

/// Waits for the server to close a connection we never finished speaking on.
async fn is_closed(stream: &mut TcpStream) {
    let mut bytes = Vec::new();
    let _ = within("the server closes the connection", stream.read_to_end(&mut bytes)).await;
}

/// Whether a connection is accepted and answered, where it may just as well be refused.
async fn accepts(server: &TestServer) -> Option<()> {
    let mut stream = server.tcp().await;
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n").await.ok()?;
    let mut bytes = Vec::new();
    within("an answer or the end", stream.read_to_end(&mut bytes)).await.ok()?;
    bytes.starts_with(b"HTTP/1.1 200").then_some(())
}

#[tokio::test]
async fn registrations_from_one_address_are_limited() {
    let server = TestServer::with("limits.registrations_per_minute = 3").await;
    let socket = server.socket().await;
    let create = |n: u32| json!({ "aid": aid(&format!("agent{n}")), "public_key": public_key(&Key::generate(Curve::P256)), "curve": "P-256" });
    for n in 0..3 {
        socket.call("auth.create_aid", &create(n)).await;
    }
    let error = socket.call_error("auth.create_aid", &create(3)).await;
    assert!(is_rate_limit(&error), "{error}");
    assert_eq!(error["data"]["kind"], "rate_limited");
    assert_eq!(server.get(&format!("/pki/cert/{}", aid("agent3"))).await.status, 404);
    let elsewhere = server.ask_error("auth.create_aid", &create(4)).await;
    assert!(is_rate_limit(&elsewhere), "another socket is the same address: {elsewhere}");
}

#[tokio::test]
async fn logins_of_one_agent_are_limited_and_others_are_not() {
    let server = TestServer::with("limits.logins_per_minute = 4").await;
    let (alice, carol) = (server.register("alice").await, server.register("carol").await);
    let mut refused = None;
    for _ in 0..6 {
        refused = server.ask("auth.aid_login1", &alice.login1()).await.err().or(refused);
    }
    let error = refused.expect("the fifth is too many");
    assert!(is_rate_limit(&error), "overload must never look like a failed login: {error}");
    server.ask("auth.aid_login1", &carol.login1()).await.expect("carol has her own limit");
}

#[tokio::test]
async fn calls_of_one_agent_are_limited_over_all_its_connections() {
    let server = TestServer::with("limits.calls_per_second = 8").await;
    let (alice, carol) = (server.agent("alice").await, server.agent("carol").await);
    let phone = server
        .connect_with(&alice.identity, &alice.tokens, |hello| hello["device"]["id"] = json!("phone"))
        .await;
    let mut refused = Vec::new();
    for _ in 0..20 {
        for session in [&alice, &phone] {
            refused.extend(session.try_call("meta.status", &json!({})).await.err());
        }
    }
    assert!(!refused.is_empty() && refused.iter().all(is_rate_limit), "{refused:?}");
    carol.call("meta.status", &json!({})).await;
    until("the limit lets alice in again", || async { alice.try_call("meta.status", &json!({})).await.ok() })
        .await;
}

#[tokio::test]
async fn a_batch_is_no_way_around_the_limit() {
    let server = TestServer::shared_with("limits.calls_per_second = 5").await;
    let alice = server.agent("alice").await;
    let batch: Vec<Value> =
        (0..30).map(|n| json!({ "jsonrpc": "2.0", "id": n, "method": "meta.ping" })).collect();
    let answers = alice.answer_to(&json!(batch).to_string()).await;
    let refused =
        answers.as_array().unwrap().iter().filter(|answer| answer["error"]["code"] == -32029).count();
    assert!(refused >= 20, "{refused} of 30");
}

#[tokio::test]
async fn http_from_one_address_is_limited_with_429() {
    let server = TestServer::with("limits.http_per_second = 5").await;
    let mut limited = None;
    for _ in 0..20 {
        let answer = server.get("/health").await;
        if answer.status == 429 {
            limited = Some(answer);
            break;
        }
        assert_eq!(answer.status, 200);
    }
    let answer = limited.expect("twenty at once are too many");
    assert!(answer.header("retry-after").is_some_and(|seconds| seconds.parse::<u64>().is_ok_and(|s| s >= 1)));
    let body = answer.json();
    assert_eq!(
        (&body["error"], &body["code"]),
        (&json!("Rate limit exceeded"), &json!("rate_limit_exceeded"))
    );
    assert!(body["retryAfterMs"].as_u64().is_some_and(|ms| ms >= 1));
    until("the limit lets us in again", || async {
        (server.get("/health").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn new_sockets_from_one_address_are_limited() {
    let server = TestServer::with("limits.connects_per_second = 5").await;
    let mut streams = Vec::new();
    for _ in 0..30 {
        streams.push(server.tcp().await);
    }
    let mut closed = 0;
    for stream in &mut streams {
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n").await.ok();
        let mut bytes = Vec::new();
        let _ = within("an answer or the end", stream.read_to_end(&mut bytes)).await;
        closed += usize::from(bytes.is_empty() || bytes.starts_with(b"HTTP/1.1 503"));
    }
    assert!((5..30).contains(&closed), "{closed} of 30 were refused");
    until("the limit lets us in again", || accepts(&server)).await;
}

#[tokio::test]
async fn there_is_space_for_so_many_sockets_and_a_closed_one_makes_space() {
    let server = TestServer::with_one_gateway("limits.sockets_per_address = 4").await;
    let held = [server.socket().await, server.socket().await, server.socket().await, server.socket().await];
    let mut fifth = server.tcp().await;
    fifth.write_all(b"GET /health HTTP/1.1\r\nHost: gateway\r\n\r\n").await.ok();
    let mut bytes = Vec::new();
    let _ = within("the fifth is refused", fifth.read_to_end(&mut bytes)).await;
    assert!(bytes.is_empty() || bytes.starts_with(b"HTTP/1.1 503"), "{}", String::from_utf8_lossy(&bytes));
    for socket in &held {
        assert!(socket.is_open().await, "those who are in stay in");
    }
    held[0].close().await;
    until("there is space again", || accepts(&server)).await;
}

#[tokio::test]
async fn ten_thousand_half_open_sockets_do_not_keep_anybody_out() {
    let files = rlimit::increase_nofile_limit(u64::MAX).unwrap_or(1024);
    let many = usize::try_from(files / 2).unwrap_or(1000).saturating_sub(500).clamp(200, 10_000);
    let server =
        TestServer::with("limits.handshake_timeout_ms = 8000\nlimits.connects_per_second = 100000").await;
    let mut silent = Vec::with_capacity(many);
    for n in 0..many {
        let port = if n % 2 == 0 { server.plain_port } else { server.tls_port };
        silent.push(
            within("a connection", TcpStream::connect(("127.0.0.1", port)))
                .await
                .expect("connections are accepted"),
        );
    }
    let alice = server.agent("alice").await;
    assert_eq!(
        alice.call("meta.ping", &json!({})).await["pong"],
        true,
        "a login works beside {many} silent sockets"
    );
    assert_eq!(server.get("/health").await.status, 200);

    for stream in &mut silent {
        is_closed(stream).await;
    }
    assert_eq!(alice.call("meta.ping", &json!({})).await["pong"], true);
}

#[tokio::test]
async fn only_so_many_handshakes_at_once_and_the_oldest_silent_one_goes() {
    let server =
        TestServer::with_one_gateway("limits.handshakes = 4\nlimits.handshake_timeout_ms = 60000").await;
    let alice = server.agent("alice").await;
    let mut silent = Vec::new();
    for _ in 0..4 {
        silent.push(server.tcp().await);
    }
    accepts(&server).await.expect("a fifth is served");
    is_closed(&mut silent[0]).await;
    assert_eq!(alice.call("meta.ping", &json!({})).await["pong"], true, "sessions do not notice");
    for later in &mut silent[1..] {
        later.write_all(b"GET /health HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut bytes = Vec::new();
        within("an answer", later.read_to_end(&mut bytes)).await.unwrap();
        assert!(bytes.starts_with(b"HTTP/1.1 200"), "only the oldest one went");
    }
}

#[tokio::test]
async fn a_handshake_that_stalls_is_ended() {
    let server = TestServer::shared_with(SHORT_HANDSHAKES).await;
    let mut tls = within("a connection", TcpStream::connect(("127.0.0.1", server.tls_port))).await.unwrap();
    tls.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
    let mut http = server.tcp().await;
    http.write_all(b"GET /aun HTTP/1.1\r\nHost: gateway\r\nUpgra").await.unwrap();
    let mut nothing = server.tcp().await;
    for stream in [&mut tls, &mut http, &mut nothing] {
        is_closed(stream).await;
    }
}

#[tokio::test]
async fn noise_instead_of_a_handshake_is_ended() {
    let server = TestServer::shared().await;
    for port in [server.plain_port, server.tls_port] {
        let mut stream = within("a connection", TcpStream::connect(("127.0.0.1", port))).await.unwrap();
        stream.write_all(&[0xff; 512]).await.unwrap();
        is_closed(&mut stream).await;
    }
    let mut stream = server.tcp().await;
    let endless = format!("GET /{} HTTP/1.1\r\nHost: gateway\r\n\r\n", "x".repeat(100_000));
    let _ = stream.write_all(endless.as_bytes()).await;
    is_closed(&mut stream).await;
    assert_eq!(server.get("/health").await.status, 200);
}

#[tokio::test]
async fn a_slow_reader_is_closed_with_a_reason_and_nobody_else_waits() {
    let server = TestServer::with(
        "limits.frame_bytes = 131072\nlimits.outbox_bytes = 262144\nlimits.write_timeout_ms = 3000\nlimits.calls_per_second = 100000",
    )
    .await;
    let (alice, slow, carol) =
        (server.agent("alice").await, server.agent("slow").await, server.agent("carol").await);
    let notification = |to: &str| {
        json!({
            "target": { "type": "aid", "aid": to },
            "deliver": { "method": "event/app.flood", "params": { "pad": "x".repeat(60 << 10) } },
        })
    };
    let (to_slow, to_carol) = (notification(slow.aid()), notification(carol.aid()));
    until("the slow reader is closed", || async {
        for _ in 0..20 {
            alice.notify("notification/route", &to_slow).await;
        }
        alice.notify("notification/route", &to_carol).await;
        assert_eq!(carol.next_event().await["method"], "event/app.flood", "whoever reads gets everything");
        alice.call("meta.ping", &json!({})).await;
        let given_up = server.metric("aund_full_outboxes_total").await
            + server.metric("aund_closes_total{code=\"1013\"}").await;
        (given_up > 0.0).then_some(())
    })
    .await;
    assert_eq!(slow.closed().await.code, 1013);
    until("its memory is given back", || async {
        (server.metric("aund_outbox_bytes").await == 0.0).then_some(())
    })
    .await;
    let back = server.connect_with(&slow.identity, &slow.tokens, |_| ()).await;
    assert_eq!(back.call("meta.ping", &json!({})).await["pong"], true, "it comes back and goes on");
}

#[tokio::test]
async fn a_reader_that_never_reads_again_is_dropped() {
    let server = TestServer::with(
        "limits.frame_bytes = 131072\nlimits.outbox_bytes = 262144\nlimits.write_timeout_ms = 500\nlimits.calls_per_second = 100000",
    )
    .await;
    let (alice, dead) = (server.agent("alice").await, server.agent("dead").await);
    let notification = json!({
        "target": { "type": "aid", "aid": dead.aid() },
        "deliver": { "method": "event/app.flood", "params": { "pad": "x".repeat(60 << 10) } },
    });
    until("its socket is gone", || async {
        for _ in 0..20 {
            alice.notify("notification/route", &notification).await;
        }
        alice.call("meta.ping", &json!({})).await;
        (server.metric("aund_sockets ").await <= 1.0).then_some(())
    })
    .await;
    drop(dead);
}

#[tokio::test]
async fn a_client_that_asks_faster_than_it_reads_waits_for_itself() {
    let server = TestServer::with("limits.in_flight = 4\nlimits.calls_per_second = 100000").await;
    let alice = server.agent("alice").await;
    for n in 0..300 {
        let frame = json!({ "jsonrpc": "2.0", "id": n, "method": "auth.download_cert", "params": { "cert_sn": "root" } });
        alice.send(&frame.to_string()).await;
    }
    let mut seen = [false; 300];
    for _ in 0..300 {
        let answer = alice.next().await;
        seen[usize::try_from(answer["id"].as_u64().expect("an id")).unwrap()] =
            answer.get("result").is_some();
    }
    assert!(seen.iter().all(|answered| *answered));
}

#[tokio::test]
async fn an_http_body_that_never_ends_does_not_hold_the_server() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let mut stream = server.tcp().await;
    let head = format!(
        "PUT /agent.md HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\n\r\n",
        alice.aid, tokens.access
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    // Either the server stops reading us or it has answered; both end the writing long before this much.
    let flood = async {
        for _ in 0..1000 {
            if stream.write_all(chunk.as_bytes()).await.is_err() {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(2), flood).await;
    let mut answer = [0; 12];
    within("a refusal", stream.read_exact(&mut answer)).await.ok();
    assert!(answer == *b"HTTP/1.1 413" || answer == [0; 12], "{}", String::from_utf8_lossy(&answer));
    assert_eq!(server.get("/health").await.status, 200);
}

#[tokio::test]
async fn a_session_is_no_way_around_the_limits_of_registration_and_login() {
    let server = TestServer::with("limits.registrations_per_minute = 3\nlimits.logins_per_minute = 6").await;
    let alice = server.agent("alice").await;
    let mut refused = 0;
    for n in 0..6 {
        let key = public_key(&Key::generate(Curve::P256));
        let params = json!({ "aid": aid(&format!("agent{n}")), "public_key": key, "curve": "P-256" });
        refused += usize::from(
            alice.try_call("auth.create_aid", &params).await.is_err_and(|error| is_rate_limit(&error)),
        );
    }
    assert!(refused >= 3, "{refused} of 6 registrations were refused");
    let mut refused = 0;
    for _ in 0..10 {
        refused += usize::from(alice.try_call("auth.aid_login1", &alice.identity.login1()).await.is_err());
    }
    assert!(refused >= 4, "{refused} of 10 logins were refused");
}

#[tokio::test]
async fn an_http_connection_that_falls_silent_is_closed() {
    let server = TestServer::shared_with(SHORT_HANDSHAKES).await;
    let mut stream = server.tcp().await;
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: gateway\r\n\r\n").await.unwrap();
    let mut bytes = Vec::new();
    within("the end of a silent connection", stream.read_to_end(&mut bytes)).await.unwrap();
    assert!(bytes.starts_with(b"HTTP/1.1 200"), "it was answered first");
}
