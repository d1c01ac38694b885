//! Beside messages: thoughts that are kept in memory, and what an agent has read on any of its devices.

use serde_json::{Value, json};

use super::{ask, heard, named, next, pull, received, refusal, send, two};
use crate::world::World;

#[tokio::test]
async fn thoughts_are_read_in_their_order_as_often_as_wanted() {
    let world = World::start().await;
    let (alice, bob) = two(&world).await;
    let context = json!({ "type": "run", "id": "r-1" });
    for n in 0..9 {
        let payload = json!({ "type": "e2ee.p2p_encrypted", "recipients": [["kept"]], "n": n });
        let params = json!({ "to": bob.aid(), "context": context, "payload": payload, "encrypted": true, "thought_id": format!("mt-{n}") });
        let put = ask(&alice, "message.thought.put", params).await;
        assert_eq!((&put["stored_count"], &put["thought_id"]), (&json!(n + 1), &json!(format!("mt-{n}"))));
    }
    for _ in 0..2 {
        let got =
            ask(&bob, "message.thought.get", json!({ "sender_aid": alice.aid(), "context": context })).await;
        assert_eq!(got["found"], true);
        let thoughts = got["thoughts"].as_array().unwrap();
        let numbers: Vec<&Value> = thoughts.iter().map(|thought| &thought["payload"]["n"]).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(thoughts[0]["payload"]["recipients"], json!([["kept"]]), "the whole envelope");
        assert_eq!((&thoughts[0]["from"], &thoughts[0]["to"]), (&json!(alice.aid()), &json!(bob.aid())));
    }
    assert_eq!(heard(&alice, &bob).await, Vec::<Value>::new(), "nobody is told");
    assert_eq!(pull(&bob).await["count"], 1, "and nothing is in the inbox but the mark");
    let other = json!({ "sender_aid": alice.aid(), "context": { "type": "run", "id": "r-2" } });
    let none = ask(&bob, "message.thought.get", other).await;
    assert_eq!((&none["found"], &none["thoughts"]), (&json!(false), &json!([])));
    let carol = world.agent("carol").await;
    let peek = json!({ "sender_aid": alice.aid(), "peer_aid": bob.aid(), "context": context });
    assert_eq!(refusal(&carol, "message.thought.get", peek.clone()).await["code"], -32004);
    assert_eq!(ask(&alice, "message.thought.get", peek).await["thoughts"].as_array().unwrap().len(), 9);
}

#[tokio::test]
async fn what_was_read_on_one_device_is_told_to_the_others() {
    let mut world = World::start().await;
    let (alice, bob) = two(&world).await;
    let (phone, brief) = (world.also(&bob, "phone", "default").await, world.briefly(&bob).await);
    send(&alice, named(bob.aid(), "m-1", "one")).await;
    send(&alice, named(bob.aid(), "m-2", "two")).await;
    assert_eq!(heard(&alice, &bob).await.len(), 2);
    for _ in 0..3 {
        received(&phone).await;
    }
    let read = |id: &str| json!({ "states": [{ "scope": "p2p", "topic_key": "alice", "last_read_message_id": id }] });
    assert_eq!(ask(&bob, "message.read", read("m-2")).await["updated"], 1);
    let event = next(&phone, "event/message.read_changed").await;
    assert_eq!((&event["owner_aid"], &event["topic_key"]), (&json!(bob.aid()), &json!("alice")));
    assert_eq!((&event["last_read_message_id"], &event["scope"]), (&json!("m-2"), &json!("p2p")));
    assert!(event["last_read_order"].as_i64().is_some_and(|order| order > 0));

    let back = ask(&phone, "message.read", read("m-1")).await;
    assert_eq!((&back["updated"], &back["ignored"]), (&json!(0), &json!(1)), "it only goes forward");
    assert_eq!(
        bob.events_so_far().await,
        Vec::<Value>::new(),
        "the one that said so is not told, and nothing changed"
    );
    assert_eq!(brief.events_so_far().await, Vec::<Value>::new());
    world.restart().await;
    let bob = world.again(&bob).await;
    let state = ask(&bob, "message.read_state", json!({ "scope": "p2p", "topic_key": "alice" })).await;
    assert_eq!(state["states"][0]["last_read_message_id"], "m-2");
    assert_eq!(
        (&state["states"][0]["current_device_seq"], &state["states"][0]["mapping_status"]),
        (&json!(2), &json!("resolved"))
    );
}
