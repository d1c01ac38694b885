//! What is stored of positions, and who is told.

use crate::MessageService;
use kernel::{Audience, Caller, CallingAgent, DeviceId, codes};
use serde_json::{Value, json};
use testing::{DAY_MS, TestAgent, TestWorld, code};

fn on(agent: &TestAgent, device: &str, connection: u64) -> Caller {
    let Caller::Agent(session) = agent.caller() else { unreachable!() };
    Caller::Agent(CallingAgent { device: DeviceId::parse(device).unwrap(), connection, ..session })
}

async fn join(test: &TestWorld, agent: &TestAgent, device: &str) {
    test.inside("message.session_opened", json!({ "aid": agent.aid, "device_id": device })).await;
}

/// A message with a later time at each call.
async fn send(test: &TestWorld, from: &TestAgent, to: &TestAgent, id: &str) -> i64 {
    test.world.clock.advance_ms(10);
    let params = json!({ "to": to.aid, "message_id": id, "payload": {} });
    let sent = test.call_as(on(from, "d1", 9), "message.send", params).await.unwrap();
    sent["timestamp"].as_i64().unwrap()
}

async fn read(test: &TestWorld, who: &TestAgent, topic: &str, id: &str) -> Value {
    let params = json!({ "states": [{ "topic_key": topic, "last_read_message_id": id }] });
    test.call_as(on(who, "d1", 1), "message.read", params).await.unwrap()["states"][0]["changed"].clone()
}

async fn state(test: &TestWorld, who: &TestAgent, device: &str, topic: &str) -> Value {
    let params = json!({ "topic_key": topic });
    test.call_as(on(who, device, 2), "message.read_state", params).await.unwrap()["states"][0].clone()
}

fn changes(test: &TestWorld) -> Vec<(Audience, Value)> {
    let mut events = test.events.lock();
    let all = std::mem::take(&mut *events).into_iter();
    let ours = all.filter(|event| event.method == "event/message.read_changed");
    ours.map(|event| (event.to, serde_json::from_str(event.params.get()).unwrap())).collect()
}

#[tokio::test]
async fn a_read_state_moves_forward_in_the_time_of_the_messages_and_other_devices_are_told() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
    let (alice, bob) = (test.register("alice").await, test.register("bobb").await);
    join(&test, &bob, "d1").await;
    send(&test, &alice, &bob, "m-1").await;
    let second = send(&test, &alice, &bob, "m-2").await;
    join(&test, &bob, "d2").await;

    assert_eq!(read(&test, &bob, "inbox:primary", "m-2").await, true);
    let published = changes(&test);
    let Audience::Others { connection: 1, .. } = &published[0].0 else { panic!("{published:?}") };
    let event = json!({ "owner_aid": bob.aid, "scope": "p2p", "topic_key": "inbox:primary",
        "last_read_message_id": "m-2", "last_read_order": second, "updated_at": test.world.clock.now_ms() });
    assert_eq!((published.len(), &published[0].1), (1, &event));

    assert_eq!(read(&test, &bob, "inbox:primary", "m-1").await, false);
    assert_eq!(read(&test, &bob, "inbox:primary", "m-2").await, false);
    assert_eq!(changes(&test).len(), 0);
    let here = state(&test, &bob, "d1", "inbox:primary").await;
    assert_eq!((&here["current_device_seq"], &here["mapping_status"]), (&json!(2), &json!("resolved")));
    let there = state(&test, &bob, "d2", "inbox:primary").await;
    assert_eq!(
        (&there["current_device_seq"], &there["mapping_status"]),
        (&Value::Null, &json!("not_received"))
    );
    let again = test.restart().await;
    assert_eq!(state(&again, &bob, "d1", "inbox:primary").await, here);
}

#[tokio::test]
async fn a_message_that_is_not_found_is_stored_only_where_no_other_is() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
    let (alice, bob) = (test.register("alice").await, test.register("bobb").await);
    join(&test, &bob, "d1").await;
    assert_eq!(read(&test, &bob, &alice.aid, "m-unknown").await, true);
    assert_eq!(read(&test, &bob, &alice.aid, "m-unknown").await, false);
    assert_eq!(read(&test, &bob, &alice.aid, "a-unknown").await, true);
    let noted = state(&test, &bob, "d1", &alice.aid).await;
    assert_eq!((&noted["last_read_order"], &noted["mapping_status"]), (&json!(0), &json!("unresolved")));
    send(&test, &alice, &bob, "m-1").await;
    assert_eq!(read(&test, &bob, &alice.aid, "m-1").await, true);
    assert_eq!(changes(&test).len(), 1, "only a message that was found is published");
    assert_eq!(read(&test, &bob, &alice.aid, "m-unknown").await, false);
    assert_eq!(state(&test, &bob, "d1", &alice.aid).await["last_read_message_id"], "m-1");
    let unasked = send(&test, &bob, &alice, "m-own").await;
    assert_eq!(read(&test, &bob, &alice.aid, "m-own").await, true);
    assert_eq!(state(&test, &bob, "d1", &alice.aid).await["last_read_order"], unasked, "own messages count");
}

#[tokio::test]
async fn what_others_have_read_is_not_shown_and_bad_lists_change_nothing() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
    let (alice, bob) = (test.register("alice").await, test.register("bobb").await);
    let ask = async |method: &str, params: Value| test.call_as(on(&bob, "d1", 1), method, params).await;
    assert_eq!(
        code(ask("message.read_state", json!({ "aid": alice.aid })).await),
        codes::PERMISSION_DENIED.code
    );
    let good = json!({ "topic_key": "t", "last_read_message_id": "m" });
    let long = json!({ "topic_key": "t".repeat(129), "last_read_message_id": "m" });
    for bad in [
        json!({}),
        json!({ "states": null }),
        json!({ "states": [] }),
        json!({ "states": [good, long] }),
        json!({ "states": [good, { "topic_key": "t" }] }),
        json!({ "states": [good, { "scope": "group", "topic_key": "t", "last_read_message_id": "m" }] }),
        json!({ "states": vec![good.clone(); 101] }),
    ] {
        assert_eq!(code(ask("message.read", bad.clone()).await), codes::INVALID_PARAMS.code, "{bad}");
    }
    let nothing = json!({ "scope": "p2p", "states": [] });
    assert_eq!(ask("message.read_state", json!({})).await.unwrap(), nothing);
    assert_eq!(ask("message.read", good).await.unwrap()["updated"], 1, "one alone needs no list");
    let one = ask("message.read_state", json!({})).await.unwrap();
    assert_eq!(one["topic_key"], one["states"][0]["topic_key"]);
}

#[tokio::test]
async fn of_two_messages_of_the_same_time_the_greater_id_is_later() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
    let (alice, bob) = (test.register("alice").await, test.register("bobb").await);
    join(&test, &bob, "d1").await;
    for id in ["m-B", "m-a"] {
        let params = json!({ "to": bob.aid, "message_id": id, "payload": {} });
        test.call_as(on(&alice, "d1", 9), "message.send", params).await.unwrap();
    }
    assert_eq!(read(&test, &bob, "t", "m-a").await, true);
    assert_eq!(read(&test, &bob, "t", "m-B").await, false, "by code points, on either engine");
}

#[tokio::test]
async fn a_message_to_one_device_moves_and_announces_no_shared_position() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
    let (alice, bob) = (test.register("alice").await, test.register("bobb").await);
    for device in ["d1", "d2"] {
        join(&test, &bob, device).await;
    }
    send(&test, &alice, &bob, "m-1").await;
    assert_eq!(read(&test, &bob, "t", "m-1").await, true);
    changes(&test);
    assert_eq!(read(&test, &bob, "t", "m-3").await, false, "it is not found, and another is");
    assert_eq!(read(&test, &bob, "late", "m-2").await, true, "nothing else is there");
    for id in ["m-2", "m-3"] {
        test.world.clock.advance_ms(10);
        let params = json!({ "to": bob.aid, "message_id": id, "payload": {}, "device_id": "d1" });
        test.call_as(on(&alice, "d1", 9), "message.send", params).await.unwrap();
    }

    assert_eq!(read(&test, &bob, "t", "m-3").await, true, "the device's own position");
    assert_eq!(read(&test, &bob, "t", "m-3").await, false);
    assert_eq!(read(&test, &bob, "t", "m-2").await, false, "it only goes forward, too");
    assert_eq!(changes(&test).len(), 0, "the others never see it");
    assert_eq!(state(&test, &bob, "d1", "t").await["last_read_message_id"], "m-1");
    assert_eq!(state(&test, &bob, "d1", "late").await, Value::Null, "what it is was not known then");
    send(&test, &alice, &bob, "m-4").await;
    assert_eq!(read(&test, &bob, "t", "m-4").await, true);
    assert_eq!(changes(&test).len(), 1);
}

#[tokio::test]
async fn a_position_that_came_before_its_message_is_stored_with_its_time() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
    let (alice, bob) = (test.register("alice").await, test.register("bobb").await);
    join(&test, &bob, "d1").await;
    for topic in ["asked", "moved"] {
        assert_eq!(read(&test, &bob, topic, "m-2").await, true);
    }
    send(&test, &alice, &bob, "m-1").await;
    let second = send(&test, &alice, &bob, "m-2").await;
    assert_eq!(changes(&test).len(), 0);

    assert_eq!(read(&test, &bob, "moved", "m-1").await, false, "it is further already");
    let told = changes(&test);
    assert_eq!(
        (told.len(), &told[0].1["last_read_message_id"]),
        (1, &json!("m-2")),
        "the others learn of it"
    );
    let asked = state(&test, &bob, "d1", "asked").await;
    assert_eq!((&asked["last_read_order"], &asked["mapping_status"]), (&json!(second), &json!("resolved")));
    assert_eq!(changes(&test).len(), 1);

    test.world.clock.advance_ms(DAY_MS + 1);
    let test = test.restart().await;
    MessageService::open(&test.world, &Default::default()).await.unwrap().remove_old().await;
    let test = test.restart().await;
    for topic in ["asked", "moved"] {
        let left = state(&test, &bob, "d1", topic).await;
        assert_eq!((&left["last_read_order"], &left["current_device_seq"]), (&json!(second), &Value::Null));
        assert_eq!(left["mapping_status"], "unresolved", "the message is removed, the position is not");
    }
}
