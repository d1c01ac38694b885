//! `message.read_state`: how far was read, as all devices of the agent together have it.

use super::consumer::ConsumerClaim;
use super::read::{SCOPE, check_scope};
use super::read_states::ReadPosition;
use crate::{Error, MessageService};
use kernel::Caller;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
pub(crate) struct ReadStateParams {
    #[serde(default)]
    scope: String,
    #[serde(default)]
    topic_key: String,
    /// Only the caller itself: nobody sees what others have read.
    #[serde(default)]
    aid: String,
}

#[derive(Clone, Serialize)]
pub(crate) struct GotReadState {
    scope: &'static str,
    states: Vec<TopicState>,
    /// A single state again, for clients that read it here.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    only: Option<TopicPosition>,
}

#[derive(Clone, Serialize)]
struct TopicState {
    scope: &'static str,
    #[serde(flatten)]
    position: TopicPosition,
}

#[derive(Clone, Serialize)]
struct TopicPosition {
    topic_key: String,
    last_read_message_id: String,
    last_read_order: i64,
    /// The seq the message has in the inbox of the calling device.
    current_device_seq: Option<i64>,
    mapping_status: &'static str,
    updated_at: i64,
}

impl MessageService {
    pub(crate) async fn read_state(
        self: Arc<Self>,
        caller: Caller,
        params: ReadStateParams,
    ) -> Result<GotReadState, Error> {
        check_scope(&params.scope)?;
        let consumer = self.consumer(&caller, &ConsumerClaim::default()).await?;
        if !params.aid.is_empty() && params.aid != consumer.aid.as_str() {
            return Err(Error::NotYours(format!("what {} has read", params.aid)));
        }

        let topic = Some(params.topic_key.as_str()).filter(|topic| !topic.is_empty());
        let topics = topic.as_ref().map(std::slice::from_ref);
        let resolved = self.resolve_positions(&consumer.aid, topics).await?;
        self.publish_read(caller.session()?, &resolved);
        let mut topics = Vec::new();
        for position in self.read_states.of(&consumer.aid, topic).await? {
            let message = self.find_message(&consumer.aid, &position.topic, &position.message_id).await?;
            let entry = message.as_ref().and_then(|message| message.entry(consumer.inbox));
            let seq = entry.map(|entry| entry.seq);
            let mapping_status = match (&message, seq) {
                (_, Some(_)) => "resolved",
                (Some(_), None) => "not_received",
                (None, None) => "unresolved",
            };
            topics.push(TopicPosition::of(position, seq, mapping_status));
        }
        let only = Some(&topics).filter(|topics| topics.len() == 1).map(|topics| topics[0].clone());
        let states = topics.into_iter().map(|position| TopicState { scope: SCOPE, position }).collect();
        Ok(GotReadState { scope: SCOPE, states, only })
    }
}

impl TopicPosition {
    fn of(position: ReadPosition, seq: Option<i64>, mapping_status: &'static str) -> TopicPosition {
        TopicPosition {
            topic_key: position.topic,
            last_read_message_id: position.message_id,
            last_read_order: position.read_order,
            current_device_seq: seq,
            mapping_status,
            updated_at: position.updated_at,
        }
    }
}
