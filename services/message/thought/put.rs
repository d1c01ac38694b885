//! `message.thought.put`: add a thought to those of one context.

use crate::federation::PeerCall;
use crate::sending::row_limit::MAX_ROW_BYTES;
use crate::store::bind::json;
use crate::{Error, MessageService};
use kernel::Caller;
use proto_schemas::requests::message::thought::{Put, StoredThought, Thought, ThoughtContext};
use std::sync::Arc;

/// As large as a message may be as it is written: it is read in one frame, and the oldest clients accept none above a MiB.
const MAX_PAYLOAD_BYTES: usize = 1_000_000;
const MAX_NAME_BYTES: usize = 256;

impl MessageService {
    pub(in super::super) async fn put_thought(
        self: Arc<Self>,
        caller: Caller,
        put: Put,
    ) -> Result<StoredThought, Error> {
        let session = caller.calling_agent()?;
        check(&put)?;
        let to = put.to.clone();
        if let Some(peer_call) = self.peer_call(&caller, &to)? {
            return self.put_thought_at_peer(&peer_call, put).await;
        }
        let Put { context, payload, thought_id, .. } = put;
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
        check_size(&thought)?;
        let stored_count = self.store_thought(thought).await?;
        let (sender_aid, peer_aid) = (session.aid.clone(), to.clone());
        Ok(StoredThought {
            sender_aid,
            peer_aid,
            to,
            context,
            thought_id,
            stored_count,
            updated_at: now,
            cross_domain: None,
            target_issuer: None,
        })
    }

    /// Stored in the domain of its reader. It has its id before it is sent, so that it may be sent twice.
    async fn put_thought_at_peer(&self, peer_call: &PeerCall<'_>, put: Put) -> Result<StoredThought, Error> {
        let thought_id = self.thought_id(put.thought_id.as_deref(), self.clock.now_ms());
        let sent_id = Some(thought_id.clone());
        let request = Put { thought_id: sent_id, encrypted: None, kind: None, timestamp: None, ..put };
        let stored: StoredThought = self.ask_peer(peer_call, &request, None).await?;
        Ok(StoredThought {
            sender_aid: peer_call.session.aid.clone(),
            peer_aid: request.to.clone(),
            to: request.to,
            context: request.context,
            thought_id,
            cross_domain: Some(true),
            target_issuer: Some(peer_call.issuer.to_owned()),
            ..stored
        })
    }

    fn thought_id(&self, given: Option<&str>, now: i64) -> String {
        let given = given.filter(|id| !id.is_empty());
        given.map_or_else(|| format!("mt-{}", self.ids.time_ordered(now)), str::to_owned)
    }
}

fn check(put: &Put) -> Result<(), Error> {
    check_context(&put.context)?;
    if !put.payload.get().starts_with('{') {
        return Err(Error::Param("payload must be an object".to_owned()));
    }
    if put.payload.get().len() > MAX_PAYLOAD_BYTES {
        return Err(Error::Param(format!("payload must have at most {MAX_PAYLOAD_BYTES} bytes")));
    }
    if put.thought_id.as_ref().is_some_and(|id| id.len() > MAX_NAME_BYTES) {
        return Err(Error::Param(format!("thought_id must have at most {MAX_NAME_BYTES} bytes")));
    }
    Ok(())
}

fn check_context(context: &ThoughtContext) -> Result<(), Error> {
    for (name, text) in [("type", &context.kind), ("id", &context.id)] {
        if text.is_empty() || text.len() > MAX_NAME_BYTES {
            return Err(Error::Param(format!(
                "params.context.{name}: must have 1 to {MAX_NAME_BYTES} bytes"
            )));
        }
    }
    Ok(())
}

/// Like the row of a message, a thought has to fit into a frame of the oldest clients.
fn check_size(thought: &Thought) -> Result<(), Error> {
    let bytes = json(thought).len();
    if bytes <= MAX_ROW_BYTES {
        return Ok(());
    }
    Err(Error::Param(format!(
        "payload: the thought as delivered must have at most {MAX_ROW_BYTES} bytes, and has {bytes}"
    )))
}
