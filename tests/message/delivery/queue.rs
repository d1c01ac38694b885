//! `queue` delivery: one connection gets the message, now; it is held briefly and never stored.

use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::message::{
    BUSY, ask, flood, message, named, pull, received, say, send, seqs, two, until_online, words,
};
use crate::support::agent::{ConnectedAgent, TestIdentity, at, text};
use crate::support::{TestServer, on_sqlite, until};

/// A connection of an agent whose messages are queued.
async fn worker(
    server: &TestServer,
    who: &TestIdentity,
    device: &str,
    routing: &str,
    affinity_ttl_ms: u64,
) -> ConnectedAgent {
    let delivery = json!({ "mode": "queue", "routing": routing, "affinity_ttl_ms": affinity_ttl_ms });
    let change = |hello: &mut Value| {
        at(device, "default")(hello);
        hello["delivery_mode"] = delivery;
    };
    server.connect(who, change).await
}

fn queued(to: &str, words: &str) -> Value {
    let mut params = message(to, words);
    params["delivery_mode"] = json!({ "mode": "queue" });
    params
}

/// How many messages each of them has been told of, once `many` have come altogether.
async fn shares(workers: &[&ConnectedAgent], many: usize) -> Vec<Vec<String>> {
    let shares = Mutex::new(vec![Vec::new(); workers.len()]);
    until("every message has come", || async {
        let mut shares = shares.lock().await;
        for (worker, share) in workers.iter().zip(shares.iter_mut()) {
            for event in worker.events_so_far().await {
                share.push(text(&event["params"]["payload"]["text"]));
            }
        }
        (shares.iter().map(Vec::len).sum::<usize>() == many).then_some(())
    })
    .await;
    shares.into_inner()
}

#[tokio::test]
async fn a_message_can_ask_for_one_connection() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    until_online(&alice, bob.aid(), true).await;
    for mode in
        [json!("queue"), json!({ "mode": "queue" }), json!({ "mode": "queue", "routing": "round_robin" })]
    {
        let mut params = message(bob.aid(), "now or never");
        params["delivery_mode"] = mode;
        let sent = send(&alice, params).await;
        assert_eq!((&sent["delivery_mode"], &sent["status"]), (&json!("queue"), &json!("delivered")));
        let event = received(&bob).await;
        assert_eq!((&event["delivery_mode"], &event["seq"]), (&json!("queue"), &sent["seq"]));
    }
    let page = pull(&bob).await;
    assert_eq!(seqs(&page), [1, 2, 3], "from the same count as stored ones");
    assert_eq!(page["ephemeral_earliest_available_seq"], 1);
    assert_eq!(
        say(&alice, &bob, "stored").await["delivery_mode"],
        "fanout",
        "the next message is not affected"
    );
}

#[tokio::test]
async fn queued_and_stored_messages_are_read_in_one_order() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    until_online(&alice, bob.aid(), true).await;
    for n in 1..=6 {
        let words = n.to_string();
        let params = if n % 2 == 0 { queued(bob.aid(), &words) } else { message(bob.aid(), &words) };
        assert_eq!(send(&alice, params).await["seq"], n);
    }
    for page in [pull(&bob).await, crate::message::v2_pull(&bob).await] {
        assert_eq!((seqs(&page), words(&page).concat()), ((1..=6).collect(), "123456".to_owned()));
    }
    let page = ask(&bob, "message.pull", json!({ "after_seq": 1, "limit": 2 })).await;
    assert_eq!((seqs(&page), &page["has_more"]), (vec![2, 3], &json!(true)));
}

#[tokio::test]
async fn connections_of_a_queue_take_turns() {
    let server = TestServer::start().await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    let mut workers = Vec::new();
    for device in ["one", "two", "three"] {
        workers.push(worker(&server, &bob, device, "round_robin", 0).await);
    }
    server.at_least_sessions(4).await;
    for n in 0..12 {
        let sent = send(&alice, message(&bob.aid, &n.to_string())).await;
        assert_eq!((&sent["delivery_mode"], &sent["status"]), (&json!("queue"), &json!("delivered")));
    }
    let shares = shares(&workers.iter().collect::<Vec<_>>(), 12).await;
    assert_eq!(shares.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 4], "{shares:?}");
    for (worker, share) in workers.iter().zip(&shares) {
        assert_eq!(words(&pull(worker).await), *share, "the row belongs to the device that was told");
    }
}

#[tokio::test]
async fn a_sender_keeps_its_connection_and_gets_another_when_that_is_gone() {
    let server = TestServer::start().await;
    let (alice, carol) = (server.agent("alice").await, server.agent("carol").await);
    let bob = server.register("bobb").await;
    let one = worker(&server, &bob, "one", "sender_affinity", 600_000).await;
    let two = worker(&server, &bob, "two", "sender_affinity", 600_000).await;
    server.at_least_sessions(4).await;
    for n in 0..4 {
        for sender in [&alice, &carol] {
            send(sender, message(&bob.aid, &format!("{}{n}", &sender.aid()[..1]))).await;
        }
    }
    let shares = shares(&[&one, &two], 8).await;
    for initial in ["a", "c"] {
        let sessions =
            shares.iter().filter(|share| share.iter().any(|text| text.starts_with(initial))).count();
        assert_eq!(sessions, 1, "all messages of one sender at one session: {shares:?}");
    }
    let alices = usize::from(shares[1].iter().any(|text| text.starts_with('a')));
    let (gone, left) = if alices == 0 { (&one, &two) } else { (&two, &one) };
    gone.close().await;
    server.at_most_sessions(3).await;
    assert_eq!(send(&alice, message(&bob.aid, "still there?")).await["status"], "delivered");
    assert_eq!(received(left).await["payload"]["text"], "still there?");
}

#[tokio::test]
async fn with_nobody_there_a_queued_message_waits_a_little() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    bob.close().await;
    until_online(&alice, bob.aid(), false).await;
    let sent = send(&alice, queued(bob.aid(), "anybody?")).await;
    assert_eq!((&sent["status"], &sent["delivery_mode"]), (&json!("sent"), &json!("queue")));
    let bob = server.reconnect(&bob).await;
    assert_eq!(words(&pull(&bob).await), ["anybody?"]);
}

#[tokio::test]
async fn two_hundred_are_held_and_the_rest_is_counted() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    until_online(&alice, bob.aid(), true).await;
    let messages: Vec<Value> = (1..=230).map(|n| queued(bob.aid(), &n.to_string())).collect();
    flood(&alice, &messages).await;
    let page = pull(&bob).await;
    assert_eq!(page["ephemeral_earliest_available_seq"], 31, "a reader at 0 sees that it missed something");
    assert_eq!(page["ephemeral_dropped_count"], 30);
    let page = ask(&bob, "message.pull", json!({ "after_seq": 30, "limit": 200 })).await;
    assert_eq!(seqs(&page), (31..=230).collect::<Vec<_>>());
    assert_eq!(page["retention_floor_seq"], 0);
    let carol = server.agent("carol").await;
    let other = pull(&carol).await;
    assert_eq!(
        (&other["ephemeral_earliest_available_seq"], &other["ephemeral_dropped_count"]),
        (&Value::Null, &json!(0))
    );
}

#[tokio::test]
async fn queued_messages_are_not_in_the_history_and_survive_a_restart_only_where_processes_share_them() {
    let mut server = TestServer::start().await;
    let (alice, bob) = two(&server).await;
    server.at_least_sessions(2).await;
    say(&alice, &bob, "stored").await;
    send(&alice, queued(bob.aid(), "held")).await;
    let history = ask(&bob, "message.history", json!({ "before_seq": 100 })).await;
    assert_eq!(words(&history), ["stored"]);
    server.restart().await;
    let (alice, bob) = (server.reconnect(&alice).await, server.reconnect(&bob).await);
    // In one process they are its memory. Several keep them in their database: none takes them along when it goes.
    let kept: &[&str] = if on_sqlite() { &["stored"] } else { &["stored", "held"] };
    assert_eq!(words(&pull(&bob).await), kept);
    assert_eq!(say(&alice, &bob, "after").await["seq"], 3, "a seq that was answered is never given again");
    let page = pull(&bob).await;
    assert_eq!(words(&page), [kept, &["after"][..]].concat());
    assert_eq!(page["has_more"], false);
}

#[tokio::test]
async fn a_queued_message_sent_twice_is_one() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let mut params = named(bob.aid(), "m-1", "once");
    params["delivery_mode"] = json!("queue");
    send(&alice, params.clone()).await;
    assert_eq!(send(&alice, params).await["status"], "duplicate");
    assert_eq!(pull(&bob).await["count"], 1);
}

#[tokio::test]
async fn a_message_can_ask_to_be_stored_where_the_reader_would_queue() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    let (one, two) = (
        worker(&server, &bob, "one", "round_robin", 0).await,
        worker(&server, &bob, "two", "round_robin", 0).await,
    );
    let mut params = message(&bob.aid, "to all");
    params["delivery_mode"] = json!("fanout");
    assert_eq!(send(&alice, params).await["delivery_mode"], "fanout");
    for worker in [&one, &two] {
        assert_eq!(received(worker).await["payload"]["text"], "to all");
    }
    for worker in [&one, &two] {
        worker.close().await;
    }
    until_online(&alice, &bob.aid, false).await;
    assert_eq!(
        send(&alice, message(&bob.aid, "nobody there")).await["delivery_mode"],
        "fanout",
        "the mode left with them"
    );
}

#[tokio::test]
async fn encrypted_messages_go_to_their_devices_whatever_the_mode() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    let (one, two) = (
        worker(&server, &bob, "one", "round_robin", 0).await,
        worker(&server, &bob, "two", "round_robin", 0).await,
    );
    for worker in [&one, &two] {
        crate::support::envelope::put_key(worker).await;
    }
    let sent = send(&alice, crate::support::envelope::sealed(&alice, &bob.aid, "m-1")).await;
    assert_eq!(sent["delivery_mode"], "fanout");
    for worker in [&one, &two] {
        assert_eq!(crate::message::next(worker, "event/peer.v2.message_received").await["message_id"], "m-1");
    }
}
