//! The service alone, on either engine: what a commit guarantees, and what is there after a restart.

use super::*;
use kernel::{Caller, CallingAgent, DeviceId, Engine, RpcError};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use testing::{DAY_MS, TestAgent, TestWorld, code};

mod agent_removal;
mod by_token;
mod devices;
mod ephemeral;
mod federation;
mod long;
mod page_sizes;
mod pages;
mod settings;
mod tool_calls;
mod two;
mod webhook;

/// An agent on a device.
struct AgentDevice<'a> {
    agent: &'a TestAgent,
    device: &'static str,
}

impl AgentDevice<'_> {
    fn caller(&self) -> Caller {
        let Caller::Agent(session) = self.agent.caller() else { unreachable!() };
        Caller::Agent(CallingAgent { device: DeviceId::parse(self.device).unwrap(), ..session })
    }

    async fn call(&self, test: &TestWorld, method: &str, params: Value) -> Result<Value, RpcError> {
        test.call_as(self.caller(), method, params).await
    }

    async fn join(&self, test: &TestWorld) {
        test.inside("message.session_opened", json!({ "aid": self.agent.aid, "device_id": self.device }))
            .await;
    }

    async fn send(&self, test: &TestWorld, to: &TestAgent, text: &str) -> Result<Value, RpcError> {
        let params = json!({ "to": to.aid, "message_id": text, "payload": { "text": text } });
        self.call(test, "message.send", params).await
    }

    /// Every row of the inbox, page by page.
    async fn everything(&self, test: &TestWorld) -> Vec<Value> {
        let (mut rows, mut after) = (Vec::new(), 0);
        loop {
            let page =
                self.call(test, "message.pull", json!({ "after_seq": after, "limit": 3 })).await.unwrap();
            rows.extend(page["messages"].as_array().unwrap().iter().cloned());
            after = page["latest_seq"].as_i64().unwrap();
            if page["has_more"] == json!(false) {
                return rows;
            }
        }
    }
}

/// A world with Alice, and with Carol, who has a device `c`.
async fn two() -> (TestWorld, TestAgent, TestAgent) {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(open).await;
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    AgentDevice { agent: &carol, device: "c" }.join(&test).await;
    (test, alice, carol)
}

/// The files of an index that can be made again.
fn lose_index(test: &TestWorld) {
    for name in ["message-index.db", "message-index.db-wal", "message-index.db-shm"] {
        let _ = std::fs::remove_file(test.world.data.join(name));
    }
}

fn texts(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["payload"]["text"].as_str().unwrap_or("-")).collect()
}

fn seqs(rows: &[Value]) -> Vec<i64> {
    rows.iter().map(|row| row["seq"].as_i64().unwrap()).collect()
}

/// The service of a world, opened a second time on the same store: for what no method does.
async fn open_again(test: &TestWorld) -> Arc<MessageService> {
    MessageService::open(&test.world, &Default::default()).await.unwrap()
}

#[tokio::test]
async fn after_a_restart_every_message_has_its_seq_indexed_or_not() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(open).await;
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    let from = AgentDevice { agent: &alice, device: "a" };
    let to = AgentDevice { agent: &carol, device: "c" };
    to.join(&test).await;
    for text in ["one", "two", "three"] {
        from.send(&test, &carol, text).await.unwrap();
    }
    let test = test.restart().await; // Indexes what the log has.
    for text in ["four", "five"] {
        from.send(&test, &carol, text).await.unwrap();
    }
    let again = from.send(&test, &carol, "two").await.unwrap();
    assert_eq!((&again["status"], &again["seq"]), (&json!("duplicate"), &json!(2)));
    let rows = to.everything(&test).await;
    assert_eq!(texts(&rows), ["one", "two", "three", "four", "five"]);
    assert_eq!(seqs(&rows), [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn an_index_that_was_lost_is_made_again_from_the_log() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(open).await;
    if test.world.store.engine() == Engine::Postgres {
        return; // Its index is part of the message's own transaction.
    }
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    let (from, to) = (AgentDevice { agent: &alice, device: "a" }, AgentDevice { agent: &carol, device: "c" });
    to.join(&test).await;
    for number in 0..7 {
        from.send(&test, &carol, &format!("m{number}")).await.unwrap();
    }
    let test = test.restart().await;
    lose_index(&test);
    let test = test.restart().await;
    assert_eq!(seqs(&to.everything(&test).await), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(from.send(&test, &carol, "m3").await.unwrap()["status"], "duplicate");
    assert_eq!(from.send(&test, &carol, "m7").await.unwrap()["seq"], 8);
}

#[tokio::test]
async fn a_commit_that_fails_gives_no_seq_and_publishes_nothing() {
    let (test, alice, carol) = two().await;
    let (from, to) = (AgentDevice { agent: &alice, device: "a" }, AgentDevice { agent: &carol, device: "c" });
    from.send(&test, &carol, "before").await.unwrap();
    refuse_poison(&test).await;
    let before = test.world.stores.tally("message").stats();

    let error = from.send(&test, &carol, "poison").await.unwrap_err();
    assert_eq!((error.code(), error.data("retryable")), (5003, Some(&json!(true))));
    assert_eq!(from.send(&test, &carol, "after").await.unwrap()["seq"], 2);
    let stats = test.world.stores.tally("message").stats();
    let counted = (stats.rows - before.rows, stats.failures - before.failures);
    assert_eq!(counted, (1, 1), "it is counted for the operator");
    assert_eq!(texts(&to.everything(&test).await), ["before", "after"]);
    let published = test.events.lock().iter().filter(|event| event.params.get().contains("poison")).count();
    assert_eq!(published, 0);
}

/// Makes the log refuse one message.
async fn refuse_poison(test: &TestWorld) {
    let service = open_again(test).await;
    let mut tx = service.store.db().write().await.unwrap();
    let statements: &[&'static str] = match test.world.store.engine() {
        Engine::Sqlite => &["CREATE TRIGGER refuse BEFORE INSERT ON letter WHEN NEW.data LIKE '%poison%'
              BEGIN SELECT RAISE(ABORT, 'no'); END"],
        Engine::Postgres => &[
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN IF NEW.data LIKE ''%poison%'' THEN RAISE EXCEPTION ''no''; END IF; RETURN NEW; END'",
            "CREATE TRIGGER refuse BEFORE INSERT ON letter FOR EACH ROW EXECUTE FUNCTION refuse()",
        ],
    };
    for statement in statements {
        sqlx::query(*statement).execute(&mut *tx).await.unwrap();
    }
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn many_senders_at_once_leave_no_hole_and_get_no_seq_twice() {
    let test = Arc::new(TestWorld::with(&["ca", "auth", "agent"]).and(open).await);
    let carol = test.register("carol").await;
    AgentDevice { agent: &carol, device: "c" }.join(&test).await;
    let mut senders = tokio::task::JoinSet::new();
    for sender in 0..8 {
        let alice = test.register(&format!("alice{sender}")).await;
        let (test, to) = (test.clone(), carol.aid.clone());
        senders.spawn(async move {
            let mut seqs = Vec::new();
            for number in 0..20 {
                let params = json!({ "to": to, "message_id": format!("m{number}"), "payload": {} });
                let sent = test.call_as(alice.caller(), "message.send", params).await.unwrap();
                seqs.push(sent["seq"].as_i64().unwrap());
            }
            seqs
        });
    }
    let mut all = BTreeSet::new();
    while let Some(seqs) = senders.join_next().await {
        let seqs = seqs.unwrap();
        assert!(seqs.is_sorted(), "one sender's messages keep their order: {seqs:?}");
        all.extend(seqs);
    }
    assert_eq!(all.into_iter().collect::<Vec<_>>(), (1..=160).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_is_too_old_is_removed_and_the_floor_says_so() {
    let (test, alice, carol) = two().await;
    let (from, to) = (AgentDevice { agent: &alice, device: "a" }, AgentDevice { agent: &carol, device: "c" });
    for text in ["one", "two"] {
        from.send(&test, &carol, text).await.unwrap();
    }
    test.world.clock.advance_ms(DAY_MS / 2);
    from.send(&test, &carol, "three").await.unwrap();
    test.world.clock.advance_ms(DAY_MS / 2 + 1);
    let test = test.restart().await;
    open_again(&test).await.remove_old().await;
    let test = test.restart().await;

    let page = to.call(&test, "message.pull", json!({})).await.unwrap();
    assert_eq!(texts(page["messages"].as_array().unwrap()), ["three"]);
    assert_eq!((&page["retention_floor_seq"], &page["earliest_available_seq"]), (&json!(2), &json!(3)));
    assert_eq!(page["server_ack_seq"], 2, "a client jumps over what is gone");
    assert_eq!(from.send(&test, &carol, "one").await.unwrap()["seq"], 4, "its id is free again");
}

#[tokio::test]
async fn the_seqs_of_an_empty_inbox_continue_even_without_its_index() {
    let (test, alice, carol) = two().await;
    let (from, to) = (AgentDevice { agent: &alice, device: "a" }, AgentDevice { agent: &carol, device: "c" });
    for text in ["one", "two"] {
        from.send(&test, &carol, text).await.unwrap();
    }
    test.world.clock.advance_ms(DAY_MS + 1);
    let test = test.restart().await;
    open_again(&test).await.remove_old().await;
    lose_index(&test);
    let test = test.restart().await;
    assert!(to.everything(&test).await.is_empty());
    assert_eq!(from.send(&test, &carol, "three").await.unwrap()["seq"], 3);
}

#[tokio::test]
async fn cursors_only_grow_and_survive_a_restart() {
    let (test, alice, carol) = two().await;
    let (from, to) = (AgentDevice { agent: &alice, device: "a" }, AgentDevice { agent: &carol, device: "c" });
    for text in ["one", "two", "three"] {
        from.send(&test, &carol, text).await.unwrap();
    }
    for (seq, expected) in [(2, 2), (1, 2), (99, 3), (0, 3)] {
        let acked = to.call(&test, "message.ack", json!({ "seq": seq })).await.unwrap();
        assert_eq!(acked["ack_seq"], expected, "after {seq}");
    }
    let test = test.restart().await;
    assert_eq!(to.call(&test, "message.pull", json!({})).await.unwrap()["server_ack_seq"], 3);
    for bad in [json!({ "seq": -1 }), json!({ "seq": "2" }), json!({ "seq": 1.5 }), json!({})] {
        assert_eq!(code(to.call(&test, "message.ack", bad).await), -32602);
    }
}

#[tokio::test]
async fn a_recall_is_stored_indexed_or_not_and_works_once() {
    let (test, alice, carol) = two().await;
    let (from, to) = (AgentDevice { agent: &alice, device: "a" }, AgentDevice { agent: &carol, device: "c" });
    from.send(&test, &carol, "indexed").await.unwrap();
    let test = test.restart().await;
    from.send(&test, &carol, "unindexed").await.unwrap();
    let ids = json!({ "message_ids": ["indexed", "unindexed"] });
    let recalled = from.call(&test, "message.recall", ids.clone()).await.unwrap();
    assert_eq!((&recalled["recalled"], &recalled["errors"]), (&json!(2), &Value::Null));
    let again = from.call(&test, "message.recall", ids).await.unwrap();
    assert_eq!(again["recalled"], 0);
    assert_eq!(again["errors"][0]["error"], "already_recalled");

    for test in [test.restart().await] {
        let rows = to.everything(&test).await;
        assert_eq!(seqs(&rows), [1, 2, 3], "two tombstones and one notice");
        assert!(rows.iter().all(|row| row["payload"]["type"] == "message.recalled"), "{rows:?}");
        assert_eq!(rows[2]["payload"]["message_ids"], json!(["indexed", "unindexed"]));
    }
}

#[tokio::test]
async fn a_message_is_recalled_by_its_sender_and_within_two_minutes() {
    let (test, alice, carol) = two().await;
    let (from, to) = (AgentDevice { agent: &alice, device: "a" }, AgentDevice { agent: &carol, device: "c" });
    for text in ["early", "late"] {
        from.send(&test, &carol, text).await.unwrap();
    }
    let refusal = |answer: Value| answer["errors"][0]["error"].clone();
    let recall = |id: &str| json!({ "message_ids": [id] });
    assert_eq!(refusal(to.call(&test, "message.recall", recall("early")).await.unwrap()), "not_sender");
    assert_eq!(refusal(from.call(&test, "message.recall", recall("never")).await.unwrap()), "not_found");
    test.world.clock.advance_ms(120_000);
    assert_eq!(from.call(&test, "message.recall", recall("early")).await.unwrap()["recalled"], 1);
    test.world.clock.advance_ms(1);
    assert_eq!(refusal(from.call(&test, "message.recall", recall("late")).await.unwrap()), "expired");
    assert_eq!(texts(&to.everything(&test).await), ["-", "late", "-"]);
}

#[tokio::test]
async fn the_first_device_gets_what_was_sent_before_and_the_second_begins_empty() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(open).await;
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    let from = AgentDevice { agent: &alice, device: "a" };
    for text in ["one", "two"] {
        assert_eq!(from.send(&test, &carol, text).await.unwrap()["status"], "sent");
    }
    let (first, second) =
        (AgentDevice { agent: &carol, device: "first" }, AgentDevice { agent: &carol, device: "second" });
    first.join(&test).await;
    second.join(&test).await;
    from.send(&test, &carol, "three").await.unwrap();
    assert_eq!(texts(&first.everything(&test).await), ["one", "two", "three"]);
    let rows = second.everything(&test).await;
    assert_eq!((texts(&rows), seqs(&rows)), (vec!["three"], vec![1]));
}

#[tokio::test]
async fn a_service_gets_no_messages_even_where_its_name_has_an_inbox() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(open).await;
    let alice = test.register("alice").await;
    let service = Aid::parse("auth.aid.pub").unwrap();
    open_again(&test).await.inboxes.create_for_first_device(&service).await.unwrap();
    let about = json!({ "type": "run", "id": "run-1" });
    for (method, params) in [
        ("message.send", json!({ "to": service, "payload": {} })),
        ("message.thought.put", json!({ "to": service, "payload": {}, "context": about })),
    ] {
        assert_eq!(code(test.call_as(alice.caller(), method, params).await), -32008, "{method}");
    }
}
