//! Every device of the recipient has its own copy and its own seqs; every slot of a device is told.

use serde_json::{Value, json};

use crate::message::{
    BUSY, events_until_now, flood, message, numbered, pull, received, say, send, seqs, two, words,
};
use crate::support::TestServer;
use crate::support::agent::at;

#[tokio::test]
async fn every_device_and_every_slot_gets_the_event() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let sessions = [
        server.connect_device(&bob, "laptop", "second").await,
        server.connect_device(&bob, "phone", "default").await,
        server.connect_device(&bob, "phone", "second").await,
    ];
    say(&alice, &bob, "to all").await;
    for session in sessions.iter().chain([&bob]) {
        let event = received(session).await;
        assert_eq!(
            (&event["seq"], &event["device_id"]),
            (&json!(1), &json!(session.device())),
            "clients check the device"
        );
        assert_eq!(words(&pull(session).await), ["to all"]);
    }
}

#[tokio::test]
async fn each_device_counts_for_itself() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    say(&alice, &bob, "one").await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    assert_eq!(pull(&phone).await["count"], 0, "a new device begins empty");
    assert_eq!(say(&alice, &bob, "two").await["seq"], 2, "the answer tells the seq on the first device");
    assert_eq!(seqs(&pull(&bob).await), [1, 2]);
    let page = pull(&phone).await;
    assert_eq!((seqs(&page), words(&page)), (vec![1], vec!["two".to_owned()]));
}

#[tokio::test]
async fn a_device_that_is_away_misses_nothing_while_another_one_reads() {
    let server = TestServer::start().await;
    let (alice, bob) = two(&server).await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    phone.close().await;
    server.at_most_sessions(2).await;
    say(&alice, &bob, "hello").await;
    received(&bob).await;
    bob.call("message.ack", &json!({ "seq": 1 })).await;
    let phone = server.reconnect(&phone).await;
    let page = pull(&phone).await;
    assert_eq!((words(&page), &page["server_ack_seq"]), (vec!["hello".to_owned()], &json!(0)));
}

#[tokio::test]
async fn two_agents_on_one_device_have_two_inboxes() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    assert_eq!(alice.device(), bob.device());
    say(&alice, &bob, "for bob").await;
    assert_eq!(
        (pull(&alice).await["count"].clone(), pull(&bob).await["count"].clone()),
        (json!(0), json!(1))
    );
}

#[tokio::test]
async fn short_connections_send_and_read_but_are_told_nothing() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let (brief_alice, brief_bob) = (server.connect_short(&alice).await, server.connect_short(&bob).await);
    let sent = send(&brief_alice, message(bob.aid(), "from a short one")).await;
    assert_eq!(sent["status"], "delivered");
    received(&bob).await;
    assert_eq!(words(&pull(&brief_bob).await), ["from a short one"]);
    assert_eq!(brief_bob.events_so_far().await, Vec::<Value>::new());
    assert_eq!(
        events_until_now(&bob, &alice).await,
        Vec::<Value>::new(),
        "the sender's long connection stays silent"
    );
}

#[tokio::test]
async fn with_only_a_short_connection_a_message_is_sent_and_not_delivered() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    let brief = server.connect(&bob, |hello| hello["options"] = json!({ "kind": "short" })).await;
    assert_eq!(say(&alice, &brief, "hello").await["status"], "sent");
    assert_eq!(words(&pull(&brief).await), ["hello"]);
    assert_eq!(brief.events_so_far().await, Vec::<Value>::new());
}

#[tokio::test]
async fn no_session_of_the_sender_gets_the_event() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let (slot, phone) = (
        server.connect_device(&alice, "laptop", "second").await,
        server.connect_device(&alice, "phone", "default").await,
    );
    say(&alice, &bob, "hello").await;
    for session in [&alice, &slot, &phone] {
        assert_eq!(
            events_until_now(&bob, session)
                .await
                .iter()
                .filter(|event| event["params"]["from"] == alice.aid())
                .count(),
            0
        );
        let page = pull(session).await;
        assert!(words(&page).iter().all(|text| text != "hello"), "{page}");
    }
}

#[tokio::test]
async fn messages_of_one_sender_come_in_the_order_they_were_sent_without_a_hole() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    for n in 1..=5 {
        assert_eq!(say(&alice, &bob, &n.to_string()).await["seq"], n);
    }
    for n in 1..=5 {
        let event = received(&bob).await;
        assert_eq!((&event["seq"], &event["payload"]["text"]), (&json!(n), &json!(n.to_string())));
    }
}

#[tokio::test]
async fn many_senders_at_once_leave_no_hole_on_any_device() {
    let server = TestServer::shared_with(BUSY).await;
    let bob = server.agent("bobb").await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    let mut senders = Vec::new();
    for n in 0..4 {
        senders.push(server.agent(&format!("sender{n}")).await);
    }
    let messages = numbered(bob.aid(), 50);
    let sent = futures_util::future::join_all(senders.iter().map(|sender| flood(sender, &messages))).await;
    let mut told: Vec<i64> = sent.iter().flatten().map(|answer| answer["seq"].as_i64().unwrap()).collect();
    told.sort_unstable();
    assert_eq!(told, (1..=200).collect::<Vec<_>>(), "every sender was told its own seq");
    for device in [&bob, &phone] {
        assert_eq!(seqs(&pull(device).await), (1..=200).collect::<Vec<_>>());
        for n in 1..=200 {
            assert_eq!(received(device).await["seq"], n, "and told of in that order");
        }
    }
}

#[tokio::test]
async fn a_client_that_knows_no_devices_has_an_inbox_too() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    let old = server.connect(&bob, at("", "")).await;
    say(&alice, &old, "to an old client").await;
    assert_eq!(old.next_event().await["params"]["payload"]["text"], "to an old client");
    assert_eq!(words(&pull(&old).await), ["to an old client"]);
    let acked = old.call("message.ack", &json!({ "seq": 1 })).await;
    assert_eq!(acked["ack_seq"], 1);
    let told = crate::message::next(&alice, "event/message.ack").await;
    assert_eq!((&told["device_id"], &told["slot_id"]), (&json!(""), &json!("")));
}
