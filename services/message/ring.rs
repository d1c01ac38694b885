//! The short memory behind `queue` delivery: each message goes to one connection now, and can be pulled for five minutes.

use super::Message;
use super::shared::{self, Item, Place};
use super::store::{json, read};
use super::stored_message::StoredMessage;
use super::volatile::shelf::{Limits, Shelves};
use crate::kernel::{Aid, PresentSession};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use sqlx::{Any, Transaction};
use std::collections::HashMap;
use std::sync::Arc;

/// How long a message stays.
const WINDOW_MS: i64 = 300_000;

const LIMITS: Limits = Limits { rows: 200, bytes: 16 << 20, total_bytes: 128 << 20 };

/// How many agents or pairs of agents are remembered when a connection is chosen, before all are forgotten.
const MOST: usize = 100_000;

pub(super) struct Rings<T> {
    rows: Mutex<Shelves<Aid, Row<T>>>,
    choice: Mutex<Choice>,
}

struct Row<T> {
    inbox: i64,
    seq: i64,
    message: T,
}

#[derive(Default)]
struct Choice {
    /// How often a connection was chosen for each agent.
    turns: HashMap<Aid, usize>,
    /// Which connection the messages of a sender go to, and until when.
    affinity: HashMap<(Aid, Aid), (u64, i64)>,
}

#[derive(Debug)]
pub(super) struct RingPage<T> {
    /// Each with its number in the inbox, ascending.
    pub rows: Vec<(i64, T)>,
    pub earliest: Option<i64>,
    /// Messages that had to go for later ones.
    pub dropped: u64,
}

impl<T> Default for Rings<T> {
    fn default() -> Rings<T> {
        Rings { rows: Mutex::new(Shelves::new(LIMITS)), choice: Mutex::default() }
    }
}

impl<T: Clone> Rings<T> {
    /// `bytes` is what the message weighs.
    pub fn put(&self, aid: &Aid, inbox: i64, seq: i64, at_ms: i64, bytes: usize, message: T) {
        self.rows.lock().put(aid, at_ms + WINDOW_MS, bytes, Row { inbox, seq, message });
    }

    pub fn after(&self, aid: &Aid, inbox: i64, after_seq: i64, now_ms: i64, limit: usize) -> RingPage<T> {
        let shelves = self.rows.lock();
        let mut all: Vec<&Row<T>> =
            shelves.after(aid, 0, now_ms).map(|(_, row)| row).filter(|row| row.inbox == inbox).collect();
        all.sort_by_key(|row| row.seq);
        let later = all.iter().filter(|row| row.seq > after_seq).take(limit);
        RingPage {
            rows: later.map(|row| (row.seq, row.message.clone())).collect(),
            earliest: all.first().map(|row| row.seq),
            dropped: shelves.dropped(aid),
        }
    }

    /// The one connection that gets a message. All connections of an agent agree on how that is decided, so the first
    /// one's word counts.
    pub fn choose(
        &self,
        to: &Aid,
        from: &Aid,
        seats: &[PresentSession],
        now_ms: i64,
    ) -> Option<PresentSession> {
        let delivery = &seats.first()?.delivery;
        let mut choice = self.choice.lock();
        if delivery.routing != "sender_affinity" || delivery.affinity_ttl_ms == 0 {
            return Some(choice.next(to, seats));
        }
        let pair = (to.clone(), from.clone());
        let held = choice.affinity.get(&pair).filter(|(_, until)| *until > now_ms);
        let held = held.and_then(|(connection, _)| seats.iter().find(|seat| seat.connection == *connection));
        let seat = held.cloned().unwrap_or_else(|| choice.next(to, seats));
        let until = now_ms.saturating_add_unsigned(delivery.affinity_ttl_ms);
        make_space(&mut choice.affinity);
        choice.affinity.insert(pair, (seat.connection, until));
        Some(seat)
    }

    pub fn purge(&self, now_ms: i64) {
        self.rows.lock().purge(now_ms);
        self.choice.lock().affinity.retain(|_, (_, until)| *until > now_ms);
    }
}

impl Message {
    /// What a device may still pull of its queue messages, wherever they are.
    pub(super) async fn queued_after(
        &self,
        aid: &Aid,
        inbox: i64,
        after: i64,
    ) -> sqlx::Result<RingPage<Arc<StoredMessage>>> {
        let now = self.clock.now_ms();
        let Some(shared) = &self.shared else {
            return Ok(self.rings.after(aid, inbox, after, now, usize::MAX));
        };
        let row = |row: &shared::Row| {
            let (inbox, seq, message): (i64, i64, Box<RawValue>) = serde_json::from_str(&row.data).ok()?;
            Some(Row { inbox, seq, message: read(0, message.get()).ok()? })
        };
        let mut connection = shared.look().await?;
        let place = Place { kind: "ring", key: aid.as_str() };
        let rows = shared::copy(&mut connection, place, (aid, LIMITS), row).await?;
        let rings = Rings { rows: Mutex::new(rows), choice: Mutex::default() };
        Ok(rings.after(aid, inbox, after, now, usize::MAX))
    }
}

/// On PostgreSQL: in the transaction that gives the message its number.
pub(super) async fn share(tx: &mut Transaction<'static, Any>, message: &StoredMessage) -> sqlx::Result<()> {
    let Some(place) = message.places.first() else { return Ok(()) };
    let data = format!("[{},{},{}]", place.inbox, place.seq, json(message));
    let item = Item { name: "", until: message.at + WINDOW_MS, bytes: message.weight(), data };
    shared::put(tx, Place { kind: "ring", key: message.to.as_str() }, item, &LIMITS, message.at).await?;
    Ok(())
}

impl Choice {
    /// There is at least one seat.
    fn next(&mut self, to: &Aid, seats: &[PresentSession]) -> PresentSession {
        make_space(&mut self.turns);
        let turn = self.turns.entry(to.clone()).or_default();
        let seat = seats[*turn % seats.len()].clone();
        *turn = turn.wrapping_add(1);
        seat
    }
}

/// Forgetting only means that the next choice is made afresh.
fn make_space<K, V>(memory: &mut HashMap<K, V>) {
    if memory.len() >= MOST {
        memory.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Delivery, DeviceId, Mode, SlotId};

    fn aid(name: &str) -> Aid {
        Aid::parse(&format!("{name}.aid.pub")).unwrap()
    }

    fn seats(connections: &[u64], routing: &str, affinity_ttl_ms: u64) -> Vec<PresentSession> {
        let seat = |connection: &u64| PresentSession {
            connection: *connection,
            device: DeviceId::default(),
            slot: SlotId::default(),
            address: [127, 0, 0, 1].into(),
            delivery: Delivery { mode: Mode::Queue, routing: routing.to_owned(), affinity_ttl_ms },
        };
        connections.iter().map(seat).collect()
    }

    #[test]
    fn a_message_can_be_pulled_for_five_minutes_by_the_device_that_owns_it() {
        let (rings, bob) = (Rings::default(), aid("bobb"));
        rings.put(&bob, 7, 3, 1000, 10, "three");
        rings.put(&bob, 7, 4, 2000, 10, "four");
        rings.put(&bob, 8, 1, 2000, 10, "for another device");
        let page = rings.after(&bob, 7, 3, 2000, 10);
        assert_eq!((page.rows, page.earliest, page.dropped), (vec![(4, "four")], Some(3), 0));
        assert_eq!(rings.after(&bob, 7, 0, 2000, 1).rows, [(3, "three")]);
        assert_eq!(rings.after(&bob, 7, 0, 1000 + WINDOW_MS, 10).rows, [(4, "four")]);
        rings.purge(2000 + WINDOW_MS);
        assert_eq!(rings.after(&bob, 7, 0, 0, 10).earliest, None);
    }

    #[test]
    fn the_ring_holds_two_hundred_messages_of_an_agent() {
        let (rings, bob) = (Rings::default(), aid("bobb"));
        for seq in 1..=205 {
            rings.put(&bob, 7, seq, 0, 10, seq);
        }
        let page = rings.after(&bob, 7, 0, 0, 1000);
        assert_eq!((page.rows.len(), page.earliest, page.dropped), (200, Some(6), 5));
    }

    #[test]
    fn round_robin_takes_each_connection_in_its_turn() {
        let (rings, alice, bob) = (Rings::<()>::default(), aid("alice"), aid("bobb"));
        let seats = seats(&[1, 2, 3], "round_robin", 0);
        let chosen: Vec<u64> =
            (0..6).map(|_| rings.choose(&bob, &alice, &seats, 0).unwrap().connection).collect();
        assert_eq!(chosen, [1, 2, 3, 1, 2, 3]);
        assert_eq!(rings.choose(&bob, &alice, &[], 0), None);
    }

    #[test]
    fn a_sender_keeps_its_connection_while_it_is_used_and_there() {
        let (rings, alice, bob) = (Rings::<()>::default(), aid("alice"), aid("bobb"));
        let all = seats(&[1, 2, 3], "sender_affinity", 100);
        let choose = |from: &Aid, seats: &[PresentSession], now| {
            rings.choose(&bob, from, seats, now).unwrap().connection
        };
        assert_eq!((choose(&alice, &all, 0), choose(&aid("carol"), &all, 0)), (1, 2));
        assert_eq!((choose(&alice, &all, 99), choose(&alice, &all, 198)), (1, 1));
        assert_eq!(choose(&alice, &all, 298), 3, "it was not used for its time");
        assert_eq!(choose(&alice, &all[..2], 299), 2, "it is gone");
        rings.purge(1000);
        assert!(rings.choice.lock().affinity.is_empty());
    }
}
