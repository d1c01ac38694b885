//! `federation.relay`: a call in the name of an agent of another domain, or an event for agents of ours.
//!
//! Everything is looked at before a service sees it, in the order of the checks below.

use super::accept::Guest;
use super::seen::Turn;
use super::wire::{Kind, Relay};
use super::work::{Now, Task, Told, Work, done};
use super::{Federation, refused};
use crate::admission::strip_reserved;
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

/// How long a relay may take, whatever the other side says.
pub const LONGEST: Duration = Duration::from_secs(25);
const RELAY_ID_BYTES: usize = 64;
/// A payload of a mebibyte and what is around it.
const PARAMS_BYTES: usize = (1 << 20) + (64 << 10);
/// A call may lead to another, but not for ever.
const DEPTH: u64 = 2;

/// A relay that may be carried out.
struct Admitted<'a> {
    caller: Caller,
    method: &'static Method,
    params: Option<Cow<'a, RawValue>>,
    within: Duration,
}

impl Federation {
    /// Looks at one relay, and has the service begin with it when it is polled: relays that are polled in their order begin in
    /// it. Nothing of it is needed any more when this returns.
    pub fn begin_relay(self: &Arc<Self>, guest: &Guest, relay: Relay<'_>, now: &Now) -> Work {
        let relay_id: Arc<str> = Arc::from(&*relay.relay_id);
        let admitted = match relay.kind {
            Kind::Rpc => self.admit(guest, relay),
            Kind::Event => {
                let told = match self.check_shape(&relay).and_then(|()| self.heard(guest, &relay)) {
                    Ok(()) => Told::Outcome(done(&relay_id, "{\"accepted\":true}")),
                    Err(error) => Told::Refused(error),
                };
                return Work::told(relay_id, told);
            }
        };
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(error) => return Work::told(relay_id, Told::Refused(error)),
        };
        match self.relays.begin(&guest.issuer, &relay_id, now.ms) {
            Turn::New(doing) => {
                let Admitted { caller, method, params, within } = admitted;
                let begun = self.mesh.begin(caller, method.name, params.as_deref(), within);
                let answering = begun.unwrap_or_else(|error| Box::pin(ready(Err(error))));
                Work::new(relay_id, Task { method, doing, answering, until: now.at + within })
            }
            Turn::Done(answer) => Work::told(relay_id, Told::Outcome(answer)),
            Turn::Wait(answer) => Work::again(relay_id, answer),
        }
    }

    /// Whether the relay may be carried out, and in whose name.
    fn admit<'a>(&self, guest: &Guest, relay: Relay<'a>) -> Result<Admitted<'a>, RpcError> {
        self.check_shape(&relay)?;
        let method = self.crossing(&relay)?;
        let caller = caller(&relay, guest)?;
        let params = relay.params.unwrap_or(RawValue::NULL);
        let names = Names::read(params)?;
        names.check_actor(caller.aid.as_str())?;
        names.check_target(method, self.issuer())?;
        self.check_rate(guest, &caller.aid)?;
        let within = relay.deadline_ms.map_or(LONGEST, |ms| Duration::from_millis(ms).min(LONGEST));
        let relayed = Relayed {
            from_issuer: guest.issuer.to_string(),
            relay_id: relay.relay_id.into_owned(),
            depth: u8::try_from(relay.depth).unwrap_or(u8::MAX),
        };
        let params = relay.params.map(cleaned).transpose()?;
        Ok(Admitted { caller: Caller::Foreign(caller, relayed), method, params, within })
    }

    fn check_shape(&self, relay: &Relay<'_>) -> Result<(), RpcError> {
        if relay.hop != 1 {
            return Err(refused("hop", "hop is 1: nothing is relayed twice"));
        }
        if relay.depth > DEPTH {
            return Err(refused("depth", format!("depth is at most {DEPTH}")));
        }
        let size = |part: Option<&RawValue>| part.map_or(0, |part| part.get().len());
        if size(relay.params) + size(relay.payload) > PARAMS_BYTES {
            return Err(refused("oversize", format!("a relay carries at most {PARAMS_BYTES} bytes")));
        }
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
        let id = &relay.relay_id;
        if !(1..=RELAY_ID_BYTES).contains(&id.len()) || !id.bytes().all(plain) {
            return Err(refused("relay_id", "relay_id is 1 to 64 messages, digits, '-', '_', '.' or ':'"));
        }
        Ok(())
    }

    /// The method, if it may be called from other domains.
    fn crossing(&self, relay: &Relay<'_>) -> Result<&'static Method, RpcError> {
        let Relay { namespace, method, .. } = relay;
        if !self.config.federation.namespaces.iter().any(|allowed| allowed == namespace) {
            return Err(refused("namespace", format!("{:?} does not cross domains", short(namespace))));
        }
        let found = proto_schemas::find(&format!("{namespace}.{method}"));
        found.filter(|found| found.federation.is_some()).ok_or_else(|| {
            refused("method", format!("{:?} of {namespace} does not cross domains", short(method)))
        })
    }

    fn check_rate(&self, guest: &Guest, caller: &Aid) -> Result<(), RpcError> {
        let over = |what: String| {
            RpcError::new(codes::RATE_LIMITED, format!("too many relays of {what}"))
                .with("reason", "rate")
                .with("retry_after_ms", 1000)
        };
        self.issuer_rate.check_key(&guest.issuer).map_err(|_| over(guest.issuer.to_string()))?;
        self.agent_rate.check_key(caller).map_err(|_| over(caller.to_string()))
    }
}

/// The agent the other gateway speaks for: always one of its own.
fn caller(relay: &Relay<'_>, guest: &Guest) -> Result<Session, RpcError> {
    let Some(caller) = &relay.caller else { return Err(refused("caller", "caller is missing")) };
    if caller.kind != "aid" {
        let sentence = format!("nothing that crosses is called by {:?}", short(&caller.kind));
        return Err(refused("caller_type", sentence));
    }
    let wrong = |error| refused("caller", format!("caller: {error}"));
    let aid = Aid::parse(&caller.aid).map_err(wrong)?;
    if aid.issuer() != &*guest.issuer {
        let sentence = format!("{} speaks for its own agents, and {aid} is not one of them", guest.issuer);
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

/// Names of the server are taken out, where there are any.
fn cleaned(params: &RawValue) -> Result<Cow<'_, RawValue>, RpcError> {
    if !params::may_contain(params, "\"_") {
        return Ok(Cow::Borrowed(params));
    }
    let cleaned = strip_reserved(Some(params.to_owned()))?;
    Ok(cleaned.map_or(Cow::Borrowed(params), Cow::Owned))
}

/// The parameters that say who acts and whom it is about.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Names<'a> {
    #[serde(borrow)]
    from: Option<Name<'a>>,
    #[serde(borrow)]
    from_aid: Option<Name<'a>>,
    #[serde(borrow)]
    sender_aid: Option<Name<'a>>,
    #[serde(borrow)]
    owner_aid: Option<Name<'a>>,
    #[serde(borrow)]
    client_signature: Option<Signed<'a>>,
    #[serde(borrow)]
    to: Option<Name<'a>>,
    #[serde(borrow)]
    peer_aid: Option<Name<'a>>,
    #[serde(borrow)]
    aid: Option<Name<'a>>,
    #[serde(borrow)]
    aids: Option<Vec<Name<'a>>>,
}

/// Read where it was written: an optional text would be copied.
#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Signed<'a> {
    #[serde(borrow)]
    aid: Name<'a>,
}

impl<'a> Names<'a> {
    fn read(params: &'a RawValue) -> Result<Names<'a>, RpcError> {
        if !params.get().starts_with('{') {
            return Err(refused("params", "params is not an object"));
        }
        serde_json::from_str(params.get()).map_err(|error| refused("params", format!("params: {error}")))
    }

    /// Whatever names the one who acts names the caller.
    fn check_actor(&self, caller: &str) -> Result<(), RpcError> {
        let signed = self.client_signature.as_ref().map(|signed| &signed.aid);
        let actors = [
            ("from", self.from.as_ref()),
            ("from_aid", self.from_aid.as_ref()),
            ("sender_aid", self.sender_aid.as_ref()),
            ("owner_aid", self.owner_aid.as_ref()),
            ("client_signature.aid", signed),
        ];
        let other = actors.into_iter().find(|(_, named)| named.is_some_and(|Name(named)| named != caller));
        match other {
            Some((name, _)) => Err(refused("actor", format!("params.{name} is not {caller}"))),
            None => Ok(()),
        }
    }

    /// Whatever the call is about is ours: nothing passes through here on its way elsewhere.
    fn check_target(&self, method: &Method, ours: &str) -> Result<(), RpcError> {
        let Some(by) = method.federation.and_then(|federation| federation.by) else { return Ok(()) };
        let one = match by {
            "to" => &self.to,
            "peer_aid" => &self.peer_aid,
            "aid" => &self.aid,
            _ => &None,
        };
        let local = |Name(name): &Name<'_>| Aid::parse(name).is_ok_and(|aid| aid.issuer() == ours);
        let all_local = match (by, one, &self.aids) {
            ("aids", _, Some(aids)) => aids.iter().all(local),
            (_, Some(name), _) => local(name),
            _ => false,
        };
        match all_local {
            true => Ok(()),
            false => Err(refused("target", format!("params.{by} is not of {ours}"))),
        }
    }
}

pub fn short(text: &str) -> String {
    text.chars().take(80).collect()
}
