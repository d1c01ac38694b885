//! A domain that cannot be reached: what was accepted for it waits and arrives, in order and once.

use super::*;
use futures_util::future::join_all;
use kernel::codes::FEDERATION_UNREACHABLE;
use proto_schemas::requests::federation::PeerUp;

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
async fn one_process_delivers_at_a_time_and_one_that_lost_its_lease_changes_nothing() {
    let (here, there, alice, dave) = unreachable_peer().await;
    send(&here, &alice, &dave.aid, "m1").await;
    reconnect(&here, &there);
    let (one, two) = (worker(&here).await, worker(&here).await);
    let lease = one.outbox.lease("aid.net", here.world.clock.now_ms()).await.unwrap().unwrap();
    two.deliver_to("aid.net").await;
    assert!(there.rows((&dave, "d")).await.is_empty(), "the other one has the lease");

    here.world.clock.advance_ms(30_000);
    two.deliver_to("aid.net").await;
    assert_eq!(there.rows((&dave, "d")).await.len(), 1);
    *here.gateway.peer.lock() = None;
    send(&here, &alice, &dave.aid, "m2").await;
    assert!(!one.outbox.mark_sending(&lease, i64::MAX, here.world.clock.now_ms()).await.unwrap());
    let late = here.world.clock.now_ms() + 601_000;
    assert!(!one.outbox.expire(&lease, late).await.unwrap(), "it may not remove anything any more");
    assert_eq!(state(&here).await["expired"], 0);
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
        () = service.deliver() => unreachable!("it runs until the server stops"),
    }
}

#[tokio::test]
async fn without_a_gateway_a_message_is_queued_too() {
    let (here, there, alice, dave) = unreachable_peer().await;
    let gateway = here.gateway.methods();
    here.world.mesh.remove("gateway");
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

#[tokio::test]
async fn a_process_that_stops_releases_its_leases() {
    let (here, there, alice, dave) = unreachable_peer().await;
    send(&here, &alice, &dave.aid, "m1").await;
    reconnect(&here, &there);
    let (one, two) = (worker(&here).await, worker(&here).await);
    one.outbox.lease("aid.net", here.world.clock.now_ms()).await.unwrap().unwrap();
    two.deliver_to("aid.net").await;
    assert!(there.rows((&dave, "d")).await.is_empty());
    one.stop_delivery().await;
    two.deliver_to("aid.net").await;
    assert_eq!(there.rows((&dave, "d")).await.len(), 1);
}
