//! `gateway.dispatch_event`: a service rings the bell of agents wherever they live; and what we let other domains ring here.

use super::accept::Guest;
use super::relay::short;
use super::wire::{Kind, Relay, Targets};
use super::{Federation, refused};
use crate::notify;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use services::kernel::{Aid, Audience, Caller, DeviceId, DispatchEvent, Event, RpcError, SlotId, codes};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

/// How many agents one event from outside may be for.
const TARGETS: usize = 1000;

/// The events that cross, and the member that names an agent of the domain they come from.
const CROSSING: [(&str, &str); 3] =
    [("message.ack", "to"), ("message.recalled", "from"), ("message.read_changed", "owner_aid")];

#[derive(Serialize)]
pub struct Dispatched {
    federated: BTreeMap<String, &'static str>,
}

impl Federation {
    pub async fn dispatch_event(
        self: Arc<Self>,
        caller: Caller,
        notice: DispatchEvent,
    ) -> Result<Dispatched, RpcError> {
        let Caller::Service(service) = &caller else {
            return Err(RpcError::new(codes::PERMISSION_DENIED, "events are dispatched by services"));
        };
        if notice.event.split('.').next() != Some(service) {
            return Err(refused("event", format!("{service} has no event {:?}", short(&notice.event))));
        }
        let (here, abroad): (Vec<Aid>, Vec<Aid>) =
            notice.targets.aids.into_iter().partition(|aid| aid.issuer() == self.issuer());
        for aid in here {
            let method = format!("event/{}", notice.event);
            self.bus.publish(&Event { to: Audience::Agent(aid), method, params: notice.payload.clone() });
        }
        let mut domains: BTreeMap<String, Targets> = BTreeMap::new();
        for aid in abroad {
            domains.entry(aid.issuer().to_owned()).or_default().aids.push(aid.to_string());
        }
        let mut federated = BTreeMap::new();
        for (issuer, targets) in domains {
            let told = self.ring(&issuer, &notice.event, notice.event_id.clone(), targets, &notice.payload);
            federated.insert(issuer, if told { "queued" } else { "dropped" });
        }
        Ok(Dispatched { federated })
    }

    /// Rings a bell in another domain, if there is space for it. Nobody hears whether it rang.
    pub fn ring(
        self: &Arc<Self>,
        issuer: &str,
        event: &str,
        event_id: String,
        targets: Targets,
        payload: &RawValue,
    ) -> bool {
        let relay = Relay {
            relay_id: self.relay_ids.next().into(),
            kind: Kind::Event,
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
        self.peers.post(self, issuer, &relay)
    }

    /// An event from another domain: only about its own agents, only for ours.
    pub(super) fn heard(&self, guest: &Guest, relay: &Relay<'_>) -> Result<(), RpcError> {
        let (Some(event), Some(targets), Some(payload)) = (&relay.event, &relay.targets, relay.payload)
        else {
            return Err(refused("event", "event, targets and payload belong to an event"));
        };
        if targets.aids.len() > TARGETS {
            return Err(refused("targets", format!("an event is for at most {TARGETS} agents")));
        }
        let about = self.about(event, payload)?;
        if about.issuer() != &*guest.issuer {
            let sentence =
                format!("{} tells of its own agents, and {about} is not one of them", guest.issuer);
            return Err(refused("event_issuer", sentence));
        }
        let method = format!("event/{event}");
        let wrong = |error| refused("targets", format!("targets: {error}"));
        let device = DeviceId::parse(&targets.device_id).map_err(wrong)?;
        let slot = SlotId::parse(&targets.slot_id).map_err(wrong)?;
        self.check_event_rate(guest, targets.aids.len())?;
        let params = without_route(payload)?;
        // Read state is its owner's alone, wherever it was sent; and whoever is not ours is not told by us.
        let ours =
            |aid: &Aid| aid.issuer() == self.issuer() && (event != "message.read_changed" || *aid == about);
        for aid in targets.aids.iter().filter_map(|aid| Aid::parse(aid).ok()).filter(ours) {
            let to = Audience::Instance {
                aid,
                device: Some(device.clone()).filter(|device| !device.is_empty()),
                slot: Some(slot.clone()).filter(|slot| !slot.is_empty()),
            };
            self.bus.publish(&Event { to, method: method.clone(), params: params.clone() });
        }
        Ok(())
    }

    /// An event is as much work as there are agents to hear it.
    fn check_event_rate(&self, guest: &Guest, agents: usize) -> Result<(), RpcError> {
        let agents = u32::try_from(agents).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
        match self.issuer_rate.check_key_n(&guest.issuer, agents) {
            Ok(Ok(())) => Ok(()),
            // Too many now, or too many at once.
            Ok(Err(_)) | Err(_) => {
                Err(RpcError::new(codes::RATE_LIMITED, "too many events").with("reason", "rate"))
            }
        }
    }

    /// The agent an event tells of.
    fn about(&self, event: &str, payload: &RawValue) -> Result<Aid, RpcError> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Members<'a> {
            #[serde(borrow)]
            to: Option<Cow<'a, str>>,
            #[serde(borrow)]
            from: Option<Cow<'a, str>>,
            #[serde(borrow)]
            owner_aid: Option<Cow<'a, str>>,
            #[serde(borrow, rename = "_notify")]
            notify: Option<Notified<'a>>,
        }
        #[derive(Deserialize)]
        struct Notified<'a> {
            #[serde(borrow)]
            from_aid: Cow<'a, str>,
        }
        let members: Members<'_> = match payload.get().starts_with('{') {
            true => serde_json::from_str(payload.get())
                .map_err(|error| refused("payload", format!("payload: {error}")))?,
            false => return Err(refused("payload", "payload is not an object")),
        };
        let namespaces = &self.config.federation.namespaces;
        let namespace = event.split('.').next().unwrap_or_default();
        let member = CROSSING.iter().find(|(name, _)| *name == event).map(|(_, member)| *member);
        let named = match member {
            Some("to") => members.to,
            Some("from") => members.from,
            Some(_) => members.owner_aid,
            None if notify::is_app_event(&format!("event/{event}")) => {
                members.notify.map(|notify| notify.from_aid)
            }
            None => return Err(refused("event", format!("{:?} does not cross domains", short(event)))),
        };
        if member.is_some() && !namespaces.iter().any(|allowed| allowed == namespace) {
            return Err(refused("namespace", format!("{namespace:?} does not cross domains")));
        }
        let missing = || refused("payload", "the payload does not say whom the event is about");
        Aid::parse(&named.ok_or_else(missing)?)
            .map_err(|error| refused("payload", format!("payload: {error}")))
    }
}

/// How it was meant to be delivered is between gateways.
fn without_route(payload: &RawValue) -> Result<Box<RawValue>, RpcError> {
    if !crate::params::may_hold(payload, "\"_route\"") {
        return Ok(payload.to_owned());
    }
    let mut members = crate::params::members(payload)?;
    members.remove("_route");
    serde_json::value::to_raw_value(&members).map_err(RpcError::internal)
}
