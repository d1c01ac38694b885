//! Events that other domains relay to us: only events about their own agents, and only for agents of ours.

use super::accept::InboundPeer;
use crate::delivery;
use crate::federation::Federation;
use crate::federation::errors::{quoted, refused};
use crate::federation::wire::relay::Relay;
use serde::Deserialize;
use serde_json::value::RawValue;
use services::kernel::{Aid, Audience, DeviceId, Event, RpcError, SlotId, codes};
use std::borrow::Cow;
use std::num::NonZeroU32;

/// How many agents one event from another domain may be for.
const TARGETS: usize = 1000;

/// The events of the server that cross, and the member that names an agent of the domain they come from.
const CROSSING: [(&str, &str); 3] =
    [("message.ack", "to"), ("message.recalled", "from"), ("message.read_changed", "owner_aid")];

impl Federation {
    /// Publishes an event from another domain to those of its targets that are agents of ours.
    pub(super) fn accept_event(&self, inbound: &InboundPeer, relay: &Relay<'_>) -> Result<(), RpcError> {
        let (Some(event), Some(targets), Some(payload)) = (&relay.event, &relay.targets, relay.payload)
        else {
            return Err(refused("event", "an event must have event, targets and payload"));
        };
        if targets.aids.len() > TARGETS {
            return Err(refused("targets", format!("targets must name at most {TARGETS} agents")));
        }
        let about = self.about(event, payload)?;
        if about.issuer() != &*inbound.issuer {
            let sentence = format!(
                "{} may relay only events about its own agents, and {about} is not one of them",
                inbound.issuer
            );
            return Err(refused("event_issuer", sentence));
        }
        let method = format!("event/{event}");
        let wrong = |error| refused("targets", format!("targets: {error}"));
        let device = DeviceId::parse(&targets.device_id).map_err(wrong)?;
        let slot = SlotId::parse(&targets.slot_id).map_err(wrong)?;
        self.check_event_rate(inbound, targets.aids.len())?;
        let params = without_route(payload)?;
        // Read state is only for its owner, whatever the targets are; and targets in other domains are not ours to notify.
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

    /// An event counts as often as it has targets.
    fn check_event_rate(&self, inbound: &InboundPeer, agents: usize) -> Result<(), RpcError> {
        let agents = u32::try_from(agents).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
        match self.issuer_rate.check_key_n(&inbound.issuer, agents) {
            Ok(Ok(())) => Ok(()),
            // Too many at this moment, or more than ever fit at once.
            Ok(Err(_)) | Err(_) => {
                Err(RpcError::new(codes::RATE_LIMITED, format!("too many events from {}", inbound.issuer))
                    .with("reason", "rate"))
            }
        }
    }

    /// The agent an event is about.
    fn about(&self, event: &str, payload: &RawValue) -> Result<Aid, RpcError> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct AboutMembers<'a> {
            #[serde(borrow)]
            to: Option<Cow<'a, str>>,
            #[serde(borrow)]
            from: Option<Cow<'a, str>>,
            #[serde(borrow)]
            owner_aid: Option<Cow<'a, str>>,
            #[serde(borrow, rename = "_notify")]
            notify: Option<NotifyMember<'a>>,
        }
        #[derive(Deserialize)]
        struct NotifyMember<'a> {
            #[serde(borrow)]
            from_aid: Cow<'a, str>,
        }
        let members: AboutMembers<'_> = match payload.get().starts_with('{') {
            true => serde_json::from_str(payload.get())
                .map_err(|error| refused("payload", format!("payload: {error}")))?,
            false => return Err(refused("payload", "payload must be an object")),
        };
        let namespaces = &self.config.federation.namespaces;
        let namespace = event.split('.').next().unwrap_or_default();
        let member = CROSSING.iter().find(|(name, _)| *name == event).map(|(_, member)| *member);
        let named = match member {
            Some("to") => members.to,
            Some("from") => members.from,
            Some(_) => members.owner_aid,
            None if delivery::is_app_event(&format!("event/{event}")) => {
                members.notify.map(|notify| notify.from_aid)
            }
            None => return Err(refused("event", format!("{:?} does not cross domains", quoted(event)))),
        };
        if member.is_some() && !namespaces.iter().any(|allowed| allowed == namespace) {
            return Err(refused("namespace", format!("{namespace:?} does not cross domains")));
        }
        let missing = || refused("payload", "payload does not name the agent the event is about");
        Aid::parse(&named.ok_or_else(missing)?)
            .map_err(|error| refused("payload", format!("payload: {error}")))
    }
}

/// Without `_route`, which is only between gateways.
fn without_route(payload: &RawValue) -> Result<Box<RawValue>, RpcError> {
    if !crate::frame::params::may_contain(payload, "\"_route\"") {
        return Ok(payload.to_owned());
    }
    let mut members = crate::frame::params::members(payload)?;
    members.remove("_route");
    serde_json::value::to_raw_value(&members).map_err(RpcError::internal)
}
