//! Messages with a time to live: kept in memory until it is over, and announced at once. They have no number.

use super::ledger::Draft;
use super::letter::{Key, Kind, Letter, Place};
use super::rows::{self, Fleeting};
use super::send::Sent;
use super::volatile::VolatileRow;
use super::{Message, events};
use crate::kernel::{Audience, DeviceId, Event, Session};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;

/// The answers to messages that are only in memory, for those who send one again while it lives.
#[derive(Default)]
pub(super) struct FleetingSent(Mutex<HashMap<Key, (i64, Sent)>>);

impl FleetingSent {
    /// With so many alive at once, new ones are not remembered.
    const MOST: usize = 100_000;

    fn get(&self, key: Key, now: i64) -> Option<Sent> {
        self.0.lock().get(&key).filter(|(expires_at, _)| *expires_at > now).map(|(_, sent)| sent.clone())
    }

    fn put(&self, key: Key, expires_at: i64, sent: Sent) {
        let mut alive = self.0.lock();
        if alive.len() < Self::MOST {
            alive.insert(key, (expires_at, sent));
        }
    }

    pub fn purge(&self, now: i64) {
        self.0.lock().retain(|_, (expires_at, _)| *expires_at > now);
    }
}

impl Message {
    /// Kept in memory until it expires, and announced at once: it has no number.
    pub(super) fn send_fleeting(&self, session: &Session, draft: Draft, expires_at: i64) -> Sent {
        let Draft { mut letter, devices, queue, .. } = draft;
        if let Some(first) = self.fleeting_sent.get(letter.key, letter.at) {
            return Sent { status: "duplicate", ..first };
        }
        if let Some(queued) = queue {
            letter.body = queued.payload;
        }
        let letter = Arc::new(letter);
        let mut cursors = Vec::new();
        for (place, device) in letter.places.iter().zip(&devices) {
            let row = VolatileRow {
                message_id: letter.message_id.clone(),
                sender: letter.from.to_string(),
                created_at: letter.at,
                expires_at,
                letter: letter.clone(),
            };
            let volatile_cursor = self.volatile.put(place.inbox, row, letter.weight());
            cursors.push(volatile_cursor.clone());
            let fleeting =
                Fleeting { storage: "volatile", volatile_cursor, created_at: letter.at, expires_at };
            self.announce_fleeting(session, &letter, place, device, &fleeting);
        }
        let sent = Sent {
            storage: Some("volatile"),
            seq: None,
            volatile_cursor: cursors.first().cloned(),
            volatile_cursors: (cursors.len() > 1).then_some(cursors),
            created_at: Some(letter.at),
            expires_at: Some(expires_at),
            ..Sent::of(&letter, "accepted")
        };
        self.fleeting_sent.put(letter.key, expires_at, sent.clone());
        sent
    }

    fn announce_fleeting(
        &self,
        session: &Session,
        letter: &Letter,
        place: &Place,
        device: &DeviceId,
        fleeting: &Fleeting,
    ) {
        let owner = if place.own { &letter.from } else { &letter.to };
        let trace = session.trace.as_ref().and_then(|trace| rows::trace_member(trace, letter.at));
        let (method, params) = match letter.kind {
            Kind::V2 => {
                let Some(row) = letter.v2_row(place, device, Some(fleeting)) else { return };
                let bell = json!({
                    "message_id": letter.message_id, "from_aid": letter.from, "sender_aid": letter.from,
                    "to": letter.to, "device_id": device, "sender_device_id": letter.device,
                    "t_server": letter.at, "storage": fleeting.storage,
                    "volatile_cursor": fleeting.volatile_cursor, "created_at": fleeting.created_at,
                    "expires_at": fleeting.expires_at, "inline_message": row,
                });
                (events::V2_RECEIVED, serde_json::value::to_raw_value(&bell).ok())
            }
            _ => (events::RECEIVED, letter.plain_row(place, device, Some(fleeting), trace)),
        };
        if let Some(params) = params {
            let to = Audience::Instance { aid: owner.clone(), device: Some(device.clone()), slot: None };
            self.bus.publish(&Event { to, method: method.to_owned(), params });
        }
    }
}
