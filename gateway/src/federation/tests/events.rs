//! Events from another domain and to it: which of them cross, and for whom.

use super::inbound_link::{InboundLink, with};
use super::two_domains::{THEIRS, TwoDomains};
use parking_lot::Mutex;
use serde_json::{Value, json};
use services::kernel::{Aid, Audience, Caller, DispatchEvent, Relayed};
use std::sync::Arc;

const ALICE: &str = "alice.ours.example";

fn event(name: &str, payload: Value) -> Value {
    json!({
        "relay_id": "e-1", "kind": "event", "event": name, "event_id": "e-1", "hop": 1,
        "targets": { "aids": [ALICE, "bobb.theirs.example", "no aid"] }, "payload": payload,
    })
}

/// Whom of our agents an event is published to, from now on.
fn published(domains: &TwoDomains) -> Arc<Mutex<Vec<(String, String)>>> {
    let heard = Arc::<Mutex<Vec<(String, String)>>>::default();
    let hears = heard.clone();
    domains.fed.bus.listen(move |event| match &event.to {
        Audience::Agent(aid) | Audience::Instance { aid, .. } => {
            hears.lock().push((event.method.clone(), aid.to_string()));
        }
        _ => {}
    });
    heard
}

#[tokio::test]
async fn an_event_crosses_as_its_schema_says() {
    let link = InboundLink::open(TwoDomains::new().await).await;
    let heard = published(&link.domains);
    let crossing = proto_schemas::events().iter().filter_map(|schema| Some((schema, schema.federation?)));
    for (schema, rule) in crossing {
        let name = schema.name.strip_prefix("event/").unwrap();
        let about = |aid: &str| event(name, json!({ rule.about: aid, "more": { rule.about: ALICE } }));
        heard.lock().clear();
        assert_eq!(link.refusal(&about("bobb.theirs.example")), None, "{name}");
        // Nobody of ours is the owner of something at another domain.
        let expected =
            if rule.owner_only { vec![] } else { vec![(schema.name.to_owned(), ALICE.to_owned())] };
        assert_eq!(*heard.lock(), expected, "{name}");
        for (aid, reason) in
            [(ALICE, "event_issuer"), ("dave.third.example", "event_issuer"), ("no", "payload")]
        {
            assert_eq!(link.refusal(&about(aid)), Some((-32012, reason.to_owned())), "{name} about {aid}");
        }
        let unnamed = link.refusal(&event(name, json!({ "other": "bobb.theirs.example" })));
        assert_eq!(unnamed, Some((-32012, "payload".to_owned())), "{name}");
    }
}

#[tokio::test]
async fn an_event_of_agents_says_who_sent_it() {
    let link = InboundLink::open(TwoDomains::new().await).await;
    let heard = published(&link.domains);
    let theirs = json!({ "_notify": { "from_aid": "bobb.theirs.example" }, "_route": {} });
    assert_eq!(link.refusal(&event("app.typing", theirs)), None);
    assert_eq!(*heard.lock(), [("event/app.typing".to_owned(), ALICE.to_owned())]);
    for (payload, reason) in [
        (json!({ "_notify": { "from_aid": ALICE } }), "event_issuer"),
        (json!({ "_notify": {} }), "payload"),
        (json!({ "_notify": 7 }), "payload"),
        (json!({ "from_aid": "bobb.theirs.example" }), "payload"),
        (json!([]), "payload"),
    ] {
        assert_eq!(
            link.refusal(&event("app.typing", payload.clone())),
            Some((-32012, reason.to_owned())),
            "{payload}"
        );
    }
}

#[tokio::test]
async fn what_does_not_cross_is_refused() {
    let link = InboundLink::open(TwoDomains::new().await).await;
    let heard = published(&link.domains);
    let local = proto_schemas::events().iter().filter(|schema| schema.federation.is_none());
    let names = local.filter_map(|schema| schema.name.strip_prefix("event/"));
    let payload = json!({ "to": "bobb.theirs.example", "_notify": { "from_aid": "bobb.theirs.example" } });
    for name in names.chain(["", "app", "app.", "nothing.at_all", "push.offline_message"]) {
        assert_eq!(link.refusal(&event(name, payload.clone())), Some((-32012, "event".to_owned())), "{name}");
    }
    let ack = event("message.ack", payload.clone());
    for (change, reason) in [
        (json!({ "depth": 3 }), "depth"),
        (json!({ "hop": 2 }), "hop"),
        (json!({ "targets": null }), "event"),
        (json!({ "targets": { "aids": vec![ALICE; 1001] } }), "targets"),
        (json!({ "targets": { "aids": [ALICE], "device_id": "no/device" } }), "targets"),
    ] {
        let changed = with(ack.clone(), change);
        assert_eq!(link.refusal(&changed), Some((-32012, reason.to_owned())));
    }
    assert!(heard.lock().is_empty(), "{:?}", heard.lock());
    let domains = TwoDomains::with(|config| config.federation.namespaces.clear()).await;
    let link = InboundLink::open(domains).await;
    assert_eq!(link.refusal(&ack), Some((-32012, "namespace".to_owned())));
}

async fn dispatch(
    domains: &TwoDomains,
    caller: Caller,
    event: &str,
    aids: &[&str],
) -> Result<Value, (i32, String)> {
    let notice: DispatchEvent = serde_json::from_value(json!({
        "event_id": "e-1", "event": event, "targets": { "aids": aids }, "payload": { "to": ALICE },
    }))
    .unwrap();
    match domains.fed.clone().dispatch_event(caller, notice).await {
        Ok(dispatched) => Ok(serde_json::to_value(dispatched).unwrap()["federated"].clone()),
        Err(error) => {
            let reason = error.data("reason").and_then(Value::as_str).unwrap_or_default();
            Err((error.code(), reason.to_owned()))
        }
    }
}

#[tokio::test]
async fn a_service_relays_the_events_of_its_namespaces_that_cross() {
    let domains = TwoDomains::new().await;
    let heard = published(&domains);
    let refused = Err((-32012, "event".to_owned()));
    let both = [ALICE, "bobb.theirs.example"];
    for (service, event, aids) in [
        ("auth", "message.ack", &both[..]),
        ("message", "gateway.disconnect", &both),
        ("message", "message.nothing", &both),
        ("message", "app.typing", &both),
        ("message", "message.received", &both),
    ] {
        let outcome = dispatch(&domains, Caller::service(service), event, aids).await;
        assert_eq!(outcome, refused, "{service} {event}");
    }
    assert_eq!(
        dispatch(&domains, Caller::Operator, "message.ack", &both).await,
        Err((-32004, String::new()))
    );
    assert!(heard.lock().is_empty());

    let message = || Caller::service("message");
    let outcome = dispatch(&domains, message(), "message.received", &[ALICE]).await;
    assert_eq!(outcome, Ok(json!({})), "what does not cross may be for our own agents");
    let outcome = dispatch(&domains, message(), "message.ack", &both).await;
    assert_eq!(outcome, Ok(json!({ THEIRS: "queued" })));
    let names: Vec<String> = heard.lock().iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names, ["event/message.received", "event/message.ack"]);
    let frame = domains.accepted_link().await.next().await.unwrap();
    assert_eq!((&frame["params"]["event"], &frame["params"]["depth"]), (&json!("message.ack"), &json!(0)));
}

#[tokio::test]
async fn an_event_that_relays_led_to_goes_no_further_than_a_call() {
    let domains = TwoDomains::new().await;
    let heard = published(&domains);
    let caller = |depth| {
        let relayed = Relayed { from_issuer: THEIRS.to_owned(), relay_id: "r-1".to_owned(), depth };
        let foreign = Caller::ForeignService { service: "message".to_owned(), relayed };
        Caller::service_because_of("message", &foreign)
    };
    let both = [ALICE, "bobb.theirs.example"];
    assert_eq!(dispatch(&domains, caller(2), "message.ack", &both).await, Ok(json!({ THEIRS: "dropped" })));
    assert_eq!(heard.lock().len(), 1, "our own agents get it all the same");
    assert_eq!(dispatch(&domains, caller(1), "message.ack", &both).await, Ok(json!({ THEIRS: "queued" })));
    let frame = domains.accepted_link().await.next().await.unwrap();
    assert_eq!(frame["params"]["depth"], 2);

    let domains = TwoDomains::with(|config| config.federation.namespaces.clear()).await;
    let aid = Aid::parse("bobb.theirs.example").unwrap();
    let outcome = dispatch(&domains, Caller::service("message"), "message.ack", &[aid.as_str()]).await;
    assert_eq!(outcome, Ok(json!({ THEIRS: "dropped" })));
}
