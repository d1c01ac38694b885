//! `message.v2.pull` and `message.v2.ack` over the whole inbox, and the window on its newest end.

use serde_json::{Value, json};

use crate::message::{
    BUSY, ask, flood, next, numbered, pull, refusal, rows, say, send, seqs, two, v2_pull, words,
};
use crate::support::TestServer;
use crate::support::agent::ConnectedAgent;
use crate::support::envelope::{put_key, sealed};

async fn tail(agent: &ConnectedAgent, after: i64, limit: i64) -> Value {
    let params = json!({ "after_seq": after, "limit": limit, "window_mode": "tail" });
    ask(agent, "message.v2.pull", params).await
}

#[tokio::test]
async fn a_plain_message_is_shown_as_one_of_the_first_generation() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let sent = say(&alice, &bob, "hello").await;
    let page = v2_pull(&bob).await;
    assert_eq!(
        (&page["count"], &page["has_more"], &page["latest_seq"]),
        (&json!(1), &json!(false), &json!(1))
    );
    let row = &rows(&page)[0];
    assert_eq!((&row["version"], &row["type"]), (&json!("v1"), &json!("message")));
    assert_eq!((&row["message_id"], &row["t_server"]), (&sent["message_id"], &sent["timestamp"]));
    assert_eq!((&row["from_aid"], &row["device_id"]), (&json!(alice.aid()), &json!("laptop")));
    assert_eq!(row["legacy_v1"]["to"], bob.aid());
    assert_eq!(row["legacy_v1"]["payload"], json!({ "type": "text", "text": "hello" }));
    for other in ["cursor", "contiguous_seq", "envelope_json"] {
        assert!(
            page.get(other).is_none() && row.get(other).is_none(),
            "{other} would be read as something else"
        );
    }
}

#[tokio::test]
async fn a_page_holds_fifty_at_most() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    flood(&alice, &numbered(bob.aid(), 120)).await;
    let (mut after, mut read) = (0, Vec::new());
    for (expected, more) in [(50, true), (50, true), (20, false)] {
        let page = ask(&bob, "message.v2.pull", json!({ "after_seq": after, "limit": 200 })).await;
        assert_eq!((&page["count"], &page["has_more"]), (&json!(expected), &json!(more)));
        read.extend(seqs(&page));
        after = page["latest_seq"].as_i64().unwrap();
    }
    assert_eq!(read, (1..=120).collect::<Vec<_>>());
    ask(&bob, "message.v2.ack", json!({ "up_to_seq": 120 })).await;
    let again = ask(&bob, "message.v2.pull", json!({ "after_seq": 0, "limit": 5 })).await;
    assert_eq!(seqs(&again), [1, 2, 3, 4, 5], "below the cursor too, without force");
}

#[tokio::test]
async fn acknowledging_and_reading_can_be_one_call() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    for n in 1..=3 {
        say(&alice, &bob, &n.to_string()).await;
    }
    let page = ask(&bob, "message.v2.pull", json!({ "after_seq": 2, "limit": 50, "ack_up_to_seq": 2 })).await;
    assert_eq!(
        (words(&page), &page["server_ack_seq"]),
        (vec!["3".to_owned()], &json!(2)),
        "applied before reading"
    );
    assert_eq!(next(&alice, "event/message.ack").await["ack_seq"], 2);
    let page = ask(&bob, "message.v2.pull", json!({ "after_seq": 3, "ack_up_to_seq": 3 })).await;
    assert_eq!((&page["count"], &page["server_ack_seq"]), (&json!(0), &json!(3)));
    assert_eq!(pull(&bob).await["server_ack_seq"], 3);
    let page =
        ask(&bob, "message.v2.pull", json!({ "after_seq": 0, "ack_up_to_seq": 1, "force": true })).await;
    assert_eq!((&page["count"], &page["server_ack_seq"]), (&json!(3), &json!(3)), "and never back");
}

#[tokio::test]
async fn an_acknowledgement_says_where_the_cursor_is() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    for n in 0..3 {
        say(&alice, &bob, &n.to_string()).await;
    }
    let acked = ask(&bob, "message.v2.ack", json!({ "up_to_seq": 2 })).await;
    assert_eq!(
        (&acked["success"], &acked["ack_seq"], &acked["effective_ack_seq"]),
        (&json!(true), &json!(2), &json!(2))
    );
    let lower = ask(&bob, "message.v2.ack", json!({ "up_to_seq": 1 })).await;
    assert_eq!(lower["effective_ack_seq"], 2);
    assert_eq!(ask(&bob, "message.v2.ack", json!({ "up_to_seq": 99 })).await["effective_ack_seq"], 3);
}

#[tokio::test]
async fn the_newest_window_is_dense_and_ends_at_the_head() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    flood(&alice, &numbered(bob.aid(), 130)).await;
    let page = tail(&bob, 0, 50).await;
    assert_eq!((seqs(&page), &page["window_mode"]), ((81..=130).collect(), &json!("tail")));
    for (member, value) in [("window_start_seq", 81), ("head_seq", 130), ("covered_through_seq", 130)] {
        assert_eq!(page[member], value, "{member}");
    }
    let page = tail(&bob, 127, 50).await;
    assert_eq!(
        (seqs(&page), &page["window_start_seq"]),
        (vec![128, 129, 130], &json!(128)),
        "not before what was asked"
    );
    for after in [130, 500] {
        let page = tail(&bob, after, 50).await;
        assert_eq!(
            (&page["count"], &page["window_start_seq"], &page["head_seq"]),
            (&json!(0), &json!(130), &json!(130))
        );
    }
    let empty = tail(&alice, 0, 50).await;
    assert_eq!(
        (&empty["count"], &empty["window_start_seq"], &empty["head_seq"]),
        (&json!(0), &json!(0), &json!(0))
    );
    assert_eq!(pull(&bob).await["server_ack_seq"], 0, "it only reads");
    for more in [json!({ "ack_up_to_seq": 1 }), json!({ "force": true })] {
        let mut params = json!({ "after_seq": 0, "window_mode": "tail" });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(refusal(&bob, "message.v2.pull", params).await["code"], -32602);
    }
    assert_eq!(refusal(&bob, "message.v2.pull", json!({ "window_mode": "head" })).await["code"], -32602);
}

#[tokio::test]
async fn plain_and_encrypted_messages_share_one_count() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    put_key(&bob).await;
    for n in 1..=4 {
        let params = match n % 2 {
            0 => sealed(&alice, bob.aid(), &format!("m-{n}")),
            _ => crate::message::message(bob.aid(), &n.to_string()),
        };
        assert_eq!(send(&alice, params).await["seq"], n);
    }
    let page = v2_pull(&bob).await;
    assert_eq!(seqs(&page), [1, 2, 3, 4]);
    assert_eq!(
        rows(&page).iter().map(|row| row["version"].clone()).collect::<Vec<_>>(),
        ["v1", "v2", "v1", "v2"]
    );
}
