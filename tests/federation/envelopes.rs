//! Ten thousand relays that a hostile gateway could send: each is refused, and says why.

use serde_json::{Value, json};

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
        let pointer = if random.below(2) == 0 { format!("/{name}") } else { format!("/params/{name}") };
        set(message, &pointer, value);
    }
}

#[tokio::test]
async fn of_ten_thousand_hostile_relays_none_is_accepted() {
    let high_limits = "federation.relays_per_agent = 10000000\nfederation.relays_per_second = 10000000";
    let test = RelayTest::start(high_limits).await;
    let link = test.who.link(test.near()).await;
    let (mut random, ours) = (FixedRandom(0x5eed_1234_5678_9abc), test.carol.aid().to_owned());
    let mut hostile = Vec::new();
    for _ in 0..MANY {
        let mut message = test.message("hostile");
        for _ in 0..=random.below(3) {
            if message["caller"].is_object() {
                spoil(&mut random, &mut message, &ours);
            }
        }
        decorate(&mut random, &mut message, &ours);
        hostile.push(message);
    }
    let (together, alone) = hostile.split_at(MANY / 2);
    for (message, outcome) in alone.iter().zip(link.call_many("federation.relay", alone).await) {
        let error = outcome.expect_err(&format!("accepted: {message}"));
        assert!(error["code"].is_i64() && error["data"]["reason"].is_string(), "{message} got {error}");
    }
    for items in together.chunks(100) {
        let batch = json!({ "batch_id": random_hex(8), "items": items });
        let answer = link.call("federation.relay_batch", &batch).await;
        let results = answer["results"].as_array().expect("results");
        assert_eq!(results.len(), items.len());
        for (message, result) in items.iter().zip(results) {
            assert_eq!(result["ok"], false, "accepted: {message}");
            assert!(result["error"]["data"]["reason"].is_string(), "{message} got {result}");
        }
    }
    assert!(words(&test.carol).await.is_empty(), "nothing arrived");
    assert_eq!(
        link.call("federation.relay", &test.message("first")).await["ok"],
        true,
        "the link itself stays"
    );
    test.honest_callers_are_unharmed(&["first"]).await;
}
