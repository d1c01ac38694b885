//! `message.read`: an agent has read a message on one device; the others need not show it as new.

use super::read_states::{ReadPosition, ReportedPosition};
use crate::{Error, MessageService};
use kernel::{Aid, Audience, Caller, CallingAgent, Event};
use proto_schemas::requests::message::{Read, ReadMark, ReadMarkResult, ReadResult, ReadScope};
use serde::Serialize;
use std::sync::Arc;

pub(crate) const READ_CHANGED: &str = "event/message.read_changed";

const MAX_STATES: usize = 100;
const MAX_CHARS: usize = 128;

#[derive(Serialize)]
struct ReadChanged<'a> {
    owner_aid: &'a Aid,
    scope: ReadScope,
    topic_key: &'a str,
    last_read_message_id: &'a str,
    last_read_order: i64,
    updated_at: i64,
}

impl MessageService {
    pub(crate) async fn read(self: Arc<Self>, caller: Caller, read: Read) -> Result<ReadResult, Error> {
        let session = caller.local_agent()?;
        let wanted = checked(read)?;

        // The positions that are there must be compared by the times of their messages.
        let resolved = {
            let topics: Vec<&str> = wanted.iter().map(|state| state.topic_key.as_str()).collect();
            self.resolve_positions(&session.aid, Some(topics.as_slice())).await?
        };
        self.publish_read(session, &resolved);

        let now = self.clock.now_ms();
        let mut reported = Vec::with_capacity(wanted.len());
        for ReadMark { topic_key: topic, last_read_message_id: message_id, .. } in wanted {
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
        let states = reported.into_iter().zip(moved).map(mark_result).collect::<Vec<_>>();
        Ok(ReadResult { updated, ignored: states.len() - updated, states })
    }

    /// Tells the other connections of an agent how far it has read.
    pub(crate) fn publish_read<'a>(
        &self,
        session: &CallingAgent,
        positions: impl IntoIterator<Item = &'a ReadPosition>,
    ) {
        let to = Audience::Others { aid: session.aid.clone(), connection: session.connection };
        for position in positions {
            let params = ReadChanged {
                owner_aid: &session.aid,
                scope: ReadScope::P2p,
                topic_key: &position.topic,
                last_read_message_id: &position.message_id,
                last_read_order: position.read_order,
                updated_at: position.updated_at,
            };
            self.bus.publish(&Event::new(to.clone(), READ_CHANGED, &params));
        }
    }
}

/// A list of marks, or one mark without the list.
fn checked(read: Read) -> Result<Vec<ReadMark>, Error> {
    let Read { states, scope, topic_key, last_read_message_id } = read;
    let (topic_key, last_read_message_id) =
        (topic_key.unwrap_or_default(), last_read_message_id.unwrap_or_default());
    let marks = states.unwrap_or_else(|| vec![ReadMark { scope, topic_key, last_read_message_id }]);
    if marks.is_empty() || marks.len() > MAX_STATES {
        return Err(Error::Param(format!("states must have 1 to {MAX_STATES} entries")));
    }
    for mark in &marks {
        check_scope(mark.scope.as_deref())?;
        check_text("topic_key", &mark.topic_key)?;
        check_text("last_read_message_id", &mark.last_read_message_id)?;
    }
    Ok(marks)
}

fn mark_result((ReportedPosition { position, .. }, changed): (ReportedPosition, bool)) -> ReadMarkResult {
    ReadMarkResult {
        scope: ReadScope::P2p,
        topic_key: position.topic,
        last_read_message_id: position.message_id,
        changed,
    }
}

/// Absent and empty mean the one scope there is.
pub(crate) fn check_scope(scope: Option<&str>) -> Result<(), Error> {
    match scope {
        None | Some("" | "p2p") => Ok(()),
        Some(_) => Err(Error::Param("scope must be p2p or absent".to_owned())),
    }
}

/// A zero byte is the one character PostgreSQL cannot store.
fn check_text(name: &str, text: &str) -> Result<(), Error> {
    if text.is_empty() || text.chars().count() > MAX_CHARS || text.contains('\0') {
        return Err(Error::Param(format!("{name} must have 1 to {MAX_CHARS} characters, and no NUL")));
    }
    Ok(())
}
