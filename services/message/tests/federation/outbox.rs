//! A domain that cannot be reached: what was accepted for it waits and arrives, in order and once.

use super::*;
use crate::store::stored_message::MessageKey;
use futures_util::future::join_all;
use kernel::codes::FEDERATION_UNREACHABLE;
use kernel::{
    CallTerm, CallingAgent, DiskReading, Engine, OnAnswer, PendingAnswer, RemoteService, unavailable,
};
use proto_schemas::requests::federation::PeerUp;
use sqlx::migrate::Migrator;
use std::future::ready;

const KEEP: Duration = Duration::from_secs(600);

/// Alice's domain, whose outbox keeps messages, Dave's, which cannot be reached, and both agents.
pub(super) async fn unreachable_peer() -> (Domain, Domain, TestAgent, TestAgent) {
    let (here, there) = (Domain::open_with("aid.com", Some(KEEP)).await, Domain::open("aid.net").await);
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    (here, there, alice, dave)
}

pub(super) fn reconnect(here: &Domain, there: &Domain) {
    *here.gateway.peer.lock() = Some(there.world.mesh.clone());
}

pub(super) async fn send(here: &Domain, alice: &TestAgent, to: &str, id: &str) -> Value {
    let params = json!({ "to": to, "message_id": id, "payload": { "text": id } });
    here.call((alice, "a"), "message.send", params).await.unwrap()
}

pub(super) async fn state(here: &Domain) -> Value {
    let state = here.call_as(Caller::Operator, "message.outbox", json!({})).await.unwrap();
    state["issuers"][0].clone()
}

/// The service of a domain once more, for what only its background task does.
pub(super) async fn worker(domain: &Domain) -> Arc<MessageService> {
    MessageService::open(&domain.world, &domain.settings).await.unwrap()
}

impl MessageService {
    /// What the task of the outbox does for one domain.
    pub(super) async fn deliver_to(&self, issuer: &str) {
        self.outbox.rows.send_to(self, issuer).await;
    }
}

/// A process that ends while it delivers to the other domain.
pub(super) async fn killed_while_delivering(here: &Domain) {
    let (service, batches) = (worker(here).await, here.gateway.batches.lock().len());
    *here.gateway.hangs.lock() = true;
    let sent = async {
        while here.gateway.batches.lock().len() == batches {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = service.deliver_to("aid.net") => unreachable!("no answer comes"),
        () = sent => *here.gateway.hangs.lock() = false,
    }
}

#[tokio::test]
async fn what_waits_is_answered_as_queued_and_arrives_in_order_and_once() {
    let (here, there, alice, dave) = unreachable_peer().await;
    let first = send(&here, &alice, &dave.aid, "m1").await;
    assert_eq!((&first["status"], &first["cross_domain"]), (&json!("queued"), &json!(true)));
    assert_eq!((&first["target_issuer"], first.get("seq")), (&json!("aid.net"), None));
    assert_eq!(first["expires_at"].as_i64().unwrap() - first["timestamp"].as_i64().unwrap(), 600_000);
    reconnect(&here, &there);
    for id in ["m2", "m3"] {
        assert_eq!(send(&here, &alice, &dave.aid, id).await["status"], "queued", "it waits after the first");
    }
    assert_eq!(state(&here).await["waiting"], 3);
    assert!(there.rows((&dave, "d")).await.is_empty());

    worker(&here).await.deliver_to("aid.net").await;
    let rows = there.rows((&dave, "d")).await;
    assert_eq!((texts(&rows), seqs(&rows)), (vec!["m1", "m2", "m3"], vec![1, 2, 3]));
    let state = state(&here).await;
    assert_eq!((&state["waiting"], &state["bytes"], &state["delivered"]), (&json!(0), &json!(0), &json!(3)));
    assert_eq!(send(&here, &alice, &dave.aid, "m4").await["status"], "sent", "nothing waits any more");
    assert_eq!(send(&here, &alice, &dave.aid, "m1").await["status"], "duplicate");
    assert_eq!(there.rows((&dave, "d")).await.len(), 4);
}

#[tokio::test]
async fn without_retention_the_sender_gets_the_error_and_nothing_is_stored() {
    let (here, there) = domains().await;
    let alice = here.agent("alice", "a").await;
    *here.gateway.peer.lock() = None;
    let params = json!({ "to": "dave.aid.net", "payload": {} });
    assert_eq!(code(here.call((&alice, "a"), "message.send", params).await), FEDERATION_UNREACHABLE.code);
    let state = here.call_as(Caller::Operator, "message.outbox", json!({})).await.unwrap();
    assert_eq!(state, json!({ "issuers": [] }));
    drop(there);
}

#[tokio::test]
async fn sent_again_while_it_waits_it_is_stored_once_and_not_longer() {
    let (here, there, alice, dave) = unreachable_peer().await;
    let first = send(&here, &alice, &dave.aid, "m1").await;
    here.world.clock.advance_ms(5000);
    let again = send(&here, &alice, &dave.aid, "m1").await;
    assert_eq!((&again["status"], &again["expires_at"]), (&json!("queued"), &first["expires_at"]));
    assert_eq!(state(&here).await["waiting"], 1);
    drop(there);
}

#[tokio::test]
async fn an_answer_that_was_lost_does_not_double_the_message() {
    let (here, there, alice, dave) = unreachable_peer().await;
    send(&here, &alice, &dave.aid, "m1").await;
    send(&here, &alice, &dave.aid, "m2").await;
    reconnect(&here, &there);
    *here.gateway.loses_answers.lock() = true;
    let service = worker(&here).await;
    service.deliver_to("aid.net").await;
    assert_eq!(there.rows((&dave, "d")).await.len(), 2);
    let failed = state(&here).await;
    assert_eq!((&failed["waiting"], &failed["attempts"]), (&json!(2), &json!(1)));
    assert!((500..=1000).contains(&failed["retry_in_ms"].as_i64().unwrap()), "{failed}");
    assert_eq!(failed["last_error"], codes::FEDERATION_TIMEOUT.message);

    *here.gateway.loses_answers.lock() = false;
    service.deliver_to("aid.net").await;
    assert_eq!(texts(&there.rows((&dave, "d")).await), ["m1", "m2"]);
    assert_eq!(state(&here).await["waiting"], 0);
}

#[tokio::test]
async fn what_the_peer_refuses_for_good_is_removed_and_the_rest_arrives() {
    let (here, there, alice, dave) = unreachable_peer().await;
    send(&here, &alice, "nobody.aid.net", "m1").await;
    send(&here, &alice, &dave.aid, "m2").await;
    reconnect(&here, &there);
    worker(&here).await.deliver_to("aid.net").await;
    assert_eq!(texts(&there.rows((&dave, "d")).await), ["m2"]);
    let state = state(&here).await;
    assert_eq!(
        (&state["waiting"], &state["refused"], &state["delivered"]),
        (&json!(0), &json!(1), &json!(1))
    );
}

#[tokio::test]
async fn what_waits_longer_than_the_retention_expires() {
    let (here, there, alice, dave) = unreachable_peer().await;
    send(&here, &alice, &dave.aid, "m1").await;
    let params = json!({ "to": dave.aid, "message_id": "m2", "payload": {}, "ttl": 700 });
    let volatile = here.call((&alice, "a"), "message.send", params).await.unwrap();
    assert_eq!(volatile["expires_at"].as_i64().unwrap() - volatile["timestamp"].as_i64().unwrap(), 600_000);
    here.world.clock.advance_ms(599_500);
    send(&here, &alice, &dave.aid, "m3").await;
    here.world.clock.advance_ms(500);
    reconnect(&here, &there);
    worker(&here).await.deliver_to("aid.net").await;
    assert_eq!(texts(&there.rows((&dave, "d")).await), ["m3"]);
    assert_eq!(state(&here).await["expired"], 2);
}

#[tokio::test]
async fn the_rest_of_a_ttl_is_sent() {
    let (here, there, alice, dave) = unreachable_peer().await;
    for (id, ttl) in [("m1", 60), ("m2", 30)] {
        let params = json!({ "to": dave.aid, "message_id": id, "payload": {}, "ttl": ttl });
        here.call((&alice, "a"), "message.send", params).await.unwrap();
    }
    here.world.clock.advance_ms(29_750);
    reconnect(&here, &there);
    worker(&here).await.deliver_to("aid.net").await;
    let ttls: Vec<Value> = here
        .gateway
        .forwards
        .lock()
        .iter()
        .skip(1)
        .map(|forward| serde_json::from_str::<Value>(forward.params.get()).unwrap()["ttl"].clone())
        .collect();
    assert_eq!(ttls, [json!(30.25), json!(0.25)]);
    assert!(there.rows((&dave, "d")).await.iter().all(|row| row["storage"] == "volatile"));
}

#[tokio::test]
async fn many_are_sent_in_pages_and_keep_their_order() {
    let (here, there, alice, dave) = unreachable_peer().await;
    let names: Vec<String> = (0..450).map(|n| format!("m{n}")).collect();
    for name in &names {
        send(&here, &alice, &dave.aid, name).await;
    }
    reconnect(&here, &there);
    worker(&here).await.deliver_to("aid.net").await;
    assert_eq!(*here.gateway.batches.lock(), [200, 200, 50]);
    let mut found = Vec::new();
    for after in [0, 200, 400] {
        let page = json!({ "after_seq": after, "limit": 200 });
        let page = there.call((&dave, "d"), "message.pull", page).await.unwrap();
        found.extend(texts(page["messages"].as_array().unwrap()).into_iter().map(str::to_owned));
    }
    assert_eq!(found, names);
}

#[tokio::test]
async fn a_page_holds_few_messages_where_they_are_large() {
    let (here, there, alice, dave) = unreachable_peer().await;
    let text = "x".repeat(900_000);
    for n in 0..7 {
        let params = json!({ "to": dave.aid, "message_id": format!("m{n}"), "payload": { "text": text } });
        here.call((&alice, "a"), "message.send", params).await.unwrap();
    }
    reconnect(&here, &there);
    worker(&here).await.deliver_to("aid.net").await;
    assert_eq!(*here.gateway.batches.lock(), [3, 3, 1], "each is one frame of the mesh");
}

#[tokio::test]
async fn another_process_delivers_what_one_that_was_killed_was_sending() {
    let (here, there, alice, dave) = unreachable_peer().await;
    let two = worker(&here).await;
    for id in ["m1", "m2"] {
        send(&here, &alice, &dave.aid, id).await;
    }
    reconnect(&here, &there);
    killed_while_delivering(&here).await;
    two.deliver_to("aid.net").await;
    assert!(there.rows((&dave, "d")).await.is_empty(), "the other one has the lease");
    here.world.clock.advance_ms(30_000);
    two.deliver_to("aid.net").await;
    assert_eq!(texts(&there.rows((&dave, "d")).await), ["m1", "m2"]);
}

#[tokio::test]
async fn a_domain_that_can_be_reached_again_is_tried_at_once() {
    let (here, there, alice, dave) = unreachable_peer().await;
    send(&here, &alice, &dave.aid, "m1").await;
    let service = worker(&here).await;
    let test = async {
        while state(&here).await["attempts"] != 1 {
            tokio::task::yield_now().await;
        }
        reconnect(&here, &there);
        // The clock stands still: without this event there would be no further try.
        here.world.bus.signal(&PeerUp { issuer: "aid.net".to_owned() });
        while there.rows((&dave, "d")).await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = test => {}
        () = service.outbox.rows.run(&*service) => unreachable!("it runs until the server stops"),
    }
}

/// A gateway of this server that does not answer right now.
struct DownGateway;

impl RemoteService for DownGateway {
    fn call(&self, _: Caller, _: &str, _: Option<&RawValue>, _: Duration) -> PendingAnswer {
        Box::pin(ready(Err(unavailable("gateway"))))
    }

    fn send(&self, _: &CallingAgent, _: &str, _: Option<&RawValue>, term: CallTerm, then: OnAnswer) {
        then(Err(unavailable("gateway")), term.began);
    }

    fn is_up(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn while_the_gateway_is_down_a_message_is_queued_and_without_one_it_is_refused() {
    let (here, there, alice, dave) = unreachable_peer().await;
    let gateway = here.gateway.methods();
    here.world.mesh.remove("gateway");
    let message = json!({ "to": dave.aid, "message_id": "m1", "payload": { "text": "m1" } });
    let refused = here.call((&alice, "a"), "message.send", message).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.data("retryable")),
        (FEDERATION_UNREACHABLE.code, Some(&json!(false)))
    );
    here.world.mesh.add_remote("gateway", Arc::new(DownGateway));
    assert_eq!(send(&here, &alice, &dave.aid, "m1").await["status"], "queued");
    let service = worker(&here).await;
    service.deliver_to("aid.net").await;
    assert_eq!(state(&here).await["waiting"], 1);
    here.world.mesh.add_local("gateway", gateway);
    reconnect(&here, &there);
    service.deliver_to("aid.net").await;
    assert_eq!(there.rows((&dave, "d")).await.len(), 1);
}

#[tokio::test]
async fn the_senders_other_devices_have_a_copy_of_what_waits_once() {
    let (here, there, alice, dave) = unreachable_peer().await;
    here.join(&alice, "tablet").await;
    for _ in 0..2 {
        let sent = here.call((&alice, "a"), "message.send", send::split(&dave.aid, "m1")).await.unwrap();
        assert_eq!(sent["status"], "queued");
    }
    assert_eq!(here.rows((&alice, "tablet")).await.len(), 1);
    reconnect(&here, &there);
    worker(&here).await.deliver_to("aid.net").await;
    assert_eq!(there.rows((&dave, "d")).await.len(), 1);
    assert_eq!(here.rows((&alice, "tablet")).await.len(), 1);
}

#[tokio::test]
async fn what_is_begun_in_order_crosses_in_order_and_waits_in_order() {
    let (here, there, alice, dave) = unreachable_peer().await;
    let names: Vec<String> = (0..50).map(|n| format!("m{n}")).collect();
    let begin = |name: &String| {
        let params = json!({ "to": dave.aid, "message_id": name, "payload": { "text": name } });
        here.call_as(caller((&alice, "a")), "message.send", params)
    };
    for sent in join_all(names[..25].iter().map(begin)).await {
        assert_eq!(sent.unwrap()["status"], "queued");
    }
    reconnect(&here, &there);
    worker(&here).await.deliver_to("aid.net").await;
    for sent in join_all(names[25..].iter().map(begin)).await {
        assert_eq!(sent.unwrap()["status"], "sent");
    }
    assert_eq!(texts(&there.rows((&dave, "d")).await), names);
}

/// The migrations of the engine that the tests run with, and the one that made the outbox like that of other services.
fn migrations(engine: Engine) -> (Migrator, i64) {
    match engine {
        Engine::Sqlite => (sqlx::migrate!("./migrations/sqlite"), 8),
        Engine::Postgres => (sqlx::migrate!("./migrations/postgres"), 13),
    }
}

/// Messages of Alice to Dave as they waited in the tables of the build before: each with its place, whether it was tried, and the
/// end of its ttl.
async fn fill_old_tables(world: &World, waiting: &[(&str, i64, Option<i64>, Option<i64>)]) {
    let (migrations, version) = migrations(world.store.engine());
    let db = testing::db_before(world, "message", &migrations, version).await;
    let now = world.clock.now_ms();
    for (id, nth, tried, ttl_until) in waiting {
        let key = MessageKey::new(&Aid::parse("alice.aid.com").unwrap(), id).text();
        let params = json!({ "to": "dave.aid.net", "message_id": id, "payload": { "text": id } });
        let data =
            json!({ "caller_aid": "alice.aid.com", "device_id": "a", "slot_id": "", "params": params });
        sqlx::query(
            "INSERT INTO outbox (key, issuer, nth, at, expires_at, ttl_until, bytes, data, tried)
             VALUES ($1, 'aid.net', $2, $3, $4, $5, 300, $6, $7)",
        )
        .bind(key)
        .bind(*nth)
        .bind(now)
        .bind(now + 600_000)
        .bind(*ttl_until)
        .bind(data.to_string())
        .bind(*tried)
        .execute(db.write_alone())
        .await
        .unwrap();
    }
    sqlx::query(
        "INSERT INTO outbox_peer (issuer, waiting, bytes, fence, leased_until, attempts, next_try, last_error, delivered)
         VALUES ('aid.net', $1, $2, 7, $3, 3, $4, 'away', 11)",
    )
    .bind(waiting.len() as i64)
    .bind(waiting.len() as i64 * 300)
    .bind(now - 1)
    .bind(now + 4000)
    .execute(db.write_alone())
    .await
    .unwrap();
    db.close().await;
}

#[tokio::test]
async fn what_waited_before_the_tables_changed_is_delivered_in_order() {
    let now = 1_794_701_761_000;
    let waiting =
        [("m2", 20, None, None), ("m1", 10, Some(now - 5), None), ("m3", 30, None, Some(now + 60_000))];
    let here =
        Domain::open_after("aid.com", Some(KEEP), async |world| fill_old_tables(world, &waiting).await).await;
    let there = Domain::open("aid.net").await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    let before = state(&here).await;
    assert_eq!((&before["waiting"], &before["bytes"]), (&json!(3), &json!(900)));
    assert_eq!((&before["attempts"], &before["retry_in_ms"]), (&json!(3), &json!(4000)));
    assert_eq!((&before["last_error"], &before["delivered"]), (&json!("away"), &json!(11)));
    assert_eq!(send(&here, &alice, &dave.aid, "m4").await["status"], "queued", "it waits after the others");

    reconnect(&here, &there);
    worker(&here).await.deliver_to("aid.net").await;
    let forwards = here.gateway.forwards.lock().clone();
    let sent = forwards.iter().map(|forward| serde_json::from_str::<Value>(forward.params.get()).unwrap());
    let sent: Vec<(Value, Value)> =
        sent.map(|params| (params["message_id"].clone(), params["ttl"].clone())).collect();
    let expected = [("m1", Value::Null), ("m2", Value::Null), ("m3", json!(60)), ("m4", Value::Null)];
    assert_eq!(sent, expected.map(|(id, ttl)| (json!(id), ttl)));
    assert_eq!(there.rows((&dave, "d")).await.len(), 4);
    let after = state(&here).await;
    assert_eq!((&after["waiting"], &after["bytes"], &after["delivered"]), (&json!(0), &json!(0), &json!(15)));
}

#[tokio::test]
async fn what_may_have_arrived_before_the_tables_changed_is_not_recalled_without_asking_the_peer() {
    let now = 1_794_701_761_000;
    let waiting = [("m1", 10, Some(now - 5), None), ("m2", 20, None, None)];
    let here =
        Domain::open_after("aid.com", Some(KEEP), async |world| fill_old_tables(world, &waiting).await).await;
    let alice = here.agent("alice", "a").await;
    let recall =
        async |id: &str| here.call((&alice, "a"), "message.recall", json!({ "message_ids": [id] })).await;
    assert_eq!(code(recall("m1").await), FEDERATION_UNREACHABLE.code);
    assert_eq!(recall("m2").await.unwrap()["recalled"], 1);
    assert_eq!(state(&here).await["waiting"], 1);
}

/// It is full for now: the sender's message is not given up.
#[tokio::test]
async fn what_a_domain_has_no_free_space_for_waits_until_it_has() {
    let (here, there, alice, dave) = unreachable_peer().await;
    send(&here, &alice, &dave.aid, "m1").await;
    reconnect(&here, &there);
    there.world.disk.set(DiskReading::of_disk(0, 1));
    let service = worker(&here).await;
    service.deliver_to("aid.net").await;
    assert_eq!(state(&here).await["waiting"], 1, "refused for now, and not given up");
    assert!(there.rows((&dave, "d")).await.is_empty());
    there.world.disk.set(DiskReading::of_disk(1, 0));
    service.deliver_to("aid.net").await;
    assert_eq!(texts(&there.rows((&dave, "d")).await), ["m1"]);
}
