//! A message sent twice arrives once: the same sender and the same id is the same message.

use serde_json::{Value, json};

use super::{BUSY, events_until_now, flood, ids, named, pull, received, rows, send, seqs, two};
use crate::support::TestServer;

#[tokio::test]
async fn a_message_sent_twice_arrives_once_and_says_so() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let first = send(&alice, named(bob.aid(), "m-1", "once")).await;
    for again in ["once", "other words"] {
        let again = send(&alice, named(bob.aid(), "m-1", again)).await;
        assert_eq!(again["status"], "duplicate");
        for member in ["message_id", "seq", "timestamp", "delivery_mode"] {
            assert_eq!(again[member], first[member], "{member}");
        }
    }
    assert_eq!(received(&bob).await["payload"]["text"], "once");
    assert_eq!(events_until_now(&alice, &bob).await, Vec::<Value>::new(), "one event");
    let page = pull(&bob).await;
    assert_eq!(
        (seqs(&page), &rows(&page)[0]["payload"]["text"]),
        (vec![1, 2], &json!("once")),
        "and no seq is skipped"
    );
}

#[tokio::test]
async fn the_same_id_from_somebody_else_is_another_message() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let carol = server.agent("carol").await;
    send(&alice, named(bob.aid(), "m-1", "from alice")).await;
    assert_eq!(send(&carol, named(bob.aid(), "m-1", "from carol")).await["status"], "delivered");
    assert_eq!(super::words(&pull(&bob).await), ["from alice", "from carol"]);
}

#[tokio::test]
async fn the_same_id_to_somebody_else_is_the_same_message() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let carol = server.agent("carol").await;
    let first = send(&alice, named(bob.aid(), "m-1", "to bob")).await;
    let again = send(&alice, named(carol.aid(), "m-1", "to carol")).await;
    assert_eq!((&again["status"], &again["seq"]), (&json!("duplicate"), &first["seq"]));
    assert_eq!(events_until_now(&alice, &carol).await, Vec::<Value>::new());
    assert_eq!(seqs(&pull(&carol).await), [1], "only the mark");
}

#[tokio::test]
async fn the_same_id_from_another_device_of_the_sender_is_the_same_message() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let phone = server.connect_device(&alice, "phone", "default").await;
    send(&alice, named(bob.aid(), "m-1", "once")).await;
    assert_eq!(send(&phone, named(bob.aid(), "m-1", "once")).await["status"], "duplicate");
    assert_eq!(pull(&bob).await["count"], 1);
}

#[tokio::test]
async fn of_many_sends_with_one_id_at_once_one_is_stored_on_each_device() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    let (phone, tablet) = (
        server.connect_device(&bob, "phone", "default").await,
        server.connect_device(&alice, "tablet", "default").await,
    );
    for round in 0..10 {
        let messages: Vec<Value> =
            (0..20).map(|_| named(bob.aid(), &format!("m-{round}"), "at once")).collect();
        let (here, there) = futures_util::join!(flood(&alice, &messages), flood(&tablet, &messages));
        let answers: Vec<Value> = here.into_iter().chain(there).collect();
        let fresh = answers.iter().filter(|answer| answer["status"] != "duplicate").count();
        assert_eq!(fresh, 1, "round {round}: {answers:?}");
        assert!(answers.iter().all(|answer| answer["timestamp"] == answers[0]["timestamp"]));
        assert!(answers.iter().all(|answer| answer["seq"] == round + 1), "round {round}: {answers:?}");
    }
    let expected: Vec<String> = (0..10).map(|n| format!("m-{n}")).collect();
    for device in [&bob, &phone] {
        let page = pull(device).await;
        assert_eq!(ids(&page), expected);
        assert_eq!(seqs(&page), (1..=10).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn the_id_of_a_refused_message_stays_free() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let mut params = named(bob.aid(), "m-1", "to a device that comes later");
    params["device_id"] = json!("phone");
    assert_eq!(alice.call_error("message.send", &params).await["code"], -33011);
    assert_eq!(
        alice.call_error("message.send", &named("nobody.agents.localhost", "m-1", "x")).await["code"],
        -32008
    );
    let phone = server.connect_device(&bob, "phone", "default").await;
    let sent = send(&alice, params).await;
    assert_eq!((&sent["status"], &sent["seq"]), (&json!("delivered"), &json!(1)), "it is new");
    assert_eq!(super::words(&pull(&phone).await), ["to a device that comes later"]);
}

#[tokio::test]
async fn ids_may_hold_anything_and_are_compared_to_the_last_character() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let ids = ["m", "m ", "M", "m\u{0}", "m'; DROP TABLE message; --", "\u{1f4ee}", "mm", "\"", "\\"];
    for id in ids {
        assert_eq!(send(&alice, named(bob.aid(), id, "x")).await["message_id"], id);
    }
    assert_eq!(super::ids(&pull(&bob).await), ids);
}
