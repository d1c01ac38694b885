//! Notifications that only say "pull now", for clients that do not ask by themselves.

use std::cell::Cell;

use serde_json::{Value, json};

use crate::message::{
    BUSY, ask, events_until_now, flood, may_be_late, message, numbered, pull, rows, say, send, seqs, two,
};
use crate::support::TestServer;
use crate::support::agent::{ConnectedAgent, TestIdentity};
use crate::support::envelope::{put_key, sealed};
use crate::support::socket::agrees;

const NOTIFICATION: &str = "event/peer.v2.message_received";

/// A client of the generation that says so in its capabilities.
async fn client(server: &TestServer, who: &TestIdentity, capabilities: Value) -> ConnectedAgent {
    server.connect(who, |hello| hello["capabilities"] = capabilities).await
}

fn second_generation() -> Value {
    json!({ "supported_p2p_e2ee": ["e2ee_v2"] })
}

fn first_generation() -> Value {
    json!({ "supported_p2p_e2ee": ["e2ee", "e2ee_v2"] })
}

/// The next frame that is no message from before.
async fn beside_messages(client: &ConnectedAgent) -> Value {
    loop {
        let frame = client.next().await;
        if !may_be_late(&frame) {
            return frame;
        }
    }
}

/// What the next such notification says.
async fn notified(client: &ConnectedAgent) -> Value {
    let frame = beside_messages(client).await;
    assert_eq!(frame["method"], NOTIFICATION, "{frame}");
    agrees(NOTIFICATION, &frame["params"]);
    frame["params"].clone()
}

/// What comes beside messages from before, up to a message that `from` sends now.
async fn notifications(from: &ConnectedAgent, client: &ConnectedAgent) -> Vec<Value> {
    events_until_now(from, client).await.into_iter().filter(|event| !may_be_late(event)).collect()
}

/// Sends all messages. Whenever the client puts its key it is notified again, in the midst of what is sent to it.
async fn flood_while_reminded(
    from: &ConnectedAgent,
    messages: &[Value],
    client: &ConnectedAgent,
    key: &Value,
) {
    let sent = Cell::new(false);
    let sending = async {
        flood(from, messages).await;
        sent.set(true);
    };
    let putting = async {
        while !sent.get() {
            let answers = client.call_many("message.v2.put_peer_pk", &vec![key.clone(); 8]).await;
            assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        }
    };
    futures_util::join!(sending, putting);
}

/// The seqs of what comes until a message that `from` sends now, that one included.
async fn told_seqs(from: &ConnectedAgent, client: &ConnectedAgent) -> Vec<i64> {
    let sent = send(from, message(client.aid(), "the last")).await;
    let mut seqs = Vec::new();
    while seqs.last() != Some(&sent["seq"].as_i64().expect("a seq")) {
        seqs.extend(client.next().await["params"]["seq"].as_i64());
    }
    seqs
}

#[tokio::test]
async fn a_client_that_never_asks_by_itself_is_notified_after_it_has_put_its_key() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    flood(&alice, &numbered(&bob.aid, 3)).await;
    let bob = client(&server, &bob, second_generation()).await;
    put_key(&bob).await;
    let notification = notified(&bob).await;
    assert_eq!(
        (&notification["seq"], &notification["from_aid"]),
        (&json!(3), &json!(alice.aid())),
        "the newest row, though it is plain"
    );
    assert_eq!(
        (&notification["device_id"], &notification["message_id"]),
        (&json!("laptop"), &rows(&pull(&bob).await)[2]["message_id"])
    );
    ask(&bob, "message.ack", json!({ "seq": 3 })).await;
    assert_eq!(notifications(&alice, &bob).await, Vec::<Value>::new(), "once");
}

#[tokio::test]
async fn the_notification_follows_the_answer_to_the_key() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    send(&alice, message(&bob.aid, "waiting")).await;
    let bob = client(&server, &bob, second_generation()).await;
    let key = put_key(&bob).await;
    notified(&bob).await;
    bob.send(
        &json!({ "jsonrpc": "2.0", "id": "k", "method": "message.v2.put_peer_pk", "params": key })
            .to_string(),
    )
    .await;
    assert_eq!(beside_messages(&bob).await["id"], "k", "the answer first");
    notified(&bob).await;
}

#[tokio::test]
async fn a_client_that_has_not_read_everything_is_notified_again_when_it_acknowledges() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    flood(&alice, &numbered(&bob.aid, 5)).await;
    let bob = client(&server, &bob, second_generation()).await;
    ask(&bob, "message.v2.ack", json!({ "up_to_seq": 3 })).await;
    assert_eq!(
        notified(&bob).await["seq"],
        5,
        "such clients forget a notification that comes while they read"
    );
    ask(&bob, "message.v2.ack", json!({ "up_to_seq": 5 })).await;
    assert_eq!(notifications(&alice, &bob).await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_notification_never_goes_back() {
    let server = TestServer::shared_with(BUSY).await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    let bob = client(&server, &bob, second_generation()).await;
    let key = put_key(&bob).await;
    let messages: Vec<Value> = (0..400).map(|n| sealed(&alice, bob.aid(), &format!("m-{n}"))).collect();

    flood_while_reminded(&alice, &messages, &bob, &key).await;

    let events = events_until_now(&alice, &bob).await.into_iter();
    let notifications = events.filter(|event| event["method"] == NOTIFICATION);
    let seqs: Vec<i64> = notifications.map(|event| event["params"]["seq"].as_i64().expect("a seq")).collect();
    assert!(seqs.is_sorted(), "{seqs:?}");
    assert_eq!(seqs.last(), Some(&400), "the newest one is told of");
}

#[tokio::test]
async fn a_reminder_never_goes_back_behind_plain_messages() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    let bob = client(&server, &bob, first_generation()).await;
    put_key(&bob).await;
    for id in ["1e", "2e"] {
        send(&alice, sealed(&alice, bob.aid(), id)).await;
    }
    for text in ["3p", "4p"] {
        send(&alice, message(bob.aid(), text)).await;
    }
    assert_eq!(told_seqs(&alice, &bob).await, [1, 2, 3, 4, 5]);

    ask(&bob, "message.pull", json!({ "after_seq": 0 })).await;
    let reminder = notified(&bob).await;
    assert_eq!(reminder["seq"], 5, "the newest of the inbox, though it is plain: {reminder}");
    let newest = rows(&pull(&bob).await).last().expect("a row")["message_id"].clone();
    assert_eq!(reminder["message_id"], newest);
}

/// Plain messages overtake reminders on their way, and do not make such a client pull.
#[tokio::test]
async fn a_client_that_is_sent_plain_messages_meanwhile_is_told_of_the_newest_in_the_end() {
    let server = TestServer::shared_with(BUSY).await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    send(&alice, message(&bob.aid, "missed")).await;
    let bob = client(&server, &bob, second_generation()).await;
    let key = put_key(&bob).await;

    flood_while_reminded(&alice, &numbered(bob.aid(), 300), &bob, &key).await;

    let mut seqs = vec![];
    let mut reminded = 0;
    // Whether the last reminder was dropped or not, the newest message is named by one.
    while reminded < 301 {
        let event = bob.next().await;
        let Some(seq) = event["params"]["seq"].as_i64() else { continue };
        if event["method"] == NOTIFICATION {
            assert!(seqs.iter().all(|before| *before <= seq), "{seq} after {seqs:?}");
            reminded = seq;
        }
        seqs.push(seq);
    }
}

#[tokio::test]
async fn what_a_page_leaves_out_is_told_of_with_the_newest_number() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    let bob = client(&server, &bob, first_generation()).await;
    put_key(&bob).await;
    for id in ["1e", "2e", "3e"] {
        send(&alice, sealed(&alice, bob.aid(), id)).await;
    }
    assert_eq!(events_until_now(&alice, &bob).await.len(), 3);
    ask(&bob, "message.pull", json!({ "after_seq": 0, "limit": 1 })).await;
    let notification = notified(&bob).await;
    assert_eq!(notification["seq"], 4, "it came after these: {notification}");
}

#[tokio::test]
async fn nobody_is_notified_who_has_read_everything() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    say(&alice, &bob, "hello").await;
    let slot = server
        .connect_with(&bob.identity, &bob.tokens, |hello| {
            hello["client"]["slot_id"] = json!("second");
            hello["capabilities"] = second_generation();
        })
        .await;
    ask(&slot, "message.ack", json!({ "seq": 1 })).await;
    put_key(&slot).await;
    assert_eq!(notifications(&alice, &slot).await, Vec::<Value>::new());
}

#[tokio::test]
async fn clients_that_ask_by_themselves_are_not_notified() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    for (name, capabilities) in [
        ("bobb1", json!({ "supported_p2p_e2ee": ["e2ee_v2"], "p2p_peer_pull_v1": true })),
        ("bobb2", first_generation()),
        ("bobb3", json!({})),
    ] {
        let bob = server.register(name).await;
        send(&alice, message(&bob.aid, "waiting")).await;
        let bob = client(&server, &bob, capabilities.clone()).await;
        put_key(&bob).await;
        assert_eq!(notifications(&alice, &bob).await, Vec::<Value>::new(), "{capabilities}");
    }
}

#[tokio::test]
async fn a_reader_of_the_first_generation_is_notified_of_what_it_could_not_be_shown() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    let bob = client(&server, &bob, first_generation()).await;
    put_key(&bob).await;
    send(&alice, message(bob.aid(), "2p")).await;
    for id in ["3e", "4e"] {
        send(&alice, sealed(&alice, bob.aid(), id)).await;
    }
    send(&alice, message(bob.aid(), "5p")).await;
    assert_eq!(events_until_now(&alice, &bob).await.len(), 4);

    bob.send(r#"{"jsonrpc":"2.0","id":"p","method":"message.pull","params":{"after_seq":0,"limit":50}}"#)
        .await;
    let answer = beside_messages(&bob).await;
    assert_eq!(answer["id"], "p", "the answer first");
    let page = &answer["result"];
    assert_eq!(seqs(page), [1, 4, 5], "encrypted ones cannot be shown here");
    assert_eq!(
        (&page["latest_seq"], &page["server_ack_seq"]),
        (&json!(5), &json!(0)),
        "covered, and not taken as read"
    );
    let notification = notified(&bob).await;
    assert_eq!(
        notification["seq"], 5,
        "the newest one there is, so that no number goes back: {notification}"
    );

    let page = ask(&bob, "message.pull", json!({ "after_seq": 3 })).await;
    assert_eq!(seqs(&page), [4, 5]);
    ask(&bob, "message.ack", json!({ "seq": 5 })).await;
    assert_eq!(notifications(&alice, &bob).await, Vec::<Value>::new(), "nothing was left out of this one");
}

#[tokio::test]
async fn a_page_of_encrypted_messages_alone_covers_them() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    put_key(&bob).await;
    for n in 0..3 {
        send(&alice, sealed(&alice, bob.aid(), &format!("m-{n}"))).await;
    }
    let page = pull(&bob).await;
    assert_eq!(
        (&page["count"], &page["latest_seq"], &page["has_more"]),
        (&json!(0), &json!(3), &json!(false))
    );
}
