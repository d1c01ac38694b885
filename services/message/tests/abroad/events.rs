//! Bells that are heard in another domain.

use super::*;

/// Waits until the gateway was asked for so many bells.
async fn notices(gateway: &Gateway, count: usize) -> Vec<Notice> {
    while gateway.notices.lock().len() < count {
        tokio::task::yield_now().await;
    }
    gateway.notices.lock().clone()
}

#[tokio::test]
async fn an_acknowledgement_is_heard_where_the_sender_lives() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    for _ in 0..2 {
        let params = json!({ "to": dave.aid, "payload": {} });
        here.call((&alice, "a"), "message.send", params).await.unwrap();
    }
    there.call((&dave, "d"), "message.ack", json!({ "seq": 2 })).await.unwrap();
    let notices = notices(&there.gateway, 1).await;
    assert_eq!(notices.len(), 1, "once for all that it passed");
    assert_eq!(notices[0].event, "message.ack");
    assert_eq!(notices[0].targets.aids, [Aid::parse(&alice.aid).unwrap()]);
    let told: Value = serde_json::from_str(notices[0].payload.get()).unwrap();
    assert_eq!((&told["to"], &told["ack_seq"]), (&json!(dave.aid), &json!(2)));
    assert!(there.told(delivery::events::ACK).is_empty(), "nobody of here sent anything");
    there.call((&dave, "d"), "message.ack", json!({ "seq": 2 })).await.unwrap();
    assert_eq!(there.gateway.notices.lock().len(), 1, "the cursor did not move");
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
