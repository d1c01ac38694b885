//! `message.recall`: a sender recalls messages, and their readers find a tombstone.

use serde_json::{Value, json};

use crate::message::{
    ask, events_until_now, message, named, next, pull, received, refusal, rows, say, send, seqs, two,
    until_online, v2_pull,
};
use crate::support::TestServer;
use crate::support::agent::ConnectedAgent;

async fn recall(agent: &ConnectedAgent, ids: &[&str]) -> Value {
    let answer = ask(agent, "message.recall", json!({ "message_ids": ids })).await;
    assert_eq!((&answer["success"], &answer["accepted"]), (&json!(true), &json!(ids.len())));
    answer
}

/// Why none of them could be recalled.
async fn reasons(agent: &ConnectedAgent, ids: &[&str]) -> Vec<Value> {
    let answer = recall(agent, ids).await;
    assert_eq!(answer["recalled"], 0, "{answer}");
    let errors = answer["errors"].as_array().unwrap_or_else(|| panic!("there are reasons: {answer}"));
    assert_eq!(errors.iter().map(|error| &error["message_id"]).collect::<Vec<_>>(), ids);
    errors.iter().map(|error| error["error"].clone()).collect()
}

fn is_tombstone(row: &Value, payload: &Value, id: &str, sender: &str) {
    assert_eq!(row["type"], "message.recalled", "{row}");
    assert_eq!(
        (&payload["type"], &payload["kind"]),
        (&json!("message.recalled"), &json!("message.recalled")),
        "{row}"
    );
    assert_eq!(payload["message_ids"], json!([id]));
    assert!(payload["recalled_at"].as_i64().is_some_and(|ms| ms > 1_700_000_000_000), "{row}");
    assert!(payload.get("recalled_by").is_none_or(|by| by == sender), "{row}");
}

#[tokio::test]
async fn what_was_recalled_is_gone_and_every_device_is_told() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    send(&alice, named(bob.aid(), "m-1", "secret words")).await;
    say(&alice, &bob, "in between").await;
    let answer = recall(&alice, &["m-1"]).await;
    assert_eq!((&answer["recalled"], &answer["errors"]), (&json!(1), &Value::Null));

    for device in [&bob, &phone] {
        for _ in 0..2 {
            received(device).await;
        }
        let event = next(device, "event/message.recalled").await;
        assert_eq!((&event["from"], &event["to"]), (&json!(alice.aid()), &json!(bob.aid())));
        assert_eq!(
            (&event["message_ids"], &event["seq"]),
            (&json!(["m-1"]), &json!(3)),
            "the seq of the notice"
        );
        assert!(
            event.get("device_id").is_none_or(|id| id == device.device()),
            "clients check the device: {event}"
        );

        let page = pull(device).await;
        assert!(!page.to_string().contains("secret words"));
        assert_eq!(seqs(&page), [1, 2, 3]);
        let (tombstone, notice) = (&rows(&page)[0], &rows(&page)[2]);
        assert_eq!(tombstone["message_id"], "m-1", "at its seq, under its id");
        assert_ne!(notice["message_id"], "m-1", "at the end, under an id of its own");
        for row in [tombstone, notice] {
            is_tombstone(row, &row["payload"], "m-1", alice.aid());
            assert_eq!((&row["from"], &row["to"]), (&json!(alice.aid()), &json!(bob.aid())));
        }
        let page = v2_pull(device).await;
        assert!(!page.to_string().contains("secret words"));
        for row in [&rows(&page)[0], &rows(&page)[2]] {
            assert_eq!(row["version"], "v1");
            is_tombstone(row, &row["legacy_v1"]["payload"], "m-1", alice.aid());
        }
    }
}

#[tokio::test]
async fn only_the_sender_can_recall_a_message_and_only_once() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let carol = server.agent("carol").await;
    send(&alice, named(bob.aid(), "m-1", "hello")).await;
    for other in [&bob, &carol] {
        let reason = reasons(other, &["m-1"]).await;
        assert!(reason == ["not_sender"] || reason == ["not_found"], "{reason:?}");
    }
    assert_eq!(pull(&bob).await["count"], 1, "nothing happened");
    assert_eq!(reasons(&alice, &["m-2"]).await, ["not_found"]);
    assert_eq!(recall(&alice, &["m-1"]).await["recalled"], 1);
    assert_eq!(reasons(&alice, &["m-1"]).await, ["already_recalled"]);
    received(&bob).await;
    next(&bob, "event/message.recalled").await;
    assert_eq!(events_until_now(&alice, &bob).await, Vec::<Value>::new(), "told once");
}

#[tokio::test]
async fn the_reader_of_a_message_is_not_its_sender() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    send(&alice, named(bob.aid(), "m-1", "hello")).await;
    assert_eq!(reasons(&bob, &["m-1"]).await, ["not_sender"]);
}

#[tokio::test]
async fn good_and_bad_ids_are_sorted_out_in_one_call() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    for id in ["m-1", "m-2", "m-3"] {
        send(&alice, named(bob.aid(), id, id)).await;
    }
    let answer = recall(&alice, &["m-1", "m-unknown", "m-3"]).await;
    assert_eq!(answer["recalled"], 2);
    assert_eq!(answer["errors"], json!([{ "message_id": "m-unknown", "error": "not_found" }]));
    let page = pull(&bob).await.to_string();
    assert!(page.contains(r#""text":"m-2""#) && !page.contains(r#""text":"m-1""#), "{page}");
    assert_eq!(recall(&alice, &["m-2", "m-2"]).await["recalled"], 1, "the same id twice is one message");
}

#[tokio::test]
async fn a_hundred_can_be_recalled_at_once_and_not_one_more() {
    let server = TestServer::shared_with(crate::message::BUSY).await;
    let (alice, bob) = two(&server).await;
    let ids: Vec<String> = (0..101).map(|n| format!("m-{n}")).collect();
    let messages: Vec<Value> = ids.iter().map(|id| named(bob.aid(), id, "hello")).collect();
    crate::message::flood(&alice, &messages).await;
    assert_eq!(refusal(&alice, "message.recall", json!({ "message_ids": ids })).await["code"], -32602);
    for params in [json!({}), json!({ "message_ids": "m-1" }), json!({ "message_ids": [1] })] {
        assert_eq!(refusal(&alice, "message.recall", params).await["code"], -32602);
    }
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    assert_eq!(recall(&alice, &ids[..100]).await["recalled"], 100);
    let page = ask(&bob, "message.pull", json!({ "after_seq": 0, "limit": 101 })).await;
    assert!(rows(&page)[..100].iter().all(|row| row["type"] == "message.recalled"));
    assert_eq!(rows(&page)[100]["payload"]["text"], "hello");
}

#[tokio::test]
async fn nobody_is_told_of_messages_to_others_that_were_recalled_with_theirs() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let carol = server.agent("carol").await;
    send(&alice, named(bob.aid(), "m-bob", "for bob")).await;
    send(&alice, named(carol.aid(), "m-carol", "for carol")).await;
    assert_eq!(recall(&alice, &["m-bob", "m-carol"]).await["recalled"], 2);
    for (reader, own, other) in [(&bob, "m-bob", "m-carol"), (&carol, "m-carol", "m-bob")] {
        received(reader).await;
        let event = next(reader, "event/message.recalled").await;
        assert_eq!((&event["to"], &event["message_ids"]), (&json!(reader.aid()), &json!([own])));
        let page = pull(reader).await;
        assert_eq!(seqs(&page), [1, 2]);
        assert!(!page.to_string().contains(other), "{page}");
    }
}

#[tokio::test]
async fn somebody_who_was_away_finds_both_tombstones() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    send(&alice, named(bob.aid(), "m-1", "hello")).await;
    ask(&bob, "message.ack", json!({ "seq": 1 })).await;
    bob.close().await;
    until_online(&alice, bob.aid(), false).await;
    assert_eq!(recall(&alice, &["m-1"]).await["recalled"], 1);
    let bob = server.reconnect(&bob).await;
    let page = ask(&bob, "message.pull", json!({ "after_seq": 1 })).await;
    assert_eq!(seqs(&page), [2], "who has read it already finds the notice");
    is_tombstone(&rows(&page)[0], &rows(&page)[0]["payload"], "m-1", alice.aid());
}

#[tokio::test]
async fn sending_again_does_not_bring_it_back() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    send(&alice, named(bob.aid(), "m-1", "hello")).await;
    recall(&alice, &["m-1"]).await;
    assert_eq!(send(&alice, named(bob.aid(), "m-1", "hello")).await["status"], "duplicate");
    assert!(!pull(&bob).await.to_string().contains("hello"));
}

#[tokio::test]
async fn messages_that_were_not_stored_cannot_be_recalled() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let mut queued = named(bob.aid(), "m-queue", "hello");
    queued["delivery_mode"] = json!("queue");
    send(&alice, queued).await;
    assert_eq!(reasons(&alice, &["m-queue"]).await, ["not_found"]);
    let mut brief = named(bob.aid(), "m-volatile", "hello");
    brief["ttl"] = json!(60);
    send(&alice, brief).await;
    assert_eq!(reasons(&alice, &["m-volatile"]).await, ["not_found"]);
    assert_eq!(send(&alice, message(bob.aid(), "after")).await["status"], "delivered");
}

#[tokio::test]
async fn of_two_recalls_at_once_one_succeeds() {
    let server = TestServer::shared_with(crate::message::BUSY).await;
    let (alice, bob) = two(&server).await;
    let phone = server.connect_device(&alice, "phone", "default").await;
    for n in 0..10 {
        let id = format!("m-{n}");
        send(&alice, named(bob.aid(), &id, "hello")).await;
        let ids = [id.as_str()];
        let (here, there) = futures_util::join!(recall(&alice, &ids), recall(&phone, &ids));
        let recalled = here["recalled"].as_i64().unwrap() + there["recalled"].as_i64().unwrap();
        assert_eq!(recalled, 1, "{here} {there}");
    }
    assert_eq!(seqs(&pull(&bob).await), (1..=20).collect::<Vec<_>>(), "one notice each");
}
