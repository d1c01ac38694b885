//! Before hello: discovery, TLS, proof, and the pause after a failure.

use super::ca::Ca;
use super::link::told;
use super::rig::{OURS, Rig, THEIRS, ids, relay};
use super::there::{acceptor, good_http};
use crate::federation::peer_state::Outbound;
use serde_json::{Value, json};
use services::kernel::{Caller, RpcError};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a call is told where there is no link, and in which phase.
async fn fails(rig: &Rig) -> (RpcError, String) {
    let error = rig.send("r1").await.unwrap().unwrap_err();
    assert_eq!(error.code(), -32010, "{error}");
    assert_eq!(error.data("retryable"), Some(&json!(true)));
    assert_eq!(error.data("target_issuer"), Some(&json!(THEIRS)));
    let phase = error.data("phase").and_then(Value::as_str).unwrap().to_owned();
    (error, phase)
}

async fn walk(rig: &Rig) -> Value {
    let params = serde_json::from_value(json!({ "issuer": THEIRS })).unwrap();
    serde_json::to_value(rig.fed.clone().test_peer(Caller::Operator, params).await.unwrap()).unwrap()
}

#[tokio::test]
async fn the_way_is_walked_step_by_step() {
    let rig = Rig::new().await;
    let theirs = async { rig.link().await.next().await };
    let (tested, _) = tokio::join!(walk(&rig), theirs);
    assert_eq!(tested["ok"], true, "{tested}");
    let steps: Vec<_> = tested["steps"].as_array().unwrap().iter().map(|step| step["step"].clone()).collect();
    assert_eq!(steps, ["discover", "connect", "hello", "ping"]);
}

#[tokio::test]
async fn the_walk_says_where_it_breaks() {
    let rig = Rig::new().await;
    *rig.there.http.lock() = Box::new(|_| Some((404, String::new())));
    let tested = walk(&rig).await;
    assert_eq!((&tested["ok"], &tested["steps"][0]["ok"]), (&json!(false), &json!(false)), "{tested}");
    assert!(tested["steps"][0]["detail"].as_str().unwrap().contains("404"), "{tested}");
    *rig.there.http.lock() = Box::new(good_http);
    *rig.there.welcome.lock() = Box::new(|welcome| welcome.signature.clear());
    let tested = walk(&rig).await;
    assert_eq!((&tested["steps"][2]["step"], &tested["steps"][2]["ok"]), (&json!("hello"), &json!(false)));
}

#[tokio::test]
async fn a_document_that_cannot_be_used_is_told_as_such() {
    let elsewhere = json!({ "gateways": [{ "url": "wss://gateway.evil.example/aun" }] }).to_string();
    let answers = [
        (404, String::new()),
        (200, "[".to_owned()),
        (200, elsewhere),
        (302, String::new()),
        (200, "x".repeat(70_000)),
    ];
    for (status, body) in answers {
        let rig = Rig::new().await;
        *rig.there.http.lock() = Box::new(move |_| Some((status, body.clone())));
        let (error, phase) = fails(&rig).await;
        assert_eq!((told(&error).1, phase.as_str()), ("discovery_failed", "discover"), "{error}");
        assert_eq!(rig.there.upgrades.load(Ordering::SeqCst), 0, "nobody was dialled");
    }
}

#[tokio::test]
async fn a_document_that_never_comes_does_not_keep_anybody_for_long() {
    let rig = Rig::new().await;
    *rig.there.http.lock() = Box::new(|_| None);
    let (error, phase) = fails(&rig).await;
    assert_eq!((told(&error).1, phase.as_str()), ("discovery_failed", "discover"));
}

#[tokio::test]
async fn whoever_is_away_is_left_alone_for_a_moment_and_then_tried_again() {
    let rig = Rig::new().await;
    *rig.there.tls.lock() = acceptor(&Ca::new(THEIRS));
    let (error, _) = fails(&rig).await;
    assert!(error.to_string().contains("TLS"), "{error}");
    let visits = rig.there.visits.load(Ordering::SeqCst);
    let wait = error.data("retry_after_ms").and_then(Value::as_u64).unwrap();
    assert!((1..=2000).contains(&wait), "{wait}");
    let (again, _) = fails(&rig).await;
    assert!(again.data("retry_after_ms").is_some());
    assert!(!rig.peers().post(&rig.fed, THEIRS, &relay("send", "r2", json!({}))), "nor is anything queued");
    assert_eq!(rig.there.visits.load(Ordering::SeqCst), visits, "inside the pause nobody dials");
    let [peer] = &rig.peers().list()[..] else { panic!("one peer") };
    assert_eq!(peer.outbound, Outbound::Down);
    assert!(peer.retry_in_ms.is_some() && peer.last_error.is_some());

    *rig.there.tls.lock() = acceptor(&rig.there.ca);
    // It came to us, so it is there.
    rig.peers().is_there(THEIRS);
    let call = rig.send("r3");
    let mut there = rig.link().await;
    let frame = there.next().await.unwrap();
    assert_eq!(ids(&frame), ["r3"]);
    there.answer(&frame).await;
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_call_with_little_time_does_not_wait_for_a_link() {
    let rig = Rig::new().await;
    *rig.there.http.lock() = Box::new(|_| None);
    let hasty = rig.relay(relay("send", "hasty", json!({})), Duration::from_millis(50));
    let patient = rig.send("patient");
    let error = hasty.await.unwrap().unwrap_err();
    assert_eq!(told(&error), (-32010, "connect_timeout"));
    assert!(!patient.is_finished(), "the other one still waits");
    assert_eq!(told(&patient.await.unwrap().unwrap_err()).0, -32010);
}

#[tokio::test]
async fn only_the_domains_own_authority_vouches_for_its_servers() {
    let rig = Rig::new().await;
    // Of our own domain's authority, whose root is trusted, and with the right names in it.
    *rig.there.tls.lock() = acceptor(&rig.our_ca);
    let (error, phase) = fails(&rig).await;
    assert_eq!(phase, "discover");
    assert!(error.to_string().contains(&format!("the authority of {OURS} vouches for it")), "{error}");
}

#[tokio::test]
async fn a_root_that_is_added_while_we_run_is_believed_at_the_next_dial() {
    let rig = Rig::new().await;
    let theirs = rig.our_ca.trusted.lock().pop().unwrap();
    rig.fed.trust.refresh().await.unwrap();
    fails(&rig).await;
    rig.our_ca.trusted.lock().push(theirs);
    rig.peers().is_there(THEIRS);
    let call = rig.send("r1");
    let mut there = rig.link().await;
    let frame = there.next().await.unwrap();
    there.answer(&frame).await;
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_gateway_that_does_not_prove_itself_gets_nothing() {
    type Change = fn(&mut crate::federation::Welcome);
    let changes: [Change; 6] = [
        |welcome| welcome.signature.clear(),
        |welcome| welcome.session_id.push('x'),
        |welcome| welcome.client_nonce.push('x'),
        |welcome| welcome.issuer = "third.example".to_owned(),
        |welcome| welcome.timestamp -= 400_000,
        |welcome| welcome.chain.clear(),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let rig = Rig::new().await;
        *rig.there.welcome.lock() = Box::new(change);
        let (error, phase) = fails(&rig).await;
        assert_eq!((told(&error).1, phase.as_str()), ("hello_invalid", "hello"), "{n}: {error}");
        assert!(rig.link().await.next().await.is_none(), "{n}: not a word was said");
    }
}

#[tokio::test]
async fn a_refused_hello_is_told_with_its_reason() {
    let rig = Rig::new().await;
    rig.there.ca.trusted.lock().remove(0);
    rig.there.fed.trust.refresh().await.unwrap();
    let (error, phase) = fails(&rig).await;
    assert_eq!((told(&error).1, phase.as_str()), ("hello_refused", "hello"), "{error}");
}

#[tokio::test]
async fn a_certificate_that_is_revoked_counts_for_nothing_and_silence_is_no_revocation() {
    let serial = |rig: &Rig| rig.there.fed.card.identity.certificate().serial().to_owned();
    let revoked = Rig::new().await;
    *revoked.there.http.lock() = Box::new(|path| match path.starts_with("/pki/ocsp/") {
        true => Some((200, json!({ "status": "revoked" }).to_string())),
        false => good_http(path),
    });
    let (error, phase) = fails(&revoked).await;
    assert_eq!((told(&error).1, phase.as_str()), ("certificate_revoked", "hello"));

    let listed = Rig::new().await;
    let list = json!({ "revoked_serials": [serial(&listed)] }).to_string();
    *listed.there.http.lock() = Box::new(move |path| match path {
        path if path.starts_with("/pki/ocsp/") => Some((503, String::new())),
        "/pki/crl.json" => Some((200, list.clone())),
        path => good_http(path),
    });
    assert_eq!(told(&fails(&listed).await.0).1, "certificate_revoked");

    let silent = Rig::new().await;
    *silent.there.http.lock() = Box::new(|path| match path.starts_with("/pki/") {
        true => Some((503, String::new())),
        false => good_http(path),
    });
    let call = silent.send("r1");
    let mut there = silent.link().await;
    let frame = there.next().await.unwrap();
    there.answer(&frame).await;
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn there_are_only_so_many_peers_and_old_ones_make_space() {
    let rig = Rig::with(|config| config.federation.peers = 1).await;
    let call = rig.send("r1");
    let mut there = rig.link().await;
    let other = rig.relay_to("other.example", relay("send", "r2", json!({}))).await;
    assert_eq!(told(&other.unwrap_err()), (-32010, "pool_full"));
    let frame = there.next().await.unwrap();
    there.answer(&frame).await;
    call.await.unwrap().unwrap();
    drop(there);
    rig.until(|peer| peer.outbound == Outbound::Idle).await;
    let other = rig.relay_to("other.invalid", relay("send", "r2", json!({}))).await;
    assert_eq!(told(&other.unwrap_err()), (-32010, "discovery_failed"));
    assert_eq!(rig.peers().list().len(), 1);
}
