//! Events from another domain: which of them cross, and for whom.

use super::support::inbound_link::{InboundLink, with};
use super::support::two_domains::TwoDomains;
use crate::delivery::APP_EVENT_BYTES;
use bytes::Bytes;
use kernel::Audience;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

pub const ALICE: &str = "alice.ours.example";

fn event(name: &str, payload: Value) -> Value {
    json!({
        "relay_id": "e-1", "kind": "event", "event": name, "event_id": "e-1", "hop": 1,
        "targets": { "aids": [ALICE, "bobb.theirs.example", "no aid"] }, "payload": payload,
    })
}

/// Whom of our agents an event is published to, from now on.
pub fn published(domains: &TwoDomains) -> Arc<Mutex<Vec<(String, String)>>> {
    let heard = Arc::<Mutex<Vec<(String, String)>>>::default();
    let hears = heard.clone();
    domains.fed.bus.listen(move |event| match &event.to {
        Audience::Agent(aid) | Audience::Instance { aid, .. } | Audience::Connection { aid, .. } => {
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
async fn an_event_is_as_large_as_one_of_our_own_agents_may_be() {
    let link = InboundLink::open(TwoDomains::new().await).await;
    let heard = published(&link.domains);
    let of = |bytes: usize| {
        let notify =
            json!({ "from_aid": "bobb.theirs.example", "device_id": "d", "slot_id": "s", "ttl_ms": 5000 });
        event("app.typing", json!({ "text": "x".repeat(bytes), "_notify": notify }))
    };
    assert_eq!(link.refusal(&of(APP_EVENT_BYTES - 32)), None, "with what its gateway adds");
    assert_eq!(heard.lock().len(), 1);
    assert_eq!(link.refusal(&of(APP_EVENT_BYTES + 1024)), Some((-32012, "oversize".to_owned())));
    assert_eq!(heard.lock().len(), 1);
}

#[tokio::test]
async fn an_event_for_many_is_written_once() {
    let link = InboundLink::open(TwoDomains::new().await).await;
    let frames = Arc::<Mutex<Vec<(String, usize)>>>::default();
    let written = frames.clone();
    link.domains.fed.bus.listen(move |event| {
        let Audience::Instance { aid, .. } = &event.to else { return };
        // As the delivery does it.
        let frame = event.frame.get_or_init(|| Bytes::from(event.params.get().to_owned()));
        written.lock().push((aid.to_string(), frame.as_ptr().addr()));
    });
    let many = json!({ "aids": [ALICE, "carol.ours.example", ALICE, "dave.ours.example"] });
    let payload = json!({ "_notify": { "from_aid": "bobb.theirs.example" } });
    assert_eq!(link.refusal(&with(event("app.typing", payload), json!({ "targets": many }))), None);
    let frames = frames.lock();
    let told: BTreeSet<&str> = frames.iter().map(|(aid, _)| aid.as_str()).collect();
    assert_eq!((told.len(), frames.len()), (3, 3), "each of them once: {frames:?}");
    assert!(frames.iter().all(|(_, at)| *at == frames[0].1), "all hold the same bytes: {frames:?}");
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
