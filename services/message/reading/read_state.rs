//! `message.read_state`: how far was read, as all devices of the agent together have it.

use super::consumer::ConsumerClaim;
use super::read::check_scope;
use super::read_states::ReadPosition;
use crate::{Error, MessageService};
use kernel::Caller;
use proto_schemas::requests::message::{
    MappingStatus, ReadScope, ReadState, ReadStateResult, TopicReadState,
};
use std::sync::Arc;

impl MessageService {
    /// Only for the caller itself: nobody sees what others have read.
    pub(crate) async fn read_state(
        self: Arc<Self>,
        caller: Caller,
        ReadState { scope, topic_key, aid }: ReadState,
    ) -> Result<ReadStateResult, Error> {
        check_scope(scope.as_deref())?;
        let consumer = self.consumer(&caller, ConsumerClaim::default()).await?;
        if let Some(aid) = aid.filter(|aid| !aid.is_empty() && aid != consumer.aid.as_str()) {
            return Err(Error::NotYours(format!("what {aid} has read")));
        }

        let topic = topic_key.as_deref().filter(|topic| !topic.is_empty());
        let topics = topic.as_ref().map(std::slice::from_ref);
        let resolved = self.resolve_positions(&consumer.aid, topics).await?;
        self.publish_read(caller.connected_agent()?, &resolved);
        let mut states = Vec::new();
        for position in self.read_states.of(&consumer.aid, topic).await? {
            let message = self.find_message(&consumer.aid, &position.topic, &position.message_id).await?;
            let entry = message.as_ref().and_then(|message| message.entry(consumer.inbox));
            let seq = entry.map(|entry| entry.seq);
            let mapping_status = match (&message, seq) {
                (_, Some(_)) => MappingStatus::Resolved,
                (Some(_), None) => MappingStatus::NotReceived,
                (None, None) => MappingStatus::Unresolved,
            };
            states.push(topic_state(position, seq, mapping_status));
        }
        Ok(result(states))
    }
}

fn topic_state(position: ReadPosition, seq: Option<i64>, mapping_status: MappingStatus) -> TopicReadState {
    TopicReadState {
        scope: ReadScope::P2p,
        topic_key: position.topic,
        last_read_message_id: position.message_id,
        last_read_order: position.read_order,
        current_device_seq: seq,
        mapping_status,
        updated_at: position.updated_at,
    }
}

/// A single state is answered twice, for clients that read it outside of the list.
fn result(states: Vec<TopicReadState>) -> ReadStateResult {
    let only = Some(&states).filter(|states| states.len() == 1).and_then(|states| states.first());
    ReadStateResult {
        scope: ReadScope::P2p,
        topic_key: only.map(|only| only.topic_key.clone()),
        last_read_message_id: only.map(|only| only.last_read_message_id.clone()),
        last_read_order: only.map(|only| only.last_read_order),
        current_device_seq: only.map(|only| only.current_device_seq),
        mapping_status: only.map(|only| only.mapping_status),
        updated_at: only.map(|only| only.updated_at),
        states,
    }
}
