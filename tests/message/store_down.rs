//! A store that fails: senders are told to retry, nobody is told of what was not stored, and no seq is skipped.

use serde_json::{Value, json};

use super::{BUSY, events_until_now, flood, named, pull, received, send, seqs, two, words};
use crate::support::blocker::Blocker;
use crate::support::{TestServer, on_sqlite, until};

fn is_unavailable(error: &Value) -> bool {
    error["code"] == 5003 && error["data"]["kind"] == "unavailable" && error["data"]["retryable"] == true
}

#[tokio::test]
async fn a_message_that_cannot_be_stored_is_refused_and_told_to_nobody() {
    if !on_sqlite() {
        return;
    }
    let server = TestServer::start().await;
    let (alice, bob) = two(&server).await;
    send(&alice, named(bob.aid(), "m-1", "before")).await;
    received(&bob).await;
    let blocker = Blocker::hold(&server, "message", "letter");
    let error = alice.call_error("message.send", &named(bob.aid(), "m-2", "blocked")).await;
    assert!(is_unavailable(&error), "{error}");
    assert!(!error["message"].to_string().contains("sqlite"), "the cause stays on our side: {error}");
    assert_eq!(bob.events_so_far().await, Vec::<Value>::new(), "nobody is told of what is not stored");
    assert_eq!(words(&pull(&bob).await), ["before"], "reading goes on");
    assert_eq!(alice.call("meta.ping", &json!({})).await["pong"], true);

    blocker.release();
    let sent = send(&alice, named(bob.aid(), "m-2", "blocked")).await;
    assert_eq!(
        (&sent["status"], &sent["seq"]),
        (&json!("delivered"), &json!(2)),
        "as new, and without a hole"
    );
    assert_eq!(received(&bob).await["seq"], 2);
    assert_eq!(seqs(&pull(&bob).await), [1, 2]);
}

#[tokio::test]
async fn a_flood_at_a_store_that_stands_still_is_refused_and_can_be_sent_again() {
    if !on_sqlite() {
        return;
    }
    let server = TestServer::with(&format!("{BUSY}\nlimits.outbox_bytes = 67108864")).await;
    let (alice, bob) = two(&server).await;
    let carol = server.agent("carol").await;
    let pad = "x".repeat(200 << 10);
    let messages = |from: &str| -> Vec<Value> {
        (0..40)
            .map(|n| json!({ "to": bob.aid(), "message_id": format!("{from}-{n}"), "payload": { "text": "large", "pad": pad } }))
            .collect()
    };
    let (of_alice, of_carol) = (messages("a"), messages("c"));
    let blocker = Blocker::hold(&server, "message", "letter");
    let (first, second) = futures_util::join!(
        alice.call_many("message.send", &of_alice),
        carol.call_many("message.send", &of_carol)
    );
    for outcome in first.iter().chain(&second) {
        assert!(outcome.as_ref().is_err_and(is_unavailable), "{outcome:?}");
    }
    assert_eq!(bob.events_so_far().await, Vec::<Value>::new());
    blocker.release();

    let (first, second) = futures_util::join!(flood(&alice, &of_alice), flood(&carol, &of_carol));
    let mut told: Vec<i64> = first.iter().chain(&second).map(|sent| sent["seq"].as_i64().unwrap()).collect();
    told.sort_unstable();
    assert_eq!(told, (1..=80).collect::<Vec<_>>(), "each once, without a hole");
    for n in 1..=80 {
        assert_eq!(received(&bob).await["seq"], n);
    }
    assert_eq!(events_until_now(&alice, &bob).await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_answered() {
    if !on_sqlite() {
        return;
    }
    let mut server = TestServer::prepared(BUSY);
    server.start_on_a_full_disk(2048);
    let (alice, bob) = two(&server).await;
    let message = |n: usize| json!({ "to": bob.aid(), "message_id": format!("m-{n}"), "payload": { "text": n.to_string(), "pad": "x".repeat(8000) } });
    let (mut answered, mut refused) = (0, 0);
    // A checkpoint may make space once more after a message was refused.
    while refused < 2 {
        match alice.try_call("message.send", &message(answered)).await {
            Ok(sent) => {
                (answered, refused) = (answered + 1, 0);
                assert_eq!(sent["seq"], answered);
            }
            Err(error) => {
                assert!(is_unavailable(&error), "{error}");
                refused += 1;
            }
        }
        assert!(answered < 5000, "the disk never gets full");
    }
    assert!(answered > 10);
    assert_eq!(server.get("/health").await.status, 200, "the server lives on");
    assert_eq!(pull(&bob).await["messages"][0]["payload"]["text"], "0", "reading goes on");

    server.kill();
    server.start_again();
    let (alice, bob) = (server.reconnect(&alice).await, server.reconnect(&bob).await);
    let mut read = Vec::new();
    while read.len() < answered {
        let page = bob.call("message.pull", &json!({ "after_seq": read.len(), "limit": 200 })).await;
        assert_ne!(page["count"], 0, "{answered} were answered, {} are there", read.len());
        read.extend(words(&page));
    }
    assert_eq!(read, (0..answered).map(|n| n.to_string()).collect::<Vec<_>>());
    let sent = send(&alice, message(answered)).await;
    assert_eq!(
        (&sent["status"], &sent["seq"]),
        (&json!("delivered"), &json!(answered + 1)),
        "what was refused did not happen"
    );
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_given_up_and_sent_again_it_is_one_message() {
    let server = TestServer::with("limits.call_timeout_ms = 1500").await;
    let (alice, bob) = two(&server).await;
    let blocker = Blocker::hold(&server, "message", "letter");
    let error = alice.call_error("message.send", &named(bob.aid(), "m-1", "slow")).await;
    assert_eq!((&error["code"], &error["data"]["retryable"]), (&json!(-32004), &json!(true)), "{error}");
    blocker.release();
    let sent = until("it is sent in the end", || async {
        alice.try_call("message.send", &named(bob.aid(), "m-1", "slow")).await.ok()
    })
    .await;
    assert_eq!(sent["seq"], 1, "once, whichever try it was");
    received(&bob).await;
    assert_eq!(events_until_now(&alice, &bob).await, Vec::<Value>::new());
    assert_eq!(seqs(&pull(&bob).await), [1, 2], "it and the mark");
}

#[tokio::test]
async fn acks_and_recalls_wait_for_the_store_too() {
    if !on_sqlite() {
        return;
    }
    let server = TestServer::start().await;
    let (alice, bob) = two(&server).await;
    send(&alice, named(bob.aid(), "m-1", "hello")).await;
    received(&bob).await;
    let blocker = Blocker::hold(&server, "message", "letter");
    let recall = json!({ "message_ids": ["m-1"] });
    let ack = json!({ "seq": 1 });
    let (acked, recalled) =
        futures_util::join!(bob.try_call("message.ack", &ack), alice.try_call("message.recall", &recall));
    for outcome in [&acked, &recalled] {
        assert!(outcome.as_ref().is_err_and(is_unavailable), "{outcome:?}");
    }
    assert_eq!(alice.events_so_far().await, Vec::<Value>::new(), "nobody is told");
    assert_eq!(bob.events_so_far().await, Vec::<Value>::new());
    blocker.release();
    assert_eq!(pull(&bob).await["server_ack_seq"], 0, "nothing half-done");
    assert_eq!(bob.call("message.ack", &json!({ "seq": 1 })).await["ack_seq"], 1);
    assert_eq!(alice.call("message.recall", &recall).await["recalled"], 1);
}
