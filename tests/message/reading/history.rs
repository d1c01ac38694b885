//! `message.history`: the inbox backwards.

use serde_json::{Value, json};

use crate::message::{BUSY, ask, flood, numbered, pull, say, seqs, two, v2_pull, words};
use crate::support::TestServer;
use crate::support::agent::ConnectedAgent;

async fn history(agent: &ConnectedAgent, before: i64, limit: i64) -> Value {
    let page = ask(agent, "message.history", json!({ "before_seq": before, "limit": limit })).await;
    is_a_window(&page);
    page
}

fn is_a_window(page: &Value) {
    let first = seqs(page).first().map_or(Value::Null, |seq| json!(seq));
    assert_eq!((&page["window_start_seq"], &page["next_before_seq"]), (&first, &first));
    assert_eq!(page["count"], seqs(page).len());
    assert!(page["has_older"] == false || !first.is_null());
}

#[tokio::test]
async fn pages_lead_back_to_the_first_message() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    flood(&alice, &numbered(bob.aid(), 120)).await;
    let (mut before, mut read) = (121, Vec::new());
    for (expected, older) in [(71..=120, true), (21..=70, true), (1..=20, false)] {
        let page = history(&bob, before, 1_000).await;
        assert_eq!(seqs(&page), expected.collect::<Vec<i64>>(), "fifty at most, the nearest, ascending");
        assert_eq!(page["has_older"], older);
        before = page["next_before_seq"].as_i64().unwrap();
        read.splice(0..0, seqs(&page));
    }
    assert_eq!(read, (1..=120).collect::<Vec<_>>());
    assert_eq!(seqs(&history(&bob, 60, 3).await), [57, 58, 59]);
    assert_eq!(seqs(&history(&bob, 9_007_199_254_740_991, 2).await), [119, 120]);
    assert_eq!(seqs(&history(&bob, 1, 50).await), Vec::<i64>::new());
}

#[tokio::test]
async fn rows_are_those_of_v2_pull_and_nothing_is_changed() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    for n in 0..3 {
        say(&alice, &bob, &n.to_string()).await;
    }
    assert_eq!(history(&bob, 10, 50).await["messages"], v2_pull(&bob).await["messages"]);
    assert_eq!(pull(&bob).await["server_ack_seq"], 0);
}

#[tokio::test]
async fn one_sender_s_messages_backwards() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    let carol = server.agent("carol").await;
    for n in 0..6 {
        say(&alice, &bob, &n.to_string()).await;
        say(&carol, &bob, "between").await;
    }
    let params = json!({ "before_seq": 11, "limit": 3, "cursor_scope": "peer", "sender_aid": alice.aid() });
    let page = ask(&bob, "message.history", params).await;
    is_a_window(&page);
    assert_eq!((words(&page).concat(), seqs(&page)), ("234".to_owned(), vec![5, 7, 9]));
    assert_eq!(
        (&page["cursor_scope"], &page["sender_aid"], &page["has_older"]),
        (&json!("peer"), &json!(alice.aid()), &json!(true))
    );
    flood(&alice, &numbered(bob.aid(), 220)).await;
    let params =
        json!({ "before_seq": 10_000, "limit": 1_000, "cursor_scope": "peer", "sender_aid": alice.aid() });
    assert_eq!(ask(&bob, "message.history", params).await["count"], 200, "two hundred of one sender");
}

#[tokio::test]
async fn an_empty_inbox_has_no_history() {
    let server = TestServer::shared().await;
    let bob = server.agent("bobb").await;
    let page = history(&bob, 100, 50).await;
    assert_eq!((&page["count"], &page["has_older"]), (&json!(0), &json!(false)));
}
