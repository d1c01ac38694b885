//! `message.read_state`: how far was read, as all devices of the agent together have it.

use super::consumer::Claim;
use super::read::{SCOPE, check_scope};
use super::reading::Stand;
use super::{Error, Message};
use crate::kernel::Caller;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct ReadStateParams {
    #[serde(default)]
    scope: String,
    #[serde(default)]
    topic_key: String,
    /// Nobody sees what others have read.
    #[serde(default)]
    aid: String,
}

#[derive(Clone, Serialize)]
pub(super) struct GotReadState {
    scope: &'static str,
    states: Vec<State>,
    /// One state alone is told here again, for clients that look for it here.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    only: Option<Place>,
}

#[derive(Clone, Serialize)]
struct State {
    scope: &'static str,
    #[serde(flatten)]
    place: Place,
}

#[derive(Clone, Serialize)]
struct Place {
    topic_key: String,
    last_read_message_id: String,
    last_read_order: i64,
    /// The number the message has in the inbox of the calling device.
    current_device_seq: Option<i64>,
    mapping_status: &'static str,
    updated_at: i64,
}

impl Message {
    pub(super) async fn read_state(
        self: Arc<Self>,
        caller: Caller,
        params: ReadStateParams,
    ) -> Result<GotReadState, Error> {
        check_scope(&params.scope)?;
        let consumer = self.consumer(&caller, &Claim::default()).await?;
        if !params.aid.is_empty() && params.aid != consumer.aid.as_str() {
            return Err(Error::NotYours(format!("what {} has read", params.aid)));
        }

        let topic = Some(params.topic_key.as_str()).filter(|topic| !topic.is_empty());
        let mut places = Vec::new();
        for stand in self.reading.of(&consumer.aid, topic).await? {
            let message = self.find_message(&consumer.aid, &stand.topic, &stand.message_id).await?;
            let seq = message.as_ref().and_then(|message| {
                message.places.iter().find(|place| place.inbox == consumer.inbox).map(|place| place.seq)
            });
            let order = stand.read_order.max(message.map_or(0, |message| message.at));
            places.push(Place::of(stand, order, seq));
        }
        let only = Some(&places).filter(|places| places.len() == 1).map(|places| places[0].clone());
        let states = places.into_iter().map(|place| State { scope: SCOPE, place }).collect();
        Ok(GotReadState { scope: SCOPE, states, only })
    }
}

impl Place {
    fn of(stand: Stand, order: i64, seq: Option<i64>) -> Place {
        let mapping_status = match (order, seq) {
            (_, Some(_)) => "resolved",
            (0, None) => "unresolved",
            (_, None) => "not_received",
        };
        Place {
            topic_key: stand.topic,
            last_read_message_id: stand.message_id,
            last_read_order: order,
            current_device_seq: seq,
            mapping_status,
            updated_at: stand.updated_at,
        }
    }
}
