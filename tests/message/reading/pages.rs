//! Pages that are full before their limit: nothing between two of them is lost, and none is larger than clients read.

use serde_json::{Value, json};

use crate::message::{BUSY, ask, flood, ids, message, named, received, rows, say, send, seqs, two, words};
use crate::support::TestServer;
use crate::support::agent::ConnectedAgent;

/// The largest frame that SDKs up to 0.5.4 read.
const OLD_FRAME_BYTES: usize = 1 << 20;

/// Messages of about three kB: many fit into a page by number, and not by size.
/// With a context, which is a part of the row and not of the payload.
fn of_three_kb(to: &str, many: usize, bytes: usize) -> Vec<Value> {
    let mut params = message(to, &"x".repeat(bytes));
    params["context"] = json!({ "note": "c".repeat(400) });
    vec![params; many]
}

async fn history(agent: &ConnectedAgent, mut params: Value) -> Vec<i64> {
    let mut read = Vec::new();
    loop {
        let page = ask(agent, "message.history", params.clone()).await;
        read.splice(0..0, seqs(&page));
        if page["has_older"] == false {
            return read;
        }
        params["before_seq"] = page["next_before_seq"].clone();
    }
}

#[tokio::test]
async fn windows_on_the_newest_and_older_pages_have_every_row_that_they_cover() {
    let server = TestServer::shared_with(BUSY).await;
    // At some of these sizes the payloads fit into a page, and the rows as they are written do not.
    for bytes in (3_000..3_500).step_by(100) {
        let alice = server.agent(&format!("alice{bytes}")).await;
        let bob = server.agent(&format!("bob{bytes}")).await;
        every_row_is_there(&alice, &bob, bytes).await;
    }
}

async fn every_row_is_there(alice: &ConnectedAgent, bob: &ConnectedAgent, bytes: usize) {
    flood(alice, &of_three_kb(bob.aid(), 149, bytes)).await;
    let peer = json!({ "cursor_scope": "peer", "sender_aid": alice.aid(), "limit": 200 });
    let mut params = peer.clone();
    params["window_mode"] = json!("tail");
    let page = ask(bob, "message.v2.pull", params).await;
    assert_eq!((&page["covered_through_seq"], &page["head_seq"]), (&json!(149), &json!(149)));
    let start = page["window_start_seq"].as_i64().expect("a number");
    assert_eq!(seqs(&page), (start..=149).collect::<Vec<_>>());

    let mut params = peer;
    params["before_seq"] = json!(150);
    assert_eq!(history(bob, params).await, (1..=149).collect::<Vec<_>>());
}

#[tokio::test]
async fn older_pages_go_on_past_any_number_of_queue_messages() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    say(&alice, &bob, "before").await;
    let mut queued = message(bob.aid(), "queued");
    queued["delivery_mode"] = json!("queue");
    flood(&alice, &vec![queued; 120]).await;
    assert_eq!(history(&bob, json!({ "before_seq": 122, "limit": 50 })).await, [1]);
    let params = json!({ "after_seq": 0, "limit": 50, "window_mode": "tail" });
    let page = ask(&bob, "message.v2.pull", params).await;
    assert_eq!(seqs(&page), (72..=121).collect::<Vec<_>>(), "the window covers them, so they are in it");
}

#[tokio::test]
async fn messages_with_a_time_to_live_are_read_in_pages_that_old_clients_can_read() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    for n in 0..4 {
        let mut params = named(bob.aid(), &format!("m-{n}"), &"x".repeat(900_000));
        params["ttl"] = json!(600);
        send(&alice, params).await;
        received(&bob).await;
    }
    for (method, scope) in [
        ("message.pull", json!({})),
        ("message.v2.pull", json!({})),
        ("message.v2.pull", json!({ "cursor_scope": "peer", "sender_aid": alice.aid() })),
    ] {
        let (mut read, mut params) = (Vec::new(), json!({ "after_seq": 0, "limit": 50 }));
        params.as_object_mut().unwrap().extend(scope.as_object().unwrap().clone());
        loop {
            let page = ask(&bob, method, params.clone()).await;
            assert!(page.to_string().len() < OLD_FRAME_BYTES, "{} rows at once", rows(&page).len());
            read.extend(ids(&page));
            params["after_volatile_cursor"] = page["latest_volatile_cursor"].clone();
            if page["volatile_has_more"] == false {
                break;
            }
        }
        assert_eq!(read, ["m-0", "m-1", "m-2", "m-3"], "{method}");
    }
}

#[tokio::test]
async fn a_page_has_no_more_rows_than_were_asked_for_of_both_kinds() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    for (words, ttl) in [("s1", 0), ("s2", 0), ("v1", 600), ("v2", 600)] {
        let mut params = message(bob.aid(), words);
        params["ttl"] = json!(ttl);
        send(&alice, params).await;
    }
    let mut params = json!({ "cursor_scope": "peer", "sender_aid": alice.aid(), "after_seq": 0, "limit": 3 });
    let page = ask(&bob, "message.v2.pull", params.clone()).await;
    assert_eq!(words(&page), ["s1", "s2", "v1"]);
    assert_eq!((&page["persistent_has_more"], &page["volatile_has_more"]), (&json!(false), &json!(true)));
    params["after_seq"] = page["next_after_seq"].clone();
    params["after_volatile_cursor"] = page["latest_volatile_cursor"].clone();
    assert_eq!(words(&ask(&bob, "message.v2.pull", params).await), ["v2"]);
    let page = ask(&bob, "message.pull", json!({ "after_seq": 0, "limit": 2 })).await;
    assert_eq!((words(&page), &page["has_more"]), (vec!["s1".to_owned(), "s2".to_owned()], &json!(true)));
}
