//! What is left of an agent whose AID ended: nothing for it, and for others what it sent them.

use super::*;
use kernel::{AgentRemoval, AgentRemover};
use std::time::Duration;

/// What the task of the service does, once: a pass over the agents that ended.
async fn remove_ended(test: &TestWorld, service: &Arc<MessageService>) {
    while service.store.index_oldest(Duration::ZERO).await.unwrap() {}
    let remover = AgentRemover::new(&test.world, "message", service.store.db(), service.clone());
    remover.remove_ended().await.unwrap();
}

async fn revoke(test: &TestWorld, agent: &TestAgent) {
    test.inside("ca.revoke_cert", json!({ "aid": agent.aid })).await;
}

async fn count(service: &MessageService, text: &'static str) -> i64 {
    sqlx::query_scalar(text).fetch_one(service.store.db().read()).await.unwrap()
}

/// The service with its methods, and none of its tasks.
fn add_alone(test: &TestWorld, service: &Arc<MessageService>) {
    let removal = AgentRemoval::nothing_kept("a test removes it by itself");
    test.world.add(Service::new(&["message"], rpc(service.clone()), removal));
}

/// A world in which the service is called as it is: its methods are those of the value that a test looks into.
struct TestMessages {
    test: TestWorld,
    service: Arc<MessageService>,
    alice: TestAgent,
    carol: TestAgent,
}

impl TestMessages {
    async fn open() -> TestMessages {
        let test = TestWorld::with(&["ca", "auth", "agent"]).await;
        let service = open_again(&test).await;
        add_alone(&test, &service);
        let (alice, carol) = (test.register("alice").await, test.register("carol").await);
        TestMessages { test, service, alice, carol }
    }

    fn alice(&self, device: &'static str) -> AgentDevice<'_> {
        AgentDevice { agent: &self.alice, device }
    }

    fn carol(&self, device: &'static str) -> AgentDevice<'_> {
        AgentDevice { agent: &self.carol, device }
    }
}

#[tokio::test]
async fn messages_that_wait_for_a_revoked_agent_are_removed_and_those_it_sent_are_not() {
    let messages = TestMessages::open().await;
    let TestMessages { test, service, alice, carol } = &messages;
    for device in ["c1", "c2"] {
        messages.carol(device).join(test).await;
    }
    messages.alice("a").join(test).await;
    for number in 0..450 {
        messages.alice("a").send(test, carol, &format!("m{number}")).await.unwrap();
    }
    messages.carol("c1").send(test, alice, "from carol").await.unwrap();

    revoke(test, carol).await;
    remove_ended(test, service).await;
    assert_eq!(count(service, "SELECT COUNT(*) FROM letter").await, 1, "the one for alice");
    assert_eq!(count(service, "SELECT COUNT(*) FROM inbox WHERE aid LIKE 'carol%'").await, 0);
    assert_eq!(texts(&messages.alice("a").everything(test).await), ["from carol"]);
    let late = messages.alice("a").send(test, carol, "late").await;
    assert_eq!(code(late), -32008, "there is no such agent");
    remove_ended(test, service).await;
}

#[tokio::test]
async fn what_other_devices_of_the_sender_have_of_a_message_stays_theirs() {
    let messages = TestMessages::open().await;
    let TestMessages { test, service, carol, .. } = &messages;
    messages.carol("c").join(test).await;
    for device in ["a1", "a2"] {
        messages.alice(device).join(test).await;
    }
    // The text of the message is stored with the row of the recipient.
    let copy = |device: &str| json!({ "device_id": device, "envelope": { "for": device } });
    let payload = json!({
        "type": "e2ee.multi_device", "recipient_copies": [copy("c")], "self_copies": [copy("a2")],
    });
    let params = json!({ "to": carol.aid, "payload": payload, "encrypted": true });
    messages.alice("a1").call(test, "message.send", params).await.unwrap();
    let before = messages.alice("a2").everything(test).await;
    assert_eq!((before.len(), &before[0]["payload"]["for"]), (1, &json!("a2")));
    revoke(test, carol).await;
    remove_ended(test, service).await;
    assert_eq!(messages.alice("a2").everything(test).await, before);
}

#[tokio::test]
async fn cursors_keys_and_what_is_in_memory_are_removed() {
    let messages = TestMessages::open().await;
    let TestMessages { test, service, alice, carol } = &messages;
    messages.carol("c").join(test).await;
    let send = async |more: Value| {
        let mut params = json!({ "to": carol.aid, "payload": { "text": "now" } });
        params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        messages.alice("a").call(test, "message.send", params).await.unwrap()
    };
    for more in [json!({}), json!({ "ttl": 600 }), json!({ "delivery_mode": "queue" })] {
        send(more).await;
    }
    messages.carol("c").call(test, "message.ack", json!({ "seq": 1 })).await.unwrap();
    let prekey = json!({ "prekey_id": "p", "public_key": "MFkw", "signature": "MEUC" });
    messages.carol("c").call(test, "message.e2ee.put_prekey", prekey).await.unwrap();
    let about = json!({ "type": "run", "id": "run-1" });
    let thought = json!({ "to": alice.aid, "context": about, "payload": {} });
    messages.carol("c").call(test, "message.thought.put", thought).await.unwrap();
    let inbox = service.inboxes.ids_of(&Aid::parse(&carol.aid).unwrap()).await.unwrap()[0];

    revoke(test, carol).await;
    remove_ended(test, service).await;
    for text in [
        "SELECT COUNT(*) FROM cursor",
        "SELECT COUNT(*) FROM prekey",
        "SELECT COUNT(*) FROM removed_device",
        "SELECT COUNT(*) FROM letter",
    ] {
        assert_eq!(count(service, text).await, 0, "{text}");
    }
    let now = test.world.clock.now_ms();
    let left = service.with_volatile(inbox, |volatile| volatile.after(inbox, None, None, now, 10)).await;
    assert!(left.unwrap().unwrap().rows.is_empty());
    let asked = json!({ "sender_aid": carol.aid, "context": about });
    let thoughts = messages.alice("a").call(test, "message.thought.get", asked).await.unwrap();
    assert_eq!(thoughts["found"], false);
}

#[tokio::test]
async fn the_next_holder_of_a_name_that_lapsed_finds_nothing_of_the_last_one() {
    let messages = TestMessages::open().await;
    let TestMessages { test, service, carol, .. } = &messages;
    test.world.clock.advance_ms((730 + 89) * DAY_MS);
    messages.carol("c").join(test).await;
    let dave = test.register("dave").await;
    let from = AgentDevice { agent: &dave, device: "d" };
    from.send(test, carol, "for the last one").await.unwrap();
    let take =
        json!({ "aid": carol.aid, "public_key": testing::spki(&certs::Key::generate(certs::Curve::P256)) });
    test.world.clock.advance_ms(3 * DAY_MS);
    remove_ended(test, service).await;
    assert_eq!(code(test.call("auth.create_aid", take.clone()).await), 4090, "it has not said so yet");
    remove_ended(test, service).await;
    test.call("auth.create_aid", take).await.unwrap();
    messages.carol("c").join(test).await;
    from.send(test, carol, "for the next one").await.unwrap();
    let rows = messages.carol("c").everything(test).await;
    assert_eq!((texts(&rows), seqs(&rows)), (vec!["for the next one"], vec![1]));
}

#[tokio::test]
async fn the_id_of_a_removed_inbox_is_given_to_nobody_else() {
    let messages = TestMessages::open().await;
    let TestMessages { test, service, alice, carol } = &messages;
    messages.carol("c").join(test).await;
    messages.alice("a").send(test, carol, "for carol").await.unwrap();
    let removed = service.inboxes.ids_of(&Aid::parse(&carol.aid).unwrap()).await.unwrap();
    revoke(test, carol).await;
    remove_ended(test, service).await;

    let dave = test.register("dave").await;
    let to = AgentDevice { agent: &dave, device: "d" };
    to.join(test).await;
    let given = service.inboxes.ids_of(&Aid::parse(&dave.aid).unwrap()).await.unwrap();
    assert!(given > removed, "{given:?} after {removed:?}");
    AgentDevice { agent: alice, device: "a" }.send(test, &dave, "for dave").await.unwrap();
    let rows = to.everything(test).await;
    assert_eq!((texts(&rows), seqs(&rows)), (vec!["for dave"], vec![1]));
}

#[tokio::test]
async fn a_message_after_the_newest_of_the_log_were_removed_is_found_after_a_crash() {
    let messages = TestMessages::open().await;
    let TestMessages { test, service, alice, carol } = messages;
    for number in 0..3 {
        AgentDevice { agent: &alice, device: "a" }.send(&test, &carol, &format!("m{number}")).await.unwrap();
    }
    revoke(&test, &carol).await;
    remove_ended(&test, &service).await;
    drop(service);
    let test = test.restart().await;
    let service = open_again(&test).await;
    add_alone(&test, &service);
    let dave = test.register("dave").await;
    AgentDevice { agent: &alice, device: "a" }.send(&test, &dave, "not indexed").await.unwrap();
    drop(service);
    let test = test.restart().await;
    let service = open_again(&test).await;
    add_alone(&test, &service);
    let to = AgentDevice { agent: &dave, device: "d" };
    to.join(&test).await;
    assert_eq!(texts(&to.everything(&test).await), ["not indexed"]);
}
