//! An agent that is registered and never connected has an inbox all the same: its first device takes it over.

use serde_json::json;

use crate::message::{
    BUSY, events_until_now, flood, may_be_late, message, numbered, pull, received, refusal, send, seqs, two,
    words,
};
use crate::support::TestServer;
use crate::support::agent::{at, text};
use crate::support::envelope::sealed;

#[tokio::test]
async fn messages_wait_for_the_first_device_and_only_for_it() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    for n in 1..=3 {
        let sent = send(&alice, message(&bob.aid, &n.to_string())).await;
        assert_eq!((&sent["seq"], &sent["status"]), (&json!(n), &json!("sent")));
    }
    let laptop = server.connect(&bob, at("laptop", "default")).await;
    let page = pull(&laptop).await;
    assert_eq!(
        (seqs(&page), words(&page)),
        (vec![1, 2, 3], vec!["1".to_owned(), "2".to_owned(), "3".to_owned()])
    );
    assert!(page["messages"][0]["device_id"] == "laptop", "clients refuse rows of other devices: {page}");
    let phone = server.connect(&bob, at("phone", "default")).await;
    assert_eq!(pull(&phone).await["count"], 0);
    assert_eq!(send(&alice, message(&bob.aid, "4")).await["seq"], 4, "the count goes on");
    assert_eq!(received(&phone).await["seq"], 1);
    loop {
        let event = laptop.next_event().await;
        let seq = event["params"]["seq"].as_i64().expect("a message has a seq");
        if seq == 4 {
            break;
        }
        assert!(seq < 4 && may_be_late(&event), "{event}");
    }
}

#[tokio::test]
async fn a_short_connection_is_a_first_device_too() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    send(&alice, message(&bob.aid, "waiting")).await;
    let brief = server.connect(&bob, |hello| hello["options"] = json!({ "kind": "short" })).await;
    assert_eq!(words(&pull(&brief).await), ["waiting"]);
}

#[tokio::test]
async fn no_message_is_lost_while_the_first_device_arrives() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, carol) = (server.agent("alice").await, server.agent("carol").await);
    for round in 0..5 {
        let bob = server.register(&format!("bobb{round}")).await;
        let tokens = server.login(&bob).await;
        let messages = numbered(&bob.aid, 40);
        let (_, _, first) = futures_util::join!(
            flood(&alice, &messages),
            flood(&carol, &messages),
            server.connect_with(&bob, &tokens, |_| ())
        );
        let page = pull(&first).await;
        assert_eq!(seqs(&page), (1..=80).collect::<Vec<_>>(), "round {round}");
    }
}

#[tokio::test]
async fn whatever_comes_after_the_first_look_of_the_first_device_is_told_to_it() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, carol) = (server.agent("alice").await, server.agent("carol").await);
    for round in 0..5 {
        let bob = server.register(&format!("bobb{round}")).await;
        let tokens = server.login(&bob).await;
        let messages = numbered(&bob.aid, 40);
        let arrival = async {
            let first = server.connect_with(&bob, &tokens, |_| ()).await;
            let seen = pull(&first).await["count"].as_i64().unwrap();
            (first, seen)
        };
        let (_, _, (first, seen)) =
            futures_util::join!(flood(&alice, &messages), flood(&carol, &messages), arrival);
        let events = events_until_now(&alice, &first).await;
        let told: Vec<i64> = events.iter().filter_map(|event| event["params"]["seq"].as_i64()).collect();
        for seq in seen + 1..=80 {
            assert!(
                told.contains(&seq),
                "round {round}: {seq} was neither seen ({seen}) nor told ({told:?})"
            );
        }
    }
}

#[tokio::test]
async fn of_two_devices_that_arrive_at_once_one_takes_the_messages_over() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, _bob) = two(&server).await;
    let carol = server.register("carol").await;
    send(&alice, message(&carol.aid, "waiting")).await;
    let tokens = server.login(&carol).await;
    let (laptop, phone) = futures_util::join!(
        server.connect_with(&carol, &tokens, at("laptop", "default")),
        server.connect_with(&carol, &tokens, at("phone", "default"))
    );
    let counts = [pull(&laptop).await["count"].clone(), pull(&phone).await["count"].clone()];
    assert!(counts == [json!(1), json!(0)] || counts == [json!(0), json!(1)], "{counts:?}");
}

#[tokio::test]
async fn what_waits_for_a_first_device_can_be_recalled() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    let sent = send(&alice, message(&bob.aid, "a mistake")).await;
    let recalled = alice.call("message.recall", &json!({ "message_ids": [sent["message_id"]] })).await;
    assert_eq!(recalled["recalled"], 1);
    let laptop = server.connect(&bob, |_| ()).await;
    assert!(!pull(&laptop).await.to_string().contains("a mistake"));
}

#[tokio::test]
async fn an_encrypted_message_is_refused_while_no_device_could_read_it() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    let error = refusal(&alice, "message.send", sealed(&alice, &bob.aid, "m-1")).await;
    assert_eq!(error["code"], -33011, "{error}");
    assert!(text(&error["message"]).contains("no registered devices"), "{error}");
    let laptop = server.connect(&bob, |_| ()).await;
    assert_eq!(pull(&laptop).await["count"], 0);
}
