//! `gateway.forward_federation` and its batch: what services may relay, and what is refused.

use super::link::code_and_reason;
use super::two_domains::{THEIRS, TwoDomains, ids};
use serde_json::{Value, json};
use services::kernel::{Caller, Forward, ForwardBatch, RpcError};

fn forward(change: Value) -> Forward {
    let mut params = json!({
        "target_issuer": THEIRS,
        "namespace": "message",
        "method": "send",
        "params": { "to": "bobb.theirs.example", "seq": 9_007_199_254_740_993_i64 },
        "caller_aid": "alice.ours.example",
        "device_id": "phone",
        "slot_id": "s",
    });
    params.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    serde_json::from_value(params).unwrap()
}

async fn refused(domains: &TwoDomains, caller: Caller, change: Value) -> RpcError {
    domains.fed.clone().forward_federation(caller, forward(change)).await.unwrap_err()
}

#[tokio::test]
async fn a_call_of_a_service_is_relayed_unchanged() {
    let domains = TwoDomains::new().await;
    let call = domains
        .fed
        .clone()
        .forward_federation(Caller::service("message"), forward(json!({ "relay_id": "again" })));
    let theirs = async {
        let mut link = domains.accepted_link().await;
        let frame = link.next().await.unwrap();
        link.answer(&frame).await;
        (link, frame)
    };
    let (forwarded, (_link, frame)) = tokio::join!(call, theirs);
    let forwarded = forwarded.unwrap();
    assert_eq!((forwarded.relay_id.as_str(), forwarded.target_issuer.as_str()), ("again", THEIRS));
    assert_eq!(forwarded.result.get(), "\"again\"");
    let caller = json!({ "type": "aid", "aid": "alice.ours.example", "device_id": "phone", "slot_id": "s" });
    assert_eq!(frame["params"]["caller"], caller);
    assert_eq!(frame["params"]["params"]["seq"].to_string(), "9007199254740993");
    let left = frame["params"]["deadline_ms"].as_u64().unwrap();
    assert!(left > 8_000 && left <= 15_000, "a write has fifteen seconds: {left}");
}

#[tokio::test]
async fn only_services_may_call_other_domains() {
    let domains = TwoDomains::new().await;
    for caller in [Caller::Unauthenticated, Caller::Operator, Caller::service("auth"), Caller::service("ca")]
    {
        let shown = format!("{caller:?}");
        assert_eq!(refused(&domains, caller, json!({})).await.code(), -32004, "{shown}");
    }
}

#[tokio::test]
async fn a_call_that_may_not_cross_is_refused_before_a_dial() {
    let domains =
        TwoDomains::with(|config| config.federation.block = vec!["blocked.example".to_owned()]).await;
    for (change, reason) in [
        (json!({ "target_issuer": "Ours.example" }), "target_is_local"),
        (json!({ "target_issuer": "127.0.0.1" }), "target_invalid"),
        (json!({ "target_issuer": "no/domain" }), "target_invalid"),
        (json!({ "target_issuer": "blocked.example" }), "issuer_blocked"),
        (json!({ "caller_aid": "carl.third.example" }), "caller_not_local"),
        (json!({ "caller_aid": "bobb.theirs.example" }), "caller_not_local"),
        (json!({ "namespace": "auth", "method": "connect" }), "method_not_allowed"),
        (json!({ "namespace": "message", "method": "pull" }), "method_not_allowed"),
        (json!({ "namespace": "gateway", "method": "peers" }), "method_not_allowed"),
    ] {
        let error = refused(&domains, Caller::service("message"), change.clone()).await;
        assert_eq!(code_and_reason(&error), (-32012, reason), "{change}");
        assert_eq!(error.data("retryable"), Some(&json!(false)));
    }
    for id in ["", "with space", &"x".repeat(65), "quote\""] {
        let error = refused(&domains, Caller::service("message"), json!({ "relay_id": id })).await;
        assert_eq!(error.code(), -32602, "{id:?}");
    }
    assert!(domains.peers().list().is_empty(), "no gateway was dialled");
}

#[tokio::test]
async fn a_batch_is_answered_in_its_order_and_one_failure_fails_one_call() {
    let domains = TwoDomains::new().await;
    let items: Vec<Value> = ["r1", "r2", "r3"]
        .iter()
        .map(|id| {
            let caller = if *id == "r2" { "carl.third.example" } else { "alice.ours.example" };
            json!({ "namespace": "message", "method": "send", "params": {}, "caller_aid": caller, "relay_id": id })
        })
        .collect();
    let batch: ForwardBatch =
        serde_json::from_value(json!({ "target_issuer": THEIRS, "items": items })).unwrap();
    let call = domains.fed.clone().forward_federation_batch(Caller::service("message"), batch);
    let theirs = async {
        let mut link = domains.accepted_link().await;
        let mut seen = Vec::new();
        while seen.len() < 2 {
            let frame = link.next().await.unwrap();
            seen.extend(ids(&frame));
            link.answer(&frame).await;
        }
        (link, seen)
    };
    let (answered, (_link, seen)) = tokio::join!(call, theirs);
    assert_eq!(seen, ["r1", "r3"]);
    let results: Vec<_> =
        answered.unwrap().results.into_iter().map(|outcome| outcome.into_result()).collect();
    assert_eq!(results[0].as_ref().unwrap().get(), "\"r1\"");
    assert_eq!(code_and_reason(results[1].as_ref().unwrap_err()), (-32012, "caller_not_local"));
    assert_eq!(results[2].as_ref().unwrap().get(), "\"r3\"");
}

#[tokio::test]
async fn a_batch_to_an_unreachable_domain_fails_every_call() {
    let domains = TwoDomains::new().await;
    *domains.remote.http.lock() = Box::new(|_| Some((404, String::new())));
    let item =
        json!({ "namespace": "message", "method": "send", "params": {}, "caller_aid": "alice.ours.example" });
    let batch = json!({ "target_issuer": THEIRS, "items": [item.clone(), item] });
    let batch: ForwardBatch = serde_json::from_value(batch).unwrap();
    let answered =
        domains.fed.clone().forward_federation_batch(Caller::service("message"), batch).await.unwrap();
    let codes: Vec<_> =
        answered.results.into_iter().map(|outcome| outcome.into_result().unwrap_err().code()).collect();
    assert_eq!(codes, [-32010, -32010]);
}
