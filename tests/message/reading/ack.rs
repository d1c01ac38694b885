//! `message.ack`: cursors only grow, each consumer has its own, and senders are told.

use serde_json::{Value, json};

use crate::message::{ask, next, pull, received, refusal, say, two};
use crate::support::TestServer;
use crate::support::agent::ConnectedAgent;

async fn ack(agent: &ConnectedAgent, seq: i64) -> Value {
    ask(agent, "message.ack", json!({ "seq": seq })).await["ack_seq"].clone()
}

/// The events of `agent` until a message of `other` arrives.
async fn told(other: &ConnectedAgent, agent: &ConnectedAgent) -> Vec<Value> {
    crate::message::events_until_now(other, agent).await
}

#[tokio::test]
async fn a_cursor_never_goes_back_and_never_beyond_the_last_message() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    assert_eq!(ack(&bob, 0).await, 0);
    assert_eq!(ack(&bob, 7).await, 0, "there is nothing yet");
    for n in 0..5 {
        say(&alice, &bob, &n.to_string()).await;
    }
    assert_eq!(
        pull(&bob).await["server_ack_seq"],
        0,
        "an early acknowledgement does not count for later messages"
    );
    assert_eq!(ack(&bob, 3).await, 3);
    assert_eq!(ack(&bob, 1).await, 3, "an old device must not move it back");
    assert_eq!(ack(&bob, 3).await, 3);
    assert_eq!(ack(&bob, 9_007_199_254_740_991).await, 5, "beyond the last is the last");
    assert_eq!(pull(&bob).await["server_ack_seq"], 5);
}

#[tokio::test]
async fn each_device_and_each_slot_has_its_own_cursor() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let (slot, phone) = (
        server.connect_device(&bob, "laptop", "second").await,
        server.connect_device(&bob, "phone", "default").await,
    );
    for n in 0..4 {
        say(&alice, &bob, &n.to_string()).await;
    }
    assert_eq!(
        (ack(&bob, 1).await, ack(&slot, 2).await, ack(&phone, 3).await),
        (json!(1), json!(2), json!(3))
    );
    for (session, seq) in [(&bob, 1), (&slot, 2), (&phone, 3)] {
        assert_eq!(pull(session).await["server_ack_seq"], seq);
    }
    let brief = server.connect_short(&bob).await;
    assert_eq!(pull(&brief).await["server_ack_seq"], 1, "a short connection is the same consumer");
}

#[tokio::test]
async fn slots_with_one_key_share_a_cursor() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    say(&alice, &bob, "hello").await;
    let one = server.connect_device(&bob, "laptop", "cli/one").await;
    assert_eq!(ack(&one, 1).await, 1);
    one.close().await;
    let two = server.connect_device(&bob, "laptop", "cli:two").await;
    assert_eq!(pull(&two).await["server_ack_seq"], 1);
}

#[tokio::test]
async fn both_generations_move_one_cursor() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    for n in 0..4 {
        say(&alice, &bob, &n.to_string()).await;
    }
    assert_eq!(ask(&bob, "message.v2.ack", json!({ "up_to_seq": 2 })).await["effective_ack_seq"], 2);
    assert_eq!(pull(&bob).await["server_ack_seq"], 2);
    assert_eq!(ack(&bob, 3).await, 3);
    let page = ask(&bob, "message.v2.pull", json!({ "after_seq": 0 })).await;
    assert_eq!(page["server_ack_seq"], 3);
    assert_eq!(ask(&bob, "message.v2.ack", json!({ "up_to_seq": 1 })).await["ack_seq"], 3);
}

#[tokio::test]
async fn a_sender_is_told_once_each_time_its_messages_are_read() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let carol = server.agent("carol").await;
    let phone = server.connect_device(&alice, "phone", "default").await;
    for n in 0..3 {
        say(&alice, &bob, &n.to_string()).await;
    }
    say(&carol, &bob, "from carol").await;
    for _ in 0..2 {
        assert_eq!(ack(&bob, 2).await, 2);
    }
    assert_eq!(ack(&bob, 1).await, 2);
    for session in [&alice, &phone] {
        let event = next(session, "event/message.ack").await;
        assert_eq!((&event["to"], &event["ack_seq"]), (&json!(bob.aid()), &json!(2)));
        assert_eq!(
            (&event["device_id"], &event["slot_id"]),
            (&json!("laptop"), &json!("default")),
            "those of the reader"
        );
        assert!(
            event["timestamp"].as_i64().is_some_and(|ms| ms > 1_700_000_000_000),
            "milliseconds: {event}"
        );
    }
    assert_eq!(told(&bob, &alice).await, Vec::<Value>::new(), "once");
    assert_eq!(told(&bob, &carol).await, Vec::<Value>::new(), "hers was not read yet");

    assert_eq!(ack(&bob, 4).await, 4);
    for sender in [&alice, &carol] {
        assert_eq!(next(sender, "event/message.ack").await["ack_seq"], 4);
    }
    assert_eq!(ack(&bob, 4).await, 4);
    assert_eq!(told(&bob, &carol).await, Vec::<Value>::new());
}

#[tokio::test]
async fn each_consumer_s_progress_is_told_by_itself() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let phone = server.connect_device(&bob, "phone", "pocket/1").await;
    say(&alice, &bob, "hello").await;
    received(&bob).await;
    ack(&bob, 1).await;
    assert_eq!(next(&alice, "event/message.ack").await["device_id"], "laptop");
    ack(&phone, 1).await;
    let event = next(&alice, "event/message.ack").await;
    assert_eq!(event["device_id"], "phone");
    assert!(event["slot_id"].as_str().is_some_and(|slot| slot.starts_with("pocket")), "{event}");
}

#[tokio::test]
async fn short_connections_of_the_sender_are_told_nothing() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let brief = server.connect_short(&alice).await;
    say(&brief, &bob, "hello").await;
    ack(&bob, 1).await;
    next(&alice, "event/message.ack").await;
    assert_eq!(brief.events_so_far().await, Vec::<Value>::new());
}

#[tokio::test]
async fn an_acknowledgement_of_nothing_is_refused() {
    let server = TestServer::shared().await;
    let bob = server.agent("bobb").await;
    assert_eq!(refusal(&bob, "message.ack", json!({})).await["code"], -32602);
    assert_eq!(refusal(&bob, "message.v2.ack", json!({})).await["code"], -32602);
}

#[tokio::test]
async fn acknowledgements_at_once_leave_the_highest() {
    let server = TestServer::shared_with(crate::message::BUSY).await;
    let (alice, bob) = two(&server).await;
    crate::message::flood(&alice, &crate::message::numbered(bob.aid(), 60)).await;
    let brief = server.connect_short(&bob).await;
    let seqs: Vec<Value> = [17, 3, 60, 42, 1, 59, 8].iter().map(|seq| json!({ "seq": seq })).collect();
    let (here, there) =
        futures_util::join!(bob.call_many("message.ack", &seqs), brief.call_many("message.ack", &seqs));
    for (answer, asked) in here.iter().chain(&there).zip(seqs.iter().chain(&seqs)) {
        let reached = answer.as_ref().expect("it is accepted")["ack_seq"].as_i64();
        assert!(reached >= asked["seq"].as_i64(), "{answer:?}");
    }
    assert_eq!(pull(&bob).await["server_ack_seq"], 60);
    let events = told(&bob, &alice).await;
    let mut reached: Vec<i64> =
        events.iter().map(|event| event["params"]["ack_seq"].as_i64().unwrap()).collect();
    assert!(reached.is_sorted(), "{reached:?}");
    reached.dedup();
    assert_eq!((reached.len(), reached.last()), (events.len(), Some(&60)), "never the same twice");
}
