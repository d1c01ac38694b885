//! The first server of this protocol was audited in public. Each kind of defect that was found is a test here, so that
//! none returns.

use serde_json::{Value, json};

use super::{BUSY, ask, events_until_now, flood, message, named, numbered, pull, received, seqs, two};
use crate::support::TestServer;

/// Found: a seq was assigned and told before its row was stored.
#[tokio::test]
async fn nothing_is_told_before_it_is_stored() {
    let mut server = TestServer::with(BUSY).await;
    let (alice, bob) = two(&server).await;
    for message in numbered(bob.aid(), 30) {
        alice.ask("message.send", &message).await;
    }
    let mut told = Vec::new();
    for _ in 0..10 {
        told.push(received(&bob).await["seq"].as_i64().unwrap());
    }
    server.kill();
    server.start_again();
    let bob = server.reconnect(&bob).await;
    let there = seqs(&pull(&bob).await);
    for seq in told {
        assert!(there.contains(&seq), "{seq} was told and is not there: {there:?}");
    }
}

/// Found: a fallback assigned the same seq twice.
#[tokio::test]
async fn a_seq_belongs_to_one_message() {
    let server = TestServer::shared_with(BUSY).await;
    let bob = server.agent("bobb").await;
    let mut senders = Vec::new();
    for n in 0..8 {
        senders.push(server.agent(&format!("sender{n}")).await);
    }
    let messages = numbered(bob.aid(), 25);
    let sent = futures_util::future::join_all(senders.iter().map(|sender| flood(sender, &messages))).await;
    let mut numbers: Vec<i64> = sent.iter().flatten().map(|answer| answer["seq"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=200).collect::<Vec<_>>());
}

/// Found: a worker left between "the queue is empty" and "I am gone", and what came in between was never told.
#[tokio::test]
async fn no_message_is_stranded_when_the_queue_runs_empty() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    let carol = server.agent("carol").await;
    for n in 0..300 {
        let (mine, hers) = (message(bob.aid(), &n.to_string()), message(bob.aid(), "beside"));
        if n % 3 == 0 {
            futures_util::join!(alice.call("message.send", &mine), carol.call("message.send", &hers));
            received(&bob).await;
        } else {
            alice.call("message.send", &mine).await;
        }
        received(&bob).await;
    }
}

/// Found: a lock for every message id, kept for ever.
#[tokio::test]
async fn ids_of_refused_messages_are_not_kept() {
    let server = TestServer::with(BUSY).await;
    let (alice, bob) = two(&server).await;
    let refused = |round: usize| -> Vec<Value> {
        let pad = "x".repeat(100);
        let params = |n| json!({ "to": bob.aid(), "message_id": format!("{round}-{n}-{pad}"), "payload": {}, "device_id": "lost" });
        (0..10_000).map(params).collect()
    };
    assert!(alice.call_many("message.send", &refused(0)).await.iter().all(Result::is_err));
    let before = server.memory();
    for round in 1..4 {
        assert!(alice.call_many("message.send", &refused(round)).await.iter().all(Result::is_err));
    }
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 24 << 20, "30000 refused messages left {grown} bytes");
    assert_eq!(events_until_now(&alice, &bob).await, Vec::<Value>::new());
}

/// Found: a batch that cannot be written was tried again for ever, and with it everything behind it.
#[tokio::test]
async fn a_message_the_store_refuses_does_not_hold_up_others() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    let carol = server.agent("carol").await;
    let odd: Vec<Value> = (0..40)
        .map(|n| match n % 4 {
            0 => json!({ "to": bob.aid(), "message_id": format!("\u{0}{n}"), "payload": { "text": "\u{0}" } }),
            1 => json!({ "to": bob.aid(), "message_id": "x".repeat(100_000), "payload": {} }),
            2 => json!({ "to": bob.aid(), "message_id": format!("odd-{n}"), "payload": { "text": "\u{0}\u{ffff}" }, "type": "\u{0}" }),
            _ => json!({ "to": bob.aid(), "message_id": format!("odd-{n}"), "payload": {}, "device_id": "lost" }),
        })
        .collect();
    let good = numbered(bob.aid(), 40);
    let (_, sent) = futures_util::join!(alice.call_many("message.send", &odd), flood(&carol, &good));
    assert_eq!(sent.len(), 40);
    let mut after = 0;
    let mut of_carol = 0;
    loop {
        let page = ask(&bob, "message.pull", json!({ "after_seq": after })).await;
        of_carol += super::rows(&page).iter().filter(|row| row["from"] == carol.aid()).count();
        after = page["latest_seq"].as_i64().unwrap();
        if page["has_more"] == false {
            break;
        }
    }
    assert_eq!(of_carol, 40);
}

/// Found: what was told asynchronously passed no checks.
#[tokio::test]
async fn only_those_a_message_is_for_are_told_of_it() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    let unauthenticated = server.socket().await;
    let carol = server.agent("carol").await;
    let replaced = server.connect_device(&bob, "phone", "default").await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    assert_eq!(replaced.disconnected().await["code"], 4009);
    flood(&alice, &numbered(bob.aid(), 20)).await;
    for _ in 0..20 {
        received(&bob).await;
        received(&phone).await;
    }
    assert_eq!(events_until_now(&bob, &carol).await, Vec::<Value>::new());
    assert_eq!(unauthenticated.events_so_far().await, Vec::<Value>::new(), "a socket that has not logged in");
    assert_eq!(replaced.kept().await, Vec::<Value>::new(), "and one that was replaced");
}

/// Found: the limit for calls did not hold for all ways to send.
#[tokio::test]
async fn messages_over_the_limit_are_refused_and_not_stored() {
    let server = TestServer::with("limits.calls_per_second = 20").await;
    let (alice, bob) = two(&server).await;
    let messages: Vec<Value> = (0..200).map(|n| named(bob.aid(), &format!("m-{n}"), "x")).collect();
    let outcomes = alice.call_many("message.send", &messages).await;
    let accepted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!(outcomes.iter().all(|outcome| {
        outcome.as_ref().is_ok_and(|sent| sent["seq"].is_i64())
            || outcome
                .as_ref()
                .is_err_and(|error| error["code"] == -32029 && error["data"]["retryable"] == true)
    }));
    assert!((1..200).contains(&accepted), "{accepted} of 200");
    assert_eq!(pull(&bob).await["count"], accepted);
    for _ in 0..accepted {
        received(&bob).await;
    }
}
