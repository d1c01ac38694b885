//! `gateway.dispatch_event`: a service publishes an event to agents of this domain and of others.

use super::Federation;
use super::errors::{quoted, refused};
use super::relay_origin::RelayOrigin;
use super::rules::serves;
use super::wire::relay::{Relay, RelayEventTargets, RelayKind};
use serde::Serialize;
use serde_json::value::RawValue;
use services::kernel::{Aid, Audience, Caller, DispatchEvent, Event, RpcError, codes};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Serialize)]
pub struct DispatchedEvent {
    federated: BTreeMap<String, &'static str>,
}

impl Federation {
    pub async fn dispatch_event(
        self: Arc<Self>,
        caller: Caller,
        notice: DispatchEvent,
    ) -> Result<DispatchedEvent, RpcError> {
        let Ok(origin) = RelayOrigin::of(&caller) else {
            return Err(RpcError::new(codes::PERMISSION_DENIED, "only a service may dispatch events"));
        };
        let (service, method) = (origin.service, format!("event/{}", notice.event));
        let schema = proto_schemas::find_event(&method).filter(|schema| serves(service, schema.namespace));
        let Some(schema) = schema else {
            return Err(refused("event", format!("{service} has no event {:?}", quoted(&notice.event))));
        };
        let DispatchEvent { event, event_id, targets, payload } = notice;
        let (local, remote): (Vec<Aid>, Vec<Aid>) =
            targets.aids.into_iter().partition(|aid| aid.issuer() == self.issuer());
        if !remote.is_empty() && schema.federation.is_none() {
            return Err(refused("event", format!("{event} does not cross domains")));
        }
        for aid in local {
            let (method, params) = (method.clone(), payload.clone());
            self.bus.publish(&Event { to: Audience::Agent(aid), method, params });
        }
        // What may not cross now is lost for the others, as if they could not be reached.
        let depth = origin.depth().ok().filter(|_| self.rules.allows(schema.namespace));
        let mut domains: BTreeMap<String, RelayEventTargets> = BTreeMap::new();
        for aid in remote {
            domains.entry(aid.issuer().to_owned()).or_default().aids.push(aid.to_string());
        }
        let mut federated = BTreeMap::new();
        for (issuer, targets) in domains {
            let queued = depth.is_some_and(|depth| {
                self.relay_event(&issuer, &event, event_id.clone(), targets, &payload, depth)
            });
            federated.insert(issuer, if queued { "queued" } else { "dropped" });
        }
        Ok(DispatchedEvent { federated })
    }

    /// Sends an event of an agent of ours to agents of another domain, if there is space for it in the peer queue. Whether
    /// it arrives is not reported.
    pub fn send_event(
        self: &Arc<Self>,
        issuer: &str,
        event: &str,
        event_id: String,
        targets: RelayEventTargets,
        payload: &RawValue,
    ) -> bool {
        self.relay_event(issuer, event, event_id, targets, payload, 0)
    }

    fn relay_event(
        self: &Arc<Self>,
        issuer: &str,
        event: &str,
        event_id: String,
        targets: RelayEventTargets,
        payload: &RawValue,
        depth: u64,
    ) -> bool {
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
        self.peers.send_event(self, issuer, &relay)
    }
}
