//! `message.read`: somebody looked at a message; the other devices need not show it as new.

use super::reading::Stand;
use super::{Error, Message};
use crate::kernel::{Aid, Audience, Caller, Event};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub(super) const READ_CHANGED: &str = "event/message.read_changed";
pub(super) const SCOPE: &str = "p2p";

const MOST: usize = 100;
const LONGEST: usize = 128;

/// A list of states, or one state without the list.
#[derive(Deserialize)]
pub(super) struct ReadParams {
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
pub(super) struct Read {
    updated: usize,
    ignored: usize,
    states: Vec<ReadOne>,
}

#[derive(Clone, Serialize)]
struct ReadOne {
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

impl Message {
    pub(super) async fn read(self: Arc<Self>, caller: Caller, params: ReadParams) -> Result<Read, Error> {
        let session = caller.session()?;
        let wanted = params.checked()?;

        let now = self.clock.now_ms();
        let mut stands = Vec::with_capacity(wanted.len());
        for ReadTo { topic_key: topic, last_read_message_id: message_id, .. } in wanted {
            let message = self.find_message(&session.aid, &topic, &message_id).await?;
            let read_order = message.map_or(0, |message| message.at);
            stands.push(Stand { topic, message_id, read_order, updated_at: now });
        }

        let moved = self.reading.advance(&session.aid, &stands).await?;
        let to = Audience::Others { aid: session.aid.clone(), connection: session.connection };
        for (stand, _) in stands.iter().zip(&moved).filter(|(stand, moved)| **moved && stand.read_order > 0) {
            self.bus.publish(&changed(&to, &session.aid, stand));
        }
        let updated = moved.iter().filter(|moved| **moved).count();
        let states = stands.into_iter().zip(moved).map(ReadOne::of).collect::<Vec<_>>();
        Ok(Read { updated, ignored: states.len() - updated, states })
    }
}

fn changed(to: &Audience, owner_aid: &Aid, stand: &Stand) -> Event {
    let params = ReadChanged {
        owner_aid,
        scope: SCOPE,
        topic_key: &stand.topic,
        last_read_message_id: &stand.message_id,
        last_read_order: stand.read_order,
        updated_at: stand.updated_at,
    };
    Event::new(to.clone(), READ_CHANGED, &params)
}

impl ReadParams {
    fn checked(self) -> Result<Vec<ReadTo>, Error> {
        let ReadParams { states, scope, topic_key, last_read_message_id } = self;
        let states = states.unwrap_or_else(|| vec![ReadTo { scope, topic_key, last_read_message_id }]);
        if states.is_empty() || states.len() > MOST {
            return Err(Error::Param(format!("params.states: has 1 to {MOST} of them")));
        }
        for state in &states {
            check_scope(&state.scope)?;
            check_text("topic_key", &state.topic_key)?;
            check_text("last_read_message_id", &state.last_read_message_id)?;
        }
        Ok(states)
    }
}

impl ReadOne {
    fn of((stand, changed): (Stand, bool)) -> ReadOne {
        ReadOne { scope: SCOPE, topic_key: stand.topic, last_read_message_id: stand.message_id, changed }
    }
}

pub(super) fn check_scope(scope: &str) -> Result<(), Error> {
    match scope {
        "" | SCOPE => Ok(()),
        _ => Err(Error::Param(format!("params.scope: {SCOPE} or nothing"))),
    }
}

/// A zero byte is the one character PostgreSQL cannot keep.
fn check_text(name: &str, text: &str) -> Result<(), Error> {
    if text.is_empty() || text.chars().count() > LONGEST || text.contains('\0') {
        return Err(Error::Param(format!("params.{name}: has 1 to {LONGEST} characters, none of them zero")));
    }
    Ok(())
}

/// Leaving it out is allowed, null is not.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<ReadTo>>, D::Error> {
    Vec::deserialize(deserializer).map(Some)
}
