//! `federation.relay` as the receiving gateway has it: who may call what, and what is refused.

use super::support::inbound_link::{InboundLink, relay_by, with};
use super::support::test_methods::{SHARED, SYNC};
use super::support::two_domains::TwoDomains;
use kernel::Caller;
use serde_json::{Value, json};

const AGENT: &str = "bobb.theirs.example";
const SERVICE: &str = "message.theirs.example";

fn refused(reason: &str) -> Option<(i32, String)> {
    Some((-32012, reason.to_owned()))
}

fn to_alice() -> Value {
    json!({ "to": "alice.ours.example" })
}

#[tokio::test]
async fn the_schema_of_a_method_says_who_may_have_it_relayed() {
    let link = InboundLink::open(TwoDomains::new().await).await;
    for (kind, aid, method, expected) in [
        ("aid", AGENT, "send", None),
        ("aid", AGENT, SHARED, None),
        ("aid", AGENT, SYNC, refused("caller_type")),
        ("service", SERVICE, "send", refused("caller_type")),
        ("service", SERVICE, "query_online", refused("caller_type")),
        ("service", SERVICE, SHARED, None),
        ("service", SERVICE, SYNC, None),
        ("service", SERVICE, "pull", refused("method")),
        ("operator", SERVICE, SHARED, refused("caller_type")),
        ("", AGENT, "send", refused("caller_type")),
    ] {
        let relay = relay_by(kind, aid, method, to_alice());
        assert_eq!(link.refusal(&relay), expected, "{relay}");
    }
    let called: Vec<String> = link.service.calls.lock().iter().map(|(_, method)| method.clone()).collect();
    assert_eq!(called, ["message.send", "message.shared", "message.shared", "message.sync"]);
}

#[tokio::test]
async fn a_service_calls_in_its_own_name() {
    let link = InboundLink::open(TwoDomains::new().await).await;
    for service in ["message", "gateway", "auth", "ca"] {
        let relay =
            relay_by("service", &format!("{service}.Theirs.example"), SYNC, json!({ "_auth": 1, "n": 2 }));
        let answer = link.relay(&with(relay, json!({ "depth": 1 }))).unwrap();
        assert_eq!((&answer["ok"], &answer["result"]), (&json!(true), &json!({ "n": 2 })));
        let Caller::ForeignService { service: called, relayed } = link.last_caller() else {
            panic!("a service")
        };
        assert_eq!(
            (called.as_str(), relayed.from_issuer.as_str(), relayed.depth),
            (service, "theirs.example", 1)
        );
    }
}

#[tokio::test]
async fn nobody_speaks_for_a_service_of_another_domain() {
    let link = InboundLink::open(TwoDomains::new().await).await;
    for (aid, reason) in [
        ("message.third.example", "caller_issuer"),
        ("message.ours.example", "caller_issuer"),
        ("message.theirs.example.evil", "caller_issuer"),
        ("message.sub.theirs.example", "caller_issuer"),
        ("message", "caller_issuer"),
        ("", "caller_issuer"),
        ("theirs.example", "caller_issuer"),
        (".theirs.example", "caller"),
        ("bobb.theirs.example", "caller"),
        ("federation.theirs.example", "caller"),
        ("nothing.theirs.example", "caller"),
    ] {
        let relay = relay_by("service", aid, SYNC, json!({}));
        assert_eq!(link.refusal(&relay), refused(reason), "{aid}");
    }
    for actor in ["from", "from_aid", "sender_aid", "owner_aid"] {
        for (aid, expected) in
            [(SERVICE, None), (AGENT, refused("actor")), ("alice.ours.example", refused("actor"))]
        {
            let relay = relay_by("service", SERVICE, SYNC, json!({ actor: aid }));
            assert_eq!(link.refusal(&relay), expected, "{relay}");
        }
    }
    for aid in ["bobb.theirs.example", "dave.third.example", ""] {
        let relay = relay_by("service", SERVICE, SHARED, json!({ "to": aid }));
        assert_eq!(link.refusal(&relay), refused("target"), "{relay}");
    }
}

#[tokio::test]
async fn each_refusal_has_its_reason() {
    let link = InboundLink::open(TwoDomains::new().await).await;
    for (change, reason) in [
        (json!({ "hop": 0 }), "hop"),
        (json!({ "hop": 2 }), "hop"),
        (json!({ "depth": 3 }), "depth"),
        (json!({ "depth": 4_000_000_000_u64 }), "depth"),
        (json!({ "relay_id": "" }), "relay_id"),
        (json!({ "relay_id": "with space" }), "relay_id"),
        (json!({ "relay_id": "x".repeat(65) }), "relay_id"),
        (json!({ "params": { "to": "x".repeat(2 << 20) } }), "oversize"),
        (json!({ "namespace": "auth", "method": "connect" }), "namespace"),
        (json!({ "namespace": "message.thought", "method": "put" }), "namespace"),
        (json!({ "namespace": "" }), "namespace"),
        (json!({ "method": "pull" }), "method"),
        (json!({ "method": "" }), "method"),
        (json!({ "caller": null }), "caller"),
        (json!({ "caller": { "type": "aid", "aid": "no" } }), "caller"),
        (json!({ "caller": { "type": "aid", "aid": "bobb.third.example" } }), "caller_issuer"),
        (json!({ "caller": { "type": "aid", "aid": "alice.ours.example" } }), "caller_issuer"),
        (json!({ "params": { "to": "alice.ours.example", "from": "carl.theirs.example" } }), "actor"),
        (json!({ "params": { "to": "dave.third.example" } }), "target"),
        (json!({ "params": { "to": ["alice.ours.example", "dave.third.example"] } }), "target"),
        (json!({ "params": {} }), "target"),
        (json!({ "params": [] }), "params"),
        (json!({ "params": null }), "params"),
        (json!({ "params": { "to": 7 } }), "params"),
    ] {
        let relay = with(relay_by("aid", AGENT, "send", to_alice()), change.clone());
        assert_eq!(
            link.refusal(&relay),
            refused(reason),
            "{}",
            change.to_string().get(..80).unwrap_or_default()
        );
    }
    assert!(link.service.calls.lock().is_empty(), "nothing got to a service");
}

#[tokio::test]
async fn services_and_agents_have_rates_of_their_own() {
    let domains = TwoDomains::with(|config| config.federation.relays_per_agent = 2).await;
    let link = InboundLink::open(domains).await;
    let sync = || relay_by("service", SERVICE, SYNC, json!({}));
    let outcomes: Vec<_> = (0..3).map(|_| link.refusal(&sync())).collect();
    assert_eq!(outcomes, [None, None, Some((-32029, "rate".to_owned()))]);
    for relay in [
        relay_by("service", "auth.theirs.example", SYNC, json!({})),
        relay_by("aid", AGENT, "send", to_alice()),
    ] {
        assert_eq!(link.refusal(&relay), None, "{relay}");
    }
}

#[tokio::test]
async fn a_namespace_that_the_operator_left_out_does_not_cross() {
    let domains = TwoDomains::with(|config| config.federation.namespaces.clear()).await;
    let link = InboundLink::open(domains).await;
    assert_eq!(link.refusal(&relay_by("aid", AGENT, "send", to_alice())), refused("namespace"));
}
