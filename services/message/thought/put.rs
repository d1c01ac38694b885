//! `message.thought.put`: add a thought to those about one thing.

use super::super::{Error, Message};
use super::{Context, LONGEST_NAME, Thought};
use crate::kernel::{Aid, Caller};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

/// As large as a message may be.
const LARGEST: usize = 1 << 20;

#[derive(Deserialize)]
pub(crate) struct PutThoughtParams {
    to: Aid,
    context: Context,
    payload: Box<RawValue>,
    #[serde(default)]
    thought_id: Option<String>,
}

#[derive(Clone, Serialize)]
pub(crate) struct ThoughtPut {
    sender_aid: Aid,
    peer_aid: Aid,
    to: Aid,
    context: Context,
    thought_id: String,
    stored_count: usize,
    updated_at: i64,
}

impl Message {
    pub(in super::super) async fn put_thought(
        self: Arc<Self>,
        caller: Caller,
        params: PutThoughtParams,
    ) -> Result<ThoughtPut, Error> {
        let session = caller.session()?;
        params.check()?;
        let PutThoughtParams { to, context, payload, thought_id } = params;
        if to.issuer() != self.issuer {
            return Err(Error::Foreign(to));
        }
        if self.inboxes.of(&to).await?.is_empty() && !self.cert_of(&to).await?.found {
            return Err(Error::NoRecipient(to));
        }

        let now = self.clock.now_ms();
        let thought_id = thought_id
            .filter(|id| !id.is_empty())
            .unwrap_or_else(|| format!("mt-{}", self.ids.time_ordered(now)));
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
        Ok(ThoughtPut { sender_aid, peer_aid, to, context, thought_id, stored_count, updated_at: now })
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
