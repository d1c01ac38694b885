//! Events that our services dispatch: to whom, how often, and which of them cross.

use super::events::{ALICE, published};
use super::support::two_domains::{THEIRS, TwoDomains};
use kernel::{Aid, Audience, Caller, Delivery, DeviceId, PresentSession, Relayed, SlotId};
use parking_lot::Mutex;
use proto_schemas::requests::gateway::DispatchEvent;
use serde_json::{Value, json};
use std::sync::Arc;

async fn dispatch(
    domains: &TwoDomains,
    caller: Caller,
    event: &str,
    aids: &[&str],
) -> Result<Value, (i32, String)> {
    let dispatched = dispatch_to(domains, caller, event, "e-1", json!({ "aids": aids })).await?;
    Ok(dispatched["federated"].clone())
}

async fn dispatch_to(
    domains: &TwoDomains,
    caller: Caller,
    event: &str,
    event_id: &str,
    targets: Value,
) -> Result<Value, (i32, String)> {
    let notice: DispatchEvent = serde_json::from_value(json!({
        "event_id": event_id, "event": event, "targets": targets, "payload": { "to": ALICE, "_route": {} },
    }))
    .unwrap();
    match domains.fed.clone().dispatch_event(caller, notice).await {
        Ok(dispatched) => Ok(serde_json::to_value(dispatched).unwrap()),
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
    connect(&domains, 7, "phone");
    let to_alice = json!({ "aids": [ALICE] });
    let outcome = dispatch_to(&domains, message(), "message.received", "e-0", to_alice).await;
    let outcome = outcome.map(|dispatched| dispatched["federated"].clone());
    assert_eq!(outcome, Ok(json!({})), "what does not cross may be for our own agents");
    let outcome = dispatch(&domains, message(), "message.ack", &both).await;
    assert_eq!(outcome, Ok(json!({ THEIRS: "queued" })));
    let names: Vec<String> = heard.lock().iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names, ["event/message.received", "event/message.ack"]);
    let frame = domains.accepted_link().await.next().await.unwrap();
    assert_eq!((&frame["params"]["event"], &frame["params"]["depth"]), (&json!("message.ack"), &json!(0)));
}

/// Alice has a long connection.
fn connect(domains: &TwoDomains, connection: u64, device: &str) {
    let session = PresentSession {
        connection,
        device: DeviceId::parse(device).unwrap(),
        slot: SlotId::default(),
        address: [127, 0, 0, 1].into(),
        delivery: Delivery::default(),
    };
    domains.fed.presence.arrive(&Aid::parse(ALICE).unwrap(), session);
}

#[tokio::test]
async fn a_service_learns_whom_its_event_is_for() {
    let domains = TwoDomains::new().await;
    let heard = Arc::<Mutex<Vec<(Audience, Value)>>>::default();
    let hears = heard.clone();
    domains.fed.bus.listen(move |event| {
        hears.lock().push((event.to.clone(), serde_json::from_str(event.params.get()).unwrap()));
    });
    for (connection, device) in [(7, "phone"), (8, "phone"), (9, "laptop")] {
        connect(&domains, connection, device);
    }
    let alice = Aid::parse(ALICE).unwrap();
    let to = |connection: u64| Audience::Connection { aid: alice.clone(), connection };
    let id = |number: u64| format!("conn_gateway-client-{number}");
    let (all, carol) = (Audience::Agent(alice.clone()), "carol.ours.example");
    for (n, (targets, audiences, delivered, devices, dropped)) in [
        (json!({ "aids": [ALICE] }), vec![all.clone()], 3, vec!["phone", "laptop"], 0),
        (json!({ "aids": [ALICE], "connection_ids": [id(9)] }), vec![to(9)], 1, vec!["laptop"], 0),
        (
            json!({ "aids": [ALICE], "connection_ids": [id(7), id(8), id(1)] }),
            vec![to(7), to(8)],
            2,
            vec!["phone"],
            0,
        ),
        (json!({ "aids": [ALICE], "connection_ids": [id(1)] }), vec![], 0, vec![], 1),
        (json!({ "aids": [ALICE], "connection_ids": [] }), vec![], 0, vec![], 1),
        // Ids narrow: they add nobody's connection to those of the agents.
        (json!({ "aids": [], "connection_ids": [id(7)] }), vec![], 0, vec![], 0),
        (json!({ "aids": [carol], "connection_ids": [id(7)] }), vec![], 0, vec![], 1),
    ]
    .into_iter()
    .enumerate()
    {
        heard.lock().clear();
        let caller = Caller::service("message");
        let outcome = dispatch_to(&domains, caller, "message.ack", &n.to_string(), targets.clone()).await;
        let told = json!({
            "delivered": delivered, "delivered_devices": devices, "dropped": dropped, "federated": {}, "duplicate": false,
        });
        assert_eq!(outcome, Ok(told), "{targets}");
        // A client gets nothing that is between services and gateways.
        let expected: Vec<_> = audiences.into_iter().map(|to| (to, json!({ "to": ALICE }))).collect();
        assert_eq!(*heard.lock(), expected, "{targets}");
    }
    // An event of devices is not for all connections of an agent together, and reaches each of them.
    heard.lock().clear();
    let (caller, targets) = (Caller::service("message"), json!({ "aids": [ALICE] }));
    dispatch_to(&domains, caller, "message.received", "device", targets).await.unwrap();
    let audiences: Vec<Audience> = heard.lock().iter().map(|(to, _)| to.clone()).collect();
    assert_eq!(audiences, [to(7), to(8), to(9)]);
    let too_long = "e".repeat(257);
    for (event_id, targets, path) in [
        ("e", json!({ "aids": [ALICE], "connection_ids": ["7"] }), "/targets/connection_ids"),
        ("", json!({ "aids": [ALICE] }), "/event_id"),
        (too_long.as_str(), json!({ "aids": [ALICE] }), "/event_id"),
    ] {
        let notice =
            json!({ "event_id": event_id, "event": "message.ack", "targets": targets, "payload": {} });
        let notice = serde_json::from_value(notice).unwrap();
        let error =
            domains.fed.clone().dispatch_event(Caller::service("message"), notice).await.err().unwrap();
        let found = error.data("violations").map(|all| &all[0]["path"]);
        assert_eq!((error.code(), found), (-32602, Some(&json!(path))), "{error}");
    }
}

#[tokio::test]
async fn an_event_is_dispatched_once() {
    let domains = TwoDomains::new().await;
    let heard = published(&domains);
    let message = || Caller::service("message");
    let alice = || json!({ "aids": [ALICE] });
    let dispatch = async |event_id: &str, targets: Value| {
        dispatch_to(&domains, message(), "message.ack", event_id, targets).await.unwrap()
    };
    // Nobody was there, so the same event may come again.
    assert_eq!(dispatch("e-1", alice()).await["dropped"], 1);
    connect(&domains, 7, "phone");
    assert_eq!(dispatch("e-1", alice()).await["delivered"], 1);
    heard.lock().clear();
    let again = dispatch("e-1", alice()).await;
    assert_eq!((&again["duplicate"], &again["delivered"]), (&json!(true), &json!(0)), "{again}");
    assert!(heard.lock().is_empty());
    assert_eq!(dispatch("e-2", alice()).await["duplicate"], false, "another event");
    // Connections are those of our agents: nothing is relayed for some of them.
    let some = json!({ "aids": ["bobb.theirs.example"], "connection_ids": ["conn_gateway-client-7"] });
    assert_eq!(dispatch("e-3", some).await["federated"], json!({ THEIRS: "dropped" }));
    let theirs = || json!({ "aids": ["bobb.theirs.example"] });
    assert_eq!(dispatch("e-3", theirs()).await["federated"], json!({ THEIRS: "queued" }));
    assert_eq!(dispatch("e-3", theirs()).await["duplicate"], true);
}

#[tokio::test]
async fn an_event_that_relays_led_to_goes_no_further_than_a_call() {
    let domains = TwoDomains::new().await;
    let heard = published(&domains);
    let caller = |depth| {
        let relayed = Relayed { from_issuer: THEIRS.to_owned(), relay_id: "r-1".to_owned(), depth };
        let foreign = Caller::ForeignService { service: "message".to_owned(), relayed };
        Caller::service_in_call("message", &foreign)
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
