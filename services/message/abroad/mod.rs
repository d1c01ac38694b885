//! Agents of other domains: what is asked of them is asked over there, through the gateway.
//!
//! A message lives where its recipient lives; that domain gives it its numbers. Here are only the copies for the
//! sender's own other devices. A call that came from another domain is never passed on to a third.

mod bells;
mod deliver;
mod lease;
mod outbox;
mod recall;
mod rows;
mod send;
mod targets;

pub(super) use bells::Bells;
pub(super) use outbox::Outbox;
pub(super) use recall::RecalledAbroad;
pub(super) use targets::Targets;

use super::{Error, Message};
use crate::kernel::{Aid, Answering, Caller, Forward, RpcError, Session, codes};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::fmt::Display;
use std::time::Duration;

/// A call for an agent of another domain.
pub(super) struct Crossing<'a> {
    pub session: &'a Session,
    pub issuer: &'a str,
}

impl Message {
    pub(super) fn is_ours(&self, aid: &Aid) -> bool {
        aid.issuer() == self.issuer
    }

    /// Where a call about this agent goes on, if it is not answered here.
    pub(super) fn crossing<'a>(
        &self,
        caller: &'a Caller,
        aid: &'a Aid,
    ) -> Result<Option<Crossing<'a>>, Error> {
        if self.is_ours(aid) {
            return Ok(None);
        }
        match caller {
            Caller::Foreign(..) => Err(Error::NoTransit(aid.clone())),
            Caller::Agent(session) => Ok(Some(Crossing { session, issuer: aid.issuer() })),
            _ => Err(Error::Foreign(aid.issuer().to_owned())),
        }
    }

    /// Asks the other domain. An answer that cannot be read is not passed on: clients hang up on some of them.
    pub(super) async fn ask_abroad<T: DeserializeOwned>(
        &self,
        crossing: &Crossing<'_>,
        method: &str,
        params: &impl Serialize,
        within: Option<Duration>,
    ) -> Result<T, Error> {
        let answer = self.begin_abroad(crossing, method, params, within)?.await?;
        read(crossing, &answer)
    }

    /// The same in two steps: polled once, the question has its place on the way there.
    fn begin_abroad(
        &self,
        crossing: &Crossing<'_>,
        method: &str,
        params: &impl Serialize,
        within: Option<Duration>,
    ) -> Result<Answering<Box<RawValue>>, Error> {
        if !self.mesh.has("gateway") {
            return Err(Error::Foreign(crossing.issuer.to_owned()));
        }
        let mut forward = Forward::new(crossing.session, crossing.issuer, method, params)?;
        forward.timeout_ms = within.map(|within| within.as_millis() as u64);
        Ok(self.mesh.forward("message", forward))
    }
}

fn read<T: DeserializeOwned>(crossing: &Crossing<'_>, answer: &RawValue) -> Result<T, Error> {
    Ok(serde_json::from_str(answer.get()).map_err(|error| unreadable(crossing.issuer, &error))?)
}

fn unreadable(issuer: &str, error: &dyn Display) -> RpcError {
    tracing::debug!(peer.issuer = issuer, "an answer of {issuer} cannot be read: {error}");
    RpcError::new(codes::FEDERATION_REFUSED, format!("{issuer} answered something that cannot be read"))
        .with("reason", "unreadable_answer")
        .with("target_issuer", issuer)
}

impl Error {
    /// Whether the other domain could not be reached, so that nothing got there.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Error::Foreign(_) => true,
            Error::Other(error) => is_unreachable(error),
            _ => false,
        }
    }

    /// Whether the link broke before the answer came, so that nobody knows.
    pub fn broke_off(&self) -> bool {
        matches!(self, Error::Other(error) if broke_off(error) && error.data("federated").is_none())
    }
}

/// Whether the link was there, and not any more when the answer should have come.
fn broke_off(error: &RpcError) -> bool {
    error.data("reason").is_some_and(|reason| reason == "link_lost")
}

fn is_unreachable(error: &RpcError) -> bool {
    error.code() == codes::FEDERATION_UNREACHABLE.code && error.data("federated").is_none()
}
