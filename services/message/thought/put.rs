//! `message.thought.put`: add a thought to those of one context.

use super::{Context, MAX_NAME_BYTES, Thought};
use crate::federation::PeerCall;
use crate::{Error, MessageService};
use kernel::{Aid, Caller};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

/// As large as a message may be as it is written: it is read in one frame, and the oldest clients accept none above a MiB.
const MAX_PAYLOAD_BYTES: usize = 1_000_000;

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

impl MessageService {
    pub(in super::super) async fn put_thought(
        self: Arc<Self>,
        caller: Caller,
        params: PutThoughtParams,
    ) -> Result<ThoughtPut, Error> {
        let session = caller.speaker()?;
        params.check()?;
        if let Some(peer_call) = self.peer_call(&caller, &params.to)? {
            return self.put_thought_at_peer(&peer_call, &params).await;
        }
        let PutThoughtParams { to, context, payload, thought_id } = params;
        let connected = self.inboxes.of(&to).await?.iter().any(|inbox| inbox.joined);
        if !connected && !self.is_agent(&to).await? {
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
        thought.check()?;
        let stored_count = self.store_thought(thought).await?;
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

    /// Stored in the domain of its reader. It has its id before it is sent, so that it may be sent twice.
    async fn put_thought_at_peer(
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
            return Err(Error::Param("params.payload: must be an object".to_owned()));
        }
        if self.payload.get().len() > MAX_PAYLOAD_BYTES {
            return Err(Error::Param(format!("params.payload: must have at most {MAX_PAYLOAD_BYTES} bytes")));
        }
        if self.thought_id.as_ref().is_some_and(|id| id.len() > MAX_NAME_BYTES) {
            return Err(Error::Param(format!("params.thought_id: must have at most {MAX_NAME_BYTES} bytes")));
        }
        Ok(())
    }
}
