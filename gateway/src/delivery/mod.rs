//! Events out, in order: from the bus to the outboxes of the sessions they are for, and to the gateway itself.

mod event_order;
mod resync;
pub mod session_notices;

use crate::connection::{CloseReason, SeriesNumber, Sessions};
use crate::frame;
use crate::telemetry::Metrics;
use bytes::Bytes;
use event_order::EventOrder;
use kernel::{Aid, Audience, Bus, BusStats, DeviceId, Event, Mesh, Subscription, World};
use proto_schemas::requests::auth::TokensRevoked;
use proto_schemas::requests::ca::{CertReplaced, CertRevoked};
use proto_schemas::{EventAudience, EventSchema};
use resync::Resync;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::cell::LazyCell;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub struct EventDelivery {
    sessions: Arc<Sessions>,
    bus: Bus,
    mesh: Arc<Mesh>,
    metrics: Arc<Metrics>,
    order: EventOrder,
    resync: Resync,
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl EventDelivery {
    pub fn new(
        world: &World,
        sessions: Arc<Sessions>,
        metrics: Arc<Metrics>,
        tracker: TaskTracker,
    ) -> EventDelivery {
        EventDelivery {
            sessions,
            bus: world.bus.clone(),
            mesh: world.mesh.clone(),
            metrics,
            order: EventOrder::default(),
            resync: Resync::default(),
            tracker,
            stop: world.stop.clone(),
        }
    }

    /// Delivers what services and other gateways publish, for as long as the gateway runs.
    pub fn listen(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.bus.listen(move |event| {
            let Some(delivery) = weak.upgrade() else { return };
            let schema = proto_schemas::find_event(&event.method);
            let only_newest = schema.and_then(|schema| schema.order).is_some_and(|order| !order.dense);
            match event.to {
                Audience::Gateways => delivery.for_the_gateway(event),
                _ if !is_declared(schema, event) => {
                    tracing::error!("{} is not delivered: its schema has no such audience", event.method);
                }
                // Two calls that end at the same moment may publish in the wrong order even in one process, which a dense
                // series takes from one commit after the other.
                _ if delivery.bus.is_wide() || only_newest => delivery.deliver_in_order(event),
                _ => delivery.deliver(event),
            }
        });
        resync::listen(self);
    }

    /// Has the events of an agent come to this process, until the answer is dropped.
    pub async fn subscribe(&self, aid: &Aid) -> Subscription {
        self.bus.subscribe(aid).await
    }

    pub fn publish(&self, event: &Event) {
        self.bus.publish(event);
    }

    /// Puts one frame, written once, into every outbox it is for; the frame of an event that is published again is the same one.
    fn deliver(&self, event: &Event) {
        let audience = self.sessions.audience(&event.to);
        if audience.is_empty() {
            return;
        }
        let written =
            event.frame.get_or_init(|| Bytes::from(frame::notification(&event.method, event.params.get())));
        // It was written as text, so this never fails.
        let Ok(frame) = Utf8Bytes::try_from(written.clone()) else { return };
        // Read only where it counts: most events are for clients that are never reminded.
        let number = LazyCell::new(|| series_number(&event.method, &event.params));
        for connection in audience {
            let number = if connection.may_be_reminded() { *number } else { None };
            if connection.push_event(frame.clone(), number) {
                self.metrics.events.inc();
            }
        }
    }

    /// Delivers at once what nothing orders or what is next, and the others after those before them.
    fn deliver_in_order(self: &Arc<Self>, event: &Event) {
        let Some(held) = self.order.add(event, |event| self.deliver(event)) else { return };
        let delivery = self.clone();
        self.tracker.spawn(async move {
            tokio::time::sleep(event_order::GAP_TIMEOUT).await;
            delivery.order.give_up(&held, |event| delivery.deliver(event));
        });
    }

    /// A new session of a device may begin at any seq.
    pub fn begin(&self, aid: &Aid, device: &DeviceId) {
        self.order.begin(aid, device, |event| self.deliver(event));
    }

    /// Drops what is known of the order of events for agents that are not here any more.
    pub fn forget_absent(&self) {
        self.order.keep(|aid| !self.sessions.of_agent(aid).is_empty());
    }

    /// Agents that may have missed events: every one of their devices is notified to pull.
    pub fn missed(&self, aids: impl IntoIterator<Item = Aid>) {
        self.resync.missed(aids);
    }

    /// The same for all that are connected here.
    pub fn all_missed(&self) {
        self.missed(self.sessions.agents());
    }

    /// Sends what was added and removed to the connections that subscribed to it.
    pub fn capabilities_changed(&self, change: &Value) {
        let frame =
            Utf8Bytes::from(frame::notification("event/meta.capabilities_changed", &change.to_string()));
        for connection in self.sessions.all() {
            if connection.wants_capabilities.load(Ordering::Relaxed) {
                connection.outbox.push(frame.clone());
            }
        }
    }

    pub fn bus_stats(&self) -> BusStats {
        self.bus.stats().unwrap_or_default()
    }

    fn for_the_gateway(&self, event: &Event) {
        if let Some(CertRevoked { aid }) = event.as_signal() {
            Aid::parse(&aid).into_iter().for_each(|aid| self.certificate_revoked(&aid));
        } else if let Some(CertReplaced { aid }) = event.as_signal() {
            Aid::parse(&aid).into_iter().for_each(|aid| self.certificate_replaced(&aid));
        } else if let Some(TokensRevoked { aid, revoked_at }) = event.as_signal() {
            Aid::parse(&aid).into_iter().for_each(|aid| self.sessions.tokens_revoked(&aid, revoked_at));
        }
    }

    fn certificate_revoked(&self, aid: &Aid) {
        for connection in self.sessions.of_agent(aid) {
            let reason = CloseReason::disconnect(4001, "certificate_revoked", &json!({ "aid": aid }));
            connection.outbox.close(reason);
        }
    }

    /// The next signed call asks for the current certificate.
    fn certificate_replaced(&self, aid: &Aid) {
        for connection in self.sessions.of_agent(aid) {
            if let Some(open) = connection.session() {
                open.signer.forget();
            }
        }
    }
}

/// The most bytes that an event of agents may have, its name and its parameters together. What other domains send is held to it as well.
pub const APP_EVENT_BYTES: usize = 64 << 10;

/// The events that agents may publish themselves; everything else under `event/` is the server's.
pub fn is_app_event(method: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    method.len() <= 256
        && method.strip_prefix("event/app.").is_some_and(|name| !name.is_empty() && name.bytes().all(plain))
}

/// The number of an event in a series of which events may be repeated to one connection, as the schemas say.
pub fn series_number(method: &str, params: &RawValue) -> Option<SeriesNumber> {
    let rule = proto_schemas::find_event(method)?.order?;
    if !REPEATABLE_SERIES.contains(rule.series) {
        return None;
    }
    let number = event_order::number(params, rule)?;
    Some(SeriesNumber { series: rule.series, number, repeatable: rule.repeatable })
}

/// The series that have repeatable events.
static REPEATABLE_SERIES: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let rules = proto_schemas::events().iter().filter_map(|event| event.order);
    rules.filter(|rule| rule.repeatable).map(|rule| rule.series).collect()
});

/// Whether the event has a schema with this audience, or is one of the clients' own.
fn is_declared(schema: Option<&EventSchema>, event: &Event) -> bool {
    let Some(schema) = schema else { return is_app_event(&event.method) };
    match (schema.audience, &event.to) {
        (EventAudience::Agent, _) | (_, Audience::Connection { .. }) => true,
        (EventAudience::Device, Audience::Instance { .. }) => true,
        (EventAudience::Device | EventAudience::Connection, _) => false,
    }
}
