//! `federation.relay`: a call in the name of an agent or a service of another domain, or an event for agents of ours.
//!
//! Everything is checked before a service gets it, in the order of the checks below.

use super::accept::InboundPeer;
use super::foreign_caller::ForeignCaller;
use super::limits::{PARAMS_BYTES, RELAY_TIMEOUT};
use super::named_aids::NamedAids;
use super::relay_task::{FrameTime, InboundRelay, RelayReply, RelayTask, success};
use super::seen::RelayLookup;
use crate::admission::{Call, CallSource, CalledMethod};
use crate::federation::Federation;
use crate::federation::errors::{quoted, refused};
use crate::federation::wire::relay::{Relay, RelayKind, check_depth};
use kernel::{CallWay, Caller, Relayed, RpcError, Trace, TracedCall, codes};
use proto_schemas::Method;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

const RELAY_ID_BYTES: usize = 64;

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
            RelayKind::Rpc => self.admit(inbound, relay, now),
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
    fn admit<'a>(
        &self,
        inbound: &InboundPeer,
        relay: Relay<'a>,
        now: &FrameTime,
    ) -> Result<AdmittedRelay<'a>, RpcError> {
        self.check_shape(&relay)?;
        let method = self.federated_method(&relay)?;
        let mut caller = ForeignCaller::read(&relay, &inbound.issuer)?;
        let call_params = self.admit_call(inbound, &caller, method, relay.params)?;
        let params = relay.params.unwrap_or(RawValue::NULL);
        let names = NamedAids::read(params, method.federation.and_then(|rule| rule.by))?;
        names.check_actor(caller.aid())?;
        names.check_target(self.issuer())?;
        let within =
            relay.deadline_ms.map_or(RELAY_TIMEOUT, |ms| Duration::from_millis(ms).min(RELAY_TIMEOUT));
        let relayed = Relayed {
            from_issuer: inbound.issuer.to_string(),
            relay_id: relay.relay_id.into_owned(),
            depth: u8::try_from(relay.depth).unwrap_or(u8::MAX),
        };
        if let (ForeignCaller::Agent(session), Some(trace)) =
            (&mut caller, relay.trace.filter(Trace::is_valid))
        {
            session.trace = Some(relayed_trace(trace, now));
        }
        Ok(AdmittedRelay { caller: caller.into_caller(relayed), method, params: call_params, within })
    }

    /// The list that every call goes through, with the rates of other domains; the refusals are those of federation.
    fn admit_call<'a>(
        &self,
        inbound: &InboundPeer,
        caller: &ForeignCaller,
        method: &'static Method,
        params: Option<&'a RawValue>,
    ) -> Result<Option<Cow<'a, RawValue>>, RpcError> {
        let limit = || self.check_rate(inbound, caller);
        let source = match caller {
            ForeignCaller::Agent(_) => CallSource::ForeignAgent { limit: &limit },
            ForeignCaller::Service { .. } => CallSource::ForeignService { limit: &limit },
        };
        let (way, known) = (CallWay::Rpc, CalledMethod::Known(method));
        let call = Call { source: &source, way, method: known, params: params.map(Cow::Borrowed) };
        let admitted = self.admission.admit_at_once(call).map_err(|error| match error.kind() {
            "method_not_found" => not_for(caller, method),
            _ => error,
        })?;
        // Of the parameters themselves, and not of this call: what is not changed is not copied.
        Ok(match admitted.params {
            Some(Cow::Owned(changed)) => Some(Cow::Owned(changed)),
            _ => params.map(Cow::Borrowed),
        })
    }

    fn check_shape(&self, relay: &Relay<'_>) -> Result<(), RpcError> {
        if relay.hop != 1 {
            return Err(refused("hop", "hop must be 1: relays are not forwarded"));
        }
        check_depth(relay.depth)?;
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

    /// The method, if it crosses domains.
    fn federated_method(&self, relay: &Relay<'_>) -> Result<&'static Method, RpcError> {
        let Relay { namespace, method, .. } = relay;
        if !self.rules.allows(namespace) {
            return Err(refused("namespace", format!("{:?} does not cross domains", quoted(namespace))));
        }
        self.rules.method(namespace, method).ok_or_else(|| {
            refused("method", format!("{:?} of {namespace} does not cross domains", quoted(method)))
        })
    }

    fn check_rate(&self, inbound: &InboundPeer, caller: &ForeignCaller) -> Result<(), RpcError> {
        let over = |what: String| {
            RpcError::new(codes::RATE_LIMITED, format!("too many relays of {what}"))
                .with("reason", "rate")
                .with("retry_after_ms", 1000)
        };
        self.issuer_rate.check_key(&inbound.issuer).map_err(|_| over(inbound.issuer.to_string()))?;
        let checked = match caller {
            ForeignCaller::Agent(session) => self.agent_rate.check_key(&session.aid),
            ForeignCaller::Service { aid, .. } => self.service_rate.check_key(aid),
        };
        checked.map_err(|_| over(caller.aid().to_owned()))
    }
}

/// Why a call is not for this caller: its schema does not let such callers call from another domain, or it is not offered now.
fn not_for(caller: &ForeignCaller, method: &Method) -> RpcError {
    match caller.kind().has(method) {
        true => refused("method", format!("{} is not offered here", method.name)),
        false => {
            let sentence = format!("{} may not call {} from another domain", caller.aid(), method.name);
            refused("caller_type", sentence)
        }
    }
}

/// The trace of a relay: "accumulated spans are dropped and the boundary node starts a new span list" (federation, §1.2).
fn relayed_trace(trace: Trace, now: &FrameTime) -> Arc<TracedCall> {
    let received = now.at.into_std();
    let call = TracedCall::new(trace, Vec::new(), received, now.ms);
    drop(call.begin_at("gateway", "admit", received));
    call
}
