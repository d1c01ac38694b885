//! The content of `queue` messages: each goes to one connection now, and can be pulled for a while.

use super::bounded::{BoundedRows, RowCost, RowLimits};
use super::shared_rows::{self, NewSharedRow, RowList, SharedRow, SharedRows};
use crate::store::bind::json;
use crate::store::stored_message::StoredMessage;
use kernel::{Aid, BytesOwner, Cache, PresentSession};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use sqlx::{Any, Transaction};
use std::sync::Arc;

/// The kind of its lists, as it is stored.
pub(crate) const LIST: &str = "ring";

/// How many agents, or pairs of agents, a choice of connections is remembered for. Forgetting one only means that its next
/// choice is made afresh.
const MAX_REMEMBERED: usize = 100_000;

/// How long a message can be pulled, and what may wait for one agent and for all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueLimits {
    pub window_ms: i64,
    pub rows: RowLimits,
}

pub(crate) struct QueueMessages<T> {
    limits: QueueLimits,
    /// The domain of this server.
    issuer: String,
    rows: Mutex<BoundedRows<Aid, QueueRow<T>>>,
    choice: Mutex<ConnectionChoice>,
}

struct QueueRow<T> {
    inbox: i64,
    seq: i64,
    message: T,
}

struct ConnectionChoice {
    /// How often a connection was chosen for each agent.
    counts: Cache<Aid, usize>,
    /// Which connection the messages of a sender go to, and until when.
    affinity: Cache<(Aid, Aid), (u64, i64)>,
}

#[derive(Debug)]
pub(crate) struct QueuePage<T> {
    /// Each with its seq in the inbox, ascending.
    pub rows: Vec<(i64, T)>,
    pub earliest: Option<i64>,
    /// Messages that were dropped for later ones.
    pub dropped: u64,
}

impl<T: Clone> QueueMessages<T> {
    pub fn new(limits: QueueLimits, issuer: &str) -> QueueMessages<T> {
        let rows = Mutex::new(BoundedRows::new(limits.rows));
        QueueMessages { limits, issuer: issuer.to_owned(), rows, choice: Mutex::default() }
    }

    fn put_row(&self, aid: &Aid, at_ms: i64, cost: RowCost, row: QueueRow<T>) {
        self.rows.lock().put(aid, at_ms + self.limits.window_ms, cost, row);
    }

    pub fn after(&self, aid: &Aid, inbox: i64, after_seq: i64, now_ms: i64, limit: usize) -> QueuePage<T> {
        let rows = self.rows.lock();
        let mut all: Vec<&QueueRow<T>> =
            rows.after(aid, 0, now_ms).map(|(_, row)| row).filter(|row| row.inbox == inbox).collect();
        all.sort_by_key(|row| row.seq);
        let later = all.iter().filter(|row| row.seq > after_seq).take(limit);
        QueuePage {
            rows: later.map(|row| (row.seq, row.message.clone())).collect(),
            earliest: all.first().map(|row| row.seq),
            dropped: rows.dropped(aid),
        }
    }

    /// The one connection that gets a message. All connections of an agent ask for the same routing, so that of the first
    /// counts.
    pub fn choose(
        &self,
        to: &Aid,
        from: &Aid,
        sessions: &[PresentSession],
        now_ms: i64,
    ) -> Option<PresentSession> {
        let delivery = &sessions.first()?.delivery;
        let mut choice = self.choice.lock();
        if delivery.routing != "sender_affinity" || delivery.affinity_ttl_ms == 0 {
            return Some(choice.next(to, sessions));
        }
        let pair = (to.clone(), from.clone());
        let held = choice.affinity.get(&pair).filter(|(_, until)| *until > now_ms);
        let held = held
            .and_then(|(connection, _)| sessions.iter().find(|session| session.connection == *connection));
        let session = held.cloned().unwrap_or_else(|| choice.next(to, sessions));
        let until = now_ms.saturating_add_unsigned(delivery.affinity_ttl_ms);
        choice.affinity.insert(pair, (session.connection, until));
        Some(session)
    }

    /// What waits for an agent.
    pub fn remove_agent(&self, aid: &Aid) {
        self.rows.lock().remove_key(aid);
    }

    pub fn remove_expired(&self, now_ms: i64) {
        self.rows.lock().remove_expired(now_ms);
        self.choice.lock().affinity.retain(|(_, until)| *until > now_ms);
    }
}

impl QueueMessages<Arc<StoredMessage>> {
    /// The content of a message that has its seq.
    pub fn put(&self, message: Arc<StoredMessage>, inbox: i64) {
        let Some(seq) = message.entry(inbox).map(|entry| entry.seq) else { return };
        let (to, at) = (message.to.clone(), message.at);
        self.put_row(&to, at, self.cost(&message), QueueRow { inbox, seq, message });
    }

    /// On PostgreSQL: in the transaction that gives the message its seq.
    pub async fn insert(
        &self,
        tx: &mut Transaction<'static, Any>,
        message: &StoredMessage,
    ) -> sqlx::Result<()> {
        let Some(entry) = message.entries.first() else { return Ok(()) };
        let data = format!("[{},{},{}]", entry.inbox, entry.seq, json(message));
        let until = message.at + self.limits.window_ms;
        let row = NewSharedRow { name: "", until, cost: self.cost(message), data };
        let list = RowList { kind: LIST, key: message.to.as_str() };
        shared_rows::insert(tx, list, row, &self.limits.rows, message.at).await?;
        Ok(())
    }

    /// On PostgreSQL: those of an agent, as all processes together have them.
    pub async fn copy(&self, shared: &SharedRows, aid: &Aid) -> sqlx::Result<Self> {
        let row = |row: &SharedRow| {
            let (inbox, seq, message): (i64, i64, Box<RawValue>) = serde_json::from_str(&row.data).ok()?;
            Some(QueueRow { inbox, seq, message: StoredMessage::read(0, message.get()).ok()? })
        };
        let mut connection = shared.reader().await?;
        let list = RowList { kind: LIST, key: aid.as_str() };
        let rows = Mutex::new(shared_rows::copy(&mut connection, list, aid, row).await?);
        let (limits, issuer) = (self.limits, self.issuer.clone());
        Ok(QueueMessages { limits, issuer, rows, choice: Mutex::default() })
    }

    fn cost(&self, message: &StoredMessage) -> RowCost {
        RowCost { owner: BytesOwner::of_sender(&message.from, &self.issuer), bytes: message.bytes() }
    }
}

impl Default for ConnectionChoice {
    fn default() -> ConnectionChoice {
        ConnectionChoice { counts: Cache::new(MAX_REMEMBERED), affinity: Cache::new(MAX_REMEMBERED) }
    }
}

impl ConnectionChoice {
    /// There is at least one session.
    fn next(&mut self, to: &Aid, sessions: &[PresentSession]) -> PresentSession {
        let count = self.counts.get_or_insert_with(to.clone(), || 0);
        let session = sessions[*count % sessions.len()].clone();
        *count = count.wrapping_add(1);
        session
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::{Delivery, DeviceId, Mode, SlotId};

    const WINDOW_MS: i64 = 300_000;

    fn empty<T: Clone>() -> QueueMessages<T> {
        let rows = RowLimits { rows: 200, bytes: 16 << 20, total_bytes: 128 << 20 };
        QueueMessages::new(QueueLimits { window_ms: WINDOW_MS, rows }, "aid.pub")
    }

    fn put<T: Clone>(queue_messages: &QueueMessages<T>, inbox: i64, seq: i64, at_ms: i64, message: T) {
        let cost = RowCost { owner: BytesOwner::Agent(aid("alice")), bytes: 10 };
        queue_messages.put_row(&aid("bobb"), at_ms, cost, QueueRow { inbox, seq, message });
    }

    fn aid(name: &str) -> Aid {
        Aid::parse(&format!("{name}.aid.pub")).unwrap()
    }

    fn sessions(connections: &[u64], routing: &str, affinity_ttl_ms: u64) -> Vec<PresentSession> {
        let session = |connection: &u64| PresentSession {
            connection: *connection,
            device: DeviceId::default(),
            slot: SlotId::default(),
            address: [127, 0, 0, 1].into(),
            delivery: Delivery { mode: Mode::Queue, routing: routing.to_owned(), affinity_ttl_ms },
        };
        connections.iter().map(session).collect()
    }

    #[test]
    fn a_message_can_be_pulled_for_five_minutes_by_the_device_that_owns_it() {
        let (queue_messages, bob) = (empty(), aid("bobb"));
        put(&queue_messages, 7, 3, 1000, "three");
        put(&queue_messages, 7, 4, 2000, "four");
        put(&queue_messages, 8, 1, 2000, "for another device");
        let page = queue_messages.after(&bob, 7, 3, 2000, 10);
        assert_eq!((page.rows, page.earliest, page.dropped), (vec![(4, "four")], Some(3), 0));
        assert_eq!(queue_messages.after(&bob, 7, 0, 2000, 1).rows, [(3, "three")]);
        assert_eq!(queue_messages.after(&bob, 7, 0, 1000 + WINDOW_MS, 10).rows, [(4, "four")]);
        queue_messages.remove_expired(2000 + WINDOW_MS);
        assert_eq!(queue_messages.after(&bob, 7, 0, 0, 10).earliest, None);
    }

    #[test]
    fn two_hundred_messages_of_an_agent_can_be_pulled() {
        let (queue_messages, bob) = (empty(), aid("bobb"));
        for seq in 1..=205 {
            put(&queue_messages, 7, seq, 0, seq);
        }
        let page = queue_messages.after(&bob, 7, 0, 0, 1000);
        assert_eq!((page.rows.len(), page.earliest, page.dropped), (200, Some(6), 5));
    }

    #[test]
    fn round_robin_chooses_each_connection_in_order() {
        let (queue_messages, alice, bob) = (empty::<()>(), aid("alice"), aid("bobb"));
        let sessions = sessions(&[1, 2, 3], "round_robin", 0);
        let chosen: Vec<u64> =
            (0..6).map(|_| queue_messages.choose(&bob, &alice, &sessions, 0).unwrap().connection).collect();
        assert_eq!(chosen, [1, 2, 3, 1, 2, 3]);
        assert_eq!(queue_messages.choose(&bob, &alice, &[], 0), None);
    }

    #[test]
    fn a_sender_keeps_its_connection_while_it_is_used_and_open() {
        let (queue_messages, alice, bob) = (empty::<()>(), aid("alice"), aid("bobb"));
        let all = sessions(&[1, 2, 3], "sender_affinity", 100);
        let choose = |from: &Aid, sessions: &[PresentSession], now| {
            queue_messages.choose(&bob, from, sessions, now).unwrap().connection
        };
        assert_eq!((choose(&alice, &all, 0), choose(&aid("carol"), &all, 0)), (1, 2));
        assert_eq!((choose(&alice, &all, 99), choose(&alice, &all, 198)), (1, 1));
        assert_eq!(choose(&alice, &all, 298), 3, "it was not used for its ttl");
        assert_eq!(choose(&alice, &all[..2], 299), 2, "it is closed");
        queue_messages.remove_expired(1000);
        assert!(queue_messages.choice.lock().affinity.is_empty());
    }
}
