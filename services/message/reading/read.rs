//! `message.read`: an agent has read a message on one device; the others need not show it as new.

use super::read_states::{ReadPosition, ReportedPosition};
use crate::{Error, MessageService};
use kernel::{Aid, Audience, Caller, Event, Session};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub(crate) const READ_CHANGED: &str = "event/message.read_changed";
pub(crate) const SCOPE: &str = "p2p";

const MAX_STATES: usize = 100;
const MAX_CHARS: usize = 128;

/// A list of states, or one state without the list.
#[derive(Deserialize)]
pub(crate) struct ReadParams {
    #[serde(default, deserialize_with = "given")]
    states: Option<Vec<ReadTo>>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    topic_key: String,
    #[serde(default)]
    last_read_message_id: String,
}

#[derive(Clone, Deserialize)]
struct ReadTo {
    #[serde(default)]
    scope: String,
    topic_key: String,
    last_read_message_id: String,
}

#[derive(Clone, Serialize)]
pub(crate) struct ReadMarked {
    updated: usize,
    ignored: usize,
    states: Vec<TopicRead>,
}

#[derive(Clone, Serialize)]
struct TopicRead {
    scope: &'static str,
    topic_key: String,
    last_read_message_id: String,
    changed: bool,
}

#[derive(Serialize)]
struct ReadChanged<'a> {
    owner_aid: &'a Aid,
    scope: &'static str,
    topic_key: &'a str,
    last_read_message_id: &'a str,
    last_read_order: i64,
    updated_at: i64,
}

impl MessageService {
    pub(crate) async fn read(
        self: Arc<Self>,
        caller: Caller,
        params: ReadParams,
    ) -> Result<ReadMarked, Error> {
        let session = caller.agent()?;
        let wanted = params.checked()?;

        // The positions that are there must be compared by the times of their messages.
        let resolved = {
            let topics: Vec<&str> = wanted.iter().map(|state| state.topic_key.as_str()).collect();
            self.resolve_positions(&session.aid, Some(topics.as_slice())).await?
        };
        self.publish_read(session, &resolved);

        let now = self.clock.now_ms();
        let mut reported = Vec::with_capacity(wanted.len());
        for ReadTo { topic_key: topic, last_read_message_id: message_id, .. } in wanted {
            let message = self.find_message(&session.aid, &topic, &message_id).await?;
            let targeted = message.as_ref().is_some_and(|message| message.is_targeted_at(&session.aid));
            let read_order = message.map_or(0, |message| message.at);
            let position = ReadPosition { topic, message_id, read_order, updated_at: now };
            reported.push(ReportedPosition { position, device: targeted.then(|| session.device.clone()) });
        }

        let moved = self.read_states.advance(&session.aid, &reported).await?;
        // What was sent to one device alone is no news to the others, and what is not found has no order yet.
        let shared = |one: &ReportedPosition| one.device.is_none() && one.position.read_order > 0;
        let told = reported.iter().zip(&moved).filter(|(one, moved)| **moved && shared(one));
        self.publish_read(session, told.map(|(one, _)| &one.position));
        let updated = moved.iter().filter(|moved| **moved).count();
        let states = reported.into_iter().zip(moved).map(TopicRead::of).collect::<Vec<_>>();
        Ok(ReadMarked { updated, ignored: states.len() - updated, states })
    }

    /// Tells the other connections of an agent how far it has read.
    pub(crate) fn publish_read<'a>(
        &self,
        session: &Session,
        positions: impl IntoIterator<Item = &'a ReadPosition>,
    ) {
        let to = Audience::Others { aid: session.aid.clone(), connection: session.connection };
        for position in positions {
            let params = ReadChanged {
                owner_aid: &session.aid,
                scope: SCOPE,
                topic_key: &position.topic,
                last_read_message_id: &position.message_id,
                last_read_order: position.read_order,
                updated_at: position.updated_at,
            };
            self.bus.publish(&Event::new(to.clone(), READ_CHANGED, &params));
        }
    }
}

impl ReadParams {
    fn checked(self) -> Result<Vec<ReadTo>, Error> {
        let ReadParams { states, scope, topic_key, last_read_message_id } = self;
        let states = states.unwrap_or_else(|| vec![ReadTo { scope, topic_key, last_read_message_id }]);
        if states.is_empty() || states.len() > MAX_STATES {
            return Err(Error::Param(format!("params.states: must be 1 to {MAX_STATES}")));
        }
        for state in &states {
            check_scope(&state.scope)?;
            check_text("topic_key", &state.topic_key)?;
            check_text("last_read_message_id", &state.last_read_message_id)?;
        }
        Ok(states)
    }
}

impl TopicRead {
    fn of((ReportedPosition { position, .. }, changed): (ReportedPosition, bool)) -> TopicRead {
        TopicRead {
            scope: SCOPE,
            topic_key: position.topic,
            last_read_message_id: position.message_id,
            changed,
        }
    }
}

pub(crate) fn check_scope(scope: &str) -> Result<(), Error> {
    match scope {
        "" | SCOPE => Ok(()),
        _ => Err(Error::Param(format!("params.scope: must be {SCOPE} or absent"))),
    }
}

/// A zero byte is the one character PostgreSQL cannot store.
fn check_text(name: &str, text: &str) -> Result<(), Error> {
    if text.is_empty() || text.chars().count() > MAX_CHARS || text.contains('\0') {
        return Err(Error::Param(format!(
            "params.{name}: must have 1 to {MAX_CHARS} characters, none of them zero"
        )));
    }
    Ok(())
}

/// Leaving it out is allowed, null is not.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<ReadTo>>, D::Error> {
    Vec::deserialize(deserializer).map(Some)
}
