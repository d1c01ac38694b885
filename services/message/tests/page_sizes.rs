//! Pages where rows are large: what shares one, and what is never shown.

use super::*;

/// 0.5.25 refuses a page with more rows than it asked for, and the oldest clients a frame above a MiB.
#[tokio::test]
async fn messages_with_a_ttl_take_the_space_that_stored_ones_leave() {
    let (test, alice, carol) = two().await;
    let from = AgentDevice { agent: &alice, device: "a" };
    let params = |id: &str, bytes: usize, ttl: i64| json!({ "to": carol.aid, "message_id": id, "payload": { "text": "x".repeat(bytes) }, "ttl": ttl });
    for (id, bytes, ttl) in [("s1", 300_000, 0), ("v1", 400_000, 60), ("v2", 700_000, 60), ("v3", 10, 60)] {
        from.call(&test, "message.send", params(id, bytes, ttl)).await.unwrap();
    }
    let to = AgentDevice { agent: &carol, device: "c" };
    let (mut after, mut cursor, mut pages) = (0, Value::Null, Vec::new());
    for _ in 0..4 {
        let asked = json!({ "after_seq": after, "limit": 50, "after_volatile_cursor": cursor });
        let page = to.call(&test, "message.v2.pull", asked).await.unwrap();
        let ids = page["messages"].as_array().unwrap().iter().map(|row| row["message_id"].clone());
        pages.push((ids.collect::<Value>(), page["has_more"].clone(), page["volatile_has_more"].clone()));
        after = page["latest_seq"].as_i64().unwrap();
        cursor = page["latest_volatile_cursor"].clone();
    }
    let page = |ids: Value, more: bool, volatile: bool| (ids, json!(more), json!(volatile));
    let expected = [
        page(json!(["s1"]), true, true),
        page(json!(["v1"]), false, true),
        page(json!(["v2"]), false, true),
        page(json!(["v3"]), false, false),
    ];
    assert_eq!(pages, expected);
}

/// Such a message was stored by an earlier build. Nobody could read a frame with it, so it must not stop those behind it.
#[tokio::test]
async fn a_row_that_no_client_can_read_is_left_out_and_the_others_are_read() {
    let (test, alice, carol) = two().await;
    let (from, to) = (AgentDevice { agent: &alice, device: "a" }, AgentDevice { agent: &carol, device: "c" });
    for text in ["one", "two", "three"] {
        from.send(&test, &carol, text).await.unwrap();
    }
    let test = test.restart().await;
    let longer = format!("\"text\":\"{}\"", "x".repeat(2 << 20));
    sqlx::query("UPDATE letter SET data = replace(data, '\"text\":\"two\"', $1)")
        .bind(longer)
        .execute(open_again(&test).await.store.db().write_alone())
        .await
        .unwrap();
    let peer = json!({ "cursor_scope": "peer", "sender_aid": alice.aid });
    for scope in [json!({}), peer] {
        for limit in [1, 2] {
            let (mut after, mut read) = (0, Vec::new());
            while read.len() < 2 {
                let mut params = json!({ "after_seq": after, "limit": limit });
                params.as_object_mut().unwrap().extend(scope.as_object().unwrap().clone());
                let page = to.call(&test, "message.v2.pull", params).await.unwrap();
                read.extend(seqs(page["messages"].as_array().unwrap()));
                after = page["latest_seq"].as_i64().unwrap();
                assert_eq!(page["has_more"], read.len() < 2, "{page}");
            }
            assert_eq!((read, after), (vec![1, 3], 3));
        }
        let mut params = json!({ "before_seq": 9, "limit": 2 });
        params.as_object_mut().unwrap().extend(scope.as_object().unwrap().clone());
        let page = to.call(&test, "message.history", params).await.unwrap();
        assert_eq!(seqs(page["messages"].as_array().unwrap()), [1, 3]);
    }
    assert_eq!(seqs(&to.everything(&test).await), [1, 3]);
}
