//! From the upgrade to a session: the challenge, what may be said before login, and every way `auth.connect` can end.

use certs::dev::Pki;
use certs::{Curve, Key};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::message::BUSY;
use crate::support::agent::{hello, text};
use crate::support::blocker::Blocker;
use crate::support::socket::TestSocket;
use crate::support::{ISSUER, TestServer, now, until, within};

/// A key that is there and a token that is not ours.
const FORGED: &str = "eyJhbGciOiJFUzM4NCJ9.eyJhaWQiOiJhbGljZSJ9.c2lnbmF0dXJl";

async fn refusal(socket: &TestSocket, token: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut params = hello(socket.nonce(), token);
    change(&mut params);
    socket.call_error("auth.connect", &params).await
}

#[tokio::test]
async fn the_challenge_is_the_first_frame_and_the_only_one_unasked() {
    let server = TestServer::shared().await;
    for socket in [server.socket().await, server.tls_socket("/aun").await, server.tls_socket("/ws").await] {
        assert!(socket.nonce().len() >= 22, "128 random bits do not fit into {:?}", socket.nonce());
        assert_eq!(socket.challenge["protocol"], json!({ "min": "1.0", "max": "1.0" }));
        assert!(socket.challenge["auth_methods"].as_array().unwrap().contains(&json!("kite_token")));
        assert!(socket.challenge["server_time"].is_number());
        assert!(socket.events_so_far().await.is_empty(), "nothing but answers comes before login");
    }
}

#[tokio::test]
async fn every_socket_has_a_nonce_of_its_own() {
    let server = TestServer::shared().await;
    let (first, second) = (server.socket().await, server.socket().await);
    assert_ne!(first.nonce(), second.nonce());
}

#[tokio::test]
async fn a_tls_client_that_does_not_trust_the_root_does_not_connect() {
    let server = TestServer::shared().await;
    let other = Pki::new(ISSUER, now());
    let name = format!("gateway.{ISSUER}");
    assert!(server.tls_trusting(other.root.certificate(), &name).await.is_err(), "its root is another one");
    assert!(server.tls("gateway.example.com").await.is_err(), "the certificate is not for every name");
    for name in [ISSUER, &name, "alice.agents.localhost", "pki.agents.localhost", "localhost", "127.0.0.1"] {
        assert!(server.tls(name).await.is_ok(), "the certificate is for {name}");
    }
}

#[tokio::test]
async fn before_login_only_the_methods_of_login_are_served_and_the_socket_stays() {
    let server = TestServer::shared().await;
    let socket = server.socket().await;
    for method in ["meta.ping", "meta.status", "auth.request_cert", "rpc.discover", "message.send", "no.such"]
    {
        let error = socket.call_error(method, &json!({})).await;
        assert_eq!(error["code"], -32013, "{method}: {error}");
        assert_eq!(error["data"]["kind"], "not_initialized");
    }
    socket.call("auth.download_cert", &json!({ "cert_sn": "root" })).await;
}

#[tokio::test]
async fn arrays_before_login_are_refused() {
    let server = TestServer::shared().await;
    let socket = server.socket().await;
    let answer = socket
        .answer_to(r#"[{"jsonrpc":"2.0","id":1,"method":"auth.download_cert","params":{"cert_sn":"root"}}]"#)
        .await;
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert_eq!(answer["id"], Value::Null);
    assert!(socket.is_open().await);
}

#[tokio::test]
async fn a_session_answers_with_who_it_is_and_what_the_server_can_do() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let welcome = &alice.welcome;
    assert_eq!(welcome["status"], "ok");
    assert_eq!(welcome["authenticated"], true);
    assert_eq!(welcome["protocol"], "1.0");
    assert_eq!(welcome["identity"]["aid"], alice.aid());
    assert_eq!(welcome["connection"]["device_id"], "laptop");
    assert_eq!(welcome["connection"]["kind"], "long");
    assert_eq!(welcome["capabilities"]["p2p_peer_pull_v1"], true, "current SDKs refuse a server without it");
    assert_eq!(welcome["capabilities"]["features"]["max_message_size"], 1_048_576);
    let namespaces = welcome["capabilities"]["namespaces"].as_array().unwrap();
    assert!(namespaces.contains(&json!("auth")) && namespaces.contains(&json!("meta")), "{namespaces:?}");

    let status = alice.call("meta.status", &json!({})).await;
    assert_eq!((&status["mode"], &status["aid"]), (&json!("gateway"), &json!(alice.aid())));
    assert_eq!(status["protocol_version"], "1.0");
    assert!(status["connected_at"].as_i64().unwrap() > 1_700_000_000_000, "milliseconds");
    let pong = alice.call("meta.ping", &json!({ "timestamp": 5 })).await;
    assert_eq!(pong["pong"], true);
    assert_ne!(pong["timestamp"], 5, "it is the server's clock, not an echo");
}

#[tokio::test]
async fn a_session_works_over_tls_as_it_does_without() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let socket = server.tls_socket("/ws").await;
    assert_eq!(socket.call("auth.connect", &hello(socket.nonce(), &tokens.access)).await["status"], "ok");
    assert_eq!(socket.call("meta.ping", &json!({})).await["pong"], true);
}

#[tokio::test]
async fn the_kind_of_connection_is_echoed() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let short = server
        .connect(&alice, |hello| hello["options"] = json!({ "kind": "short", "short_ttl_ms": 30_000 }))
        .await;
    assert_eq!(short.welcome["connection"]["kind"], "short");
    let long = server.connect(&alice, |hello| hello["options"] = json!({ "kind": "long" })).await;
    assert_eq!(long.welcome["connection"]["kind"], "long");
}

#[tokio::test]
async fn a_client_that_predates_devices_and_slots_gets_in() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let old = server
        .connect(&alice, |hello| {
            *hello = json!({ "nonce": hello["nonce"], "auth": hello["auth"] });
        })
        .await;
    assert_eq!(old.welcome["protocol"], "1.0");
    let empty = server
        .connect(&alice, |hello| {
            hello["device"]["id"] = json!("");
            hello["client"] = json!({ "slot_id": "" });
        })
        .await;
    assert_eq!(empty.call("meta.ping", &json!({})).await["pong"], true);
}

#[tokio::test]
async fn a_wrong_nonce_ends_the_socket_with_4010() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let (socket, other) = (server.socket().await, server.socket().await);
    let error = refusal(&socket, &tokens.access, |hello| hello["nonce"] = json!(other.nonce())).await;
    assert_eq!(error["code"], 4010, "{error}");
    assert_eq!(socket.closed().await.code, 4010);
    assert!(
        other.call("auth.connect", &hello(other.nonce(), &tokens.access)).await["status"] == "ok",
        "its nonce is unspent"
    );
}

#[tokio::test]
async fn a_bad_token_keeps_the_socket_and_the_whole_recovery_works_on_it() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let socket = server.socket().await;

    // As SDKs do it: the token at hand, the cached one, a refresh, a whole login, all with one nonce.
    for token in [FORGED, "not-a-token", "", FORGED, "a.b.c"] {
        let error = refusal(&socket, token, |_| ()).await;
        let code = if token.is_empty() { 4000 } else { 4001 };
        assert_eq!(error["code"], code, "{token:?}: {error}");
    }
    let refused = socket.call("auth.refresh_token", &json!({ "refresh_token": "rt-unknown" })).await;
    assert_eq!((&refused["success"], &refused["relogin_required"]), (&json!(false), &json!(true)));
    let refreshed = socket.call("auth.refresh_token", &json!({ "refresh_token": tokens.refresh })).await;
    assert_eq!(refreshed["success"], true);
    let begun = socket.call("auth.aid_login1", &alice.login1()).await;
    let done = socket.call("auth.aid_login2", &alice.login2(&begun)).await;
    let welcome = socket.call("auth.connect", &hello(socket.nonce(), &text(&done["access_token"]))).await;
    assert_eq!(welcome["status"], "ok");
    assert_eq!(socket.call("meta.ping", &json!({})).await["pong"], true);
}

#[tokio::test]
async fn a_token_that_was_touched_is_refused() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let parts: Vec<&str> = tokens.access.split('.').collect();
    let none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0";
    let socket = server.socket().await;
    for token in [
        format!("{}.{}.", parts[0], parts[1]),
        format!("{none}.{}.", parts[1]),
        format!("{}.{}.{}", parts[0], parts[1], turned_around(parts[2])),
        format!("{}.{}.{}.", parts[0], parts[1], parts[2]),
    ] {
        assert_eq!(refusal(&socket, &token, |_| ()).await["code"], 4001, "{token}");
    }
}

/// The same characters backwards: never the same signature, whatever the characters are.
fn turned_around(signature: &str) -> String {
    let turned: String = signature.chars().rev().collect();
    assert_ne!(turned, signature, "a signature that reads the same both ways");
    turned
}

#[tokio::test]
async fn a_version_the_server_does_not_speak_is_answered_with_both_ranges_and_a_close() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let socket = server.socket().await;
    let error =
        refusal(&socket, &tokens.access, |hello| hello["protocol"] = json!({ "min": "2.0", "max": "9.1" }))
            .await;
    assert_eq!(error["code"], -32000, "{error}");
    assert_eq!(error["data"]["server_range"], json!({ "min": "1.0", "max": "1.0" }));
    assert_eq!(error["data"]["client_range"], json!({ "min": "2.0", "max": "9.1" }));
    assert_eq!(socket.closed().await.code, 1008);
}

#[tokio::test]
async fn the_highest_version_both_speak_is_chosen() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    for range in [
        json!({ "min": "0.9", "max": "1.2" }),
        json!({ "min": "1.0" }),
        json!({}),
        json!({ "min": "0.1", "max": "1.10" }),
    ] {
        let session = server.connect(&alice, |hello| hello["protocol"] = range.clone()).await;
        assert_eq!(session.welcome["protocol"], "1.0", "{range}");
    }
}

#[tokio::test]
async fn a_missing_or_malformed_parameter_is_4000_and_the_socket_stays() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let socket = server.socket().await;
    let changes: [(&str, Value); 10] = [
        ("/auth/method", json!("pairing_code")),
        ("/auth/method", json!("aid")),
        ("/auth", json!({ "method": "kite_token" })),
        ("/auth", json!("token")),
        ("/device/id", json!("no spaces here")),
        ("/device/id", json!("d".repeat(129))),
        ("/client/slot_id", json!("/begins with a slash")),
        ("/client/slot_id", json!("s".repeat(129))),
        ("/delivery_mode/mode", json!("telepathy")),
        ("/delivery_mode/affinity_ttl_ms", json!(-1)),
    ];
    for (path, value) in changes {
        let error =
            refusal(&socket, &tokens.access, |hello| *hello.pointer_mut(path).unwrap() = value.clone()).await;
        assert_eq!(error["code"], 4000, "{path} {value}: {error}");
    }
    let welcome = socket.call("auth.connect", &hello(socket.nonce(), &tokens.access)).await;
    assert_eq!(welcome["status"], "ok");
}

#[tokio::test]
async fn no_nonce_at_all_is_a_missing_parameter() {
    let server = TestServer::shared().await;
    let socket = server.socket().await;
    let error = socket
        .call_error("auth.connect", &json!({ "auth": { "method": "kite_token", "token": FORGED } }))
        .await;
    assert_eq!(error["code"], 4000, "{error}");
    assert!(socket.is_open().await);
}

#[tokio::test]
async fn a_slot_needs_a_device() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let socket = server.socket().await;
    let error = refusal(&socket, &tokens.access, |hello| hello["device"]["id"] = json!("")).await;
    assert_eq!(error["code"], 4000, "{error}");
    assert!(text(&error["message"]).contains("slot_requires_device_id"), "{error}");
}

#[tokio::test]
async fn a_device_is_used_with_slots_and_without_at_the_same_time() {
    let server = TestServer::shared().await;
    // The SDKs up to 0.3 have no slot, later ones have "default": both run on one device.
    for (name, first, second) in [("alice", "default", ""), ("carol", "", "default")] {
        let who = server.register(name).await;
        let first = server.connect(&who, |hello| hello["client"]["slot_id"] = json!(first)).await;
        let second = server.connect(&who, |hello| hello["client"]["slot_id"] = json!(second)).await;
        for session in [&first, &second] {
            assert_eq!(session.call("meta.ping", &json!({})).await["pong"], true);
        }
    }
}

#[tokio::test]
async fn long_connections_of_an_agent_agree_on_the_delivery_mode() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let queue = json!({ "mode": "queue", "routing": "round_robin", "affinity_ttl_ms": 0 });
    let fanout = server.connect(&alice, |_| ()).await;
    let tokens = server.login(&alice).await;
    let socket = server.socket().await;
    let other_device = |hello: &mut Value| {
        hello["device"]["id"] = json!("phone");
        hello["delivery_mode"] = queue.clone();
    };
    let error = refusal(&socket, &tokens.access, other_device).await;
    assert_eq!(error["code"], 4090, "{error}");
    assert_eq!(error["data"]["kind"], "identity_conflict");
    assert!(text(&error["message"]).contains("delivery_mode_conflict"), "{error}");

    // No message is delivered to a short connection, so it has nothing to agree on, whoever comes first.
    let brief = |hello: &mut Value| {
        other_device(hello);
        hello["options"] = json!({ "kind": "short" });
    };
    let brief = server.connect_with(&alice, &tokens, brief).await;

    // Replacing the only other long connection leaves none to disagree with.
    let replacing = server.connect(&alice, |hello| hello["delivery_mode"] = queue.clone()).await;
    assert_eq!(fanout.disconnected().await["code"], 4009);
    // A command of the default mode, beside the worker of a queue.
    let command =
        server.connect_with(&alice, &tokens, |hello| hello["options"] = json!({ "kind": "short" })).await;
    for session in [&replacing, &brief, &command] {
        assert_eq!(session.call("meta.ping", &json!({})).await["pong"], true);
    }
}

#[tokio::test]
async fn nobody_connects_twice_on_one_socket() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let again = hello(alice.nonce(), &alice.tokens.access);
    alice.call_error("auth.connect", &again).await;
}

#[tokio::test]
async fn a_socket_that_does_not_log_in_is_closed_with_4008() {
    let server = TestServer::with("limits.auth_timeout_ms = 400").await;
    let (silent, busy) = (server.socket().await, server.socket().await);
    busy.call_error("meta.ping", &json!({})).await;
    assert_eq!(silent.closed().await.code, 4008);
    assert_eq!(busy.closed().await.code, 4008, "calls do not buy time");
}

#[tokio::test]
async fn a_session_outlives_the_deadline_for_logging_in() {
    let server = TestServer::with("limits.auth_timeout_ms = 1500").await;
    let silent = server.socket().await;
    let alice = server.agent("alice").await;
    let later = server.socket().await;
    assert_eq!(silent.closed().await.code, 4008);
    assert_eq!(later.closed().await.code, 4008);
    assert_eq!(alice.call("meta.ping", &json!({})).await["pong"], true);
}

#[tokio::test]
async fn calls_before_login_are_counted_and_too_many_end_the_socket() {
    let server = TestServer::with("limits.preauth_calls = 6").await;
    let socket = server.socket().await;
    for _ in 0..6 {
        assert_eq!(socket.call_error("meta.ping", &json!({})).await["code"], -32013);
    }
    socket.notify("meta.ping", &json!({})).await;
    assert_eq!(socket.closed().await.code, 1008);
}

#[tokio::test]
async fn a_ping_of_the_websocket_is_answered_before_and_after_login() {
    use tokio_tungstenite::tungstenite::Message;
    let server = TestServer::shared().await;
    let (socket, alice) = (server.socket().await, server.agent("alice").await);
    for connection in [&socket, &alice] {
        connection.send_message(Message::Ping("hello".into())).await;
        assert_eq!(connection.pong().await, "hello");
    }
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_closed() {
    let server = TestServer::with("limits.ping_interval_ms = 600\nlimits.ping_timeout_ms = 600").await;
    let (silent, alive) = (server.agent("silent").await, server.agent("alive").await);
    // A socket that is not read answers no ping; one that is read does so by itself.
    let gone = until("the silent client is closed", || async {
        alive.call("meta.ping", &json!({})).await;
        (server.metric("aund_sessions ").await <= 1.0).then_some(())
    });
    gone.await;
    assert_eq!(alive.call("meta.ping", &json!({})).await["pong"], true);
    assert_eq!(silent.closed().await.code, 1001);
}

#[tokio::test]
async fn a_client_that_is_not_read_is_not_closed() {
    let settings = "limits.in_flight = 1\nlimits.ping_interval_ms = 600\nlimits.ping_timeout_ms = 600";
    let server = TestServer::with(settings).await;
    let (alice, silent) = (server.agent("alice").await, server.register("silent").await);
    let tokens = server.login(&silent).await;
    let begun = server.ask("auth.aid_login1", &alice.identity.login1()).await.unwrap();
    let params = alice.identity.request_cert(&begun, &Key::generate(Curve::P384));
    let blocker = Blocker::hold(&server, "ca", "certificates");
    let slow = json!({ "jsonrpc": "2.0", "id": "slow", "method": "auth.request_cert", "params": params });
    alice.send(&slow.to_string()).await;
    // Her only call is under way, so her answers to pings wait with whatever else she sends. A client that came later and
    // does not answer at all is closed meanwhile.
    let silent = server.connect_with(&silent, &tokens, |_| ()).await;
    until("the silent client is closed", || async {
        (server.metric("aund_closes_total{code=\"1001\"}").await >= 1.0).then_some(())
    })
    .await;
    assert_eq!(silent.closed().await.code, 1001);
    blocker.release();
    let answer = alice.next().await;
    assert!(answer["id"] == "slow" && answer["result"].is_object(), "{answer}");
}

#[tokio::test]
async fn what_is_no_proper_upgrade_is_refused_with_what_is_spoken_here() {
    let server = TestServer::shared().await;
    let upgrade = |path: &str, version: &str| {
        let request =
            server.http("GET", path).header("Upgrade", "websocket").header("Sec-WebSocket-Version", version);
        request.header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==").header("Connection", "Upgrade, close")
    };
    let old = upgrade("/aun", "8").send().await;
    assert_eq!((old.status, old.header("sec-websocket-version")), (426, Some("13")));
    assert_eq!(server.get("/aun").await.status, 426);
    assert_eq!(server.http("POST", "/ws").send().await.status / 100, 4);
    assert_eq!(upgrade("/other", "13").send().await.status, 404);
}

#[tokio::test]
async fn a_client_that_speaks_before_the_challenge_is_heard_after_it() {
    let server = TestServer::shared().await;
    let mut stream = server.tcp().await;
    let frame = r#"{"jsonrpc":"2.0","id":"early","method":"meta.ping"}"#;
    let mut bytes = format!(
        "GET /aun?ignored=1 HTTP/1.1\r\nHost: gateway.{ISSUER}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
         Origin: https://app.example\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
    )
    .into_bytes();
    // A masked text frame; the mask is all zeros, so the text stands as it is.
    bytes.extend([0x81, 0x80 | u8::try_from(frame.len()).unwrap(), 0, 0, 0, 0]);
    bytes.extend(frame.as_bytes());
    stream.write_all(&bytes).await.unwrap();
    let mut heard = String::new();
    while !heard.contains("early") {
        let mut part = [0; 4096];
        let length = within("an answer", stream.read(&mut part)).await.unwrap();
        assert!(length > 0, "the server hung up after {heard}");
        heard += &String::from_utf8_lossy(&part[..length]);
    }
    assert!(heard.starts_with("HTTP/1.1 101"), "{heard}");
    assert!(heard.to_lowercase().contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{heard}");
    assert!(!heard.to_lowercase().contains("sec-websocket-extensions"), "compression is declined");
    assert!(heard.find("\"challenge\"").unwrap() < heard.find("early").unwrap());
}

#[tokio::test]
async fn calls_sent_one_after_another_without_waiting_are_answered_in_order() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let socket = server.socket().await;
    let frame = |id: &str, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let frames = [
        frame("a", "auth.download_cert", json!({ "cert_sn": "root" })),
        frame("b", "auth.connect", hello(socket.nonce(), FORGED)),
        frame("c", "auth.connect", hello(socket.nonce(), &tokens.access)),
        frame("d", "meta.ping", json!({})),
    ];
    for frame in &frames {
        socket.send(&frame.to_string()).await;
    }
    for (id, works) in [("a", true), ("b", false), ("c", true), ("d", true)] {
        let answer = socket.next().await;
        assert_eq!((&answer["id"], answer.get("result").is_some()), (&json!(id), works), "{answer}");
    }
}

#[tokio::test]
async fn what_a_client_says_of_itself_has_a_form() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let socket = server.socket().await;
    for (name, value) in [
        ("options", json!({ "kind": "forever" })),
        ("options", json!({ "kind": "short", "short_ttl_ms": -5 })),
        ("options", json!({ "kind": "short", "short_ttl_ms": "long" })),
        ("extra_info", json!("text")),
        ("extra_info", json!({ "pad": "x".repeat(50_000) })),
        ("capabilities", json!([])),
        ("protocol", json!({ "min": "one", "max": "two" })),
        ("device", json!("laptop")),
    ] {
        let error = refusal(&socket, &tokens.access, |hello| hello[name] = value.clone()).await;
        assert_eq!(error["code"], 4000, "{name} {value:.80}: {error}");
    }
}

#[tokio::test]
async fn a_token_of_another_server_of_the_same_name_is_refused() {
    let (server, other) = (TestServer::shared().await, TestServer::shared_with(BUSY).await);
    let of_the_other = other.register("alice").await;
    let tokens = other.login(&of_the_other).await;
    server.register("alice").await;
    let socket = server.socket().await;
    assert_eq!(refusal(&socket, &tokens.access, |_| ()).await["code"], 4001);
    assert_eq!(server.ask_error("auth.aid_login1", &of_the_other.login1()).await["code"], -32002);
}
