//! `gateway.forward_federation` and its batch: what services may relay, and what is refused.

use super::link::code_and_reason;
use super::support::test_methods::{SHARED, SYNC};
use super::support::two_domains::{THEIRS, TwoDomains, ids};
use kernel::{Caller, RpcError, forwarded_result};
use proto_schemas::requests::gateway::{ForwardFederation, ForwardFederationBatch};
use serde_json::{Value, json};

fn forward(change: Value) -> ForwardFederation {
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
    for caller in
        [Caller::Unauthenticated(None), Caller::Operator, Caller::service("auth"), Caller::service("ca")]
    {
        let shown = format!("{caller:?}");
        assert_eq!(refused(&domains, caller, json!({})).await.code(), -32004, "{shown}");
    }
    // A service may call what it serves, and nothing else.
    for (service, namespace) in
        [("message", "auth"), ("message", "gateway"), ("message", "nothing"), ("gateway", "message")]
    {
        let error = refused(&domains, Caller::service(service), json!({ "namespace": namespace })).await;
        assert_eq!(error.code(), -32004, "{service} {namespace}");
    }
}

#[tokio::test]
async fn a_service_calls_in_its_own_name_at_the_domain_of_an_agent() {
    let domains = TwoDomains::new().await;
    let change = json!({
        "target_issuer": null, "target_aid": "bobb.theirs.example", "method": SYNC, "caller_aid": null, "as_service": true,
        "device_id": "", "slot_id": "",
    });
    let call = domains.fed.clone().forward_federation(Caller::service("message"), forward(change));
    let theirs = async {
        let mut link = domains.accepted_link().await;
        let frame = link.next().await.unwrap();
        link.answer(&frame).await;
        (link, frame)
    };
    let (forwarded, (_link, frame)) = tokio::join!(call, theirs);
    assert_eq!(forwarded.unwrap().target_issuer, THEIRS);
    let caller = json!({ "type": "service", "aid": "message.ours.example", "device_id": "", "slot_id": "" });
    assert_eq!((&frame["params"]["caller"], &frame["params"]["depth"]), (&caller, &json!(0)));
}

#[tokio::test]
async fn a_batch_has_one_target() {
    let domains = TwoDomains::new().await;
    let batch = |change: Value| -> ForwardFederationBatch {
        let mut params = json!({ "items": [] });
        params.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        serde_json::from_value(params).unwrap()
    };
    let forwarded = |batch| domains.fed.clone().forward_federation_batch(Caller::service("message"), batch);
    for change in [json!({}), json!({ "target_issuer": THEIRS, "target_aid": "bobb.theirs.example" })] {
        assert_eq!(forwarded(batch(change)).await.unwrap_err().code(), -32602);
    }
    let by_aid = forwarded(batch(json!({ "target_aid": "bobb.theirs.example" }))).await.unwrap();
    assert_eq!(by_aid.target_issuer, THEIRS);
    let mut one = batch(json!({ "target_issuer": THEIRS }));
    one.items = vec![forward(json!({ "target_issuer": "third.example" }))];
    let outcome = forwarded(one).await.unwrap().results.into_iter().next().unwrap();
    assert_eq!(forwarded_result(outcome).unwrap_err().code(), -32602, "its own target would be ignored");
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
        (json!({ "target_issuer": null, "target_aid": "carol.ours.example" }), "target_is_local"),
        (json!({ "target_issuer": null, "target_aid": "bobb.blocked.example" }), "issuer_blocked"),
        (json!({ "namespace": "message", "method": "pull" }), "method_not_allowed"),
        (json!({ "namespace": "message", "method": "" }), "method_not_allowed"),
        (json!({ "method": SYNC }), "method_not_allowed"),
        (json!({ "caller_aid": null, "as_service": true }), "method_not_allowed"),
    ] {
        let error = refused(&domains, Caller::service("message"), change.clone()).await;
        assert_eq!(code_and_reason(&error), (-32012, reason), "{change}");
        assert_eq!(error.data("retryable"), Some(&json!(false)));
    }
    for change in [
        json!({ "target_aid": "bobb.theirs.example" }),
        json!({ "target_issuer": null }),
        json!({ "caller_aid": null }),
        json!({ "method": SHARED, "as_service": true }),
    ] {
        let error = refused(&domains, Caller::service("message"), change.clone()).await;
        assert_eq!(error.code(), -32602, "{change}");
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
    let batch: ForwardFederationBatch =
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
    let results: Vec<_> = answered.unwrap().results.into_iter().map(forwarded_result).collect();
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
    let batch: ForwardFederationBatch = serde_json::from_value(batch).unwrap();
    let answered =
        domains.fed.clone().forward_federation_batch(Caller::service("message"), batch).await.unwrap();
    let outcomes = answered.results.into_iter().map(forwarded_result);
    let codes: Vec<_> = outcomes.map(|outcome| outcome.unwrap_err().code()).collect();
    assert_eq!(codes, [-32010, -32010]);
}
