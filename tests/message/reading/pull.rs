//! `message.pull`: the inbox of this device, after a seq.

use serde_json::{Value, json};

use crate::message::{BUSY, ask, flood, numbered, pull, refusal, rows, say, seqs, two, until_online, words};
use crate::support::TestServer;
use crate::support::agent::at;

#[tokio::test]
async fn an_empty_inbox_is_a_page_too() {
    let server = TestServer::shared().await;
    let bob = server.agent("bobb").await;
    let page = ask(&bob, "message.pull", json!({})).await;
    assert_eq!(page["messages"], json!([]));
    for (member, value) in [
        ("count", json!(0)),
        ("latest_seq", json!(0)),
        ("server_ack_seq", json!(0)),
        ("retention_floor_seq", json!(0)),
        ("earliest_available_seq", Value::Null),
        ("ephemeral_earliest_available_seq", Value::Null),
        ("ephemeral_dropped_count", json!(0)),
        ("has_more", json!(false)),
    ] {
        assert_eq!(page.get(member), Some(&value), "{member}");
    }
}

#[tokio::test]
async fn a_page_begins_after_a_seq_and_ends_at_the_limit() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    flood(&alice, &numbered(bob.aid(), 250)).await;
    let page = |params: Value| ask(&bob, "message.pull", params);

    let first = page(json!({})).await;
    assert_eq!(seqs(&first), (1..=100).collect::<Vec<_>>(), "a hundred where nothing is said");
    assert_eq!(
        (&first["has_more"], &first["count"], &first["latest_seq"]),
        (&json!(true), &json!(100), &json!(100))
    );
    assert_eq!(page(json!({ "limit": 1_000_000 })).await["count"], 200, "never more than 200, and no error");
    let middle = page(json!({ "after_seq": 100, "limit": 50 })).await;
    assert_eq!(seqs(&middle), (101..=150).collect::<Vec<_>>());
    let last = page(json!({ "after_seq": 200, "limit": 50 })).await;
    assert_eq!((seqs(&last), &last["has_more"]), ((201..=250).collect::<Vec<_>>(), &json!(false)));
    let beyond = page(json!({ "after_seq": 250 })).await;
    assert_eq!(
        (&beyond["count"], &beyond["latest_seq"], &beyond["has_more"]),
        (&json!(0), &json!(250), &json!(false))
    );
    let far = page(json!({ "after_seq": 9_007_199_254_740_991_i64 })).await;
    assert_eq!((&far["count"], &far["has_more"]), (&json!(0), &json!(false)));
    assert_eq!(page(json!({ "after_seq": 248, "limit": 1 })).await["messages"][0]["seq"], 249);
}

#[tokio::test]
async fn reading_changes_nothing() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    say(&alice, &bob, "hello").await;
    let first = pull(&bob).await;
    for _ in 0..3 {
        assert_eq!(pull(&bob).await, first);
    }
    assert_eq!(first["server_ack_seq"], 0);
    ask(&bob, "message.ack", json!({ "seq": 1 })).await;
    let acked = pull(&bob).await;
    assert_eq!(
        (&acked["messages"], &acked["server_ack_seq"]),
        (&first["messages"], &json!(1)),
        "read again as often as wanted"
    );
}

#[tokio::test]
async fn another_device_or_slot_than_the_connections_is_refused() {
    let server = TestServer::shared().await;
    let bob = server.register("bobb").await;
    let bob = server.connect(&bob, at("laptop", "cli/one")).await;
    for method in ["message.pull", "message.ack"] {
        let call = |device: &str, slot: &str| json!({ "seq": 0, "device_id": device, "slot_id": slot });
        for (device, slot) in
            [("phone", ""), ("phone", "cli/one"), ("laptop", "web"), ("laptop", "cli2"), ("Laptop", "")]
        {
            let error = refusal(&bob, method, call(device, slot)).await;
            assert_eq!(error["code"], -32602, "{method} {device} {slot}: {error}");
        }
        for slot in ["cli/one", "cli", "cli:two", "cli three", ""] {
            bob.call(method, &call("laptop", slot)).await;
        }
        bob.call(method, &json!({ "seq": 0, "device_id": "laptop" })).await;
        bob.call(method, &json!({ "seq": 0 })).await;
    }
}

#[tokio::test]
async fn a_seq_that_is_no_number_is_refused() {
    let server = TestServer::shared().await;
    let bob = server.agent("bobb").await;
    for (method, member) in [
        ("message.pull", "after_seq"),
        ("message.pull", "limit"),
        ("message.v2.pull", "after_seq"),
        ("message.v2.pull", "ack_up_to_seq"),
        ("message.ack", "seq"),
        ("message.v2.ack", "up_to_seq"),
        ("message.history", "before_seq"),
    ] {
        let mut wrong = vec![json!("1"), json!(1.5), json!([1]), json!({}), json!(true)];
        if member != "limit" {
            wrong.push(json!(-1));
        }
        for value in wrong {
            let error = refusal(&bob, method, json!({ (member): value })).await;
            assert_eq!(error["code"], -32602, "{method} {member} {value}: {error}");
        }
    }
}

#[tokio::test]
async fn a_page_is_cut_at_half_a_mebibyte_but_never_to_nothing() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    let large = |n: usize| json!({ "to": bob.aid(), "payload": { "text": n.to_string(), "pad": "x".repeat(200 << 10) } });
    for n in 0..5 {
        crate::message::send(&alice, large(n)).await;
    }
    crate::message::send(
        &alice,
        json!({ "to": bob.aid(), "payload": { "text": "5", "pad": "x".repeat(600 << 10) } }),
    )
    .await;
    for method in ["message.pull", "message.v2.pull"] {
        let (mut after, mut all, mut pages) = (0, Vec::new(), 0);
        loop {
            let page = ask(&bob, method, json!({ "after_seq": after, "limit": 50 })).await;
            let alone = page["count"] == 1;
            assert!(
                alone || page.to_string().len() <= 512 << 10,
                "{method}: {} bytes",
                page.to_string().len()
            );
            all.extend(words(&page));
            after = *seqs(&page).last().expect("never nothing");
            assert_eq!(page["latest_seq"], after, "a cut page covers what it holds");
            pages += 1;
            if page["has_more"] == false {
                break;
            }
        }
        assert_eq!(all, ["0", "1", "2", "3", "4", "5"]);
        assert!(pages >= 4, "{method}: {pages} pages");
    }
}

#[tokio::test]
async fn ten_thousand_unread_messages_are_read_page_by_page() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    bob.close().await;
    until_online(&alice, bob.aid(), false).await;
    flood(&alice, &numbered(bob.aid(), 10_000)).await;
    let bob = server.reconnect(&bob).await;
    let (mut after, mut read) = (0, Vec::new());
    while after < 10_000 {
        let page = bob.call("message.pull", &json!({ "after_seq": after, "limit": 200 })).await;
        assert_eq!(page["has_more"], after + 200 < 10_000);
        read.extend(seqs(&page));
        after += 200;
    }
    assert_eq!(read, (1..=10_000).collect::<Vec<_>>());
    let peers = ask(&bob, "message.peers", json!({ "filter": "pending" })).await;
    assert_eq!((&peers["peers"][0]["head_seq"], rows(&v2_last(&bob).await).len()), (&json!(10_000), 50));
    assert_eq!(ask(&bob, "message.ack", json!({ "seq": 10_000 })).await["ack_seq"], 10_000);
}

async fn v2_last(bob: &crate::support::agent::ConnectedAgent) -> Value {
    ask(bob, "message.v2.pull", json!({ "after_seq": 9_900, "limit": 1_000 })).await
}
