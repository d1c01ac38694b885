//! `gateway.dispatch_event`: a service publishes an event to agents of this domain and of others.

use super::Federation;
use super::errors::{quoted, refused};
use super::inbound::without_route;
use super::relay_origin::RelayOrigin;
use super::rules::serves;
use super::wire::relay::{Relay, RelayEventTargets, RelayKind};
use crate::connection::connection_number;
use kernel::{Aid, Audience, Caller, Event, RpcError, codes};
use proto_schemas::requests::gateway::{DispatchEvent, DispatchTargets, FederatedEvent};
use proto_schemas::{EventAudience, EventSchema};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest id of an event, which is remembered.
const EVENT_ID_BYTES: usize = 256;
/// An event that is in the queue of a peer.
const QUEUED: &str = "queued";

/// An event for agents of ours, and which of their connections it is for.
struct LocalEvent<'a> {
    schema: &'static EventSchema,
    params: &'a RawValue,
    /// Only these, where it is given.
    connections: Option<Vec<u64>>,
}

/// An event for another domain.
struct OutgoingEvent<'a> {
    event: &'a str,
    event_id: String,
    payload: &'a RawValue,
    /// How many relays led to it.
    depth: u64,
}

impl Federation {
    pub async fn dispatch_event(
        self: Arc<Self>,
        caller: Caller,
        notice: DispatchEvent,
    ) -> Result<FederatedEvent, RpcError> {
        let Ok(origin) = RelayOrigin::of(&caller) else {
            return Err(RpcError::new(codes::PERMISSION_DENIED, "only a service may dispatch events"));
        };
        let (service, method) = (origin.service, format!("event/{}", notice.event));
        let schema = proto_schemas::find_event(&method).filter(|schema| serves(service, schema.namespace));
        let Some(schema) = schema else {
            return Err(refused("event", format!("{service} has no event {:?}", quoted(&notice.event))));
        };
        let DispatchEvent { event, event_id, targets: DispatchTargets { aids, connection_ids }, payload } =
            notice;
        if event_id.is_empty() || event_id.len() > EVENT_ID_BYTES {
            return Err(RpcError::invalid_member(
                "event_id",
                format!("must have 1 to {EVENT_ID_BYTES} bytes"),
            ));
        }
        let connections = connection_ids.as_deref().map(numbers).transpose()?;
        let (local, remote): (Vec<Aid>, Vec<Aid>) =
            aids.into_iter().partition(|aid| aid.issuer() == self.issuer());
        if !remote.is_empty() && schema.federation.is_none() {
            return Err(refused("event", format!("{event} does not cross domains")));
        }
        let payload = without_route(&payload)?;
        let Some(claim) = self.dispatched.claim(service, &event_id, self.clock.now_ms()) else {
            return Ok(FederatedEvent { duplicate: true, ..FederatedEvent::default() });
        };
        let mut dispatched = FederatedEvent::default();
        // What may not cross now is lost for the others, as if they could not be reached. Connections are those of our agents:
        // where only some of them are meant, no other agent is.
        let crosses = connections.is_none() && self.rules.allows(schema.namespace);
        let depth = origin.depth().ok().filter(|_| crosses);
        let for_ours = LocalEvent { schema, params: &payload, connections };
        for aid in &local {
            self.publish_here(aid, &for_ours, &mut dispatched);
        }
        let mut domains: BTreeMap<String, RelayEventTargets> = BTreeMap::new();
        for aid in remote {
            domains.entry(aid.issuer().to_owned()).or_default().aids.push(aid.to_string());
        }
        for (issuer, targets) in domains {
            let queued = depth.is_some_and(|depth| {
                let outgoing =
                    OutgoingEvent { event: &event, event_id: event_id.clone(), payload: &payload, depth };
                self.relay_event(service, &issuer, targets, outgoing)
            });
            dispatched.federated.insert(issuer, if queued { QUEUED } else { "dropped" }.to_owned());
        }
        if is_written(&dispatched) {
            claim.written(self.clock.now_ms());
        }
        Ok(dispatched)
    }

    /// Publishes an event to an agent of ours, and counts the long connections that it is for, on all gateways.
    fn publish_here(&self, aid: &Aid, event: &LocalEvent<'_>, dispatched: &mut FederatedEvent) {
        let LocalEvent { schema, params, connections } = event;
        let present = self.presence.sessions(aid);
        let is_for = |number: u64| connections.as_ref().is_none_or(|some| some.contains(&number));
        let publish = |to: Audience| {
            self.bus.publish(&Event::with_params(to, schema.name, (*params).to_owned()));
        };
        // To all of them at once where that is possible: another gateway may have one that is not known here yet.
        let to_all = connections.is_none() && schema.audience == EventAudience::Agent;
        if to_all {
            publish(Audience::Agent(aid.clone()));
        }
        let before = dispatched.delivered;
        for session in present.iter().filter(|session| is_for(session.connection)) {
            if !to_all {
                publish(Audience::Connection { aid: aid.clone(), connection: session.connection });
            }
            dispatched.delivered += 1;
            if !dispatched.delivered_devices.contains(&session.device) {
                dispatched.delivered_devices.push(session.device.clone());
            }
        }
        if dispatched.delivered == before {
            dispatched.dropped += 1;
        }
    }

    /// Sends an event of `from`, an agent of ours, to agents of another domain, if there is space for it in the peer queue. Whether
    /// it arrives is not reported.
    pub fn send_event(
        self: &Arc<Self>,
        from: &Aid,
        issuer: &str,
        event: &str,
        event_id: String,
        targets: RelayEventTargets,
        payload: &RawValue,
    ) -> bool {
        let outgoing = OutgoingEvent { event, event_id, payload, depth: 0 };
        self.relay_event(from.as_str(), issuer, targets, outgoing)
    }

    fn relay_event(
        self: &Arc<Self>,
        asker: &str,
        issuer: &str,
        targets: RelayEventTargets,
        OutgoingEvent { event, event_id, payload, depth }: OutgoingEvent<'_>,
    ) -> bool {
        // As for a call: not to a domain that is not one, or that is blocked.
        let Ok(issuer) = self.target(issuer) else { return false };
        let relay = Relay {
            relay_id: self.relay_ids.next().into(),
            kind: RelayKind::Event,
            namespace: "".into(),
            method: "".into(),
            caller: None,
            params: None,
            event: Some(event.to_owned()),
            event_id: Some(event_id),
            targets: Some(targets),
            payload: Some(payload),
            hop: 1,
            depth,
            deadline_ms: None,
            trace: None,
        };
        self.peers.send_event(self, &issuer, asker, &relay)
    }
}

fn is_written(dispatched: &FederatedEvent) -> bool {
    dispatched.delivered > 0 || dispatched.federated.values().any(|state| state == QUEUED)
}

/// The numbers of the connections with these ids.
fn numbers(ids: &[String]) -> Result<Vec<u64>, RpcError> {
    let number = |id: &String| {
        connection_number(id).ok_or_else(|| {
            let sentence = format!("{:?} is not the id of a connection", quoted(id));
            RpcError::invalid_member("targets.connection_ids", sentence)
        })
    };
    ids.iter().map(number).collect()
}
