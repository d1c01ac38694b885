//! What is delivered, and in which order, when several processes publish.

use super::{EventOrder, HeldSeries, MAX_HELD, MAX_SERIES, SeriesKey};
use kernel::{Aid, Audience, DeviceId, Event};
use proto_schemas::EventOrderRule;
use serde_json::{Value, json};

fn aid(name: &str) -> Aid {
    Aid::parse(&format!("{name}.agents.localhost")).unwrap()
}

fn device(name: &str) -> DeviceId {
    DeviceId::parse(name).unwrap()
}

fn received(on: &str, seq: i64) -> Event {
    let to = Audience::Instance { aid: aid("alice"), device: Some(device(on)), slot: None };
    Event::new(to, "event/message.received", &json!({ "seq": seq, "device_id": on }))
}

fn ack(by: &str, seq: i64) -> Event {
    let params = json!({ "to": aid(by), "device_id": "laptop", "slot_id": "", "ack_seq": seq });
    Event::new(Audience::Agent(aid("alice")), "event/message.ack", &params)
}

/// An order, and the seqs it delivered.
#[derive(Default)]
struct OrderedEvents {
    order: EventOrder,
    seqs: Vec<i64>,
}

fn seq(event: &Event) -> i64 {
    let params: Value = serde_json::from_str(event.params.get()).unwrap();
    params.get("seq").or(params.get("ack_seq")).and_then(Value::as_i64).unwrap_or(-1)
}

impl OrderedEvents {
    /// Gives whether an event is held from now on.
    fn add(&mut self, event: &Event) -> bool {
        self.order.add(event, |event| self.seqs.push(seq(event))).is_some()
    }

    fn add_all(&mut self, seqs: impl IntoIterator<Item = i64>) {
        for seq in seqs {
            self.add(&received("laptop", seq));
        }
    }

    fn give_up(&mut self) {
        let key = SeriesKey { series: "message.inbox", values: vec!["laptop".to_owned()] };
        self.order.give_up(&HeldSeries { aid: aid("alice"), key }, |event| self.seqs.push(seq(event)));
    }

    fn begin(&mut self) {
        self.order.begin(&aid("alice"), &device("laptop"), |event| self.seqs.push(seq(event)));
    }
}

#[test]
fn an_event_that_arrives_early_is_held_for_those_before_it() {
    let mut events = OrderedEvents::default();
    assert!(!events.add(&received("laptop", 7)), "the first one may have any seq");
    assert!(events.add(&received("laptop", 10)), "it is held");
    assert!(!events.add(&received("laptop", 9)), "so is this one");
    assert_eq!(events.seqs, [7]);
    events.add(&received("laptop", 8));
    assert_eq!(events.seqs, [7, 8, 9, 10]);
    assert!(events.add(&received("laptop", 12)), "the next one that is held has its own timeout");
}

#[test]
fn after_the_timeout_events_are_delivered_in_order_and_late_ones_dropped() {
    let mut events = OrderedEvents::default();
    events.add_all([1, 5, 3]);
    events.give_up();
    assert_eq!(events.seqs, [1, 3, 5]);
    events.add_all([2, 4, 5, 6]);
    assert_eq!(events.seqs, [1, 3, 5, 6]);
}

#[test]
fn the_order_of_a_device_does_not_hold_another() {
    let mut events = OrderedEvents::default();
    events.add_all([1, 3]);
    events.add(&received("phone", 8));
    events.add(&received("phone", 9));
    assert_eq!(events.seqs, [1, 8, 9]);
}

#[test]
fn only_so_many_are_held() {
    let mut events = OrderedEvents::default();
    let late = 3..=MAX_HELD as i64 + 2;
    events.add_all([1].into_iter().chain(late.clone()));
    assert_eq!(events.seqs, [1]);
    events.add_all([MAX_HELD as i64 + 3]);
    assert_eq!(events.seqs, [1].into_iter().chain(late).chain([MAX_HELD as i64 + 3]).collect::<Vec<_>>());
}

#[test]
fn a_new_session_begins_at_any_seq_and_costs_the_others_no_event() {
    let mut events = OrderedEvents::default();
    events.add_all([1, 4, 3]);
    events.begin();
    assert_eq!(events.seqs, [1, 3, 4], "what was held is delivered");
    events.add_all([2]);
    assert_eq!(events.seqs, [1, 3, 4, 2], "and the last seq is forgotten");
}

#[test]
fn agents_that_left_are_forgotten() {
    let mut events = OrderedEvents::default();
    events.add_all([5]);
    events.add(&ack("bobb", 5));
    events.order.keep(|_| true);
    events.add_all([4]);
    events.add(&ack("bobb", 4));
    assert_eq!(events.seqs, [5, 5]);
    events.order.keep(|aid| *aid != self::aid("alice"));
    events.add_all([4]);
    events.add(&ack("bobb", 4));
    assert_eq!(events.seqs, [5, 5, 4, 4]);
}

#[test]
fn a_cursor_position_that_was_overtaken_is_dropped() {
    let mut events = OrderedEvents::default();
    for event in [
        ack("bobb", 17),
        ack("bobb", 60),
        ack("bobb", 42),
        ack("carol", 42),
        ack("bobb", 60),
        ack("bobb", 61),
    ] {
        assert!(!events.add(&event), "nothing is held");
    }
    assert_eq!(events.seqs, [17, 60, 42, 61], "42 is of another reader");
}

#[test]
fn the_cursor_of_one_sender_is_not_that_of_all() {
    let mut events = OrderedEvents::default();
    events.add(&ack("bobb", 60));
    let params = json!({ "to": aid("bobb"), "device_id": "laptop", "slot_id": "", "ack_seq": 4, "cursor_scope": "peer" });
    events.add(&Event::new(Audience::Agent(aid("alice")), "event/message.ack", &params));
    assert_eq!(events.seqs, [60, 4]);
}

#[test]
fn only_so_many_cursors_are_kept() {
    let mut events = OrderedEvents::default();
    for reader in 0..10 * MAX_SERIES {
        events.add(&ack(&format!("reader{reader}"), 1));
    }
    assert_eq!(events.seqs.len(), 10 * MAX_SERIES);
    assert!(events.order.agents.lock()[&aid("alice")].len() <= MAX_SERIES);
}

#[test]
fn many_cursors_do_not_cost_an_inbox_its_order() {
    let mut events = OrderedEvents::default();
    events.add_all([1, 2, 3]);
    for reader in 0..10 * MAX_SERIES {
        events.add(&ack(&format!("reader{reader}"), 1));
    }
    events.seqs.clear();
    events.add_all([2, 5]);
    assert_eq!(events.seqs, [0; 0], "one is late, and the other is held");
    events.add_all([4]);
    assert_eq!(events.seqs, [4, 5]);
}

#[test]
fn what_has_no_seq_is_delivered_at_once() {
    let mut events = OrderedEvents::default();
    events.add_all([1, 3]);
    let event = Event::new(Audience::Agent(aid("alice")), "event/app.x", &json!({}));
    assert!(!events.add(&event));
    assert_eq!(events.seqs, [1, -1]);
}

#[test]
fn an_event_for_one_connection_that_forgot_it_is_delivered_again() {
    let mut events = OrderedEvents::default();
    events.add_all([1, 2, 3]);
    let to = Audience::Connection { aid: aid("alice"), connection: 7 };
    let params = json!({ "seq": 3, "device_id": "laptop" });
    assert!(!events.add(&Event::new(to, "event/peer.v2.message_received", &params)));
    events.add_all([3, 4]);
    assert_eq!(events.seqs, [1, 2, 3, 3, 4], "every other one that comes twice is dropped");
}

#[test]
fn several_events_of_one_number_keep_the_order_they_came_in() {
    let rule = EventOrderRule {
        series: "test.versions",
        key: &["task_id"],
        number: "seq",
        dense: true,
        repeatable: false,
        shared: true,
    };
    let note = |event: &Event, names: &mut Vec<String>| {
        let params: Value = serde_json::from_str(event.params.get()).unwrap();
        names.push(params["name"].as_str().unwrap().to_owned());
    };
    let (events, mut names) = (OrderedEvents::default(), Vec::new());
    for (seq, name) in [(1, "a"), (3, "d"), (3, "e"), (2, "b"), (2, "c"), (3, "f")] {
        let params = json!({ "seq": seq, "task_id": 7, "name": name });
        let event = Event::new(Audience::Agent(aid("alice")), "event/test", &params);
        events.order.add_by(Some(rule), &event, |event| note(event, &mut names));
    }
    assert_eq!(names, ["a", "b", "c"], "another one of version 2 might come");
    let key = SeriesKey { series: "test.versions", values: vec!["7".to_owned()] };
    events.order.give_up(&HeldSeries { aid: aid("alice"), key }, |event| note(event, &mut names));
    assert_eq!(names, ["a", "b", "c", "d", "e", "f"]);
}
