//! Reading sender by sender: `message.v2.pull` and `message.v2.ack` with `cursor_scope: peer`.

use serde_json::{Value, json};

use crate::message::{BUSY, ask, flood, message, next, numbered, pull, refusal, rows, say, send, two, words};
use crate::support::TestServer;
use crate::support::agent::ConnectedAgent;
use crate::support::envelope::{opened, put_key, sealed};

/// One page of one sender, checked against every rule that clients check.
pub(in crate::message) async fn pull_peer(agent: &ConnectedAgent, sender: &str, after: i64) -> Value {
    pull_peer_with(agent, sender, after, 200, json!({})).await
}

async fn pull_peer_with(agent: &ConnectedAgent, sender: &str, after: i64, limit: i64, more: Value) -> Value {
    let mut params = json!({
        "cursor_scope": "peer", "sender_aid": sender, "after_seq": after, "limit": limit,
        "device_id": agent.device(), "slot_id": agent.slot(),
    });
    for (name, value) in more.as_object().expect("an object") {
        params[name] = value.clone();
    }
    let page = ask(agent, "message.v2.pull", params).await;
    keeps_the_rules(agent, sender, after, limit, &page);
    page
}

fn keeps_the_rules(agent: &ConnectedAgent, sender: &str, after: i64, limit: i64, page: &Value) {
    let number = |name: &str| page[name].as_i64().unwrap_or_else(|| panic!("{name} is a number: {page}"));
    let flag = |name: &str| page[name].as_bool().unwrap_or_else(|| panic!("{name} is true or false: {page}"));
    assert_eq!((&page["cursor_scope"], &page["sender_aid"]), (&json!("peer"), &json!(sender)));
    assert!(page.get("device_id").is_none_or(|id| *id == agent.device()), "{page}");
    assert!(page.get("slot_id").is_none_or(|id| *id == agent.slot()), "{page}");

    let (scan, covered, head) = (number("scan_after_seq"), number("covered_through_seq"), number("head_seq"));
    assert_eq!(scan, after.max(number("retention_floor_seq")), "the page begins where it was asked to");
    assert!(scan <= covered && covered <= head, "{scan} <= {covered} <= {head}");
    assert_eq!(number("next_after_seq"), covered);
    assert!(covered == head || flag("persistent_has_more"), "covered < head means more: {page}");
    assert_eq!(flag("has_more"), flag("persistent_has_more") || flag("volatile_has_more"));
    assert!(number("server_ack_seq") >= 0);
    assert!(page["earliest_available_seq"].is_null() || page["earliest_available_seq"].is_i64());

    let stored: Vec<&Value> = rows(page).iter().filter(|row| row.get("seq").is_some()).collect();
    let seqs: Vec<i64> = stored.iter().map(|row| row["seq"].as_i64().expect("a number")).collect();
    assert!(rows(page).len() <= usize::try_from(limit).expect("a limit"), "at most {limit}");
    assert!(rows(page).iter().all(|row| row["from_aid"] == sender), "only this sender: {page}");
    assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]), "ascending: {seqs:?}");
    assert!(seqs.iter().all(|seq| scan < *seq && *seq <= covered), "within the page: {seqs:?}");
    if let (Some(last), true) = (seqs.last(), flag("persistent_has_more")) {
        assert_eq!(covered, *last, "a page that is not the last covers what it holds");
    }
    if let Some(next) = page.get("next_pending_seq").and_then(Value::as_i64) {
        assert!(covered < next && next <= head, "{covered} < {next} <= {head}");
    }
    if let Some(count) = page.get("count") {
        assert_eq!(*count, rows(page).len());
    }
}

pub(super) async fn ack_peer(agent: &ConnectedAgent, sender: &str, up_to: i64) -> Value {
    let params = json!({
        "cursor_scope": "peer", "sender_aid": sender, "up_to_seq": up_to, "device_id": agent.device(), "slot_id": agent.slot(),
    });
    let acked = ask(agent, "message.v2.ack", params).await;
    assert_eq!(
        (&acked["success"], &acked["cursor_scope"], &acked["sender_aid"]),
        (&json!(true), &json!("peer"), &json!(sender))
    );
    assert_eq!(acked["peer_ack_seq"], acked["effective_ack_seq"]);
    assert!(acked["peer_ack_seq"].as_i64() >= Some(up_to), "never below what was asked: {acked}");
    acked
}

#[tokio::test]
async fn each_sender_is_read_by_itself() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let carol = server.agent("carol").await;
    for n in 0..3 {
        say(&alice, &bob, &format!("a{n}")).await;
        say(&carol, &bob, &format!("c{n}")).await;
    }
    let page = pull_peer(&bob, alice.aid(), 0).await;
    assert_eq!(
        (words(&page), crate::message::seqs(&page)),
        (vec!["a0".into(), "a1".into(), "a2".into()], vec![1, 3, 5]),
        "seqs of the inbox"
    );
    let page = pull_peer(&bob, carol.aid(), 2).await;
    assert_eq!(words(&page), ["c1", "c2"]);
    assert_eq!(pull_peer(&bob, "nobody.agents.localhost", 0).await["count"], 0);
}

#[tokio::test]
async fn pages_of_one_sender_join_without_a_gap() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    let carol = server.agent("carol").await;
    for n in 0..5 {
        flood(&alice, &numbered(bob.aid(), 50)).await;
        say(&carol, &bob, &n.to_string()).await;
    }
    for (limit, pages) in [(200, 2), (70, 4), (1_000, 2)] {
        let (mut after, mut read, mut pages_read) = (0, Vec::new(), 0);
        loop {
            let page = pull_peer_with(&bob, alice.aid(), after, limit, json!({})).await;
            read.extend(words(&page));
            after = page["next_after_seq"].as_i64().unwrap();
            pages_read += 1;
            if page["has_more"] == false {
                break;
            }
        }
        assert_eq!((read.len(), pages_read), (250, pages), "limit {limit}");
    }
    assert_eq!(pull_peer(&bob, carol.aid(), 0).await["count"], 5);
}

#[tokio::test]
async fn a_cursor_for_a_sender_never_goes_back_and_may_reach_the_end_of_the_inbox() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let carol = server.agent("carol").await;
    say(&alice, &bob, "one").await;
    say(&carol, &bob, "two").await;
    assert_eq!(
        ack_peer(&bob, alice.aid(), 2).await["peer_ack_seq"],
        2,
        "beyond alice's last, up to the inbox's"
    );
    let lower = json!({ "cursor_scope": "peer", "sender_aid": alice.aid(), "up_to_seq": 1 });
    assert_eq!(ask(&bob, "message.v2.ack", lower).await["peer_ack_seq"], 2);
    let page = pull_peer(&bob, alice.aid(), 0).await;
    assert_eq!(
        (&page["server_ack_seq"], &page["count"]),
        (&json!(2), &json!(1)),
        "what was read can be read again"
    );
}

#[tokio::test]
async fn only_the_sender_whose_messages_were_read_is_told() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let carol = server.agent("carol").await;
    say(&carol, &bob, "from carol").await;
    say(&alice, &bob, "from alice").await;
    for _ in 0..2 {
        ack_peer(&bob, alice.aid(), 2).await;
    }
    let event = next(&alice, "event/message.ack").await;
    assert_eq!((&event["to"], &event["cursor_scope"]), (&json!(bob.aid()), &json!("peer")));
    assert_eq!((&event["sender_aid"], &event["peer_ack_seq"]), (&json!(alice.aid()), &json!(2)));
    assert_eq!(crate::message::events_until_now(&bob, &alice).await, Vec::<Value>::new(), "once");
    assert_eq!(crate::message::events_until_now(&bob, &carol).await, Vec::<Value>::new());
}

#[tokio::test]
async fn encrypted_messages_are_read_sender_by_sender_too() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    put_key(&bob).await;
    say(&alice, &bob, "plain").await;
    send(&alice, sealed(&alice, bob.aid(), "m-2")).await;
    let page = pull_peer(&bob, alice.aid(), 0).await;
    assert_eq!(rows(&page).iter().map(|row| row["version"].clone()).collect::<Vec<_>>(), ["v1", "v2"]);
    opened(&rows(&page)[1]["envelope_json"]);
}

#[tokio::test]
async fn acknowledging_and_reading_can_be_one_call() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    for n in 0..3 {
        say(&alice, &bob, &n.to_string()).await;
    }
    let page = pull_peer_with(&bob, alice.aid(), 2, 200, json!({ "ack_up_to_seq": 2 })).await;
    assert_eq!((words(&page), &page["server_ack_seq"]), (vec!["2".to_owned()], &json!(2)));
    assert_eq!(next(&alice, "event/message.ack").await["peer_ack_seq"], 2);
    assert_eq!(pull(&bob).await["server_ack_seq"], 0);
}

#[tokio::test]
async fn the_newest_of_one_sender() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    let carol = server.agent("carol").await;
    for n in 0..10 {
        say(&alice, &bob, &n.to_string()).await;
        say(&carol, &bob, "between").await;
    }
    let params = json!({ "cursor_scope": "peer", "sender_aid": alice.aid(), "after_seq": 0, "limit": 3, "window_mode": "tail" });
    let page = ask(&bob, "message.v2.pull", params.clone()).await;
    assert_eq!((words(&page).concat(), &page["window_mode"]), ("789".to_owned(), &json!("tail")));
    assert_eq!((&page["cursor_scope"], &page["sender_aid"]), (&json!("peer"), &json!(alice.aid())));
    assert_eq!((&page["head_seq"], &page["covered_through_seq"]), (&json!(19), &json!(19)));
    assert_eq!(page["window_start_seq"], 15);
    for more in [json!({ "ack_up_to_seq": 1 }), json!({ "force": true })] {
        let mut params = params.clone();
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(refusal(&bob, "message.v2.pull", params).await["code"], -32602);
    }
}

#[tokio::test]
async fn a_sender_must_be_named_and_the_device_and_slot_be_the_connection_s_own() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    for params in [
        json!({ "cursor_scope": "peer" }),
        json!({ "cursor_scope": "peer", "sender_aid": "Alice!" }),
        json!({ "cursor_scope": "everything", "sender_aid": alice.aid() }),
        json!({ "cursor_scope": "peer", "sender_aid": alice.aid(), "device_id": "phone" }),
        json!({ "cursor_scope": "peer", "sender_aid": alice.aid(), "slot_id": "other" }),
    ] {
        assert_eq!(refusal(&bob, "message.v2.pull", params.clone()).await["code"], -32602, "{params}");
        let mut ack = params;
        ack["up_to_seq"] = json!(1);
        assert_eq!(refusal(&bob, "message.v2.ack", ack.clone()).await["code"], -32602, "{ack}");
    }
    assert_eq!(send(&alice, message(bob.aid(), "hello")).await["seq"], 1);
}
