//! Relays that lead to relays: how deep they are is counted by the gateway, whatever a service asks for.

use super::link::code_and_reason;
use super::support::inbound_link::{InboundLink, relay_by, with};
use super::support::test_methods::{SHARED, SYNC};
use super::support::two_domains::{THEIRS, TwoDomains};
use kernel::{Caller, Forwarder, RpcError, forward_for_service, forwarded_result};
use proto_schemas::requests::gateway::{ForwardFederation, ForwardFederationBatch};
use serde_json::{Value, json};

/// A link on which a relay of this depth is being answered, and the caller that its handler has.
async fn answering(depth: u64) -> (InboundLink, Caller) {
    let link = InboundLink::open(TwoDomains::new().await).await;
    let relay = relay_by("service", "message.theirs.example", SYNC, json!({}));
    link.relay(&with(relay, json!({ "depth": depth }))).unwrap();
    let caller = link.last_caller();
    (link, caller)
}

fn sync() -> ForwardFederation {
    forward_for_service(THEIRS, &format!("message.{SYNC}"), &json!({})).unwrap()
}

/// The relay that the other gateway gets for a call, which it answers.
async fn sent(link: &InboundLink, calling: impl Future<Output = Result<Value, RpcError>>) -> Value {
    let theirs = async {
        let mut accepted = link.domains.accepted_link().await;
        let frame = accepted.next().await.unwrap();
        accepted.answer(&frame).await;
        (accepted, frame["params"].clone())
    };
    let (answer, (_accepted, relay)) = tokio::join!(calling, theirs);
    answer.unwrap();
    relay
}

#[tokio::test]
async fn a_relay_that_another_one_led_to_is_one_deeper() {
    for depth in [0, 1] {
        let (link, caller) = answering(depth).await;
        let fed = link.domains.fed.clone();
        // In one process with the gateway, and over the mesh.
        fed.mesh.set_forwarder(fed.clone());
        let calling = async { fed.mesh.forward("message", &caller, sync()).await.map(|_| Value::Null) };
        let relay = sent(&link, calling).await;
        assert_eq!(relay["depth"], depth + 1, "{relay}");

        let (link, caller) = answering(depth).await;
        let fed = link.domains.fed.clone();
        fed.mesh.add_local("gateway", fed.methods());
        let calling = async { fed.mesh.forward("message", &caller, sync()).await.map(|_| Value::Null) };
        let relay = sent(&link, calling).await;
        assert_eq!(relay["depth"], depth + 1, "{relay}");
        let service =
            json!({ "type": "service", "aid": "message.ours.example", "device_id": "", "slot_id": "" });
        assert_eq!(relay["caller"], service);
    }
}

#[tokio::test]
async fn relays_do_not_lead_to_relays_without_end() {
    let (link, caller) = answering(2).await;
    let fed = link.domains.fed.clone();
    fed.mesh.add_local("gateway", fed.methods());
    let error = fed.mesh.forward("message", &caller, sync()).await.unwrap_err();
    assert_eq!(code_and_reason(&error), (-32012, "depth"));
    let batch = ForwardFederationBatch {
        target_issuer: Some(THEIRS.to_owned()),
        target_aid: None,
        items: vec![ForwardFederation { target_issuer: None, ..sync() }],
        timeout_ms: None,
    };
    let answered = fed.mesh.forward_batch("message", &caller, &batch).await.unwrap();
    let error = forwarded_result(answered.results.into_iter().next().unwrap()).unwrap_err();
    assert_eq!(code_and_reason(&error), (-32012, "depth"));
    assert!(link.domains.peers().list().is_empty(), "nothing was sent");
}

#[tokio::test]
async fn a_relay_leads_to_calls_in_the_name_of_the_service_only() {
    let (link, caller) = answering(0).await;
    let of_agent: ForwardFederation = serde_json::from_value(json!({
        "target_issuer": THEIRS, "namespace": "message", "method": SHARED, "params": { "to": "bobb.theirs.example" },
        "caller_aid": "alice.ours.example",
    }))
    .unwrap();
    let asked = Caller::service_in_call("message", &caller);
    let error = link.domains.fed.clone().forward(&asked, of_agent.clone()).await.unwrap_err();
    assert_eq!(code_and_reason(&error), (-32012, "as_service"));

    // What no relay led to may be in the name of an agent.
    let fed = link.domains.fed.clone();
    let calling = async { fed.forward(&Caller::service("message"), of_agent).await.map(|_| Value::Null) };
    let relay = sent(&link, calling).await;
    assert_eq!((&relay["depth"], &relay["caller"]["aid"]), (&json!(0), &json!("alice.ours.example")));
}
