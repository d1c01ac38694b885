//! Ten thousand relays that a hostile gateway could send, calls and events: each is refused, and says exactly why.

mod refusals;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use self::refusals::{REASONS, expected};
use super::relay::{RelayTest, set};
use super::words;
use crate::support::agent::random_hex;

const MANY: usize = 10_000;

/// A generator that is the same in every run.
struct FixedRandom(u64);

impl FixedRandom {
    fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    fn word(&mut self) -> String {
        let characters: Vec<char> = "abcdefghijklmnopqrstuvwxyz0123456789-_.é\u{202e} ".chars().collect();
        (0..self.below(24)).map(|_| *self.pick(&characters)).collect()
    }

    fn noise(&mut self) -> Value {
        match self.below(7) {
            0 => Value::Null,
            1 => json!(self.below(9) as i64 - 4),
            2 => json!(self.word()),
            3 => json!([self.word(), self.below(3)]),
            4 => json!({ (self.word()): self.word() }),
            5 => json!(true),
            _ => json!(1.25),
        }
    }
}

/// One wrong thing that alone is reason enough to refuse.
fn spoil(random: &mut FixedRandom, message: &mut Value, ours: &str) {
    let domains = ["third.test", "near.test", "far.test.evil", "xfar.test", "sub.far.test", "test", "far"];
    match random.below(11) {
        0 => set(message, "/caller/aid", json!(format!("alice.{}", random.pick(&domains)))),
        1 => set(message, "/caller/aid", json!(ours)),
        2 => set(message, "/caller/aid", json!(format!("{}.third.test", random.word()))),
        3 => set(
            message,
            "/caller/type",
            json!(random.pick(&["service", "unauthenticated", "operator", "AID", ""])),
        ),
        4 => set(message, "/caller", random.noise()),
        5 => set(
            message,
            "/params/to",
            json!(format!("dave.{}", random.pick(&["third.test", "far.test", "test"]))),
        ),
        6 => set(message, "/params/from", json!(random.pick(&[ours, "bobb.far.test", "alice.third.test"]))),
        7 => set(message, "/hop", json!(2 + random.below(1000))),
        8 => set(message, "/depth", json!(3 + random.below(1000))),
        9 => set(
            message,
            "/namespace",
            json!(random.pick(&["auth", "ca", "meta", "gateway", "federation", "proxy", "push", "x"])),
        ),
        _ => set(
            message,
            "/method",
            json!(random.pick(&["pull", "ack", "read", "history", "outbox", "v2.pull", "no", ""])),
        ),
    }
}

/// An event that would be accepted.
fn event(random: &mut FixedRandom, ours: &str) -> Value {
    let (name, payload) = match random.below(3) {
        0 => ("app.typing", json!({ "n": 1, "_notify": { "from_aid": "alice.far.test" } })),
        1 => ("message.ack", json!({ "to": "alice.far.test", "ack_seq": 1 })),
        _ => ("message.recalled", json!({ "from": "alice.far.test", "message_ids": ["m-1"] })),
    };
    json!({
        "relay_id": random_hex(16), "kind": "event", "event": name, "event_id": random_hex(8), "hop": 1, "depth": 0,
        "targets": { "aids": [ours] }, "payload": payload,
    })
}

/// One wrong thing that alone is reason enough to refuse an event.
fn spoil_event(random: &mut FixedRandom, event: &mut Value, ours: &str) {
    let subject = match event["event"].as_str() {
        Some("message.ack") => "/payload/to",
        Some("message.recalled") => "/payload/from",
        _ => "/payload/_notify",
    };
    let name = |aid: Value| if subject == "/payload/_notify" { json!({ "from_aid": aid }) } else { aid };
    let others =
        ["gateway.disconnect", "client.offline", "message.received", "task.updated", "app.", "app.a b", ""];
    match random.below(9) {
        0 => set(event, "/event", json!(random.pick(&others))),
        1 => set(event, "/event", random.pick(&[json!(7), Value::Null, json!(["app.typing"])]).clone()),
        2 => {
            set(event, subject, name(json!(random.pick(&[ours, "alice.third.test", "alice.far.test.evil"]))))
        }
        3 => set(
            event,
            subject,
            name(random.pick(&[json!("alice"), json!(""), json!(7), Value::Null]).clone()),
        ),
        4 => set(event, "/payload", random.noise()),
        5 => set(event, "/targets", random.noise()),
        6 => {
            let (member, bad) = *random.pick(&[("device_id", "no name"), ("slot_id", "/x")]);
            set(event, &format!("/targets/{member}"), json!(bad));
        }
        7 => set(event, "/hop", json!(2 + random.below(1000))),
        _ => set(event, "/depth", json!(3 + random.below(1000))),
    }
}

/// Members that are unknown or reserved, which make no relay acceptable.
fn decorate(random: &mut FixedRandom, message: &mut Value, ours: &str) {
    let names = ["_auth", "_federation", "_caller_id", "_route", "from_issuer", "extra", "id", "jsonrpc"];
    for _ in 0..random.below(4) {
        let value = match random.below(3) {
            0 => json!({ "aid": ours, "from_issuer": "near.test", "role": "operator" }),
            1 => json!("near.test"),
            _ => random.noise(),
        };
        let name = random.pick(&names);
        let inside = ["params", "payload"].into_iter().find(|inside| message[*inside].is_object());
        match inside.filter(|_| random.below(2) == 0) {
            Some(inside) => set(message, &format!("/{inside}/{name}"), value),
            None => set(message, &format!("/{name}"), value),
        }
    }
}

/// A call or an event with one wrong thing or several.
fn hostile(random: &mut FixedRandom, test: &RelayTest) -> Value {
    let ours = test.carol.aid();
    let call = random.below(3) > 0;
    let mut relay = if call { test.message("hostile") } else { event(random, ours) };
    for _ in 0..=random.below(3) {
        if call && relay["caller"].is_object() {
            spoil(random, &mut relay, ours);
        } else if !call && relay["payload"].is_object() && relay["targets"].is_object() {
            spoil_event(random, &mut relay, ours);
        }
    }
    decorate(random, &mut relay, ours);
    relay
}

#[tokio::test]
async fn of_ten_thousand_hostile_relays_none_is_accepted() {
    let high_limits = "federation.relays_per_agent = 10000000\nfederation.relays_per_second = 10000000";
    let test = RelayTest::start(high_limits).await;
    let link = test.who.link(test.near()).await;
    let mut random = FixedRandom(0x5eed_1234_5678_9abc);
    let hostile: Vec<Value> = (0..MANY).map(|_| hostile(&mut random, &test)).collect();
    let (together, alone) = hostile.split_at(MANY / 2);
    let mut reasons = BTreeSet::new();
    let mut is_expected = |relay: &Value, error: &Value| {
        let (code, reason) = expected(relay);
        assert_eq!(
            (&error["code"], &error["data"]["reason"]),
            (&json!(code), &json!(reason)),
            "{relay} got {error}"
        );
        reasons.insert(reason);
    };
    for (relay, outcome) in alone.iter().zip(link.call_many("federation.relay", alone).await) {
        is_expected(relay, &outcome.expect_err(&format!("accepted: {relay}")));
    }
    for items in together.chunks(100) {
        let batch = json!({ "batch_id": random_hex(8), "items": items });
        let answer = link.call("federation.relay_batch", &batch).await;
        let results = answer["results"].as_array().expect("results");
        assert_eq!(results.len(), items.len());
        for (relay, result) in items.iter().zip(results) {
            assert_eq!(result["ok"], false, "accepted: {relay}");
            is_expected(relay, &result["error"]);
        }
    }
    assert_eq!(reasons, BTreeSet::from(REASONS), "every reason was among them");
    assert_eq!(test.carol.events_so_far().await, Vec::<Value>::new(), "nobody was told of anything");
    assert!(words(&test.carol).await.is_empty(), "nothing arrived");
    assert_eq!(
        link.call("federation.relay", &test.message("first")).await["ok"],
        true,
        "the link itself stays"
    );
    test.honest_callers_are_unharmed(&["first"]).await;
}
