//! Messages with a ttl: stored until they expire, and published at once. They have no seq.

use super::params;
use crate::delivery::events;
use crate::delivery::rows::VolatileFields;
use crate::store::bind;
use crate::store::ephemeral::bounded::{BoundedRows, RowCost, RowLimits};
use crate::store::ephemeral::shared_rows::{self, NewSharedRow, RowList, SharedRows};
use crate::store::ephemeral::volatile::{LIST, VolatileMessages, VolatileRow};
use crate::store::stored_message::{InboxEntry, MessageAttributes, MessageKey, MessageKind, StoredMessage};
use crate::store::tool_calls::ToolCallWindows;
use crate::store::write::NewMessage;
use crate::{Error, MessageService};
use kernel::{Audience, BytesOwner, CallingAgent, DeviceId, Engine, Event, trace};
use parking_lot::Mutex;
use proto_schemas::requests::message::{SendStatus, SentMessage, Storage};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The kind of the lists of answers on PostgreSQL, as it is stored.
const ANSWERS: &str = "sent";

/// What an answer takes besides its names.
const ANSWER_BYTES: usize = 512;

/// The answers to messages with a ttl, for those that are sent again before they expire. A message whose answer was evicted would be
/// stored a second time: the sender that sent most pays, as for the messages themselves.
pub(crate) struct VolatileSent {
    limits: RowLimits,
    answers: Mutex<BoundedRows<MessageKey, SentMessage>>,
}

impl VolatileSent {
    pub fn new(total_bytes: usize) -> VolatileSent {
        let limits = RowLimits { rows: 1, bytes: total_bytes, total_bytes };
        VolatileSent { limits, answers: Mutex::new(BoundedRows::new(limits)) }
    }

    fn get(&self, key: MessageKey, now: i64) -> Option<SentMessage> {
        self.answers.lock().after(&key, 0, now).next().map(|(_, sent)| sent.clone())
    }

    fn put(&self, key: MessageKey, expires_at: i64, owner: BytesOwner, sent: SentMessage) {
        let cursors = sent.volatile_cursors.iter().flatten().chain(&sent.volatile_cursor);
        let names: usize = cursors.map(String::len).sum::<usize>() + sent.message_id.len();
        let cost = RowCost { owner, bytes: ANSWER_BYTES + names };
        self.answers.lock().put(&key, expires_at, cost, sent);
    }

    pub fn remove_expired(&self, now: i64) {
        self.answers.lock().remove_expired(now);
    }
}

/// What became of a message with a ttl.
enum VolatilePut {
    /// Its cursor in each of its inboxes.
    Stored(Vec<String>),
    Duplicate(Box<SentMessage>),
}

impl MessageService {
    pub(crate) async fn send_volatile(
        &self,
        session: &CallingAgent,
        new: NewMessage,
        expires_at: i64,
    ) -> Result<SentMessage, Error> {
        let NewMessage { mut message, devices, queue, tool_call, .. } = new;
        if let Some(queue) = queue {
            message.body = queue.payload;
        }
        let message = Arc::new(message);
        let put = match &self.shared {
            None if tool_call => self.count_and_put(&message, expires_at).await?,
            None => self.put_in_memory(&message, expires_at),
            Some(shared) => self.put_shared(shared, &message, expires_at, tool_call).await?,
        };
        let cursors = match put {
            VolatilePut::Stored(cursors) => cursors,
            VolatilePut::Duplicate(first) => {
                return Ok(SentMessage { status: SendStatus::Duplicate, ..*first });
            }
        };
        for ((entry, device), cursor) in message.entries.iter().zip(&devices).zip(&cursors) {
            let volatile_cursor = cursor.clone();
            let volatile =
                VolatileFields { storage: "volatile", volatile_cursor, created_at: message.at, expires_at };
            self.publish_volatile(session, &message, entry, device, &volatile);
        }
        Ok(sent(&message, cursors, expires_at))
    }

    /// Counts a tool call that memory alone keeps, unless it is there already.
    async fn count_and_put(
        &self,
        message: &Arc<StoredMessage>,
        expires_at: i64,
    ) -> Result<VolatilePut, Error> {
        if self.volatile_sent.get(message.key, message.at).is_none() {
            self.count_tool_call(&message.from, message.key, message.at).await?;
        }
        Ok(self.put_in_memory(message, expires_at))
    }

    fn put_in_memory(&self, message: &Arc<StoredMessage>, expires_at: i64) -> VolatilePut {
        if let Some(first) = self.volatile_sent.get(message.key, message.at) {
            return VolatilePut::Duplicate(Box::new(first));
        }
        let put = |entry: &InboxEntry| {
            let row = VolatileRow {
                message_id: message.message_id.clone(),
                sender: message.from.to_string(),
                created_at: message.at,
                expires_at,
                message: message.clone(),
            };
            let cost = RowCost { owner: self.payer(message), bytes: message.bytes() };
            self.volatile.put(entry.inbox, row, cost)
        };
        let cursors: Vec<String> = message.entries.iter().map(put).collect();
        let answer = sent(message, cursors.clone(), expires_at);
        self.volatile_sent.put(message.key, expires_at, self.payer(message), answer);
        VolatilePut::Stored(cursors)
    }

    fn payer(&self, message: &StoredMessage) -> BytesOwner {
        BytesOwner::of_sender(&message.from, &self.issuer)
    }

    /// On PostgreSQL: its rows, the answer to it and its count are one transaction. It locks the list of answers of this key, so
    /// that the same message sent twice at once is stored once.
    async fn put_shared(
        &self,
        shared: &SharedRows,
        message: &Arc<StoredMessage>,
        expires_at: i64,
        tool_call: bool,
    ) -> Result<VolatilePut, Error> {
        let _step = trace::step("store", "commit");
        let (key, text) = (message.key.text(), bind::json(&**message));
        let answers = RowList { kind: ANSWERS, key: &key };
        let mut tx = shared.lock(answers).await?;
        let earlier = shared_rows::rows(&mut tx, answers, None).await?;
        if let Some(row) = earlier.iter().find(|row| row.until > message.at) {
            let (cursors, first): (Vec<String>, Box<RawValue>) =
                serde_json::from_str(&row.data).map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
            let first = StoredMessage::read(0, first.get())?;
            return Ok(VolatilePut::Duplicate(Box::new(sent(&first, cursors, row.until))));
        }
        if tool_call {
            let mut windows =
                ToolCallWindows::lock(&mut tx, &BTreeSet::from([message.from.as_str()])).await?;
            if let Some(retry_after_ms) = windows.count(message) {
                return Err(Error::TooManyToolCalls { retry_after_ms });
            }
            windows.write(&mut tx, Engine::Postgres).await?;
        }
        let names = VolatileMessages::empty(shared);
        let mut cursors = vec![String::new(); message.entries.len()];
        // In the same order in every process, so that two senders never wait for each other.
        let mut inboxes: Vec<(i64, usize)> =
            message.entries.iter().map(|entry| entry.inbox).zip(0..).collect();
        inboxes.sort_unstable();
        for (inbox, position) in inboxes {
            let list = RowList { kind: LIST, key: &inbox.to_string() };
            let cost = RowCost { owner: self.payer(message), bytes: message.bytes() };
            let row = NewSharedRow { name: "", until: expires_at, cost, data: text.clone() };
            let id = shared_rows::insert(&mut tx, list, row, &self.volatile.limits, message.at).await?;
            cursors[position] = names.cursor(id);
        }
        let data = format!("[{},{text}]", bind::json(&cursors));
        let cost = RowCost { owner: self.payer(message), bytes: ANSWER_BYTES + data.len() };
        let row = NewSharedRow { name: "", until: expires_at, cost, data };
        shared_rows::insert(&mut tx, answers, row, &self.volatile_sent.limits, message.at).await?;
        tx.commit().await?;
        Ok(VolatilePut::Stored(cursors))
    }

    fn publish_volatile(
        &self,
        session: &CallingAgent,
        message: &StoredMessage,
        entry: &InboxEntry,
        device: &DeviceId,
        volatile: &VolatileFields,
    ) {
        let owner = if entry.own { &message.from } else { &message.to };
        let trace = session.trace.as_ref().and_then(|call| call.member());
        let (method, params) = match message.kind {
            MessageKind::V2 => {
                let Some(row) = message.v2_row(entry, device, Some(volatile)) else { return };
                let mut params = json!({
                    "message_id": message.message_id, "from_aid": message.from, "sender_aid": message.from,
                    "to": message.to, "device_id": device, "sender_device_id": message.device,
                    "t_server": message.at, "storage": volatile.storage,
                    "volatile_cursor": volatile.volatile_cursor, "created_at": volatile.created_at,
                    "expires_at": volatile.expires_at, "inline_message": row,
                });
                let MessageAttributes { msg_subtype, content_type, .. } = &message.attributes;
                for (name, value) in [("msg_subtype", msg_subtype), ("content_type", content_type)] {
                    if let Some(value) = value {
                        params[name] = json!(value);
                    }
                }
                if let Some(trace) = trace {
                    params["_trace"] = json!(trace);
                }
                (events::V2_RECEIVED, to_raw_value(&params).ok())
            }
            _ => (events::RECEIVED, message.received_params(entry, device, Some(volatile), trace)),
        };
        if let Some(params) = params {
            let to = Audience::Instance { aid: owner.clone(), device: Some(device.clone()), slot: None };
            self.bus.publish(&Event::with_params(to, method, params));
        }
    }
}

fn sent(message: &StoredMessage, cursors: Vec<String>, expires_at: i64) -> SentMessage {
    SentMessage {
        storage: Some(Storage::Volatile),
        seq: None,
        volatile_cursor: cursors.first().cloned(),
        volatile_cursors: (cursors.len() > 1).then_some(cursors),
        created_at: Some(message.at),
        expires_at: Some(expires_at),
        ..params::sent(message, SendStatus::Accepted)
    }
}
