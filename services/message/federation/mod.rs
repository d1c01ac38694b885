//! Agents of other domains: calls about them go to their domain, the peer, through the gateway.
//!
//! A message is stored by the domain of its recipient, which gives it its seq. Stored here are only the copies for the
//! sender's own other devices. A call that came from another domain is never passed on to a third.

mod deliver;
mod events;
mod outbox;
mod own_copies;
mod recall;
mod recent_peers;
mod send;

pub(super) use events::PeerEvents;
pub(super) use outbox::PeerOutbox;
pub(super) use recall::RecalledAtPeers;
pub(super) use recent_peers::RecentPeers;

use super::{Error, MessageService};
use kernel::{Aid, Caller, CallingAgent, PendingAnswer, RpcError, codes, forward_for_agent};
use proto_schemas::Request;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::fmt::Display;
use std::time::Duration;

/// A call about an agent of another domain.
pub(super) struct PeerCall<'a> {
    /// Who called us.
    pub caller: &'a Caller,
    pub session: &'a CallingAgent,
    pub issuer: &'a str,
}

impl MessageService {
    pub(super) fn is_ours(&self, aid: &Aid) -> bool {
        aid.issuer() == self.issuer
    }

    /// The call to make at the domain of this agent; `None` if it is our own.
    pub(super) fn peer_call<'a>(
        &self,
        caller: &'a Caller,
        aid: &'a Aid,
    ) -> Result<Option<PeerCall<'a>>, Error> {
        if self.is_ours(aid) {
            return Ok(None);
        }
        match (caller, caller.local_agent()) {
            (Caller::Foreign(..), _) => Err(Error::NoTransit(aid.clone())),
            (_, Ok(session)) => Ok(Some(PeerCall { caller, session, issuer: aid.issuer() })),
            (_, Err(_)) => Err(Error::Foreign(aid.issuer().to_owned())),
        }
    }

    /// Calls the other domain, and reads of its answer what is needed. An answer that cannot be read is not passed on: clients
    /// disconnect on some of them.
    pub(super) async fn ask_peer<T: DeserializeOwned>(
        &self,
        call: &PeerCall<'_>,
        request: &impl Request,
        within: Option<Duration>,
    ) -> Result<T, Error> {
        let answer = self.begin_at_peer(call, request, within)?.await?;
        read(call, &answer)
    }

    /// The same in two steps: when this returns, the call is in the order of the peer's queue.
    fn begin_at_peer<R: Request>(
        &self,
        call: &PeerCall<'_>,
        request: &R,
        within: Option<Duration>,
    ) -> Result<PendingAnswer<Box<RawValue>>, Error> {
        if !self.mesh.knows("gateway") {
            let issuer = call.issuer;
            let sentence = format!("{issuer} is another domain, and federation is disabled on this server");
            let error = RpcError::new(codes::FEDERATION_UNREACHABLE, sentence).with("reason", "no_gateway");
            let error = error.with("phase", "connect").with("target_issuer", issuer);
            return Err(error.with("retryable", false).into());
        }
        if !self.mesh.has("gateway") {
            return Err(Error::Foreign(call.issuer.to_owned()));
        }
        let mut forward = forward_for_agent(call.session, call.issuer, R::METHOD, request)?;
        forward.timeout_ms = within.map(|within| within.as_millis() as u64);
        Ok(self.mesh.forward("message", call.caller, forward))
    }
}

fn read<T: DeserializeOwned>(call: &PeerCall<'_>, answer: &RawValue) -> Result<T, Error> {
    Ok(serde_json::from_str(answer.get()).map_err(|error| unreadable(call.issuer, &error))?)
}

fn unreadable(issuer: &str, error: &dyn Display) -> RpcError {
    tracing::debug!(peer.issuer = issuer, "an answer of {issuer} cannot be read: {error}");
    RpcError::new(codes::FEDERATION_REFUSED, format!("the answer of {issuer} cannot be read"))
        .with("reason", "unreadable_answer")
        .with("target_issuer", issuer)
}

impl Error {
    /// Whether the other domain could not be reached, so that the call certainly did not arrive.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Error::Foreign(_) => true,
            Error::Other(error) => is_unreachable(error),
            _ => false,
        }
    }

    /// The same, where the domain may be reached later by itself: what is kept for it may arrive.
    pub fn is_unreachable_now(&self) -> bool {
        self.is_unreachable() && !matches!(self, Error::Other(error) if !deliver::may_succeed_later(error))
    }

    /// Whether the peer link broke before the answer came, so that the call may have arrived or not.
    pub fn link_lost(&self) -> bool {
        matches!(self, Error::Other(error) if link_lost(error) && error.data("federated").is_none())
    }
}

fn link_lost(error: &RpcError) -> bool {
    error.data("reason").is_some_and(|reason| reason == "link_lost")
}

fn is_unreachable(error: &RpcError) -> bool {
    error.code() == codes::FEDERATION_UNREACHABLE.code && error.data("federated").is_none()
}
