//! `message.thought.put`: add a thought to those about one thing.

use super::super::federation::PeerCall;
use super::super::{Error, Message};
use super::{Context, LONGEST_NAME, Thought};
use crate::kernel::{Aid, Caller};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

/// As large as a message may be.
const LARGEST: usize = 1 << 20;

#[derive(Deserialize, Serialize)]
pub(crate) struct PutThoughtParams {
    to: Aid,
    context: Context,
    payload: Box<RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thought_id: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ThoughtPut {
    sender_aid: Aid,
    peer_aid: Aid,
    to: Aid,
    context: Context,
    thought_id: String,
    stored_count: usize,
    updated_at: i64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cross_domain: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target_issuer: Option<String>,
}

impl Message {
    pub(in super::super) async fn put_thought(
        self: Arc<Self>,
        caller: Caller,
        params: PutThoughtParams,
    ) -> Result<ThoughtPut, Error> {
        let session = caller.speaker()?;
        params.check()?;
        if let Some(peer_call) = self.peer_call(&caller, &params.to)? {
            return self.put_thought_abroad(&peer_call, &params).await;
        }
        let PutThoughtParams { to, context, payload, thought_id } = params;
        if self.inboxes.of(&to).await?.is_empty() && !self.cert_of(&to).await?.found {
            return Err(Error::NoRecipient(to));
        }

        let now = self.clock.now_ms();
        let thought_id = self.thought_id(thought_id.as_deref(), now);
        let thought = Thought {
            thought_id: thought_id.clone(),
            message_id: thought_id.clone(),
            context: context.clone(),
            from: session.aid.clone(),
            to: to.clone(),
            payload,
            created_at: now,
        };
        let stored_count = self.keep_thought(thought).await?;
        let (sender_aid, peer_aid) = (session.aid.clone(), to.clone());
        Ok(ThoughtPut {
            sender_aid,
            peer_aid,
            to,
            context,
            thought_id,
            stored_count,
            updated_at: now,
            cross_domain: false,
            target_issuer: None,
        })
    }

    /// Kept where the one lives whom it is for. It has its name before it goes, so that it may be sent twice.
    async fn put_thought_abroad(
        &self,
        peer_call: &PeerCall<'_>,
        params: &PutThoughtParams,
    ) -> Result<ThoughtPut, Error> {
        let thought_id = self.thought_id(params.thought_id.as_deref(), self.clock.now_ms());
        let params = PutThoughtParams {
            to: params.to.clone(),
            context: params.context.clone(),
            payload: params.payload.clone(),
            thought_id: Some(thought_id.clone()),
        };
        let put: ThoughtPut = self.ask_peer(peer_call, "message.thought.put", &params, None).await?;
        Ok(ThoughtPut {
            sender_aid: peer_call.session.aid.clone(),
            peer_aid: params.to.clone(),
            to: params.to,
            context: params.context,
            thought_id,
            cross_domain: true,
            target_issuer: Some(peer_call.issuer.to_owned()),
            ..put
        })
    }

    fn thought_id(&self, given: Option<&str>, now: i64) -> String {
        let given = given.filter(|id| !id.is_empty());
        given.map_or_else(|| format!("mt-{}", self.ids.time_ordered(now)), str::to_owned)
    }
}

impl PutThoughtParams {
    fn check(&self) -> Result<(), Error> {
        self.context.check()?;
        if !self.payload.get().starts_with('{') {
            return Err(Error::Param("params.payload: not an object".to_owned()));
        }
        if self.payload.get().len() > LARGEST {
            return Err(Error::Param(format!("params.payload: has at most {LARGEST} bytes")));
        }
        if self.thought_id.as_ref().is_some_and(|id| id.len() > LONGEST_NAME) {
            return Err(Error::Param(format!("params.thought_id: has at most {LONGEST_NAME} bytes")));
        }
        Ok(())
    }
}
