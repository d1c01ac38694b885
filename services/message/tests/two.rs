//! Two processes on one PostgreSQL: whatever is sent through one is read through the other, once and in order.

use super::*;
use kernel::{Mesh, World};
use serde_json::value::to_raw_value;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

/// One process.
#[derive(Clone)]
pub(super) struct MessageProcess(World);

impl MessageProcess {
    pub async fn call(&self, caller: Caller, method: &str, params: Value) -> Result<Value, RpcError> {
        let answer = self.0.mesh.call(caller, method, Some(to_raw_value(&params).unwrap())).await?;
        Ok(serde_json::from_str(answer.get()).unwrap())
    }

    pub async fn join(&self, agent: &TestAgent, device: &str) {
        let params = json!({ "aid": agent.aid, "device_id": device });
        self.call(Caller::Operator, "message.session_opened", params).await.unwrap();
    }

    async fn send(&self, from: &TestAgent, to: &TestAgent, id: &str, more: Value) -> Value {
        let mut params = json!({ "to": to.aid, "message_id": id, "payload": { "text": id } });
        params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        self.call(from.caller(), "message.send", params).await.unwrap()
    }

    async fn pull(&self, agent: &TestAgent, device: &'static str, params: Value) -> Value {
        self.call(AgentDevice { agent, device }.caller(), "message.pull", params).await.unwrap()
    }

    /// The texts a device pulls, and their seqs.
    pub async fn found(&self, agent: &TestAgent, device: &'static str) -> (Vec<String>, Vec<i64>) {
        let page = self.pull(agent, device, json!({ "limit": 200 })).await;
        let rows = page["messages"].as_array().unwrap();
        let seqs = rows.iter().filter_map(|row| row["seq"].as_i64()).collect();
        (texts(rows).into_iter().map(str::to_owned).collect(), seqs)
    }
}

/// Nothing on SQLite, where one process has the files to itself.
pub(super) async fn two_processes() -> Option<(TestWorld, MessageProcess, MessageProcess)> {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(open).await;
    if test.world.store.engine() == Engine::Sqlite {
        return None;
    }
    let second = World { mesh: Arc::<Mesh>::default(), tracker: TaskTracker::new(), ..test.world.clone() };
    TestWorld::with(&["ca", "auth", "agent"]).and(open).add_to(&second).await;
    let first = MessageProcess(test.world.clone());
    Some((test, first, MessageProcess(second)))
}

#[tokio::test]
async fn a_message_sent_through_both_at_once_is_stored_once() {
    let Some((test, one, two)) = two_processes().await else { return };
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    one.join(&carol, "c").await;
    for round in 0..20 {
        let id = format!("m{round}");
        let (a, b) = tokio::join!(
            one.send(&alice, &carol, &id, Value::Null),
            two.send(&alice, &carol, &id, Value::Null)
        );
        assert_eq!((&a["seq"], &b["seq"]), (&json!(round + 1), &json!(round + 1)));
        let again = [&a, &b].iter().filter(|sent| sent["status"] == "duplicate").count();
        assert_eq!(again, 1, "{a} {b}");
    }
    assert_eq!(two.found(&carol, "c").await.1, (1..=20).collect::<Vec<_>>());
    let published =
        test.events.lock().iter().filter(|event| event.method == delivery::events::RECEIVED).count();
    assert!(published <= 20, "{published} events for 20 messages");
}

#[tokio::test]
async fn a_seq_the_other_gave_and_that_was_removed_is_not_given_again() {
    let Some((test, one, two)) = two_processes().await else { return };
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    one.join(&carol, "c").await;
    for id in ["one", "two"] {
        one.send(&alice, &carol, id, Value::Null).await;
    }
    for id in ["three", "four"] {
        two.send(&alice, &carol, id, Value::Null).await;
    }
    let store = &open_again(&test).await.store;
    assert_eq!(store.remove_old(i64::MAX, 200).await.unwrap(), 4);
    assert_eq!(one.send(&alice, &carol, "five", Value::Null).await["seq"], 5);
}

/// Messages go to several inboxes, and the processes do not know which seqs the other one gave.
#[tokio::test]
async fn seqs_have_no_holes_whichever_process_gives_them() {
    let Some((test, one, two)) = two_processes().await else { return };
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    for device in ["c", "d"] {
        one.join(&carol, device).await;
    }
    for device in ["a", "b"] {
        two.join(&alice, device).await;
    }
    // One process alone for a while, then the other, then both.
    for (round, processes) in [vec![&one], vec![&two], vec![&one, &two], vec![&one]].into_iter().enumerate() {
        let mut senders = JoinSet::new();
        for number in 0..60 {
            let process = processes[number % processes.len()].clone();
            let (from, to) = if number % 3 == 0 { (&carol, &alice) } else { (&alice, &carol) };
            let (from, to) = (from.caller(), to.aid.clone());
            senders.spawn(async move {
                let id = format!("m{round}-{number}");
                let params = json!({ "to": to, "message_id": id, "payload": { "text": id } });
                process.call(from, "message.send", params).await.unwrap();
            });
        }
        while let Some(sent) = senders.join_next().await {
            sent.unwrap();
        }
    }
    for (agent, device) in [(&carol, "c"), (&carol, "d"), (&alice, "a"), (&alice, "b")] {
        let rows = AgentDevice { agent, device }.everything(&test).await;
        let (seqs, words) = (seqs(&rows), texts(&rows).into_iter().collect::<BTreeSet<_>>());
        assert_eq!(seqs, (1..=seqs.len() as i64).collect::<Vec<_>>(), "{device}");
        assert_eq!(words.len(), seqs.len(), "every message once on {device}");
    }
}

#[tokio::test]
async fn a_device_that_joined_through_the_other_is_not_missed() {
    let Some((test, one, two)) = two_processes().await else { return };
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    one.send(&alice, &carol, "waits", Value::Null).await;
    two.join(&carol, "c").await;
    one.send(&alice, &carol, "first", Value::Null).await;
    two.join(&carol, "d").await;
    one.send(&alice, &carol, "second", Value::Null).await;
    one.send(&alice, &carol, "with ttl", json!({ "ttl": 60 })).await;
    two.join(&carol, "e").await;
    one.send(&alice, &carol, "third", json!({ "device_id": "e" })).await;
    let all = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(one.found(&carol, "c").await.0, all(&["waits", "first", "second", "with ttl"]));
    assert_eq!(two.found(&carol, "d").await.0, all(&["second", "with ttl"]));
    assert_eq!(one.found(&carol, "e").await.0, all(&["third"]));
}

#[tokio::test]
async fn what_is_stored_for_a_while_is_found_through_the_other() {
    let Some((test, one, two)) = two_processes().await else { return };
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    one.join(&carol, "c").await;
    let queued = one.send(&alice, &carol, "queued", json!({ "delivery_mode": "queue" })).await;
    assert_eq!((&queued["delivery_mode"], &queued["seq"]), (&json!("queue"), &json!(1)));
    let kept = one.send(&alice, &carol, "kept", json!({ "ttl": 60 })).await;
    let again = two.send(&alice, &carol, "kept", json!({ "ttl": 60 })).await;
    assert_eq!(
        (&again["status"], &again["volatile_cursor"]),
        (&json!("duplicate"), &kept["volatile_cursor"])
    );

    let page = two.pull(&carol, "c", json!({})).await;
    assert_eq!(texts(page["messages"].as_array().unwrap()), ["queued", "kept"]);
    assert_eq!(page["ephemeral_earliest_available_seq"], 1);
    assert_eq!(page["latest_volatile_cursor"], kept["volatile_cursor"]);
    let late = one.send(&alice, &carol, "late", json!({ "ttl": 60 })).await;
    let after = json!({ "after_seq": 1, "after_volatile_cursor": kept["volatile_cursor"] });
    assert_eq!(texts(two.pull(&carol, "c", after).await["messages"].as_array().unwrap()), ["late"]);

    let ack = json!({ "seq": 1, "volatile_cursors": [kept["volatile_cursor"], late["volatile_cursor"]] });
    let device = AgentDevice { agent: &carol, device: "c" };
    let acked = two.call(device.caller(), "message.ack", ack.clone()).await.unwrap();
    assert_eq!(acked["volatile_ack"], json!({ "accepted": 2, "expired": 0 }));
    let acked = one.call(device.caller(), "message.ack", ack).await.unwrap();
    assert_eq!(acked["volatile_ack"], json!({ "accepted": 0, "expired": 2 }));
    test.world.clock.advance_ms(300_000);
    assert!(one.found(&carol, "c").await.0.is_empty());
}

#[tokio::test]
async fn two_hundred_queue_messages_are_stored_whichever_process_accepted_them() {
    let Some((test, one, two)) = two_processes().await else { return };
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    one.join(&carol, "c").await;
    for number in 0..103 {
        for (process, name) in [(&one, "one"), (&two, "two")] {
            let id = format!("{name}{number}");
            process.send(&alice, &carol, &id, json!({ "delivery_mode": "queue" })).await;
        }
    }
    let page = one.pull(&carol, "c", json!({ "limit": 200 })).await;
    assert_eq!(seqs(page["messages"].as_array().unwrap()), (7..=206).collect::<Vec<_>>());
    assert_eq!(page["ephemeral_earliest_available_seq"], 7);
    assert_eq!(page["ephemeral_dropped_count"], 6);
}

#[tokio::test]
async fn thoughts_put_through_both_are_one_list() {
    let Some((test, one, two)) = two_processes().await else { return };
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    let about = json!({ "type": "run", "id": "run-1\u{0}" });
    for (number, process) in [&one, &two, &one].into_iter().enumerate() {
        let params = json!({ "to": carol.aid, "context": about, "payload": { "n": number } });
        let put = process.call(alice.caller(), "message.thought.put", params).await.unwrap();
        assert_eq!(put["stored_count"], number + 1);
    }
    let asked = json!({ "sender_aid": alice.aid, "context": about });
    let got = two.call(carol.caller(), "message.thought.get", asked).await.unwrap();
    let order: Vec<&Value> =
        got["thoughts"].as_array().unwrap().iter().map(|thought| &thought["payload"]["n"]).collect();
    assert_eq!(order, [&json!(0), &json!(1), &json!(2)]);
}

#[tokio::test]
async fn a_cursor_moved_through_both_only_grows() {
    let Some((test, one, two)) = two_processes().await else { return };
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    one.join(&carol, "c").await;
    for number in 1..=30 {
        one.send(&alice, &carol, &format!("m{number}"), Value::Null).await;
    }
    let mut acks = JoinSet::new();
    for seq in 1..=30 {
        let process = if seq % 2 == 0 { one.clone() } else { two.clone() };
        let caller = AgentDevice { agent: &carol, device: "c" }.caller();
        acks.spawn(async move {
            let acked = process.call(caller, "message.ack", json!({ "seq": seq })).await.unwrap();
            assert!(acked["ack_seq"].as_i64().unwrap() >= seq, "{acked}");
        });
    }
    while let Some(done) = acks.join_next().await {
        done.unwrap();
    }
    for process in [&one, &two] {
        assert_eq!(process.pull(&carol, "c", json!({})).await["server_ack_seq"], 30);
    }
}

#[tokio::test]
async fn many_senders_through_both_leave_no_hole_and_keep_their_order() {
    let Some((test, one, two)) = two_processes().await else { return };
    let carols = [test.register("carol").await, test.register("carla").await];
    for carol in &carols {
        one.join(carol, "c").await;
        two.join(carol, "d").await;
    }
    let mut senders = JoinSet::new();
    for sender in 0..6 {
        let alice = test.register(&format!("alice{sender}")).await;
        let to: Vec<String> = carols.iter().map(|carol| carol.aid.clone()).collect();
        let processes = [one.clone(), two.clone()];
        senders.spawn(async move {
            let mut last = [0, 0];
            for number in 0..20 {
                let (process, at) = (&processes[(sender + number) % 2], (sender + number / 2) % 2);
                let params = json!({ "to": to[at], "message_id": format!("m{number}"), "payload": {} });
                let sent = process.call(alice.caller(), "message.send", params).await.unwrap();
                let seq = sent["seq"].as_i64().unwrap();
                assert!(seq > last[at], "a later message has a higher seq");
                last[at] = seq;
            }
        });
    }
    while let Some(done) = senders.join_next().await {
        done.unwrap();
    }
    for carol in &carols {
        for device in ["c", "d"] {
            assert_eq!(two.found(carol, device).await.1, (1..=60).collect::<Vec<_>>(), "{device}");
        }
    }
}
