//! `auth.create_aid`: a name for a key, once.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use certs::{Certificate, Curve, Key, verify_chain};
use serde_json::{Value, json};

use crate::support::agent::{aid, public_key, text};
use crate::support::{TestServer, certificates, now};

fn creation(aid: &str, key: &str) -> Value {
    json!({ "aid": aid, "public_key": key, "curve": "P-256" })
}

fn fresh_key() -> String {
    public_key(&Key::generate(Curve::P256))
}

#[tokio::test]
async fn a_free_name_gets_a_certificate_for_exactly_its_key() {
    let server = TestServer::shared().await;
    let (aid, key) = (server.aid("alice"), Key::generate(Curve::P256));
    let created = server.ask("auth.create_aid", &creation(&aid, &public_key(&key))).await.unwrap();
    assert_eq!((&created["aid"], &created["curve"]), (&json!(aid), &json!("P-256")));
    let cert = Certificate::from_pem(created["cert"].as_str().unwrap()).unwrap();
    assert_eq!(cert.common_name(), aid);
    assert_eq!(cert.public_key(), &key.public());
    assert!(!cert.is_ca());
    assert!(cert.not_before() <= now() - 60, "clients tolerate no skew, so it begins in the past");
    assert!(cert.not_after() > now() + 300 * 86_400);

    let chain = certificates(&server.get("/pki/chain").await.text());
    assert_eq!(created["ca_cert"].as_str(), Some(chain[0].pem()));
    assert_eq!(verify_chain(&cert, &chain[..2], &chain[2..], now()), Ok(()));
}

#[tokio::test]
async fn the_same_key_again_gets_its_certificate_back() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let again = server.ask("auth.create_aid", &creation(&alice.aid, &public_key(&alice.key))).await.unwrap();
    assert_eq!(again["cert"], alice.cert);
}

#[tokio::test]
async fn a_registered_name_says_that_it_already_exists() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let error = server.ask_error("auth.create_aid", &creation(&alice.aid, &fresh_key())).await;
    assert_eq!(error["code"], 4090, "{error}");
    assert_eq!(error["data"]["kind"], "aid_exists");
    assert!(text(&error["message"]).contains("already exists"), "old clients look for these words: {error}");
    assert_eq!(server.get(&format!("/pki/cert/{}", alice.aid)).await.text(), alice.cert, "nothing changed");
}

#[tokio::test]
async fn of_two_registrations_of_one_name_at_once_one_wins() {
    let server = TestServer::shared().await;
    let sockets =
        [server.socket().await, server.socket().await, server.socket().await, server.socket().await];
    for round in 0..10 {
        let name = server.aid(&format!("twin{round}"));
        let attempts = sockets.iter().map(|socket| {
            let params = creation(&name, &fresh_key());
            async move { socket.try_call("auth.create_aid", &params).await }
        });
        let outcomes = futures_util::future::join_all(attempts).await;
        let winners: Vec<&Value> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        for loser in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
            assert_eq!(loser["code"], 4090, "{loser}");
        }
        assert_eq!(json!(server.get(&format!("/pki/cert/{name}")).await.text()), winners[0]["cert"]);
    }
}

#[tokio::test]
async fn names_that_are_not_names_are_refused_and_stay_free() {
    let server = TestServer::with("limits.registrations_per_minute = 6000\nlimits.preauth_calls = 100").await;
    let socket = server.socket().await;
    let long = "a".repeat(64);
    let names = [
        "bob",
        "",
        "-alice",
        "al ice",
        "alice!",
        "älice",
        "Alice",
        "ALICE",
        " alice",
        "guest",
        "guest42",
        &long,
        "gateway",
        "auth",
        "message",
        "group",
        "storage",
        "stream",
        "proxy",
        "mail",
        "search",
        "relay",
        "nameservice",
        "aid_custody",
        "registry",
        "trust",
        "leaderboard",
        "aun_console",
        "aun-console",
        "push",
        "www",
        "pki",
        "ca",
    ];
    for name in names {
        let error = socket.call_error("auth.create_aid", &creation(&aid(name), &fresh_key())).await;
        assert_eq!(error["code"], -32602, "{name:?}: {error}");
        assert!(text(&error["message"]).contains("aid"), "the sentence names the field: {error}");
    }
    for whole in [
        "alice",
        "alice.",
        "",
        ".agents.localhost",
        "alice.elsewhere.example",
        "alice.AGENTS.localhost",
        "alice.sub.agents.localhost",
        "alice.agents.localhost.",
        "alice.agents.localhost ",
    ] {
        let error = socket.call_error("auth.create_aid", &creation(whole, &fresh_key())).await;
        assert_eq!(error["code"], -32602, "{whole:?}: {error}");
    }
    for name in ["alice", "_under", "4711", "with-dash", "with_under", &"a".repeat(63)] {
        let created = socket.call("auth.create_aid", &creation(&aid(name), &fresh_key())).await;
        assert_eq!(created["aid"], aid(name));
    }
}

#[tokio::test]
async fn keys_that_are_not_points_on_p256_are_refused() {
    let server = TestServer::with("limits.preauth_calls = 100").await;
    let socket = server.socket().await;
    let spki = Key::generate(Curve::P256).public().spki_der().to_vec();
    let mut beside = spki.clone();
    *beside.last_mut().unwrap() ^= 1;
    let mut compressed = spki[..spki.len() - 32].to_vec();
    compressed[26] = 2;
    let keys = [
        public_key(&Key::generate(Curve::P384)),
        STANDARD.encode(beside),
        STANDARD.encode(compressed),
        STANDARD.encode(&spki[..spki.len() - 1]),
        STANDARD.encode([&spki[..], &[0]].concat()),
        STANDARD.encode([0; 91]),
        STANDARD.encode(b"not a key"),
        URL_SAFE_NO_PAD.encode([0xff; 91]),
        "%%%".to_owned(),
        String::new(),
    ];
    for key in keys {
        let error = socket.call_error("auth.create_aid", &creation(&aid("alice"), &key)).await;
        assert_eq!(error["code"], -32602, "{key}: {error}");
        assert!(text(&error["message"]).contains("public_key"), "{error}");
    }
    for curve in ["P-384", "P-521", "p-256", ""] {
        let mut params = creation(&aid("alice"), &fresh_key());
        params["curve"] = json!(curve);
        assert_eq!(socket.call_error("auth.create_aid", &params).await["code"], -32602, "{curve:?}");
    }
    assert_eq!(
        server.get(&format!("/pki/cert/{}", aid("alice"))).await.status,
        404,
        "nothing was left behind"
    );
    socket.call("auth.create_aid", &creation(&aid("alice"), &fresh_key())).await;
}
