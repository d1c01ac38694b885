//! Messages with a time to live: kept in memory until it is over, and announced at once. They have no number.

use super::ledger::Draft;
use super::rows::{self, Fleeting};
use super::sending::{Sent, Status, Storage};
use super::shared::{self, Item, Shared};
use super::stored_message::{Key, Kind, Place, StoredMessage};
use super::volatile::{self, Volatile, VolatileRow};
use super::{Error, Message, events, store};
use crate::kernel::{Audience, DeviceId, Event, Session};
use parking_lot::Mutex;
use serde_json::json;
use serde_json::value::RawValue;
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
    /// Kept until it expires and announced at once: it has no number.
    pub(super) async fn send_fleeting(
        &self,
        session: &Session,
        draft: Draft,
        expires_at: i64,
    ) -> Result<Sent, Error> {
        let Draft { mut message, devices, queue, .. } = draft;
        if let Some(queued) = queue {
            message.body = queued.payload;
        }
        let message = Arc::new(message);
        let cursors = match &self.shared {
            None => self.keep_fleeting(&message, expires_at),
            Some(shared) => share_fleeting(shared, &message, expires_at).await?,
        };
        let cursors = match cursors {
            Kept::New(cursors) => cursors,
            Kept::Before(first) => return Ok(Sent { status: Status::Duplicate, ..*first }),
        };
        for ((place, device), cursor) in message.places.iter().zip(&devices).zip(&cursors) {
            let volatile_cursor = cursor.clone();
            let fleeting =
                Fleeting { storage: "volatile", volatile_cursor, created_at: message.at, expires_at };
            self.announce_fleeting(session, &message, place, device, &fleeting);
        }
        Ok(sent(&message, cursors, expires_at))
    }

    fn keep_fleeting(&self, message: &Arc<StoredMessage>, expires_at: i64) -> Kept {
        if let Some(first) = self.fleeting_sent.get(message.key, message.at) {
            return Kept::Before(Box::new(first));
        }
        let put = |place: &Place| {
            let row = VolatileRow {
                message_id: message.message_id.clone(),
                sender: message.from.to_string(),
                created_at: message.at,
                expires_at,
                message: message.clone(),
            };
            self.volatile.put(place.inbox, row, message.weight())
        };
        let cursors: Vec<String> = message.places.iter().map(put).collect();
        self.fleeting_sent.put(message.key, expires_at, sent(message, cursors.clone(), expires_at));
        Kept::New(cursors)
    }

    /// The volatile messages of an inbox, wherever they are.
    pub(super) async fn with_volatile<R>(
        &self,
        inbox: i64,
        look: impl FnOnce(&Volatile<Arc<StoredMessage>>) -> R,
    ) -> sqlx::Result<R> {
        let Some(shared) = &self.shared else { return Ok(look(&self.volatile)) };
        let mut connection = shared.look().await?;
        Ok(look(&Volatile::copy(shared, &mut connection, inbox).await?))
    }

    /// Takes away exactly the rows named. Gives how many there were, and how many names meant nothing any more.
    pub(super) async fn ack_volatile(
        &self,
        inbox: i64,
        cursors: &[String],
        ids: &[String],
    ) -> sqlx::Result<(usize, usize)> {
        let Some(shared) = &self.shared else { return Ok(self.volatile.ack(inbox, cursors, ids)) };
        let key = inbox.to_string();
        let shelf = shared::Place { kind: "volatile", key: &key };
        let mut tx = shared.lock(shelf).await?;
        let copy = Volatile::copy(shared, &mut tx, inbox).await?;
        let mut gone = copy.numbers(inbox);
        let counts = copy.ack(inbox, cursors, ids);
        let left = copy.numbers(inbox);
        gone.retain(|number| !left.contains(number));
        shared::remove(&mut tx, shelf, &gone).await?;
        tx.commit().await?;
        Ok(counts)
    }

    fn announce_fleeting(
        &self,
        session: &Session,
        message: &StoredMessage,
        place: &Place,
        device: &DeviceId,
        fleeting: &Fleeting,
    ) {
        let owner = if place.own { &message.from } else { &message.to };
        let trace = session.trace.as_ref().and_then(|trace| rows::trace_member(trace, message.at));
        let (method, params) = match message.kind {
            Kind::V2 => {
                let Some(row) = message.v2_row(place, device, Some(fleeting)) else { return };
                let bell = json!({
                    "message_id": message.message_id, "from_aid": message.from, "sender_aid": message.from,
                    "to": message.to, "device_id": device, "sender_device_id": message.device,
                    "t_server": message.at, "storage": fleeting.storage,
                    "volatile_cursor": fleeting.volatile_cursor, "created_at": fleeting.created_at,
                    "expires_at": fleeting.expires_at, "inline_message": row,
                });
                (events::V2_RECEIVED, serde_json::value::to_raw_value(&bell).ok())
            }
            _ => (events::RECEIVED, message.plain_row(place, device, Some(fleeting), trace)),
        };
        if let Some(params) = params {
            let to = Audience::Instance { aid: owner.clone(), device: Some(device.clone()), slot: None };
            self.bus.publish(&Event { to, method: method.to_owned(), params });
        }
    }
}

/// What became of a message that is not stored.
enum Kept {
    /// Its cursor in each of its places.
    New(Vec<String>),
    Before(Box<Sent>),
}

fn sent(message: &StoredMessage, cursors: Vec<String>, expires_at: i64) -> Sent {
    Sent {
        storage: Some(Storage::Volatile),
        seq: None,
        volatile_cursor: cursors.first().cloned(),
        volatile_cursors: (cursors.len() > 1).then_some(cursors),
        created_at: Some(message.at),
        expires_at: Some(expires_at),
        ..Sent::of(message, Status::Accepted)
    }
}

/// On PostgreSQL: its rows and the answer to it are one transaction, which nobody else sends the same message beside.
async fn share_fleeting(
    shared: &Shared,
    message: &Arc<StoredMessage>,
    expires_at: i64,
) -> sqlx::Result<Kept> {
    let (name, text) = (message.key.text(), store::json(&**message));
    let answer = shared::Place { kind: "sent", key: &name };
    let mut tx = shared.lock(answer).await?;
    let earlier = shared::rows(&mut tx, answer, None).await?;
    if let Some(row) = earlier.iter().find(|row| row.until > message.at) {
        let (cursors, first): (Vec<String>, Box<RawValue>) =
            serde_json::from_str(&row.data).map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
        return Ok(Kept::Before(Box::new(sent(&*store::read(0, first.get())?, cursors, row.until))));
    }
    let names = Volatile::empty(shared);
    let mut cursors = vec![String::new(); message.places.len()];
    // In one order for everybody, so that two senders never wait for each other.
    let mut places: Vec<(i64, usize)> = message.places.iter().map(|place| place.inbox).zip(0..).collect();
    places.sort_unstable();
    for (inbox, at) in places {
        let key = inbox.to_string();
        let shelf = shared::Place { kind: "volatile", key: &key };
        let item = Item { name: "", until: expires_at, bytes: message.weight(), data: text.clone() };
        let number = shared::put(&mut tx, shelf, item, &volatile::LIMITS, message.at).await?;
        cursors[at] = names.cursor(number);
    }
    let data = format!("[{},{text}]", store::json(&cursors));
    let item = Item { name: "", until: expires_at, bytes: data.len(), data };
    shared::put(&mut tx, answer, item, &volatile::LIMITS, message.at).await?;
    tx.commit().await?;
    Ok(Kept::New(cursors))
}
