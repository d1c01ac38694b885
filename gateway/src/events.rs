//! From the bus to sessions: what services announce reaches the connections it is for, and the gateway itself.

use crate::event_order;
use crate::frame;
use crate::gateway::Gateway;
use crate::resync;
use crate::session::disconnect;
use serde::Deserialize;
use serde_json::json;
use services::kernel::{Aid, Audience, Bus, Event};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Listens for as long as the gateway stands: to what services announce, and to what other gateways do.
pub fn listen(gateway: &Arc<Gateway>, bus: &Bus) {
    let heard = Arc::downgrade(gateway);
    bus.listen(move |event| {
        let Some(gateway) = heard.upgrade() else { return };
        match event.to {
            Audience::Gateways => for_the_gateway(&gateway, event),
            // One process rings in order by itself.
            _ if !gateway.bus.is_wide() => deliver(&gateway, event),
            _ => event_order::ring(&gateway, event),
        }
    });
    let arrived = Arc::downgrade(gateway);
    gateway.presence.on_arrival_elsewhere(move |aid| {
        if let Some(gateway) = arrived.upgrade() {
            gateway.registry.settle(aid);
        }
    });
    resync::listen(gateway, bus);
}

/// Puts one frame, written once, into every outbox it is for.
pub fn deliver(gateway: &Gateway, event: &Event) {
    let audience = gateway.registry.audience(&event.to);
    if audience.is_empty() {
        return;
    }
    let frame = Utf8Bytes::from(frame::notification(&event.method, event.params.get()));
    for link in audience {
        link.outbox.push(frame.clone());
        gateway.metrics.events.inc();
    }
}

/// Reading the list takes a call, which a listener must not wait for.
fn trust_changed(gateway: &Gateway) {
    if let Some(federation) = gateway.federation().cloned() {
        gateway.tracker.spawn(async move { federation.trust_changed().await });
    }
}

fn for_the_gateway(gateway: &Gateway, event: &Event) {
    if event.method == "ca.trust_changed" {
        return trust_changed(gateway);
    }
    #[derive(Deserialize)]
    struct About {
        aid: Aid,
    }
    let Ok(About { aid }) = serde_json::from_str(event.params.get()) else { return };
    match event.method.as_str() {
        "ca.cert_revoked" => certificate_revoked(gateway, &aid),
        "ca.cert_replaced" => certificate_replaced(gateway, &aid),
        _ => {}
    }
}

pub fn certificate_revoked(gateway: &Gateway, aid: &Aid) {
    for link in gateway.registry.of_agent(aid) {
        link.outbox.close(disconnect(4001, "certificate_revoked", &json!({ "aid": aid })));
    }
}

/// The next signed call asks for the current certificate.
pub fn certificate_replaced(gateway: &Gateway, aid: &Aid) {
    for link in gateway.registry.of_agent(aid) {
        if let Some(bound) = link.bound() {
            bound.signer.forget();
        }
    }
}

/// Looks at which namespaces answer, and tells the connections that asked what changed.
pub fn refresh_capabilities(gateway: &Gateway) {
    let Some(change) = gateway.refresh_capabilities() else { return };
    let frame = Utf8Bytes::from(frame::notification("event/meta.capabilities_changed", &change.to_string()));
    for link in gateway.registry.all() {
        if link.wants_capabilities.load(Ordering::Relaxed) {
            link.outbox.push(frame.clone());
        }
    }
}
