//! Whatever was answered is there after the server is gone and back, however it went.

use serde_json::{Value, json};

use super::{
    BUSY, ask, flood, ids, message, named, numbered, pull, refusal, rows, say, send, seqs, two, v2_pull,
    words,
};
use crate::support::TestServer;
use crate::support::envelope::{opened, put_key, sealed};

#[tokio::test]
async fn messages_seqs_cursors_and_ids_outlive_a_drain() {
    let mut server = TestServer::start().await;
    outlives(&mut server, false).await;
}

#[tokio::test]
async fn messages_seqs_cursors_and_ids_outlive_a_kill() {
    let mut server = TestServer::start().await;
    outlives(&mut server, true).await;
}

async fn outlives(server: &mut TestServer, killed: bool) {
    let (alice, bob) = two(server).await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    let carol = server.register("carol").await;
    put_key(&bob).await;
    let first = send(&alice, named(bob.aid(), "m-1", "one")).await;
    send(&alice, sealed(&alice, bob.aid(), "m-2")).await;
    send(&alice, named(bob.aid(), "m-3", "recalled")).await;
    alice.call("message.recall", &json!({ "message_ids": ["m-3"] })).await;
    send(&alice, named(bob.aid(), "m-5", "five")).await;
    send(&alice, message(&carol.aid, "for the first device")).await;
    ask(&bob, "message.ack", json!({ "seq": 2 })).await;
    ask(&bob, "message.v2.ack", json!({ "cursor_scope": "peer", "sender_aid": alice.aid(), "up_to_seq": 4 }))
        .await;
    let (before, before_phone) = (v2_pull(&bob).await, pull(&phone).await);

    if killed {
        server.kill();
        server.start_again();
    } else {
        server.restart().await;
    }
    let (alice, bob, phone) =
        (server.reconnect(&alice).await, server.reconnect(&bob).await, server.reconnect(&phone).await);
    assert_eq!(v2_pull(&bob).await, before);
    assert_eq!(pull(&phone).await, before_phone);
    opened(&rows(&before)[1]["envelope_json"]);
    let peers = ask(&bob, "message.peers", json!({ "filter": "pending" })).await;
    assert_eq!(peers["peers"][0]["server_ack_seq"], 4);
    let again = send(&alice, named(bob.aid(), "m-1", "one")).await;
    assert_eq!((&again["status"], &again["seq"]), (&json!("duplicate"), &first["seq"]), "ids are remembered");
    assert_eq!(again["timestamp"], first["timestamp"]);
    assert_eq!(say(&alice, &bob, "six").await["seq"], 6, "the count goes on");
    let recalled = alice.call("message.recall", &json!({ "message_ids": ["m-5", "m-3"] })).await;
    assert_eq!(
        (&recalled["recalled"], &recalled["errors"][0]["error"]),
        (&json!(1), &json!("already_recalled"))
    );
    let carol = server.connect(&carol, |_| ()).await;
    assert_eq!(words(&pull(&carol).await), ["for the first device"]);
}

#[tokio::test]
async fn no_seq_is_given_twice_over_many_kills() {
    let mut server = TestServer::with(BUSY).await;
    let (mut alice, mut bob) = two(&server).await;
    let mut answered = Vec::new();
    for round in 0..6 {
        let messages: Vec<Value> =
            (0..30).map(|n| named(bob.aid(), &format!("m-{round}-{n}"), &n.to_string())).collect();
        for sent in flood(&alice, &messages).await {
            answered.push((sent["seq"].as_i64().unwrap(), crate::support::agent::text(&sent["message_id"])));
        }
        // These are on their way when the server dies: there or not, but never with the seq of another one.
        for n in 0..20 {
            alice.ask("message.send", &named(bob.aid(), &format!("x-{round}-{n}"), "cut off")).await;
        }
        server.kill();
        server.start_again();
        (alice, bob) = (server.reconnect(&alice).await, server.reconnect(&bob).await);
    }
    let (mut after, mut all, mut numbers) = (0, Vec::new(), Vec::new());
    loop {
        let page = ask(&bob, "message.pull", json!({ "after_seq": after, "limit": 200 })).await;
        numbers.extend(seqs(&page));
        all.extend(ids(&page));
        after = page["latest_seq"].as_i64().unwrap();
        if page["has_more"] == false {
            break;
        }
    }
    assert_eq!(numbers, (1..=i64::try_from(numbers.len()).unwrap()).collect::<Vec<_>>(), "dense");
    for (seq, id) in &answered {
        assert_eq!(all[usize::try_from(*seq).unwrap() - 1], *id, "the seq that was answered");
    }
    let mut unique = all.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), all.len(), "nothing twice");
}

#[tokio::test]
async fn a_drain_answers_what_was_begun() {
    let mut server = TestServer::with(BUSY).await;
    let (alice, bob) = two(&server).await;
    let messages = numbered(bob.aid(), 40);
    let mut asked = Vec::new();
    for message in &messages {
        asked.push(alice.ask("message.send", message).await);
    }
    server.terminate();
    let closed = alice.closed().await;
    assert_eq!(closed.code, 1012, "{closed:?}");
    let kept = alice.kept().await;
    let answered: Vec<&Value> = kept.iter().filter(|frame| frame["result"]["seq"].is_i64()).collect();
    assert!(server.ended().await.success());
    server.start_again();
    let bob = server.reconnect(&bob).await;
    let there = ids(&pull(&bob).await);
    for frame in answered {
        assert!(there.contains(&crate::support::agent::text(&frame["result"]["message_id"])), "{frame}");
    }
    assert_eq!(refusal(&bob, "message.ack", json!({ "seq": -1 })).await["code"], -32602);
}
