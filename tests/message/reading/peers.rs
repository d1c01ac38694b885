//! `message.peers`: who has written to this device, and whose messages were not read yet.

use serde_json::{Value, json};

use super::peer::ack_peer;
use crate::message::{ask, pull, refusal, say, two};
use crate::support::TestServer;
use crate::support::agent::{ConnectedAgent, text};

async fn pending(agent: &ConnectedAgent) -> Value {
    let peers = ask(agent, "message.peers", json!({ "filter": "pending" })).await;
    assert_eq!((&peers["cursor_scope"], &peers["catalog_ready"]), (&json!("peer"), &json!(true)));
    assert_eq!((&peers["receiver_aid"], &peers["device_id"]), (&json!(agent.aid()), &json!(agent.device())));
    peers
}

fn senders(peers: &Value) -> Vec<String> {
    let mut names: Vec<String> =
        peers["peers"].as_array().expect("a list").iter().map(|peer| text(&peer["sender_aid"])).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_sender_is_pending_until_its_messages_are_acknowledged() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let carol = server.agent("carol").await;
    for n in 0..2 {
        say(&alice, &bob, &n.to_string()).await;
        say(&carol, &bob, &n.to_string()).await;
    }
    let peers = pending(&bob).await;
    let of_alice =
        peers["peers"].as_array().unwrap().iter().find(|peer| peer["sender_aid"] == alice.aid()).unwrap();
    assert_eq!((&of_alice["head_seq"], &of_alice["server_ack_seq"]), (&json!(3), &json!(0)));
    assert_eq!(
        (&of_alice["initial_after_seq"], &of_alice["initialization_source"]),
        (&json!(0), &json!("bootstrap"))
    );
    assert_eq!(peers["pending_count_estimate"], 4, "messages, not senders");

    ack_peer(&bob, alice.aid(), 1).await;
    let peers = pending(&bob).await;
    let of_alice =
        peers["peers"].as_array().unwrap().iter().find(|peer| peer["sender_aid"] == alice.aid()).unwrap();
    assert_eq!((&of_alice["server_ack_seq"], &of_alice["initial_after_seq"]), (&json!(1), &json!(1)));
    assert_eq!(of_alice["initialization_source"], "peer");
    ack_peer(&bob, alice.aid(), 3).await;
    assert_eq!(senders(&pending(&bob).await), [carol.aid()]);
    assert_eq!(pull(&bob).await["server_ack_seq"], 0, "the cursor of the whole inbox stays");
    ack_peer(&bob, carol.aid(), 2).await;
    assert_eq!(
        pending(&bob).await["pending_count_estimate"],
        2,
        "from the first unread to the last, at most"
    );
    ack_peer(&bob, carol.aid(), 4).await;
    let peers = pending(&bob).await;
    assert_eq!((senders(&peers), &peers["pending_count_estimate"]), (Vec::new(), &json!(0)));
    say(&alice, &bob, "more").await;
    assert_eq!(senders(&pending(&bob).await), [alice.aid()]);
}

#[tokio::test]
async fn where_a_consumer_began_to_read_sender_by_sender_never_changes() {
    let mut server = TestServer::start().await;
    let (alice, bob) = two(&server).await;
    for n in 0..4 {
        say(&alice, &bob, &n.to_string()).await;
    }
    ask(&bob, "message.ack", json!({ "seq": 3 })).await;
    let peers = pending(&bob).await;
    assert_eq!(peers["bootstrap_floor_seq"], 3);
    assert_eq!(
        (&peers["peers"][0]["initial_after_seq"], &peers["peers"][0]["initialization_source"]),
        (&json!(3), &json!("bootstrap"))
    );
    ask(&bob, "message.ack", json!({ "seq": 4 })).await;
    assert_eq!(pending(&bob).await["bootstrap_floor_seq"], 3);
    server.restart().await;
    let bob = server.reconnect(&bob).await;
    assert_eq!(pending(&bob).await["bootstrap_floor_seq"], 3);
    let slot = server.connect_device(&bob, "laptop", "second").await;
    assert_eq!(pending(&slot).await["bootstrap_floor_seq"], 0, "another consumer begins for itself");
}

#[tokio::test]
async fn everybody_who_ever_wrote_is_listed_in_pages() {
    let server = TestServer::shared().await;
    let bob = server.agent("bobb").await;
    let mut names = Vec::new();
    for n in 0..5 {
        let sender = server.agent(&format!("sender{n}")).await;
        say(&sender, &bob, "hello").await;
        ack_peer(&bob, sender.aid(), n + 1).await;
        names.push(sender.aid().to_owned());
    }
    assert_eq!(senders(&pending(&bob).await), Vec::<String>::new());
    let (mut listed, mut token) = (Vec::new(), Value::Null);
    for _ in 0..3 {
        let mut params = json!({ "filter": "all", "limit": 2 });
        if token.is_string() {
            params["page_token"] = token.clone();
        }
        let page = ask(&bob, "message.peers", params).await;
        listed.extend(senders(&page));
        token = page["next_page_token"].clone();
        assert_eq!(page["has_more"], token.is_string());
    }
    listed.sort();
    assert_eq!((listed, token), (names, Value::Null));
    let whole = ask(&bob, "message.peers", json!({ "filter": "all" })).await;
    assert_eq!(senders(&whole).len(), 5);
    for params in [
        json!({ "filter": "pending", "limit": 10 }),
        json!({ "filter": "pending", "page_token": "x" }),
        json!({ "filter": "some" }),
        json!({ "filter": "all", "page_token": 7 }),
    ] {
        assert_eq!(refusal(&bob, "message.peers", params.clone()).await["code"], -32602, "{params}");
    }
}
