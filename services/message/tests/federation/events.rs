//! Events for agents of another domain.

use super::*;

/// Waits until the gateway was asked to dispatch so many events.
async fn dispatched(gateway: &TestGateway, count: usize) -> Vec<DispatchEvent> {
    while gateway.dispatched.lock().len() < count {
        tokio::task::yield_now().await;
    }
    gateway.dispatched.lock().clone()
}

#[tokio::test]
async fn an_acknowledgement_is_an_event_in_the_senders_domain() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    for _ in 0..2 {
        let params = json!({ "to": dave.aid, "payload": {} });
        here.call((&alice, "a"), "message.send", params).await.unwrap();
    }
    there.call((&dave, "d"), "message.ack", json!({ "seq": 2 })).await.unwrap();
    let events = dispatched(&there.gateway, 1).await;
    assert_eq!(events.len(), 1, "once for all messages up to that seq");
    assert_eq!(events[0].event, "message.ack");
    assert_eq!(events[0].targets.aids, [Aid::parse(&alice.aid).unwrap()]);
    let payload: Value = serde_json::from_str(events[0].payload.get()).unwrap();
    assert_eq!((&payload["to"], &payload["ack_seq"]), (&json!(dave.aid), &json!(2)));
    assert!(there.published(delivery::events::ACK).is_empty(), "no agent of this domain sent anything");
    there.call((&dave, "d"), "message.ack", json!({ "seq": 2 })).await.unwrap();
    assert_eq!(there.gateway.dispatched.lock().len(), 1, "the cursor did not move");
}

#[tokio::test]
async fn without_a_gateway_an_acknowledgement_counts_all_the_same() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    here.call((&alice, "a"), "message.send", json!({ "to": dave.aid, "payload": {} })).await.unwrap();
    there.world.mesh.remove("gateway");
    let acked = there.call((&dave, "d"), "message.ack", json!({ "seq": 1 })).await.unwrap();
    assert_eq!(acked["ack_seq"], 1);
}
