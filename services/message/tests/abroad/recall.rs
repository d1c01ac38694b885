//! What went to other domains is taken back over there.

use super::*;

async fn send(here: &Domain, alice: &TestAgent, to: &TestAgent, id: &str) {
    let params = json!({ "to": to.aid, "message_id": id, "payload": { "text": id } });
    here.call((alice, "a"), "message.send", params).await.unwrap();
}

#[tokio::test]
async fn letters_here_and_there_are_taken_back_in_one_call() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    let carol = here.agent("carol", "c").await;
    send(&here, &alice, &dave, "there").await;
    send(&here, &alice, &carol, "here").await;
    let ids = json!({ "message_ids": ["there", "here", "never"] });
    let recalled = here.call((&alice, "a"), "message.recall", ids.clone()).await.unwrap();
    assert_eq!((&recalled["accepted"], &recalled["recalled"]), (&json!(3), &json!(2)));
    assert_eq!(recalled["errors"], json!([{ "message_id": "never", "error": "not_found" }]));
    for (domain, agent, device) in [(&there, &dave, "d"), (&here, &carol, "c")] {
        let rows = domain.rows((agent, device)).await;
        assert!(rows.iter().all(|row| row["payload"]["type"] == "message.recalled"), "{rows:?}");
        assert_eq!(rows.len(), 2);
    }
    let again = here.call((&alice, "a"), "message.recall", ids).await.unwrap();
    let reasons: Vec<&Value> =
        again["errors"].as_array().unwrap().iter().map(|refused| &refused["error"]).collect();
    assert_eq!(reasons, ["already_recalled", "not_found", "already_recalled"]);
}

#[tokio::test]
async fn where_it_went_is_written_down_for_the_other_processes_and_forgotten_later() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    let (one, two) = (Message::open(&here.world).await.unwrap(), Message::open(&here.world).await.unwrap());
    let params = json!({ "to": dave.aid, "message_id": "m-1", "payload": {} });
    let params = serde_json::from_value(params).unwrap();
    one.clone().send(caller((&alice, "a")), params).await.unwrap();
    let key = [letter::Key::new(&Aid::parse(&alice.aid).unwrap(), "m-1")];
    let now = here.world.clock.now_ms();
    assert_eq!(one.targets.find(&key, now).await.unwrap().len(), 1);
    one.targets.flush().await.unwrap();
    assert_eq!(two.targets.find(&key, now).await.unwrap()[&key[0]], "aid.net");
    assert_eq!(two.targets.find(&key, now + 12 * 60_000).await.unwrap().len(), 1);
    assert!(two.targets.find(&key, now + 12 * 60_000 + 1).await.unwrap().is_empty());
    two.targets.purge(now + 12 * 60_000 + 1).await.unwrap();
    assert!(one.targets.find(&key, now).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_senders_own_copies_go_too_and_the_time_for_it_is_theirs_to_decide() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    here.join(&alice, "tablet").await;
    here.call((&alice, "a"), "message.send", send::split(&dave.aid, "m-1")).await.unwrap();
    // The clock of the other domain is behind; by ours it is too late.
    here.world.clock.advance_ms(121_000);
    let ids = json!({ "message_ids": ["m-1"] });
    let recalled = here.call((&alice, "a"), "message.recall", ids).await.unwrap();
    assert_eq!(recalled["recalled"], 1, "{recalled}");
    for rows in [there.rows((&dave, "d")).await, here.rows((&alice, "tablet")).await] {
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row["payload"]["type"] == "message.recalled"), "{rows:?}");
    }
}

#[tokio::test]
async fn a_domain_that_cannot_be_asked_is_an_error_and_asking_again_settles_it() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    let carol = here.agent("carol", "c").await;
    send(&here, &alice, &dave, "there").await;
    send(&here, &alice, &carol, "here").await;
    *here.door.fails.lock() = Some(codes::FEDERATION_UNREACHABLE);
    let ids = json!({ "message_ids": ["there", "here"] });
    let failed = here.call((&alice, "a"), "message.recall", ids.clone()).await;
    assert_eq!(code(failed), codes::FEDERATION_UNREACHABLE.code);
    *here.door.fails.lock() = None;
    let recalled = here.call((&alice, "a"), "message.recall", ids).await.unwrap();
    assert_eq!(recalled["recalled"], 1);
    assert_eq!(recalled["errors"], json!([{ "message_id": "here", "error": "already_recalled" }]));
}

#[tokio::test]
async fn only_the_sender_takes_it_back_over_there_too() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    send(&here, &alice, &dave, "m-1").await;
    let ids = json!({ "message_ids": ["m-1"] });
    for other in ["mallory.aid.com", "alice.aid.org"] {
        let refused = there.call_as(foreign(other, "a"), "message.recall", ids.clone()).await.unwrap();
        assert_eq!(refused["recalled"], 0, "{other}");
    }
    assert_eq!(texts(&there.rows((&dave, "d")).await), ["m-1"]);
}

#[tokio::test]
async fn what_still_waits_is_simply_not_sent() {
    let here = Domain::open_with("aid.com", Some(Duration::from_secs(600))).await;
    let there = Domain::open("aid.net").await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    send(&here, &alice, &dave, "m-1").await;
    send(&here, &alice, &dave, "m-2").await;
    let ids = json!({ "message_ids": ["m-1"] });
    let recalled = here.call((&alice, "a"), "message.recall", ids).await.unwrap();
    assert_eq!((&recalled["recalled"], &recalled["errors"]), (&json!(1), &Value::Null));
    *here.door.peer.lock() = Some(there.world.mesh.clone());
    Message::open(&here.world).await.unwrap().deliver_to("aid.net").await;
    assert_eq!(texts(&there.rows((&dave, "d")).await), ["m-2"]);

    // What got there after it had waited is known over there.
    let ids = json!({ "message_ids": ["m-2"] });
    let recalled = here.call((&alice, "a"), "message.recall", ids).await.unwrap();
    assert_eq!(recalled["recalled"], 1, "{recalled}");
    assert_eq!(here.door.methods_asked().last().unwrap(), "recall");
}
