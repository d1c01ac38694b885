//! Peer links that break before the answer comes: what was sent may have arrived or not, and nothing is lost, doubled or
//! recalled without asking the peer.

use super::outbox::{killed_while_delivering, reconnect, send, state, unreachable_peer, worker};
use super::*;
use kernel::codes::FEDERATION_UNREACHABLE;

#[tokio::test]
async fn a_message_whose_link_broke_is_queued_and_arrives_once() {
    let (here, there, alice, dave) = unreachable_peer().await;
    reconnect(&here, &there);
    for (id, arrives) in [("m1", true), ("m2", false)] {
        *here.gateway.breaks.lock() = Some(arrives);
        assert_eq!(send(&here, &alice, &dave.aid, id).await["status"], "queued", "{id}");
        *here.gateway.breaks.lock() = None;
        worker(&here).await.deliver_to("aid.net").await;
    }
    assert_eq!(texts(&there.rows((&dave, "d")).await), ["m1", "m2"]);
    assert_eq!(state(&here).await["waiting"], 0);
}

#[tokio::test]
async fn what_may_have_arrived_is_not_recalled_without_asking_the_peer() {
    for arrives in [true, false] {
        let (here, there, alice, dave) = unreachable_peer().await;
        reconnect(&here, &there);
        *here.gateway.breaks.lock() = Some(arrives);
        send(&here, &alice, &dave.aid, "m1").await;
        *here.gateway.breaks.lock() = None;
        *here.gateway.peer.lock() = None;
        let ids = json!({ "message_ids": ["m1"] });
        // A try that does not reach the peer says nothing about the one before.
        worker(&here).await.deliver_to("aid.net").await;
        let failed = here.call((&alice, "a"), "message.recall", ids.clone()).await;
        assert_eq!(code(failed), FEDERATION_UNREACHABLE.code);
        assert_eq!(state(&here).await["waiting"], 1);

        reconnect(&here, &there);
        let recalled = here.call((&alice, "a"), "message.recall", ids).await.unwrap();
        assert_eq!((&recalled["recalled"], &recalled["errors"]), (&json!(1), &Value::Null), "{recalled}");
        worker(&here).await.deliver_to("aid.net").await;
        assert_eq!(state(&here).await["waiting"], 0);
        let rows = there.rows((&dave, "d")).await;
        assert!(rows.iter().all(|row| row["payload"]["type"] == "message.recalled"), "{rows:?}");
        assert_eq!(rows.is_empty(), !arrives);
    }
}

#[tokio::test]
async fn what_was_being_sent_when_the_process_died_is_not_recalled_without_asking_the_peer() {
    let (here, there, alice, dave) = unreachable_peer().await;
    send(&here, &alice, &dave.aid, "m1").await;
    killed_while_delivering(&here).await;
    here.world.clock.advance_ms(30_000);
    // The next try does not reach the peer, which says nothing about the first one.
    worker(&here).await.deliver_to("aid.net").await;
    let ids = json!({ "message_ids": ["m1"] });
    let failed = here.call((&alice, "a"), "message.recall", ids.clone()).await;
    assert_eq!(code(failed), FEDERATION_UNREACHABLE.code);
    reconnect(&here, &there);
    let recalled = here.call((&alice, "a"), "message.recall", ids).await.unwrap();
    assert_eq!(recalled["recalled"], 1, "{recalled}");
    assert_eq!(state(&here).await["waiting"], 0);
}
