//! The service with other settings: how long messages are stored, can be recalled, and wait in a queue.

use super::*;

async fn open_with(test: &TestWorld, settings: Settings) -> Arc<MessageService> {
    MessageService::open(&test.world, &settings).await.unwrap()
}

/// Why a message is not recalled, or null.
async fn refused(service: &Arc<MessageService>, from: &AgentDevice<'_>, id: &str) -> Value {
    let params = serde_json::from_value(json!({ "message_ids": [id] })).unwrap();
    let recalled = service.clone().recall(from.caller(), params).await.unwrap();
    serde_json::to_value(recalled).unwrap()["errors"][0]["error"].clone()
}

#[tokio::test]
async fn a_message_can_be_recalled_as_long_as_the_setting_says() {
    let (test, alice, carol) = two().await;
    let from = AgentDevice { agent: &alice, device: "a" };
    from.send(&test, &carol, "one").await.unwrap();
    let test = test.restart().await;
    for (recall_seconds, advance_ms, expected) in
        [(0, 0, json!("expired")), (120, 120_001, json!("expired")), (600, 0, Value::Null)]
    {
        test.world.clock.advance_ms(advance_ms);
        let service = open_with(&test, Settings { recall_seconds, ..Settings::default() }).await;
        assert_eq!(refused(&service, &from, "one").await, expected, "{recall_seconds} seconds");
    }
}

#[tokio::test]
async fn a_message_is_stored_as_long_as_the_setting_says() {
    let (test, alice, carol) = two().await;
    let (from, to) = (AgentDevice { agent: &alice, device: "a" }, AgentDevice { agent: &carol, device: "c" });
    from.send(&test, &carol, "one").await.unwrap();
    test.world.clock.advance_ms(3_600_001);
    let mut test = test.restart().await;
    for (retention_seconds, left) in [(7200, 1), (3600, 0)] {
        let service = open_with(&test, Settings { retention_seconds, ..Settings::default() }).await;
        service.remove_old().await;
        test = test.restart().await;
        assert_eq!(to.everything(&test).await.len(), left, "{retention_seconds} seconds");
    }
}

#[tokio::test]
async fn a_queue_holds_as_much_and_as_long_as_the_settings_say() {
    let (test, alice, carol) = two().await;
    let (from, to) = (AgentDevice { agent: &alice, device: "a" }, AgentDevice { agent: &carol, device: "c" });
    let settings = Settings { queue_messages: 2, queue_seconds: 60, ..Settings::default() };
    let service = open_with(&test, settings).await;
    for text in ["one", "two", "three"] {
        let params = json!({ "to": carol.aid, "payload": { "text": text }, "delivery_mode": "queue" });
        service.clone().send(from.caller(), serde_json::from_value(params).unwrap()).await.unwrap();
    }
    for (advance_ms, expected) in [(59_999, vec!["two", "three"]), (1, vec![])] {
        test.world.clock.advance_ms(advance_ms);
        let params = serde_json::from_value(json!({})).unwrap();
        let page = service.clone().pull(to.caller(), params).await.unwrap().result;
        let page = serde_json::to_value(page).unwrap();
        assert_eq!(texts(page["messages"].as_array().unwrap()), expected);
    }
}
