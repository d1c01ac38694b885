//! From the bus to sessions: what services announce reaches the connections it is for, and the door itself.

use crate::door::Door;
use crate::frame;
use crate::gap;
use crate::order;
use crate::session::disconnect;
use serde::Deserialize;
use serde_json::json;
use services::kernel::{Aid, Audience, Bus, Event};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Listens for as long as the door stands: to what services announce, and to what other gateways do.
pub fn listen(door: &Arc<Door>, bus: &Bus) {
    let heard = Arc::downgrade(door);
    bus.listen(move |event| {
        let Some(door) = heard.upgrade() else { return };
        match event.to {
            Audience::Doors => for_the_door(&door, event),
            // One process rings in order by itself.
            _ if !door.bus.is_wide() => deliver(&door, event),
            _ => order::ring(&door, event),
        }
    });
    let arrived = Arc::downgrade(door);
    door.presence.on_arrival_elsewhere(move |aid| {
        if let Some(door) = arrived.upgrade() {
            door.registry.settle(aid);
        }
    });
    gap::listen(door, bus);
}

/// Puts one frame, written once, into every outbox it is for.
pub fn deliver(door: &Door, event: &Event) {
    let audience = door.registry.audience(&event.to);
    if audience.is_empty() {
        return;
    }
    let frame = Utf8Bytes::from(frame::notification(&event.method, event.params.get()));
    for link in audience {
        link.outbox.push(frame.clone());
        door.metrics.events.inc();
    }
}

/// Reading the list takes a call, which a listener must not wait for.
fn trust_changed(door: &Door) {
    if let Some(federation) = door.federation().cloned() {
        door.tracker.spawn(async move { federation.trust_changed().await });
    }
}

fn for_the_door(door: &Door, event: &Event) {
    if event.method == "ca.trust_changed" {
        return trust_changed(door);
    }
    #[derive(Deserialize)]
    struct About {
        aid: Aid,
    }
    let Ok(About { aid }) = serde_json::from_str(event.params.get()) else { return };
    match event.method.as_str() {
        "ca.cert_revoked" => certificate_revoked(door, &aid),
        "ca.cert_replaced" => certificate_replaced(door, &aid),
        _ => {}
    }
}

pub fn certificate_revoked(door: &Door, aid: &Aid) {
    for link in door.registry.of_agent(aid) {
        link.outbox.close(disconnect(4001, "certificate_revoked", &json!({ "aid": aid })));
    }
}

/// The next signed call asks for the current certificate.
pub fn certificate_replaced(door: &Door, aid: &Aid) {
    for link in door.registry.of_agent(aid) {
        if let Some(bound) = link.bound() {
            bound.signer.forget();
        }
    }
}

/// Looks at which namespaces answer, and tells the connections that asked what changed.
pub fn refresh_capabilities(door: &Door) {
    let Some(change) = door.refresh_capabilities() else { return };
    let frame = Utf8Bytes::from(frame::notification("event/meta.capabilities_changed", &change.to_string()));
    for link in door.registry.all() {
        if link.wants_capabilities.load(Ordering::Relaxed) {
            link.outbox.push(frame.clone());
        }
    }
}
