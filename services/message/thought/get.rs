//! `message.thought.get`: the thoughts of one context, for their sender and the peer they are for.

use super::{Context, Thought};
use crate::{Error, MessageService};
use kernel::{Aid, Caller};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

#[derive(Deserialize)]
pub(crate) struct GetThoughtParams {
    sender_aid: Aid,
    context: Context,
    #[serde(default)]
    peer_aid: Option<Aid>,
    /// Another name for the same.
    #[serde(default)]
    to: Option<Aid>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct GotThought {
    found: bool,
    sender_aid: Aid,
    peer_aid: Aid,
    context: Context,
    thoughts: Vec<Arc<Thought>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    updated_at: Option<i64>,
}

impl MessageService {
    pub(in super::super) async fn get_thought(
        self: Arc<Self>,
        caller: Caller,
        params: GetThoughtParams,
    ) -> Result<GotThought, Error> {
        let session = caller.speaker()?;
        let GetThoughtParams { sender_aid, context, peer_aid, to } = params;
        let peer_aid = peer_aid.or(to).unwrap_or_else(|| session.aid.clone());
        if session.aid != sender_aid && session.aid != peer_aid {
            return Err(Error::NotYours(format!("what {sender_aid} thinks for {peer_aid}")));
        }
        // Thoughts are stored in the domain of the peer they are for; only their sender asks there.
        if let Some(peer_call) = self.peer_call(&caller, &peer_aid)? {
            if session.aid != sender_aid {
                return Err(Error::NotYours(format!("what {sender_aid} thinks for {peer_aid}")));
            }
            let params = json!({ "sender_aid": sender_aid, "peer_aid": peer_aid, "context": context });
            let got: GotThought = self.ask_peer(&peer_call, "message.thought.get", &params, None).await?;
            return Ok(GotThought { sender_aid, peer_aid, context, ..got });
        }

        let list = self.find_thoughts(&sender_aid, &peer_aid, &context).await?;
        let updated_at = list.as_ref().map(|list| list.updated_at);
        let thoughts = list.map(|list| list.items).unwrap_or_default();
        Ok(GotThought { found: !thoughts.is_empty(), sender_aid, peer_aid, context, thoughts, updated_at })
    }
}
