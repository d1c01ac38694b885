//! Dialling: discovery, TLS, hello, and the pause after a failure.

use super::link::code_and_reason;
use super::support::remote_gateway::{acceptor, good_http};
use super::support::test_ca::TestCa;
use super::support::two_domains::{ASKER, OURS, THEIRS, TwoDomains, ids, relay};
use crate::federation::wire::hello::Welcome;
use kernel::{Caller, RpcError};
use proto_schemas::requests::gateway::OutboundState;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The error of a call that cannot get a link now, and the phase in it.
pub async fn fails(domains: &TwoDomains) -> (RpcError, String) {
    let (error, phase) = fails_with(domains, -32010).await;
    assert_eq!(error.data("retryable"), Some(&json!(true)), "{error}");
    (error, phase)
}

/// The error of a call that gets no link until somebody does something about it, and the phase in it.
pub async fn fails_for_good(domains: &TwoDomains, code: i32) -> (RpcError, String) {
    let (error, phase) = fails_with(domains, code).await;
    assert_eq!(error.data("retryable"), Some(&json!(false)), "{error}");
    assert_eq!(error.data("retry_after_ms"), None, "{error}");
    (error, phase)
}

async fn fails_with(domains: &TwoDomains, code: i32) -> (RpcError, String) {
    let error = domains.send("r1").await.unwrap().unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    assert_eq!(error.data("target_issuer"), Some(&json!(THEIRS)));
    let phase = error.data("phase").and_then(Value::as_str).unwrap().to_owned();
    (error, phase)
}

async fn test_peer(domains: &TwoDomains) -> Value {
    let params = serde_json::from_value(json!({ "issuer": THEIRS })).unwrap();
    serde_json::to_value(domains.fed.clone().test_peer(Caller::Operator, params).await.unwrap()).unwrap()
}

#[tokio::test]
async fn test_peer_dials_step_by_step() {
    let domains = TwoDomains::new().await;
    let theirs = async { domains.accepted_link().await.next().await };
    let (tested, _) = tokio::join!(test_peer(&domains), theirs);
    assert_eq!(tested["ok"], true, "{tested}");
    let steps: Vec<_> = tested["steps"].as_array().unwrap().iter().map(|step| step["step"].clone()).collect();
    assert_eq!(steps, ["discover", "connect", "hello", "ping"]);
}

#[tokio::test]
async fn test_peer_reports_the_step_that_fails() {
    let domains = TwoDomains::new().await;
    *domains.remote.http.lock() = Box::new(|_| Some((404, String::new())));
    let tested = test_peer(&domains).await;
    assert_eq!((&tested["ok"], &tested["steps"][0]["ok"]), (&json!(false), &json!(false)), "{tested}");
    assert!(tested["steps"][0]["detail"].as_str().unwrap().contains("404"), "{tested}");
    *domains.remote.http.lock() = Box::new(good_http);
    *domains.remote.welcome.lock() = Box::new(|welcome| welcome.signature.clear());
    let tested = test_peer(&domains).await;
    assert_eq!((&tested["steps"][2]["step"], &tested["steps"][2]["ok"]), (&json!("hello"), &json!(false)));
}

#[tokio::test]
async fn an_unusable_document_is_a_discovery_failure() {
    let elsewhere = json!({ "gateways": [{ "url": "wss://gateway.evil.example/aun" }] }).to_string();
    let answers = [
        (404, String::new()),
        (200, "[".to_owned()),
        (200, elsewhere),
        (302, String::new()),
        (200, "x".repeat(70_000)),
    ];
    for (status, body) in answers {
        let domains = TwoDomains::new().await;
        *domains.remote.http.lock() = Box::new(move |_| Some((status, body.clone())));
        let (error, phase) = fails(&domains).await;
        assert_eq!((code_and_reason(&error).1, phase.as_str()), ("discovery_failed", "discover"), "{error}");
        assert_eq!(domains.remote.upgrades.load(Ordering::SeqCst), 0, "no gateway was dialled");
    }
}

#[tokio::test]
async fn a_document_that_never_comes_times_out() {
    let domains = TwoDomains::new().await;
    *domains.remote.http.lock() = Box::new(|_| None);
    let (error, phase) = fails(&domains).await;
    assert_eq!((code_and_reason(&error).1, phase.as_str()), ("discovery_failed", "discover"));
}

#[tokio::test]
async fn an_unreachable_domain_is_not_dialled_again_at_once() {
    let domains = TwoDomains::new().await;
    *domains.remote.tls.lock() = acceptor(&TestCa::new(THEIRS));
    let (error, _) = fails(&domains).await;
    assert!(error.to_string().contains("TLS"), "{error}");
    let visits = domains.remote.connections.load(Ordering::SeqCst);
    let wait = error.data("retry_after_ms").and_then(Value::as_u64).unwrap();
    assert!((1..=2000).contains(&wait), "{wait}");
    let (again, _) = fails(&domains).await;
    assert!(again.data("retry_after_ms").is_some());
    assert!(
        !domains.peers().send_event(&domains.fed, THEIRS, ASKER, &relay("send", "r2", json!({}))),
        "no event is queued"
    );
    assert_eq!(domains.remote.connections.load(Ordering::SeqCst), visits, "no dial during the pause");
    let [peer] = &domains.peers().list()[..] else { panic!("one peer") };
    assert_eq!(peer.outbound, OutboundState::Down);
    assert!(peer.retry_in_ms.is_some() && peer.last_error.is_some());

    *domains.remote.tls.lock() = acceptor(&domains.remote.ca);
    // As after a hello of its gateway: it is reachable.
    domains.peers().mark_reachable(THEIRS);
    let call = domains.send("r3");
    let mut link = domains.accepted_link().await;
    let frame = link.next().await.unwrap();
    assert_eq!(ids(&frame), ["r3"]);
    link.answer(&frame).await;
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_call_with_a_short_deadline_does_not_wait_for_a_link() {
    let domains = TwoDomains::new().await;
    *domains.remote.http.lock() = Box::new(|_| None);
    let short = domains.relay(relay("send", "short", json!({})), Duration::from_millis(50));
    let long = domains.send("long");
    let error = short.await.unwrap().unwrap_err();
    assert_eq!(code_and_reason(&error), (-32010, "connect_timeout"));
    assert!(!long.is_finished(), "the other one still waits");
    assert_eq!(code_and_reason(&long.await.unwrap().unwrap_err()).0, -32010);
}

#[tokio::test]
async fn only_the_authority_of_a_domain_may_sign_for_its_servers() {
    let domains = TwoDomains::new().await;
    // Of our own domain's authority, whose root is trusted, and with the right names in it.
    *domains.remote.tls.lock() = acceptor(&domains.our_ca);
    let (error, phase) = fails(&domains).await;
    assert_eq!(phase, "discover");
    assert!(error.to_string().contains(&format!("signed by the authority of {OURS}")), "{error}");
}

#[tokio::test]
async fn a_root_added_at_runtime_counts_at_the_next_dial() {
    let domains = TwoDomains::new().await;
    let theirs = domains.our_ca.trusted.lock().pop().unwrap();
    domains.fed.trust.refresh().await.unwrap();
    fails(&domains).await;
    domains.our_ca.trusted.lock().push(theirs);
    domains.peers().mark_reachable(THEIRS);
    let call = domains.send("r1");
    let mut link = domains.accepted_link().await;
    let frame = link.next().await.unwrap();
    link.answer(&frame).await;
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn nothing_is_sent_to_a_gateway_with_an_invalid_welcome() {
    type WelcomeChange = fn(&mut Welcome);
    let changes: [WelcomeChange; 6] = [
        |welcome| welcome.signature.clear(),
        |welcome| welcome.session_id.push('x'),
        |welcome| welcome.client_nonce.push('x'),
        |welcome| welcome.issuer = "third.example".to_owned(),
        |welcome| welcome.timestamp -= 400_000,
        |welcome| welcome.chain.clear(),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let domains = TwoDomains::new().await;
        *domains.remote.welcome.lock() = Box::new(change);
        let (error, phase) = fails_for_good(&domains, -32010).await;
        assert_eq!((code_and_reason(&error).1, phase.as_str()), ("hello_invalid", "hello"), "{n}: {error}");
        assert!(domains.accepted_link().await.next().await.is_none(), "{n}: nothing was sent");
    }
}

#[tokio::test]
async fn a_refused_hello_is_a_hello_failure() {
    let domains = TwoDomains::new().await;
    domains.remote.ca.trusted.lock().remove(0);
    domains.remote.fed.trust.refresh().await.unwrap();
    let (error, phase) = fails_for_good(&domains, -32012).await;
    assert_eq!((code_and_reason(&error).1, phase.as_str()), ("hello_refused", "hello"), "{error}");
    assert!(error.to_string().contains(&format!("its operator has to accept {OURS}")), "{error}");
    assert!(error.data("remote").is_some_and(|remote| remote["code"].is_number()), "{error}");
}

#[tokio::test]
async fn the_number_of_peers_is_bounded_and_idle_ones_are_removed() {
    let domains = TwoDomains::with(|config| config.federation.peers = 1).await;
    let call = domains.send("r1");
    let mut link = domains.accepted_link().await;
    let other = domains.relay_to("other.example", relay("send", "r2", json!({}))).await;
    assert_eq!(code_and_reason(&other.unwrap_err()), (-32010, "pool_full"));
    let frame = link.next().await.unwrap();
    link.answer(&frame).await;
    call.await.unwrap().unwrap();
    drop(link);
    domains.until(|peer| peer.outbound == OutboundState::Idle).await;
    let other = domains.relay_to("other.invalid", relay("send", "r2", json!({}))).await.unwrap_err();
    // Where no resolver answers it is not known that there is no such name.
    assert!(matches!(code_and_reason(&other), (-32010, "domain_unknown" | "discovery_failed")), "{other}");
    assert_eq!(domains.peers().list().len(), 1);
}
