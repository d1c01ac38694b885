//! SIGTERM: no connection is accepted any more, what is under way is finished, and sessions are closed so that clients
//! reconnect.

use certs::{Curve, Key};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::agent::{TestIdentity, TestTokens};
use crate::support::blocker::Blocker;
use crate::support::{TestServer, until, within};

/// Timeouts longer than any test: a server that ends has not waited for one.
const LONG_TIMEOUTS: &str = "limits.drain_timeout_ms = 600000\nlimits.handshake_timeout_ms = 600000";

/// An upload of which the head and half of the body are sent: a request that is under way for as long as we like.
async fn half_an_upload(server: &TestServer, who: &TestIdentity, tokens: &TestTokens) -> (TcpStream, String) {
    let text = format!(
        "---\naid: \"{}\"\nname: \"alice\"\ntype: \"agent\"\nversion: \"1.0.0\"\n---\n\n# alice\n",
        who.aid
    );
    let mut stream = server.tcp().await;
    let head = format!(
        "PUT /agent.md HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        who.aid,
        tokens.access,
        text.len(),
    );
    stream.write_all(head.as_bytes()).await.expect("the server reads");
    let mut said = [0; 12];
    within("the server wants the body", stream.read_exact(&mut said)).await.expect("an answer");
    assert_eq!(&said, b"HTTP/1.1 100", "the request is under way");
    let (now, later) = text.split_at(20);
    stream.write_all(now.as_bytes()).await.expect("the server reads");
    (stream, later.to_owned())
}

/// Nothing listens any more, or what does closes at once.
async fn is_closed(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else { return true };
    let _ = stream.write_all(b"GET /health HTTP/1.1\r\nHost: gateway\r\n\r\n").await;
    let mut bytes = Vec::new();
    let _ = within("a closed listener", stream.read_to_end(&mut bytes)).await;
    !bytes.starts_with(b"HTTP/1.1 200")
}

#[tokio::test]
async fn sessions_are_closed_with_1012_and_no_disconnect_event() {
    let mut server = TestServer::start().await;
    let alice = server.register("alice").await;
    let long = server.connect(&alice, |_| ()).await;
    let short = server
        .connect(&alice, |hello| hello["options"] = json!({ "kind": "short", "short_ttl_ms": 60_000 }))
        .await;
    let unauthenticated = server.socket().await;
    server.terminate();
    for socket in [&*long, &*short, &unauthenticated] {
        assert_eq!(socket.closed().await.code, 1012);
        assert_eq!(socket.kept().await, Vec::<Value>::new(), "clients that get the event do not come back");
    }
    assert_eq!(server.ended().await.code(), Some(0));
}

#[tokio::test]
async fn what_is_under_way_is_finished() {
    let mut server = TestServer::start().await;
    let alice = server.agent("alice").await;
    let (mut upload, rest) = half_an_upload(&server, &alice.identity, &alice.tokens).await;
    let batch: Vec<Value> =
        (0..50).map(|n| json!({ "jsonrpc": "2.0", "id": n, "method": "auth.download_cert", "params": { "cert_sn": "root" } })).collect();
    alice.send(&json!(batch).to_string()).await;
    // The ping stands behind the batch: once one of them is answered, the batch has been read.
    alice.send(r#"{"jsonrpc":"2.0","id":"behind","method":"meta.ping"}"#).await;
    let first = alice.next().await;
    server.terminate();

    // If the batch was answered first, the ping may be one that comes while the server stops.
    let answers = if first.is_array() { first } else { alice.next().await };
    let answers = answers.as_array().expect("the batch is answered");
    assert_eq!(answers.len(), 50);
    assert!(answers.iter().all(|answer| answer.get("result").is_some()), "{answers:?}");
    assert_eq!(alice.closed().await.code, 1012);

    until("the listener is closed", || async { is_closed(server.plain_port).await.then_some(()) }).await;
    upload.write_all(rest.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    within("the upload's answer", upload.read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.contains("HTTP/1.1 200"), "{answer}");
    assert_eq!(server.ended().await.code(), Some(0));
    assert!(is_closed(server.tls_port).await && is_closed(server.plain_port).await);
}

#[tokio::test]
async fn a_call_that_comes_while_the_server_stops_is_not_begun() {
    let mut server = TestServer::start().await;
    let alice = server.agent("alice").await;
    let begun = server.ask("auth.aid_login1", &alice.identity.login1()).await.unwrap();
    let slow = alice.identity.request_cert(&begun, &Key::generate(Curve::P384));
    let blocker = Blocker::hold(&server, "ca", "certificates");
    alice
        .send(
            &json!({ "jsonrpc": "2.0", "id": "slow", "method": "auth.request_cert", "params": slow })
                .to_string(),
        )
        .await;
    alice.call("meta.ping", &json!({})).await;
    server.terminate();
    until("the listener is closed", || async { is_closed(server.plain_port).await.then_some(()) }).await;

    // Sessions are told a moment after the listener was closed, and from then on nothing is begun.
    let root = json!({ "cert_sn": "root" });
    let error =
        until("calls are refused", || async { alice.try_call("auth.download_cert", &root).await.err() })
            .await;
    assert_eq!(error["code"], -32020, "{error}");
    let again = alice.call_error("auth.download_cert", &root).await;
    assert_eq!(again["code"], -32020, "{again}");
    assert_eq!(
        (&error["data"]["kind"], &error["data"]["retryable"]),
        (&json!("service_stopping"), &json!(true))
    );
    blocker.release();
    let answer = alice.next().await;
    assert_eq!((&answer["id"], &answer["result"]["status"]), (&json!("slow"), &json!("issued")), "{answer}");
    assert_eq!(alice.closed().await.code, 1012);
    assert_eq!(server.ended().await.code(), Some(0));
}

#[tokio::test]
async fn an_idle_http_connection_does_not_hold_the_server() {
    let mut server = TestServer::with(LONG_TIMEOUTS).await;
    let mut idle = server.tcp().await;
    idle.write_all(b"GET /health HTTP/1.1\r\nHost: gateway\r\n\r\n").await.unwrap();
    let mut head = [0; 12];
    within("an answer", idle.read_exact(&mut head)).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    let silent = server.tcp().await;
    server.terminate();
    assert_eq!(server.ended().await.code(), Some(0));
    drop((idle, silent));
}

#[tokio::test]
async fn whoever_takes_too_long_is_cut_at_the_deadline() {
    let mut server = TestServer::with("limits.drain_timeout_ms = 700").await;
    let alice = server.agent("alice").await;
    let (mut upload, _) = half_an_upload(&server, &alice.identity, &alice.tokens).await;
    server.terminate();
    assert_eq!(server.ended().await.code(), Some(0));
    let mut rest = Vec::new();
    let _ = within("the end of the upload", upload.read_to_end(&mut rest)).await;
    let rest = String::from_utf8_lossy(&rest);
    assert!(!rest.contains("HTTP/1.1"), "cut, and not refused for taking too long: {rest}");
}

#[tokio::test]
async fn a_client_that_does_not_answer_the_close_does_not_hold_the_server() {
    let mut server = TestServer::with(LONG_TIMEOUTS).await;
    let mute = server.agent("mute").await;
    server.terminate();
    assert_eq!(server.ended().await.code(), Some(0));
    drop(mute);
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    for second in ["TERM", "INT"] {
        let mut server = TestServer::with(LONG_TIMEOUTS).await;
        let alice = server.agent("alice").await;
        let (upload, _) = half_an_upload(&server, &alice.identity, &alice.tokens).await;
        server.terminate();
        assert_eq!(alice.closed().await.code, 1012, "the first signal has arrived");
        server.signal(second);
        assert!(!server.ended().await.success(), "it left something undone and says so");
        drop(upload);
    }
}

#[tokio::test]
async fn ctrl_c_drains_too() {
    let mut server = TestServer::start().await;
    let alice = server.agent("alice").await;
    server.signal("INT");
    assert_eq!(alice.closed().await.code, 1012);
    assert_eq!(server.ended().await.code(), Some(0));
}

#[tokio::test]
async fn a_client_that_reconnects_after_a_drain_finds_everything_as_it_was() {
    let mut server = TestServer::start().await;
    let alice = server.agent("alice").await;
    server.restart().await;
    assert_eq!(alice.closed().await.code, 1012);
    let back = server.connect_with(&alice.identity, &alice.tokens, |_| ()).await;
    assert_eq!(back.call("meta.status", &json!({})).await["aid"], alice.aid());
}
