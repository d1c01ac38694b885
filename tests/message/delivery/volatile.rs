//! `ttl`: messages that are only kept in memory, for a while.

use serde_json::{Value, json};

use crate::message::{ask, message, named, next, pull, received, refusal, rows, say, send, two, words};
use crate::support::envelope::{opened, put_key, sealed};
use crate::support::{TestServer, on_sqlite, until};

fn brief(to: &str, words: &str, ttl: i64) -> Value {
    let mut params = message(to, words);
    params["ttl"] = json!(ttl);
    params
}

#[tokio::test]
async fn a_message_with_a_time_to_live_has_a_cursor_and_no_seq() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let sent = send(&alice, brief(bob.aid(), "for a minute", 60)).await;
    assert_eq!((&sent["status"], &sent["storage"]), (&json!("accepted"), &json!("volatile")));
    assert!(sent.get("seq").is_none(), "{sent}");
    assert!(sent["volatile_cursor"].is_string());
    let (made, ends) = (sent["created_at"].as_i64().unwrap(), sent["expires_at"].as_i64().unwrap());
    assert_eq!(ends - made, 60_000);

    let event = received(&bob).await;
    let page = pull(&bob).await;
    for row in [&event, &rows(&page)[0]] {
        assert_eq!(row["payload"]["text"], "for a minute");
        assert_eq!(row["storage"], "volatile");
        assert!(row.get("seq").is_none(), "{row}");
        for member in ["volatile_cursor", "created_at", "expires_at"] {
            assert_eq!(row[member], sent[member], "{member}");
        }
    }
    assert_eq!(page["latest_volatile_cursor"], sent["volatile_cursor"]);
    assert_eq!((&page["volatile_has_more"], &page["latest_seq"]), (&json!(false), &json!(0)));
    assert_eq!(say(&alice, &bob, "stored").await["seq"], 1, "no seq was used");
}

#[tokio::test]
async fn a_time_to_live_is_an_hour_at_most_and_none_means_stored() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let sent = send(&alice, brief(bob.aid(), "long", 1_000_000)).await;
    assert_eq!(sent["expires_at"].as_i64().unwrap() - sent["created_at"].as_i64().unwrap(), 3_600_000);
    for ttl in [0, -5] {
        let sent = send(&alice, brief(bob.aid(), "stored", ttl)).await;
        assert_eq!(sent["status"], "delivered");
        assert!(sent["seq"].is_i64() && sent.get("volatile_cursor").is_none(), "{sent}");
    }
}

#[tokio::test]
async fn what_has_outlived_its_time_is_gone() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    send(&alice, brief(bob.aid(), "for a second", 1)).await;
    received(&bob).await;
    until("it is gone", || async { (pull(&bob).await["count"] == 0).then_some(()) }).await;
}

#[tokio::test]
async fn reading_goes_on_after_a_cursor() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let mut cursors = Vec::new();
    for n in 0..3 {
        cursors.push(send(&alice, brief(bob.aid(), &n.to_string(), 60)).await["volatile_cursor"].clone());
    }
    let page = ask(&bob, "message.pull", json!({ "after_volatile_cursor": cursors[0] })).await;
    assert_eq!(words(&page), ["1", "2"]);
    assert_eq!(page["latest_volatile_cursor"], cursors[2]);
    let page =
        ask(&bob, "message.v2.pull", json!({ "after_seq": 0, "after_volatile_cursor": cursors[1] })).await;
    assert_eq!(words(&page), ["2"]);
}

#[tokio::test]
async fn what_was_read_can_be_said_by_cursor_or_by_id() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let mut params = named(bob.aid(), "m-1", "one");
    params["ttl"] = json!(60);
    let one = send(&alice, params.clone()).await;
    params["message_id"] = json!("m-2");
    send(&alice, params).await;
    let acked = ask(&bob, "message.ack", json!({ "volatile_cursors": [one["volatile_cursor"]] })).await;
    assert_eq!((&acked["success"], &acked["volatile_ack"]["accepted"]), (&json!(true), &json!(1)));
    let acked = ask(&bob, "message.v2.ack", json!({ "volatile_ids": ["m-2", "m-unknown"] })).await;
    assert_eq!(acked["volatile_ack"], json!({ "accepted": 1, "expired": 1 }));
    assert_eq!(pull(&bob).await["count"], 0);
    let again = ask(&bob, "message.ack", json!({ "volatile_cursors": [one["volatile_cursor"]] })).await;
    assert_eq!(again["success"], true, "twice is no error");
}

#[tokio::test]
async fn a_cursor_from_before_a_restart_is_refused_with_the_sentence_clients_match() {
    if !on_sqlite() {
        return; // Kept where several processes share it, memory outlives a restart: see the test below.
    }
    let mut server = TestServer::start().await;
    let (alice, bob) = two(&server).await;
    let cursor = send(&alice, brief(bob.aid(), "gone soon", 60)).await["volatile_cursor"].clone();
    server.restart().await;
    let bob = server.reconnect(&bob).await;
    assert_eq!(pull(&bob).await["count"], 0, "memory does not outlive the server");
    for method in ["message.pull", "message.v2.pull"] {
        let error = refusal(&bob, method, json!({ "after_volatile_cursor": cursor })).await;
        assert!(error["message"].to_string().contains("volatile cursor epoch mismatch"), "{error}");
    }
}

#[tokio::test]
async fn what_processes_share_outlives_one_of_them_and_so_does_its_cursor() {
    if on_sqlite() {
        return; // One process, one memory.
    }
    let mut server = TestServer::start().await;
    let (alice, bob) = two(&server).await;
    let cursor = send(&alice, brief(bob.aid(), "first", 60)).await["volatile_cursor"].clone();
    server.restart().await;
    let (alice, bob) = (server.reconnect(&alice).await, server.reconnect(&bob).await);
    send(&alice, brief(bob.aid(), "second", 60)).await;
    assert_eq!(words(&pull(&bob).await), ["first", "second"]);
    let page = ask(&bob, "message.pull", json!({ "after_volatile_cursor": cursor })).await;
    assert_eq!(words(&page), ["second"]);
}

#[tokio::test]
async fn history_and_the_newest_window_never_show_them() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    say(&alice, &bob, "stored").await;
    send(&alice, brief(bob.aid(), "volatile", 60)).await;
    let history = ask(&bob, "message.history", json!({ "before_seq": 10 })).await;
    let tail =
        ask(&bob, "message.v2.pull", json!({ "after_seq": 0, "window_mode": "tail", "limit": 10 })).await;
    assert_eq!((words(&history), words(&tail)), (vec!["stored".to_owned()], vec!["stored".to_owned()]));
}

#[tokio::test]
async fn the_same_id_again_is_a_duplicate_of_it() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let mut params = named(bob.aid(), "m-1", "once");
    params["ttl"] = json!(60);
    send(&alice, params.clone()).await;
    assert_eq!(send(&alice, params).await["status"], "duplicate");
    assert_eq!(pull(&bob).await["count"], 1);
}

#[tokio::test]
async fn every_device_has_a_cursor_of_its_own() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    send(&alice, brief(bob.aid(), "to both", 60)).await;
    for device in [&bob, &phone] {
        received(device).await;
        let page = pull(device).await;
        assert_eq!(words(&page), ["to both"]);
        ask(device, "message.ack", json!({ "volatile_cursors": [rows(&page)[0]["volatile_cursor"]] })).await;
        assert_eq!(pull(device).await["count"], 0);
    }
}

#[tokio::test]
async fn a_sender_with_something_in_memory_is_pending() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    send(&alice, brief(bob.aid(), "volatile", 60)).await;
    received(&bob).await;
    let peers = ask(&bob, "message.peers", json!({ "filter": "pending" })).await;
    assert_eq!(peers["peers"][0]["sender_aid"], alice.aid(), "{peers}");
    assert_eq!(peers["peers"][0]["volatile_has_more"], true);
    let page = crate::message::reading::peer::pull_peer(&bob, alice.aid(), 0).await;
    assert_eq!(rows(&page)[0]["storage"], "volatile");
    assert!(seqs_without(&page).is_empty());
}

fn seqs_without(page: &Value) -> Vec<i64> {
    rows(page).iter().filter_map(|row| row["seq"].as_i64()).collect()
}

#[tokio::test]
async fn an_encrypted_one_comes_whole_with_its_event() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    put_key(&bob).await;
    let mut params = sealed(&alice, bob.aid(), "m-1");
    params["ttl"] = json!(60);
    let sent = send(&alice, params).await;
    assert_eq!(sent["storage"], "volatile");
    let event = next(&bob, "event/peer.v2.message_received").await;
    assert!(event.get("seq").is_none(), "{event}");
    let row = &event["inline_message"];
    assert_eq!((&row["message_id"], &row["from_aid"]), (&json!("m-1"), &json!(alice.aid())));
    assert_eq!(opened(&row["envelope_json"])["delivery_device_id"], "laptop");
}
