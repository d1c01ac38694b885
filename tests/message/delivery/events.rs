//! Events: to long connections only, after the commit, in the order of `seq`; whoever reads too slowly is closed.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::message::{BUSY, ask, flood, message, numbered, pull, received, say, send, seqs, two};
use crate::support::agent::at;
use crate::support::envelope::{put_key, sealed};
use crate::support::{TestServer, as_often};

/// Little may wait to be written to one connection, and whoever does not read is not closed for missing a ping.
/// What waits for a slow reader is limited by its size alone: on a crowded machine the test may come to read long after the first
/// write that had to wait, and then a connection whose time was over would have been cut without a close frame.
const SMALL_OUTBOX: &str = "limits.calls_per_second = 1000000
limits.ping_interval_ms = 600000
limits.frame_bytes = 131072
limits.outbox_bytes = 262144
limits.write_timeout_ms = 120000";

#[tokio::test]
async fn what_an_event_tells_of_can_be_pulled() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    let sending = flood(&alice, &numbered(bob.aid(), 100)).await;
    assert_eq!(sending.len(), 100);
    for n in 1..=100 {
        let event = received(&bob).await;
        let page = ask(&bob, "message.pull", json!({ "after_seq": n - 1, "limit": 1 })).await;
        assert_eq!(page["messages"][0]["message_id"], event["message_id"], "told and not there: {event}");
    }
}

#[tokio::test]
async fn events_of_every_kind_come_in_the_order_of_seq() {
    let server = TestServer::shared_with(BUSY).await;
    let bob = server.agent("bobb").await;
    let slot = server.connect_device(&bob, "laptop", "second").await;
    put_key(&bob).await;
    let mut senders = Vec::new();
    for n in 0..4 {
        senders.push(server.agent(&format!("sender{n}")).await);
    }
    let floods = senders.iter().map(|sender| {
        let messages: Vec<Value> = (0..40)
            .map(|n| match n % 2 {
                0 => sealed(sender, bob.aid(), &format!("m-{n}")),
                _ => message(bob.aid(), "plain"),
            })
            .collect();
        async move { flood(sender, &messages).await }
    });
    join_all(floods).await;
    for session in [&bob, &slot] {
        for n in 1..=160 {
            let event = session.next_event().await;
            assert_eq!(event["params"]["seq"], n, "{event}");
        }
    }
}

#[tokio::test]
async fn a_connection_gets_no_event_before_its_welcome() {
    let server = TestServer::with(BUSY).await;
    let (alice, bob) = two(&server).await;
    for n in 0..10 {
        let device = format!("device{n}");
        let messages = numbered(bob.aid(), 20);
        // The welcome is read as the answer to `auth.connect`, which panics at a frame that is no answer only later:
        // what came before it would be the first event, and its seq would not be the first of this device.
        let (_, newcomer) = futures_util::join!(
            flood(&alice, &messages),
            server.connect_with(&bob.identity, &bob.tokens, at(&device, "default"))
        );
        let told = newcomer.events_so_far().await;
        let numbers: Vec<i64> = told.iter().filter_map(|event| event["params"]["seq"].as_i64()).collect();
        assert!(numbers.is_sorted_by(|a, b| a + 1 == *b), "{numbers:?}");
        let page = pull(&newcomer).await;
        let all = seqs(&page);
        assert_eq!(all, (1..=i64::try_from(all.len()).unwrap()).collect::<Vec<_>>());
        newcomer.close().await;
        server.at_most_sessions(2).await;
    }
}

#[tokio::test]
async fn a_reader_that_comes_and_goes_loses_nothing() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    let (identity, tokens) = (bob.identity.clone(), bob.tokens.clone());
    bob.close().await;
    let messages = numbered(bob.aid(), 400);
    let coming_and_going = async {
        for _ in 0..15 {
            let session = server.connect_with(&identity, &tokens, |_| ()).await;
            session.call("meta.ping", &json!({})).await;
            session.close().await;
        }
    };
    let (sent, ()) = futures_util::join!(flood(&alice, &messages), coming_and_going);
    let told: Vec<i64> = sent.iter().map(|answer| answer["seq"].as_i64().unwrap()).collect();
    assert_eq!(told, (1..=400).collect::<Vec<_>>());
    let bob = server.reconnect(&bob).await;
    let (first, second) =
        (pull(&bob).await, ask(&bob, "message.pull", json!({ "after_seq": 200, "limit": 200 })).await);
    assert_eq!([seqs(&first), seqs(&second)].concat(), (1..=400).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_slow_reader_among_a_hundred_fast_ones_is_closed_and_the_others_get_everything() {
    let server = TestServer::with(SMALL_OUTBOX).await;
    let (alice, bob) = two(&server).await;
    let slow = server.connect_narrow(&bob, "slow").await;
    // Devices with ten slots each, and some agents of their own: ten devices are the most one agent may have.
    let mut fast = Vec::new();
    for n in 0..as_often(80, 20) {
        fast.push(
            server.connect_device(&bob, &format!("device{}", n / 10), &format!("slot{}", n % 10)).await,
        );
    }
    let mut others = Vec::new();
    for n in 0..as_often(20, 5) {
        others.push(server.agent(&format!("other{n}")).await);
    }
    let pad = "x".repeat(60 << 10);
    let mut sent = 0;
    while server.metric("aund_closes_total{code=\"1013\"}").await < 1.0
        && server.metric("aund_full_outboxes_total").await < 1.0
    {
        sent += 1;
        assert!(sent < 500, "the slow reader is never closed");
        send(&alice, json!({ "to": bob.aid(), "payload": { "text": "large", "pad": pad } })).await;
        let messages: Vec<Value> = others.iter().map(|other| message(other.aid(), "hello")).collect();
        flood(&alice, &messages).await;
        let told = join_all(fast.iter().chain([&bob]).chain(&others).map(received)).await;
        assert!(told.iter().all(|event| event["seq"] == sent), "everybody else has it: {sent}");
    }
    assert_eq!(slow.closed().await.code, 1013);
    let back = server.reconnect(&slow).await;
    // An answer has to fit where an event has to, and this server was given little space.
    let (mut after, mut read) = (0, Vec::new());
    while read.len() < sent {
        let page = ask(&back, "message.pull", json!({ "after_seq": after, "limit": 3 })).await;
        read.extend(seqs(&page));
        after = page["latest_seq"].as_i64().unwrap();
    }
    assert_eq!(read.len(), sent, "and it finds all of it when it comes back");
    assert_eq!(say(&alice, &bob, "on we go").await["status"], "delivered");
}
