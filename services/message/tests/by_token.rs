//! What an agent may do over HTTP, by its token and without a connection.

use serde_json::json;
use testing::{TestWorld, code};

#[tokio::test]
async fn a_message_is_sent_recalled_and_marked_read_without_a_connection() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
    let (alice, bob) = (test.register("alice").await, test.register("bobby").await);
    test.call_as(bob.caller(), "message.pull", json!({})).await.unwrap();
    let message = json!({ "to": bob.aid, "payload": { "text": "over HTTP" } });
    let sent = test.call_as(alice.by_token(), "message.send", message).await.unwrap();
    let pulled = test.call_as(bob.caller(), "message.pull", json!({})).await.unwrap();
    assert_eq!(pulled["messages"][0]["message_id"], sent["message_id"]);
    let online = test.call_as(alice.by_token(), "message.query_online", json!({ "aids": [bob.aid] })).await;
    assert_eq!(online.unwrap()["online"][&bob.aid], false);
    let recall = json!({ "message_ids": [sent["message_id"]] });
    let recalled = test.call_as(alice.by_token(), "message.recall", recall).await.unwrap();
    assert_eq!(recalled["recalled"], 1, "{recalled}");
}

#[tokio::test]
async fn what_belongs_to_a_device_needs_a_connection() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
    let alice = test.register("alice").await;
    for method in ["message.pull", "message.v2.pull", "message.peers", "message.read_state"] {
        assert_eq!(code(test.call_as(alice.by_token(), method, json!({})).await), -32600, "{method}");
    }
    let refused = alice.by_token().connected_agent().unwrap_err();
    assert!(refused.to_string().contains("WebSocket"), "{refused}");
}
