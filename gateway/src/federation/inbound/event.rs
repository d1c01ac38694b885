//! Events that other domains relay to us: only events about their own agents, and only for agents of ours.

use super::accept::InboundPeer;
use super::named_members::named_members;
use crate::delivery::{self, APP_EVENT_BYTES};
use crate::federation::Federation;
use crate::federation::errors::{quoted, refused};
use crate::federation::rules::FederationRules;
use crate::federation::wire::relay::Relay;
use kernel::{Aid, Audience, DeviceId, Event, RpcError, SlotId, codes};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashSet;
use std::num::NonZeroU32;

/// How many agents one event from another domain may be for.
const TARGETS: usize = 1000;
/// What its gateway adds to an event of an agent that is as large as it may be: who sent it, in `_notify`.
const GATEWAY_BYTES: usize = 1 << 10;

impl Federation {
    /// Publishes an event from another domain to those of its targets that are agents of ours.
    pub(super) fn accept_event(&self, inbound: &InboundPeer, relay: &Relay<'_>) -> Result<(), RpcError> {
        let (Some(event), Some(targets), Some(payload)) = (&relay.event, &relay.targets, relay.payload)
        else {
            return Err(refused("event", "an event must have event, targets and payload"));
        };
        let bytes = event.len() + payload.get().len();
        let most = APP_EVENT_BYTES + GATEWAY_BYTES;
        if bytes > most {
            let sentence = format!("event and payload must be at most {most} bytes, not {bytes}");
            return Err(refused("oversize", sentence));
        }
        if targets.aids.len() > TARGETS {
            return Err(refused("targets", format!("targets must name at most {TARGETS} agents")));
        }
        let EventSubject { aid: about, owner_only } = self.subject(event, payload)?;
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
        // Some events are only for the agent they are about, whatever the targets are; and targets in other domains are not
        // ours to notify.
        let ours = |aid: &Aid| aid.issuer() == self.issuer() && (!owner_only || *aid == about);
        let aids: HashSet<Aid> =
            targets.aids.iter().filter_map(|aid| Aid::parse(aid).ok()).filter(ours).collect();
        // One event for all of them: it is held once, however many outboxes it waits in.
        let mut event = Event::with_params(Audience::Gateways, method, params);
        for aid in aids {
            event.to = Audience::Instance {
                aid,
                device: Some(device.clone()).filter(|device| !device.is_empty()),
                slot: Some(slot.clone()).filter(|slot| !slot.is_empty()),
            };
            self.bus.publish(&event);
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

    /// The agent an event is about, as its schema says, or who sent it where agents publish it themselves.
    fn subject(&self, event: &str, payload: &RawValue) -> Result<EventSubject, RpcError> {
        if !payload.get().starts_with('{') {
            return Err(refused("payload", "payload must be an object"));
        }
        let name = format!("event/{event}");
        let (named, owner_only) = match FederationRules::event(&name) {
            Some((schema, _)) if !self.rules.allows(schema.namespace) => {
                return Err(refused("namespace", format!("{:?} does not cross domains", schema.namespace)));
            }
            Some((_, rule)) => (member(payload, rule.about)?, rule.owner_only),
            None if delivery::is_app_event(&name) => (sender(payload)?, false),
            None => return Err(refused("event", format!("{:?} does not cross domains", quoted(event)))),
        };
        let missing = || refused("payload", "payload does not name the agent the event is about");
        let aid = Aid::parse(&named.ok_or_else(missing)?)
            .map_err(|error| refused("payload", format!("payload: {error}")))?;
        Ok(EventSubject { aid, owner_only })
    }
}

/// Whom an event is about.
struct EventSubject {
    aid: Aid,
    /// Whether nobody else is told.
    owner_only: bool,
}

/// A member of the payload that must be a text.
fn member<'a>(payload: &'a RawValue, name: &str) -> Result<Option<Cow<'a, str>>, RpcError> {
    let [value] = named_members(payload, [name]).map_err(malformed)?;
    value.map(|value| serde_json::from_str(value.get()).map_err(malformed)).transpose()
}

/// The agent that published an event of agents, as its gateway wrote it.
fn sender(payload: &RawValue) -> Result<Option<Cow<'_, str>>, RpcError> {
    let [notify] = named_members(payload, ["_notify"]).map_err(malformed)?;
    notify.map_or(Ok(None), |notify| match notify.get().starts_with('{') {
        true => member(notify, "from_aid"),
        false => Err(refused("payload", "payload._notify must be an object")),
    })
}

fn malformed(error: serde_json::Error) -> RpcError {
    refused("payload", format!("payload: {error}"))
}

/// Without `_route`, which is only between services and gateways.
pub fn without_route(payload: &RawValue) -> Result<Box<RawValue>, RpcError> {
    if !crate::frame::params::may_contain(payload, "\"_route\"") {
        return Ok(payload.to_owned());
    }
    let mut members = crate::frame::params::members(payload)?;
    members.remove("_route");
    serde_json::value::to_raw_value(&members).map_err(RpcError::internal)
}
