//! What is rung, and in which order, when several processes ring.

use super::{CURSORS, EventOrder, HELD};
use serde_json::{Value, json};
use services::kernel::{Aid, Audience, DeviceId, Event};

fn aid(name: &str) -> Aid {
    Aid::parse(&format!("{name}.agents.localhost")).unwrap()
}

fn device(name: &str) -> DeviceId {
    DeviceId::parse(name).unwrap()
}

fn bell(on: &str, seq: i64) -> Event {
    let to = Audience::Instance { aid: aid("alice"), device: Some(device(on)), slot: None };
    Event::new(to, "event/message.received", &json!({ "seq": seq, "device_id": on }))
}

fn ack(by: &str, seq: i64) -> Event {
    let params = json!({ "to": aid(by), "device_id": "laptop", "slot_id": "", "ack_seq": seq });
    Event::new(Audience::Agent(aid("alice")), "event/message.ack", &params)
}

/// An order, and the numbers it rang.
#[derive(Default)]
struct Heard {
    order: EventOrder,
    numbers: Vec<i64>,
}

fn number(event: &Event) -> i64 {
    let params: Value = serde_json::from_str(event.params.get()).unwrap();
    params.get("seq").or(params.get("ack_seq")).and_then(Value::as_i64).unwrap_or(-1)
}

impl Heard {
    /// Gives whether somebody waits from now on.
    fn take(&mut self, event: &Event) -> bool {
        self.order.take(event, |event| self.numbers.push(number(event))).is_some()
    }

    fn take_all(&mut self, seqs: impl IntoIterator<Item = i64>) {
        for seq in seqs {
            self.take(&bell("laptop", seq));
        }
    }

    fn lose_patience(&mut self) {
        let key = (aid("alice"), device("laptop"));
        self.order.lose_patience(&key, |event| self.numbers.push(number(event)));
    }

    fn begin(&mut self) {
        let key = (aid("alice"), device("laptop"));
        self.order.begin(&key, |event| self.numbers.push(number(event)));
    }
}

#[test]
fn a_bell_ahead_of_its_turn_waits_for_those_before_it() {
    let mut heard = Heard::default();
    assert!(!heard.take(&bell("laptop", 7)), "the first one begins wherever it is");
    assert!(heard.take(&bell("laptop", 10)), "one begins to wait");
    assert!(!heard.take(&bell("laptop", 9)), "and is waited with");
    assert_eq!(heard.numbers, [7]);
    heard.take(&bell("laptop", 8));
    assert_eq!(heard.numbers, [7, 8, 9, 10]);
    assert!(heard.take(&bell("laptop", 12)), "the next one to wait is waited for anew");
}

#[test]
fn who_lost_patience_rings_in_order_and_what_comes_too_late_is_left_out() {
    let mut heard = Heard::default();
    heard.take_all([1, 5, 3]);
    heard.lose_patience();
    assert_eq!(heard.numbers, [1, 3, 5]);
    heard.take_all([2, 4, 5, 6]);
    assert_eq!(heard.numbers, [1, 3, 5, 6]);
}

#[test]
fn devices_do_not_wait_for_each_other() {
    let mut heard = Heard::default();
    heard.take_all([1, 3]);
    heard.take(&bell("phone", 8));
    heard.take(&bell("phone", 9));
    assert_eq!(heard.numbers, [1, 8, 9]);
}

#[test]
fn only_so_many_wait() {
    let mut heard = Heard::default();
    let late = 3..=HELD as i64 + 2;
    heard.take_all([1].into_iter().chain(late.clone()));
    assert_eq!(heard.numbers, [1]);
    heard.take_all([HELD as i64 + 3]);
    assert_eq!(heard.numbers, [1].into_iter().chain(late).chain([HELD as i64 + 3]).collect::<Vec<_>>());
}

#[test]
fn a_new_connection_begins_where_it_likes_and_costs_the_others_no_bell() {
    let mut heard = Heard::default();
    heard.take_all([1, 4, 3]);
    heard.begin();
    assert_eq!(heard.numbers, [1, 3, 4], "what waited is rung");
    heard.take_all([2]);
    assert_eq!(heard.numbers, [1, 3, 4, 2], "and nobody remembers what was");
}

#[test]
fn who_is_not_here_any_more_is_forgotten() {
    let mut heard = Heard::default();
    heard.take_all([5]);
    heard.take(&ack("bobb", 5));
    heard.order.keep(|_| true);
    heard.take_all([4]);
    heard.take(&ack("bobb", 4));
    assert_eq!(heard.numbers, [5, 5]);
    heard.order.keep(|aid| *aid != self::aid("alice"));
    heard.take_all([4]);
    heard.take(&ack("bobb", 4));
    assert_eq!(heard.numbers, [5, 5, 4, 4]);
}

#[test]
fn a_cursor_that_was_overtaken_is_not_told_of() {
    let mut heard = Heard::default();
    for event in [
        ack("bobb", 17),
        ack("bobb", 60),
        ack("bobb", 42),
        ack("carol", 42),
        ack("bobb", 60),
        ack("bobb", 61),
    ] {
        assert!(!heard.take(&event), "nothing waits");
    }
    assert_eq!(heard.numbers, [17, 60, 42, 61], "42 is of another reader");
}

#[test]
fn the_cursor_of_one_sender_is_not_that_of_all() {
    let mut heard = Heard::default();
    heard.take(&ack("bobb", 60));
    let params = json!({ "to": aid("bobb"), "device_id": "laptop", "slot_id": "", "ack_seq": 4, "cursor_scope": "peer" });
    heard.take(&Event::new(Audience::Agent(aid("alice")), "event/message.ack", &params));
    assert_eq!(heard.numbers, [60, 4]);
}

#[test]
fn only_so_many_cursors_are_remembered() {
    let mut heard = Heard::default();
    for reader in 0..10 * CURSORS {
        heard.take(&ack(&format!("reader{reader}"), 1));
    }
    assert_eq!(heard.numbers.len(), 10 * CURSORS);
    assert!(heard.order.cursors.lock()[&aid("alice")].len() <= CURSORS);
}

#[test]
fn what_has_no_number_is_rung_at_once() {
    let mut heard = Heard::default();
    heard.take_all([1, 3]);
    let event = Event::new(Audience::Agent(aid("alice")), "event/app.x", &json!({}));
    assert!(!heard.take(&event));
    assert_eq!(heard.numbers, [1, -1]);
}

#[test]
fn a_connection_that_forgot_its_bell_is_rung_for_again() {
    let mut heard = Heard::default();
    heard.take_all([1, 2, 3]);
    let to = Audience::Connection { aid: aid("alice"), connection: 7 };
    let params = json!({ "seq": 3, "device_id": "laptop" });
    assert!(!heard.take(&Event::new(to, "event/peer.v2.message_received", &params)));
    heard.take_all([3, 4]);
    assert_eq!(heard.numbers, [1, 2, 3, 3, 4], "whatever else comes twice is left out");
}
