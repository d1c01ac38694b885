//! `federation.relay`: a call in the name of an agent of another domain, or an event for agents of ours.
//!
//! Everything is looked at before a room sees it, in the order of the checks below.

use super::accept::Guest;
use super::seen::Turn;
use super::wire::{Kind, Relay};
use super::{Federation, refused};
use crate::params;
use futures_util::FutureExt as _;
use proto_schemas::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use services::kernel::{Aid, Caller, DeviceId, Generation, Relayed, RpcError, Session, SlotId, Trace, codes};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a relay may take, whatever the other side says.
pub const LONGEST: Duration = Duration::from_secs(25);
const RELAY_ID_BYTES: usize = 64;
/// A payload of a mebibyte and what is around it.
const PARAMS_BYTES: usize = (1 << 20) + (64 << 10);
/// A call may lead to another, but not for ever.
const DEPTH: u64 = 2;

/// A relay that may be carried out.
struct Admitted {
    caller: Caller,
    method: &'static Method,
    params: Option<Box<RawValue>>,
    within: Duration,
}

/// What a relay came to, as it is written.
pub enum Told {
    /// The method did its work, or said why not.
    Outcome(Arc<str>),
    /// It never reached a room.
    Refused(RpcError),
}

impl Told {
    /// As one item of a batch.
    pub fn item(self, relay_id: &str) -> Arc<str> {
        match self {
            Told::Outcome(text) => text,
            Told::Refused(error) => ended_badly(relay_id, &error, "\"refused\":true,"),
        }
    }
}

impl Federation {
    /// Carries out one relay. Polled once, it has begun: relays that are polled in their order begin in it.
    pub async fn relayed(self: &Arc<Self>, guest: &Guest, relay: Relay) -> Told {
        let relay_id = relay.relay_id.clone();
        let checked = match relay.kind {
            Kind::Rpc => self.admit(guest, relay),
            Kind::Event => {
                return match self.check_shape(&relay).and_then(|()| self.heard(guest, &relay)) {
                    Ok(()) => Told::Outcome(done(&relay_id, "{\"accepted\":true}")),
                    Err(error) => Told::Refused(error),
                };
            }
        };
        let admitted = match checked {
            Ok(admitted) => admitted,
            Err(error) => return Told::Refused(error),
        };
        let now = self.clock.now_ms();
        let doing = match self.relays.begin(&guest.issuer, &relay_id, now) {
            Turn::New(doing) => doing,
            Turn::Done(answer) => return Told::Outcome(answer),
            Turn::Wait(answer) => {
                return match answer.await {
                    Ok(answer) => Told::Outcome(answer),
                    Err(_) => Told::Refused(RpcError::plain(codes::UNAVAILABLE)),
                };
            }
        };
        let answer = self.carry_out(admitted).await;
        let text = match &answer {
            Ok(result) => done(&relay_id, result.get()),
            Err(error) => failed(&relay_id, error),
        };
        // What may go better next time must not be remembered as having failed.
        match answer.is_err_and(|error| error.data("retryable").is_some_and(|retryable| retryable == true)) {
            true => doing.failed(&text),
            false => doing.done(&text, now),
        }
        Told::Outcome(text)
    }

    async fn carry_out(&self, admitted: Admitted) -> Result<Box<RawValue>, RpcError> {
        let Admitted { caller, method, params, within } = admitted;
        let started = Instant::now();
        let call = self.mesh.call_within(caller, method.name, params, within);
        let call = AssertUnwindSafe(tokio::time::timeout(within, call)).catch_unwind();
        let outcome = match call.await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => {
                Err(RpcError::new(codes::HANDLER_TIMEOUT, format!("{} took too long", method.name)))
            }
            Err(_) => {
                Err(RpcError::internal(anyhow::anyhow!("{} panicked", method.name)).logged(method.name))
            }
        };
        let code = outcome.as_ref().err().map_or(0, RpcError::code);
        self.metrics.answered(self.metrics.method(method.name), code, started.elapsed().as_secs_f64());
        outcome
    }

    /// Whether the relay may be carried out, and in whose name.
    fn admit(&self, guest: &Guest, relay: Relay) -> Result<Admitted, RpcError> {
        self.check_shape(&relay)?;
        let method = self.crossing(&relay)?;
        let caller = caller(&relay, guest)?;
        let params = relay.params.as_deref().unwrap_or(RawValue::NULL);
        let names = Names::read(params)?;
        names.check_actor(caller.aid.as_str())?;
        names.check_target(method, self.issuer())?;
        self.check_rate(guest, &caller.aid)?;
        let within = relay.deadline_ms.map_or(LONGEST, |ms| Duration::from_millis(ms).min(LONGEST));
        let relayed = Relayed {
            from_issuer: guest.issuer.to_string(),
            relay_id: relay.relay_id,
            depth: u8::try_from(relay.depth).unwrap_or(u8::MAX),
        };
        let params = params::clean(relay.params)?;
        Ok(Admitted { caller: Caller::Foreign(caller, relayed), method, params, within })
    }

    fn check_shape(&self, relay: &Relay) -> Result<(), RpcError> {
        if relay.hop != 1 {
            return Err(refused("hop", "hop is 1: nothing is relayed twice"));
        }
        if relay.depth > DEPTH {
            return Err(refused("depth", format!("depth is at most {DEPTH}")));
        }
        let size = |part: &Option<Box<RawValue>>| part.as_ref().map_or(0, |part| part.get().len());
        if size(&relay.params) + size(&relay.payload) > PARAMS_BYTES {
            return Err(refused("oversize", format!("a relay carries at most {PARAMS_BYTES} bytes")));
        }
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
        let id = &relay.relay_id;
        if !(1..=RELAY_ID_BYTES).contains(&id.len()) || !id.bytes().all(plain) {
            return Err(refused("relay_id", "relay_id is 1 to 64 letters, digits, '-', '_', '.' or ':'"));
        }
        Ok(())
    }

    /// The method, if it may be called from other domains.
    fn crossing(&self, relay: &Relay) -> Result<&'static Method, RpcError> {
        let Relay { namespace, method, .. } = relay;
        if !self.config.federation.namespaces.contains(namespace) {
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
fn caller(relay: &Relay, guest: &Guest) -> Result<Session, RpcError> {
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

/// The parameters that say who acts and whom it is about.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Names<'a> {
    #[serde(borrow)]
    from: Option<Cow<'a, str>>,
    #[serde(borrow)]
    from_aid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    sender_aid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    owner_aid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    client_signature: Option<Signed<'a>>,
    #[serde(borrow)]
    to: Option<Cow<'a, str>>,
    #[serde(borrow)]
    peer_aid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    aid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    aids: Option<Vec<Cow<'a, str>>>,
}

#[derive(Deserialize)]
struct Signed<'a> {
    #[serde(borrow)]
    aid: Cow<'a, str>,
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
        let other = actors.into_iter().find(|(_, named)| named.is_some_and(|named| named != caller));
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
        let local = |name: &Cow<'_, str>| Aid::parse(name).is_ok_and(|aid| aid.issuer() == ours);
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

fn done(relay_id: &str, result: &str) -> Arc<str> {
    format!("{{\"relay_id\":\"{relay_id}\",\"ok\":true,\"result\":{result}}}").into()
}

fn failed(relay_id: &str, error: &RpcError) -> Arc<str> {
    ended_badly(relay_id, error, "")
}

/// What stopped at our border is marked: the other side must not take it for the method's own word.
fn ended_badly(relay_id: &str, error: &RpcError, mark: &str) -> Arc<str> {
    let relay_id = serde_json::to_string(relay_id).unwrap_or_default();
    let error = serde_json::to_string(error).unwrap_or_else(|_| "{}".to_owned());
    format!("{{\"relay_id\":{relay_id},\"ok\":false,{mark}\"error\":{error}}}").into()
}

pub fn short(text: &str) -> String {
    text.chars().take(80).collect()
}
