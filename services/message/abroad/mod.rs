//! Agents of other domains: what is asked of them is asked over there, through the door.
//!
//! A message lives where its recipient lives; that domain gives it its numbers. Here are only the copies for the
//! sender's own other devices. A call that came from another domain is never passed on to a third.

mod bells;
mod send;

pub(super) use bells::Bells;

use super::{Error, Message};
use crate::kernel::{Aid, Caller, Forward, RpcError, Session, codes};
use serde::Serialize;
use serde::de::DeserializeOwned;
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
            Caller::Agent(session) if self.mesh.has("gateway") => {
                Ok(Some(Crossing { session, issuer: aid.issuer() }))
            }
            _ => Err(Error::Foreign(aid.clone())),
        }
    }

    /// Asks the other domain. An answer that cannot be read is not passed on: clients hang up on some of them.
    pub(super) async fn ask_abroad<T: DeserializeOwned>(
        &self,
        crossing: &Crossing<'_>,
        method: &str,
        params: &impl Serialize,
        within: Option<Duration>,
    ) -> Result<T, RpcError> {
        let mut forward = Forward::new(crossing.session, crossing.issuer, method, params)?;
        forward.timeout_ms = within.map(|within| within.as_millis() as u64);
        let answer = self.mesh.forward("message", &forward).await?;
        serde_json::from_str(answer.result.get()).map_err(|error| unreadable(crossing.issuer, &error))
    }
}

fn unreadable(issuer: &str, error: &serde_json::Error) -> RpcError {
    tracing::debug!(peer.issuer = issuer, "an answer of {issuer} cannot be read: {error}");
    RpcError::new(codes::FEDERATION_REFUSED, format!("{issuer} answered something that cannot be read"))
        .with("reason", "unreadable_answer")
        .with("target_issuer", issuer)
}
