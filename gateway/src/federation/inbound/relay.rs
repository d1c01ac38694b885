//! `federation.relay`: a call in the name of an agent of another domain, or an event for agents of ours.
//!
//! Everything is checked before a service gets it, in the order of the checks below.

use super::accept::InboundPeer;
use super::limits::{PARAMS_BYTES, RELAY_TIMEOUT};
use super::relay_task::{FrameTime, InboundRelay, RelayReply, RelayTask, success};
use super::seen::RelayLookup;
use crate::admission::strip_reserved;
use crate::federation::Federation;
use crate::federation::errors::{quoted, refused};
use crate::federation::wire::relay::{Relay, RelayKind};
use crate::frame::params;
use proto_schemas::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use services::kernel::{Aid, Caller, DeviceId, Generation, Relayed, RpcError, Session, SlotId, Trace, codes};
use std::borrow::Cow;
use std::future::ready;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

const RELAY_ID_BYTES: usize = 64;
/// A relayed call may cause another one, but not without end.
const DEPTH: u64 = 2;

/// A relay that may be carried out.
struct AdmittedRelay<'a> {
    caller: Caller,
    method: &'static Method,
    params: Option<Cow<'a, RawValue>>,
    within: Duration,
}

impl Federation {
    /// Checks one relay. The service begins with it when the returned relay is first polled, so that relays that are polled in
    /// their order begin in their order.
    pub fn begin_relay(
        self: &Arc<Self>,
        inbound: &InboundPeer,
        relay: Relay<'_>,
        now: &FrameTime,
    ) -> InboundRelay {
        let relay_id: Arc<str> = Arc::from(&*relay.relay_id);
        let admitted = match relay.kind {
            RelayKind::Rpc => self.admit(inbound, relay),
            RelayKind::Event => {
                let reply = match self.check_shape(&relay).and_then(|()| self.accept_event(inbound, &relay)) {
                    Ok(()) => RelayReply::Answered(success(&relay_id, "{\"accepted\":true}")),
                    Err(error) => RelayReply::Refused(error),
                };
                return InboundRelay::ended(relay_id, reply);
            }
        };
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(error) => return InboundRelay::ended(relay_id, RelayReply::Refused(error)),
        };
        match self.seen_relays.look_up(&inbound.issuer, &relay_id, now.ms) {
            RelayLookup::New(claim) => {
                let AdmittedRelay { caller, method, params, within } = admitted;
                let begun = self.mesh.begin(caller, method.name, params.as_deref(), within);
                let answering = begun.unwrap_or_else(|error| Box::pin(ready(Err(error))));
                InboundRelay::new(relay_id, RelayTask { method, claim, answering, until: now.at + within })
            }
            RelayLookup::Answered(answer) => InboundRelay::ended(relay_id, RelayReply::Answered(answer)),
            RelayLookup::InProgress(answer) => InboundRelay::duplicate(relay_id, answer),
        }
    }

    /// Whether the relay may be carried out, and in whose name.
    fn admit<'a>(&self, inbound: &InboundPeer, relay: Relay<'a>) -> Result<AdmittedRelay<'a>, RpcError> {
        self.check_shape(&relay)?;
        let method = self.federated_method(&relay)?;
        let caller = caller(&relay, inbound)?;
        let params = relay.params.unwrap_or(RawValue::NULL);
        let names = NamedAids::read(params)?;
        names.check_actor(caller.aid.as_str())?;
        names.check_target(method, self.issuer())?;
        self.check_rate(inbound, &caller.aid)?;
        let within =
            relay.deadline_ms.map_or(RELAY_TIMEOUT, |ms| Duration::from_millis(ms).min(RELAY_TIMEOUT));
        let relayed = Relayed {
            from_issuer: inbound.issuer.to_string(),
            relay_id: relay.relay_id.into_owned(),
            depth: u8::try_from(relay.depth).unwrap_or(u8::MAX),
        };
        let params = relay.params.map(without_reserved).transpose()?;
        Ok(AdmittedRelay { caller: Caller::Foreign(caller, relayed), method, params, within })
    }

    fn check_shape(&self, relay: &Relay<'_>) -> Result<(), RpcError> {
        if relay.hop != 1 {
            return Err(refused("hop", "hop must be 1: nothing is relayed twice"));
        }
        if relay.depth > DEPTH {
            return Err(refused("depth", format!("depth must be at most {DEPTH}")));
        }
        let size = |part: Option<&RawValue>| part.map_or(0, |part| part.get().len());
        if size(relay.params) + size(relay.payload) > PARAMS_BYTES {
            return Err(refused(
                "oversize",
                format!("params and payload must be at most {PARAMS_BYTES} bytes"),
            ));
        }
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
        let id = &relay.relay_id;
        if !(1..=RELAY_ID_BYTES).contains(&id.len()) || !id.bytes().all(plain) {
            return Err(refused(
                "relay_id",
                "relay_id must be 1 to 64 characters of a-z, A-Z, 0-9, '-', '_', '.' and ':'",
            ));
        }
        Ok(())
    }

    /// The method, if it may be called from other domains.
    fn federated_method(&self, relay: &Relay<'_>) -> Result<&'static Method, RpcError> {
        let Relay { namespace, method, .. } = relay;
        if !self.config.federation.namespaces.iter().any(|allowed| allowed == namespace) {
            return Err(refused("namespace", format!("{:?} does not cross domains", quoted(namespace))));
        }
        let found = proto_schemas::find(&format!("{namespace}.{method}"));
        found.filter(|found| found.federation.is_some()).ok_or_else(|| {
            refused("method", format!("{:?} of {namespace} does not cross domains", quoted(method)))
        })
    }

    fn check_rate(&self, inbound: &InboundPeer, caller: &Aid) -> Result<(), RpcError> {
        let over = |what: String| {
            RpcError::new(codes::RATE_LIMITED, format!("too many relays of {what}"))
                .with("reason", "rate")
                .with("retry_after_ms", 1000)
        };
        self.issuer_rate.check_key(&inbound.issuer).map_err(|_| over(inbound.issuer.to_string()))?;
        self.agent_rate.check_key(caller).map_err(|_| over(caller.to_string()))
    }
}

/// The agent in whose name the other gateway calls: always one of its own domain.
fn caller(relay: &Relay<'_>, inbound: &InboundPeer) -> Result<Session, RpcError> {
    let Some(caller) = &relay.caller else { return Err(refused("caller", "caller is missing")) };
    if caller.kind != "aid" {
        let sentence = format!("caller.type must be \"aid\", not {:?}", quoted(&caller.kind));
        return Err(refused("caller_type", sentence));
    }
    let wrong = |error| refused("caller", format!("caller: {error}"));
    let aid = Aid::parse(&caller.aid).map_err(wrong)?;
    if aid.issuer() != &*inbound.issuer {
        let sentence =
            format!("{} may relay only for its own agents, and {aid} is not one of them", inbound.issuer);
        return Err(refused("caller_issuer", sentence));
    }
    Ok(Session {
        aid,
        device: DeviceId::parse(&caller.device_id).map_err(wrong)?,
        slot: SlotId::parse(&caller.slot_id).map_err(wrong)?,
        connection: 0,
        address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        connected_at_ms: 0,
        generation: Generation::default(),
        trace: relay.trace.clone().filter(is_trace),
    })
}

fn is_trace(trace: &Trace) -> bool {
    trace.trace_id.len() == 32 && trace.trace_id.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Without the members that only this server may set.
fn without_reserved(params: &RawValue) -> Result<Cow<'_, RawValue>, RpcError> {
    if !params::may_contain(params, "\"_") {
        return Ok(Cow::Borrowed(params));
    }
    let cleaned = strip_reserved(Some(params.to_owned()))?;
    Ok(cleaned.map_or(Cow::Borrowed(params), Cow::Owned))
}

/// The AIDs in the parameters that say who acts, and on whom.
#[derive(Deserialize, Default)]
#[serde(default)]
struct NamedAids<'a> {
    #[serde(borrow)]
    from: Option<AidText<'a>>,
    #[serde(borrow)]
    from_aid: Option<AidText<'a>>,
    #[serde(borrow)]
    sender_aid: Option<AidText<'a>>,
    #[serde(borrow)]
    owner_aid: Option<AidText<'a>>,
    #[serde(borrow)]
    client_signature: Option<SignatureMember<'a>>,
    #[serde(borrow)]
    to: Option<AidText<'a>>,
    #[serde(borrow)]
    peer_aid: Option<AidText<'a>>,
    #[serde(borrow)]
    aid: Option<AidText<'a>>,
    #[serde(borrow)]
    aids: Option<Vec<AidText<'a>>>,
}

/// Borrowed from the parameters; an optional `Cow` alone would be copied.
#[derive(Deserialize)]
#[serde(transparent)]
struct AidText<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct SignatureMember<'a> {
    #[serde(borrow)]
    aid: AidText<'a>,
}

impl<'a> NamedAids<'a> {
    fn read(params: &'a RawValue) -> Result<NamedAids<'a>, RpcError> {
        if !params.get().starts_with('{') {
            return Err(refused("params", "params must be an object"));
        }
        serde_json::from_str(params.get()).map_err(|error| refused("params", format!("params: {error}")))
    }

    /// Every parameter that says who acts must name the caller.
    fn check_actor(&self, caller: &str) -> Result<(), RpcError> {
        let signed = self.client_signature.as_ref().map(|signed| &signed.aid);
        let actors = [
            ("from", self.from.as_ref()),
            ("from_aid", self.from_aid.as_ref()),
            ("sender_aid", self.sender_aid.as_ref()),
            ("owner_aid", self.owner_aid.as_ref()),
            ("client_signature.aid", signed),
        ];
        let other = actors.into_iter().find(|(_, named)| named.is_some_and(|AidText(named)| named != caller));
        match other {
            Some((name, _)) => Err(refused("actor", format!("params.{name} must be the caller, {caller}"))),
            None => Ok(()),
        }
    }

    /// Every agent that the call acts on must be one of ours: nothing is relayed on to a third domain.
    fn check_target(&self, method: &Method, ours: &str) -> Result<(), RpcError> {
        let Some(by) = method.federation.and_then(|federation| federation.by) else { return Ok(()) };
        let one = match by {
            "to" => &self.to,
            "peer_aid" => &self.peer_aid,
            "aid" => &self.aid,
            _ => &None,
        };
        let local = |AidText(name): &AidText<'_>| Aid::parse(name).is_ok_and(|aid| aid.issuer() == ours);
        let all_local = match (by, one, &self.aids) {
            ("aids", _, Some(aids)) => aids.iter().all(local),
            (_, Some(name), _) => local(name),
            _ => false,
        };
        match all_local {
            true => Ok(()),
            false => Err(refused("target", format!("params.{by} must name agents of {ours}"))),
        }
    }
}
