//! `message.thought.get`: the thoughts of one context, for their sender and the peer they are for.

use crate::{Error, MessageService};
use kernel::Caller;
use proto_schemas::requests::message::thought::{Get, ThoughtsOfContext};
use std::sync::Arc;

impl MessageService {
    pub(in super::super) async fn get_thought(
        self: Arc<Self>,
        caller: Caller,
        Get { sender_aid, context, peer_aid, to }: Get,
    ) -> Result<ThoughtsOfContext, Error> {
        let session = caller.calling_agent()?;
        let peer_aid = peer_aid.or(to).unwrap_or_else(|| session.aid.clone());
        if session.aid != sender_aid && session.aid != peer_aid {
            return Err(Error::NotYours(format!("a thought of {sender_aid} for {peer_aid}")));
        }
        // Thoughts are stored in the domain of the peer they are for; only their sender asks there.
        if let Some(peer_call) = self.peer_call(&caller, &peer_aid)? {
            if session.aid != sender_aid {
                return Err(Error::NotYours(format!("a thought of {sender_aid} for {peer_aid}")));
            }
            let (about, reader) = (context.clone(), Some(peer_aid.clone()));
            let request = Get { sender_aid: sender_aid.clone(), context: about, peer_aid: reader, to: None };
            let got: ThoughtsOfContext = self.ask_peer(&peer_call, &request, None).await?;
            return Ok(ThoughtsOfContext { sender_aid, peer_aid, context, ..got });
        }

        let list = self.find_thoughts(&sender_aid, &peer_aid, &context).await?;
        let updated_at = list.as_ref().map(|list| list.updated_at);
        let thoughts = list.map(|list| list.items).unwrap_or_default();
        let found = !thoughts.is_empty();
        Ok(ThoughtsOfContext { found, sender_aid, peer_aid, context, thoughts, updated_at })
    }
}
