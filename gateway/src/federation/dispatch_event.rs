//! `gateway.dispatch_event`: a service publishes an event to agents of this domain and of others.

use super::Federation;
use super::errors::{quoted, refused};
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
        let Caller::Service(service) = &caller else {
            return Err(RpcError::new(codes::PERMISSION_DENIED, "only a service may dispatch events"));
        };
        if notice.event.split('.').next() != Some(service) {
            return Err(refused("event", format!("{service} has no event {:?}", quoted(&notice.event))));
        }
        let (local, remote): (Vec<Aid>, Vec<Aid>) =
            notice.targets.aids.into_iter().partition(|aid| aid.issuer() == self.issuer());
        for aid in local {
            let method = format!("event/{}", notice.event);
            self.bus.publish(&Event { to: Audience::Agent(aid), method, params: notice.payload.clone() });
        }
        let mut domains: BTreeMap<String, RelayEventTargets> = BTreeMap::new();
        for aid in remote {
            domains.entry(aid.issuer().to_owned()).or_default().aids.push(aid.to_string());
        }
        let mut federated = BTreeMap::new();
        for (issuer, targets) in domains {
            let queued =
                self.send_event(&issuer, &notice.event, notice.event_id.clone(), targets, &notice.payload);
            federated.insert(issuer, if queued { "queued" } else { "dropped" });
        }
        Ok(DispatchedEvent { federated })
    }

    /// Sends an event to agents of another domain, if there is space for it in the peer queue. Whether it arrives is not
    /// reported.
    pub fn send_event(
        self: &Arc<Self>,
        issuer: &str,
        event: &str,
        event_id: String,
        targets: RelayEventTargets,
        payload: &RawValue,
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
            depth: 0,
            deadline_ms: None,
            trace: None,
        };
        self.peers.send_event(self, issuer, &relay)
    }
}
