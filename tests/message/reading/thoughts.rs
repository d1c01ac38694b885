//! `message.thought.put` and `message.thought.get`: thoughts are kept in memory beside the inbox.

use serde_json::{Value, json};

use crate::message::{ask, events_until_now, pull, refusal, two};
use crate::support::TestServer;

#[tokio::test]
async fn thoughts_are_read_in_their_order_as_often_as_wanted() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let context = json!({ "type": "run", "id": "r-1" });
    for n in 0..9 {
        let payload = json!({ "type": "e2ee.p2p_encrypted", "recipients": [["kept"]], "n": n });
        let params = json!({ "to": bob.aid(), "context": context, "payload": payload, "encrypted": true, "thought_id": format!("mt-{n}") });
        let put = ask(&alice, "message.thought.put", params).await;
        assert_eq!((&put["stored_count"], &put["thought_id"]), (&json!(n + 1), &json!(format!("mt-{n}"))));
    }
    for _ in 0..2 {
        let got =
            ask(&bob, "message.thought.get", json!({ "sender_aid": alice.aid(), "context": context })).await;
        assert_eq!(got["found"], true);
        let thoughts = got["thoughts"].as_array().unwrap();
        let numbers: Vec<&Value> = thoughts.iter().map(|thought| &thought["payload"]["n"]).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(thoughts[0]["payload"]["recipients"], json!([["kept"]]), "the whole envelope");
        assert_eq!((&thoughts[0]["from"], &thoughts[0]["to"]), (&json!(alice.aid()), &json!(bob.aid())));
    }
    assert_eq!(events_until_now(&alice, &bob).await, Vec::<Value>::new(), "nobody is told");
    assert_eq!(pull(&bob).await["count"], 1, "and nothing is in the inbox but the mark");
    let other = json!({ "sender_aid": alice.aid(), "context": { "type": "run", "id": "r-2" } });
    let none = ask(&bob, "message.thought.get", other).await;
    assert_eq!((&none["found"], &none["thoughts"]), (&json!(false), &json!([])));
    let carol = server.agent("carol").await;
    let peek = json!({ "sender_aid": alice.aid(), "peer_aid": bob.aid(), "context": context });
    assert_eq!(refusal(&carol, "message.thought.get", peek.clone()).await["code"], -32004);
    assert_eq!(ask(&alice, "message.thought.get", peek).await["thoughts"].as_array().unwrap().len(), 9);
}
