//! `federation.hello`: no peer is accepted that cannot prove whose gateway it is.

use std::fs;

use certs::Authority;
use certs::dev::Pki;
use serde_json::{Value, json};

use super::fake_peer::{DAY, FakePeer, chain};
use super::words;
use crate::support::agent::hello as connect;
use crate::support::domain::DomainPair;
use crate::support::socket::TestSocket;
use crate::support::{TestServer, now, now_ms, printed, until};

/// Says hello and is refused: with this code, and then the socket is closed.
async fn refused(to: &TestServer, code: i64, hello: impl FnOnce(&str) -> Value) -> Value {
    let socket = to.tls_socket("/aun").await;
    let params = hello(socket.nonce());
    let error = socket.call_error("federation.hello", &params).await;
    assert_eq!(error["code"], code, "{error}");
    assert_eq!(socket.closed().await.code, 4001, "{error}");
    error
}

/// A hello that was changed and signed again.
fn changed(who: &FakePeer, to: &str, nonce: &str, name: &str, value: Value) -> Value {
    let mut hello = who.hello(to, nonce);
    hello[name] = value;
    who.signed(hello)
}

#[tokio::test]
async fn nothing_is_relayed_before_hello() {
    let pair = DomainPair::shared().await;
    let carol = pair.near.agent("carol").await;
    let who = FakePeer::of(&pair.far);
    let message = who.message("alice", carol.aid(), "before hello");
    for (method, params) in [
        ("federation.relay", message.clone()),
        ("federation.relay_batch", json!({ "batch_id": "b", "items": [message] })),
    ] {
        let socket = pair.near.tls_socket("/aun").await;
        let error = socket.call_error(method, &params).await;
        assert_eq!(
            (&error["code"], &error["data"]["reason"]),
            (&json!(-32001), &json!("federation_unauthenticated")),
            "{error}"
        );
        socket.closed().await;
    }
    assert!(words(&carol).await.is_empty());
}

#[tokio::test]
async fn a_signature_must_be_there_and_be_that_of_the_certificate_for_this_very_conversation() {
    let pair = DomainPair::shared().await;
    let (near, who) = (&pair.near, FakePeer::of(&pair.far));
    let to = near.issuer.as_str();
    for bad in ["", "AAAA", "not base64!", &"A".repeat(96)] {
        refused(near, -32003, |nonce| {
            let mut hello = who.hello(to, nonce);
            hello["signature"] = json!(bad);
            hello
        })
        .await;
    }
    let socket = near.tls_socket("/aun").await;
    let mut missing = who.hello(to, socket.nonce());
    missing.as_object_mut().expect("an object").remove("signature");
    let error = socket.call_error("federation.hello", &missing).await;
    assert_eq!(error["code"], -32602, "{error}");
    // Made by another key, and made for another socket.
    let other = FakePeer::under(&Pki::new(&who.issuer, now()), &who.issuer);
    refused(near, -32003, |nonce| {
        let mut hello = who.hello(to, nonce);
        hello["signature"] = other.signed(hello.clone())["signature"].clone();
        hello
    })
    .await;
    refused(near, -32003, |nonce| {
        let mut hello = who.hello(to, nonce);
        hello["signature"] = who.hello(to, "another nonce altogether")["signature"].clone();
        hello
    })
    .await;
    // Everything that is signed is covered by it.
    refused(near, -32003, |nonce| {
        let mut hello = who.hello(to, nonce);
        hello["timestamp"] = json!(now_ms() - 5000);
        hello
    })
    .await;
}

#[tokio::test]
async fn only_the_domain_s_own_authority_makes_a_gateway() {
    let pair = DomainPair::start().await;
    let (near, who) = (&pair.near, FakePeer::of(&pair.far));
    let to = near.issuer.as_str();
    let third = Pki::new("third.test", now() - DAY);
    near.trusts_root(third.root.certificate().pem(), "third.test").await;
    FakePeer::under(&third, "third.test").link(near).await;

    let far_ca = far_authority(&pair.far);
    let unknown = Pki::new(&who.issuer, now() - DAY);
    let liars = [
        // The certificate of another issuer.
        FakePeer { issuer: "third.test".to_owned(), ..who.clone() },
        // The right name under the wrong, though trusted, authority.
        FakePeer::vouched_by(&third.issuer, &chain(&third), &who.issuer, now() - DAY, now() + DAY),
        // The right name under a root nobody trusts.
        FakePeer::under(&unknown, &who.issuer),
        // Over, and not yet.
        FakePeer::vouched_by(&far_ca, &who.chain, &who.issuer, now() - 9 * DAY, now() - 8 * DAY),
        FakePeer::vouched_by(&far_ca, &who.chain, &who.issuer, now() + DAY, now() + 2 * DAY),
        // Half a chain, and none.
        FakePeer { chain: who.chain[..1].to_vec(), ..who.clone() },
        FakePeer { chain: Vec::new(), ..who.clone() },
    ];
    for liar in liars {
        refused(near, -32002, |nonce| liar.hello(to, nonce)).await;
    }
    refused(near, -32002, |nonce| changed(&who, to, nonce, "gateway_aid", json!("gateway.third.test"))).await;
    refused(near, -32002, |nonce| changed(&who, to, nonce, "gateway_aid", json!("alice.far.test"))).await;
    refused(near, -32002, |nonce| changed(&who, to, nonce, "cert", json!("nonsense"))).await;
    who.link(near).await;
}

#[tokio::test]
async fn a_revoked_gateway_is_refused() {
    let pair = DomainPair::start().await;
    let who = FakePeer::of(&pair.far);
    let output = pair.far.aund(&["certs", "revoke", who.cert.serial(), "--reason", "keyCompromise"]).await;
    assert!(output.status.success(), "{}", printed(&output.stderr));
    refused(&pair.near, -32002, |nonce| who.hello(&pair.near.issuer, nonce)).await;
}

#[tokio::test]
async fn a_hello_is_for_one_socket_once_and_now() {
    let pair = DomainPair::shared().await;
    let (near, who) = (&pair.near, FakePeer::of(&pair.far));
    let to = near.issuer.as_str();
    let socket = near.tls_socket("/aun").await;
    let first = who.hello(to, socket.nonce());
    socket.call("federation.hello", &first).await;

    refused(near, -32002, |_| first.clone()).await;
    // A nonce of ours that was used is used, at each gateway that has seen it.
    let mut accepted = vec![socket];
    loop {
        let socket = near.tls_socket("/aun").await;
        let again = changed(&who, to, socket.nonce(), "client_nonce", first["client_nonce"].clone());
        match socket.try_call("federation.hello", &again).await {
            Ok(_) => accepted.push(socket),
            Err(error) => break assert_eq!(error["code"], -32002, "{error}"),
        }
        assert!(accepted.len() <= near.gateways(), "the same nonce counts twice");
    }
    let socket = accepted.swap_remove(0);
    refused(near, -32002, |nonce| changed(&who, to, nonce, "client_nonce", json!("short"))).await;
    for away in [-600_000, 600_000] {
        refused(near, -32002, |nonce| changed(&who, to, nonce, "timestamp", json!(now_ms() + away))).await;
    }
    let twice = socket.call_error("federation.hello", &who.hello(to, socket.nonce())).await;
    assert_eq!(
        (&twice["code"], &twice["data"]["reason"]),
        (&json!(-32012), &json!("already_authenticated")),
        "{twice}"
    );
    socket.closed().await;
}

#[tokio::test]
async fn a_hello_names_both_domains_and_a_version_we_speak() {
    let pair = DomainPair::shared().await;
    let (near, who) = (&pair.near, FakePeer::of(&pair.far));
    let to = near.issuer.as_str();
    refused(near, -32001, |nonce| who.hello("third.test", nonce)).await;
    refused(near, -32001, |nonce| FakePeer::of(near).hello(to, nonce)).await;
    let error = refused(near, -32000, |nonce| changed(&who, to, nonce, "version", json!("9.0"))).await;
    assert!(error["data"]["server_range"].is_object(), "{error}");
}

#[tokio::test]
async fn a_link_is_no_session_and_a_session_is_no_link() {
    let pair = DomainPair::shared().await;
    let (near, who) = (&pair.near, FakePeer::of(&pair.far));
    let carol = near.agent("carol").await;
    let link: TestSocket = who.link(near).await;
    let login = link.try_call("auth.connect", &connect(link.nonce(), &carol.tokens.access)).await;
    assert!(login.is_err(), "{login:?}");
    let link = who.link(near).await;
    let message = json!({ "to": carol.aid(), "payload": { "type": "text", "text": "hello" } });
    let sent = link.try_call("message.send", &message).await;
    assert!(sent.is_err(), "{sent:?}");

    let session = near.agent("dave").await;
    let hello = who.hello(&near.issuer, session.nonce());
    let late = session.try_call("federation.hello", &hello).await;
    assert!(late.is_err(), "{late:?}");
    let session = near.agent("erin").await;
    let relayed = session.try_call("federation.relay", &who.message("alice", carol.aid(), "hi")).await;
    assert!(relayed.is_err(), "{relayed:?}");
    assert!(words(&carol).await.is_empty());
}

#[tokio::test]
async fn one_domain_cannot_use_all_the_links() {
    let pair = DomainPair::with("federation.links_per_peer = 2", "").await;
    let (near, who) = (&pair.near, FakePeer::of(&pair.far));
    // Each gateway of the domain counts for itself.
    let mut links = Vec::new();
    let error = loop {
        assert!(links.len() <= 2 * near.gateways(), "there is an end to it");
        let socket = near.tls_socket("/aun").await;
        match socket.try_call("federation.hello", &who.hello(&near.issuer, socket.nonce())).await {
            Ok(_) => links.push(socket),
            Err(error) => break error,
        }
    };
    assert!(links.len() >= 2, "and it may have two: {error}");
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32012), &json!("links")), "{error}");
    let third = Pki::new("third.test", now() - DAY);
    near.trusts_root(third.root.certificate().pem(), "third.test").await;
    FakePeer::under(&third, "third.test").link(near).await;
    for link in links {
        link.close().await;
    }
    let another = || async {
        let socket = near.tls_socket("/aun").await;
        socket.try_call("federation.hello", &who.hello(&near.issuer, socket.nonce())).await.ok()
    };
    until("a link that ended makes space for another", another).await;
}

/// The authority of a domain that runs, taken from its folder.
fn far_authority(server: &TestServer) -> Authority {
    let read = |name: &str| fs::read_to_string(server.data().join("pki/ca").join(name)).expect("a key");
    Authority::from_pem(&read("issuer.crt"), &read("issuer.key")).expect("the authority of a domain")
}
