//! Thoughts: in order, within bounds, and readable by two agents only.

use super::*;
use kernel::codes;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use testing::{TestAgent, TestWorld, code};

fn aid(name: &str) -> Aid {
    Aid::parse(&format!("{name}.aid.pub")).unwrap()
}

fn context(id: usize) -> ThoughtContext {
    ThoughtContext { kind: "run".to_owned(), id: format!("run-{id}") }
}

fn thought(about: usize, id: &str, bytes: usize) -> Thought {
    let payload = RawValue::from_string(format!("\"{}\"", "x".repeat(bytes))).unwrap();
    let (thought_id, message_id, from, to) = (id.to_owned(), id.to_owned(), aid("alice"), aid("bobb"));
    Thought { thought_id, message_id, context: context(about), from, to, payload, created_at: 1 }
}

fn ids(thoughts: &Thoughts, about: usize) -> Vec<String> {
    let list = thoughts.get(&aid("alice"), &aid("bobb"), &context(about));
    list.map(|list| list.items.iter().map(|item| item.thought_id.clone()).collect()).unwrap_or_default()
}

async fn put(test: &TestWorld, from: &TestAgent, params: Value) -> Value {
    test.call_as(from.caller(), "message.thought.put", params).await.unwrap()
}

#[tokio::test]
async fn nine_thoughts_are_read_in_their_order_as_they_were_written_any_number_of_times() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
    let (alice, bob) = (test.register("alice").await, test.register("bobb").await);
    let about = json!({ "type": "run", "id": "run-1" });
    for n in 1..=9 {
        let payload = json!({ "type": "e2ee.p2p_encrypted", "recipients": [[n]], "n": n });
        let params =
            json!({ "to": bob.aid, "context": about, "payload": payload, "thought_id": format!("mt-{n}") });
        assert_eq!(put(&test, &alice, params).await["stored_count"], n);
    }
    let asked = json!({ "sender_aid": alice.aid, "context": about });
    for _ in 0..2 {
        let got = test.call_as(bob.caller(), "message.thought.get", asked.clone()).await.unwrap();
        assert_eq!((&got["found"], &got["peer_aid"]), (&json!(true), &json!(bob.aid)));
        let thoughts = got["thoughts"].as_array().unwrap();
        let order: Vec<&Value> = thoughts.iter().map(|thought| &thought["payload"]["n"]).collect();
        assert_eq!(order, (1..=9).map(Value::from).collect::<Vec<_>>().iter().collect::<Vec<_>>());
        assert_eq!(thoughts[0]["payload"]["recipients"], json!([[1]]));
    }
}

#[tokio::test]
async fn only_the_two_of_them_may_read_and_only_agents_of_this_domain_are_accepted() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
    let (alice, bob) = (test.register("alice").await, test.register("bobb").await);
    let carol = test.register("carol").await;
    let about = json!({ "type": "run", "id": "run-1" });
    let mut params = json!({ "to": bob.aid, "context": about, "payload": {} });
    let made = put(&test, &alice, params.clone()).await;
    assert!(made["thought_id"].as_str().unwrap().starts_with("mt-"), "{made}");
    let get = async |who: &TestAgent, peer: Option<&TestAgent>| {
        let asked = json!({ "sender_aid": alice.aid, "context": about, "peer_aid": peer.map(|peer| peer.aid.clone()) });
        test.call_as(who.caller(), "message.thought.get", asked).await
    };
    assert_eq!(get(&alice, Some(&bob)).await.unwrap()["found"], true);
    assert_eq!(get(&carol, None).await.unwrap()["thoughts"], json!([]));
    assert_eq!(code(get(&carol, Some(&bob)).await), codes::PERMISSION_DENIED.code);
    for (to, expected) in
        [("nobody.aid.pub", codes::NOT_FOUND), ("bobb.elsewhere.example", codes::FEDERATION_UNREACHABLE)]
    {
        params["to"] = json!(to);
        let refused = test.call_as(alice.caller(), "message.thought.put", params.clone()).await;
        assert_eq!(code(refused), expected.code, "{to}");
    }
}

#[test]
fn a_thought_sent_again_replaces_the_earlier_one() {
    let thoughts = Thoughts::new("aid.pub", 128 << 20);
    assert_eq!([1, 2, 2].map(|n| thoughts.put(thought(0, &format!("mt-{n}"), 10))), [1, 2, 2]);
    assert_eq!(thoughts.put(thought(0, "mt-1", 20)), 2);
    assert_eq!(ids(&thoughts, 0), ["mt-1", "mt-2"]);
    let list = thoughts.get(&aid("alice"), &aid("bobb"), &context(0)).unwrap();
    assert_eq!(list.items[0].payload.get().len(), 22);
}

#[test]
fn the_thoughts_of_one_context_fit_into_one_answer() {
    let thoughts = Thoughts::new("aid.pub", 128 << 20);
    for n in 0..MAX_ITEMS + 3 {
        thoughts.put(thought(0, &format!("mt-{n}"), 10));
    }
    assert_eq!((ids(&thoughts, 0).len(), ids(&thoughts, 0)[0].as_str()), (MAX_ITEMS, "mt-3"));
    for n in 0..4 {
        thoughts.put(thought(1, &format!("mt-{n}"), MAX_BYTES / 3));
    }
    assert_eq!(ids(&thoughts, 1), ["mt-2", "mt-3"]);
    thoughts.put(thought(1, "mt-large", MAX_BYTES));
    assert_eq!(ids(&thoughts, 1), ["mt-large"]);
}

#[test]
fn the_context_that_was_not_updated_for_longest_is_dropped_first() {
    let thoughts = Thoughts::new("aid.pub", 128 << 20);
    for about in 0..100 {
        thoughts.put(thought(about, "mt-1", 10));
    }
    thoughts.put(thought(0, "mt-2", 10));
    thoughts.put(thought(100, "mt-1", 10));
    assert_eq!(ids(&thoughts, 0), ["mt-1", "mt-2"]);
    assert_eq!((ids(&thoughts, 1).len(), ids(&thoughts, 100).len()), (0, 1));
}
