//! What was sent to other domains is recalled there.

use super::*;

async fn send(here: &Domain, alice: &TestAgent, to: &TestAgent, id: &str) {
    let params = json!({ "to": to.aid, "message_id": id, "payload": { "text": id } });
    here.call((alice, "a"), "message.send", params).await.unwrap();
}

#[tokio::test]
async fn messages_in_two_domains_are_recalled_in_one_call() {
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
async fn the_domains_an_agent_wrote_to_are_stored_for_other_processes_and_purged_later() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    let (one, two) = (
        MessageService::open(&here.world, &here.settings).await.unwrap(),
        MessageService::open(&here.world, &here.settings).await.unwrap(),
    );
    let params = json!({ "to": dave.aid, "message_id": "m-1", "payload": {} });
    let params = serde_json::from_value(params).unwrap();
    one.clone().send(caller((&alice, "a")), params).await.unwrap();
    let aid = Aid::parse(&alice.aid).unwrap();
    let now = here.world.clock.now_ms();
    assert_eq!(one.recent_peers.of(&aid, now).await.unwrap(), ["aid.net"]);
    assert_eq!(two.recent_peers.of(&aid, now).await.unwrap(), ["aid.net"]);
    assert_eq!(two.recent_peers.of(&aid, now + 12 * 60_000).await.unwrap().len(), 1);
    assert!(two.recent_peers.of(&aid, now + 12 * 60_000 + 1).await.unwrap().is_empty());
    let other = Aid::parse("mallory.aid.com").unwrap();
    assert!(two.recent_peers.of(&other, now).await.unwrap().is_empty());
    two.recent_peers.purge(now + 12 * 60_000 + 1).await.unwrap();
    assert!(one.recent_peers.of(&aid, now).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_later_message_renews_the_row_after_half_a_minute() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    let aid = Aid::parse(&alice.aid).unwrap();
    let service = MessageService::open(&here.world, &here.settings).await.unwrap();
    let first = here.world.clock.now_ms();
    for (n, seconds) in [0, 29, 1].into_iter().enumerate() {
        here.world.clock.advance_ms(seconds * 1000);
        send(&here, &alice, &dave, &format!("m-{n}")).await;
    }
    // The message after 29 seconds stored nothing, the one after 30 did.
    let remembered = async |seconds: i64| {
        let now = first + (12 * 60 + seconds) * 1000;
        !service.recent_peers.of(&aid, now).await.unwrap().is_empty()
    };
    assert!(remembered(29).await && remembered(30).await && !remembered(31).await);
}

#[tokio::test]
async fn a_recall_asks_no_more_than_the_domains_that_were_written_to_last() {
    let (here, _) = domains().await;
    let alice = here.agent("alice", "a").await;
    let aid = Aid::parse(&alice.aid).unwrap();
    let service = MessageService::open(&here.world, &here.settings).await.unwrap();
    for n in 0..20_i64 {
        service.recent_peers.remember(&aid, &format!("n{n}.example"), 1000 + n).unwrap().await.unwrap();
    }
    let asked = service.recent_peers.of(&aid, 1000).await.unwrap();
    assert_eq!((asked.len(), &*asked[0], &*asked[15]), (16, "n19.example", "n4.example"));
}

/// Alice's domain, and two others that her messages go to.
async fn three() -> (Domain, Domain, Domain) {
    let (here, there) = domains().await;
    let far = Domain::open("aid.org").await;
    here.gateway.others.lock().insert("aid.org".to_owned(), Some(far.world.mesh.clone()));
    (here, there, far)
}

#[tokio::test]
async fn a_message_is_found_in_whichever_domain_it_was_sent_to() {
    let (here, there, far) = three().await;
    let alice = here.agent("alice", "a").await;
    let (dave, erin) = (there.agent("dave", "d").await, far.agent("erin", "e").await);
    send(&here, &alice, &dave, "net").await;
    send(&here, &alice, &erin, "org").await;
    send(&here, &alice, &erin, "stays").await;
    // After a restart, and in another process, nothing is known but what was stored.
    let other = MessageService::open(&here.world, &here.settings).await.unwrap();
    let params = serde_json::from_value(json!({ "message_ids": ["net", "org", "never"] })).unwrap();
    let recalled = other.recall(caller((&alice, "a")), params).await.unwrap();
    let recalled = serde_json::to_value(&recalled).unwrap();
    assert_eq!((&recalled["accepted"], &recalled["recalled"]), (&json!(3), &json!(2)));
    assert_eq!(recalled["errors"], json!([{ "message_id": "never", "error": "not_found" }]));
    assert_eq!(here.gateway.asked_to_recall(), ["aid.net", "aid.org"]);
    assert_eq!(there.rows((&dave, "d")).await[0]["payload"]["type"], "message.recalled");
    let left = far.rows((&erin, "e")).await;
    assert_eq!(texts(&left[1..2]), ["stays"]);
    assert_eq!(left[0]["payload"]["type"], "message.recalled");
}

#[tokio::test]
async fn an_unreachable_domain_matters_only_to_messages_that_no_other_domain_has() {
    let (here, there, far) = three().await;
    let alice = here.agent("alice", "a").await;
    let (dave, erin) = (there.agent("dave", "d").await, far.agent("erin", "e").await);
    send(&here, &alice, &dave, "net").await;
    send(&here, &alice, &erin, "org").await;
    here.gateway.others.lock().insert("aid.org".to_owned(), None);
    let recalled =
        here.call((&alice, "a"), "message.recall", json!({ "message_ids": ["net"] })).await.unwrap();
    assert_eq!((&recalled["recalled"], &recalled["errors"]), (&json!(1), &Value::Null));
    for id in ["org", "never"] {
        let failed = here.call((&alice, "a"), "message.recall", json!({ "message_ids": [id] })).await;
        assert_eq!(code(failed), codes::FEDERATION_UNREACHABLE.code, "{id} may be in that domain");
    }
    assert_eq!(texts(&far.rows((&erin, "e")).await), ["org"]);
}

#[tokio::test]
async fn no_domain_is_asked_for_what_is_stored_here_or_after_too_long() {
    let (here, there, _far) = three().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    let carol = here.agent("carol", "c").await;
    send(&here, &alice, &dave, "there").await;
    send(&here, &alice, &carol, "here").await;
    let recalled =
        here.call((&alice, "a"), "message.recall", json!({ "message_ids": ["here"] })).await.unwrap();
    assert_eq!(recalled["recalled"], 1);
    here.world.clock.advance_ms(12 * 60_000 + 1);
    let late = here.call((&alice, "a"), "message.recall", json!({ "message_ids": ["there"] })).await.unwrap();
    assert_eq!(late["errors"], json!([{ "message_id": "there", "error": "not_found" }]));
    assert!(here.gateway.asked_to_recall().is_empty());
}

#[tokio::test]
async fn the_senders_copy_names_the_domain_and_stays_while_that_cannot_be_reached() {
    let (here, there, far) = three().await;
    let alice = here.agent("alice", "a").await;
    let (dave, erin) = (there.agent("dave", "d").await, far.agent("erin", "e").await);
    here.join(&alice, "tablet").await;
    send(&here, &alice, &erin, "org").await;
    here.call((&alice, "a"), "message.send", send::split(&dave.aid, "m-1")).await.unwrap();
    *here.gateway.peer.lock() = None;
    let ids = json!({ "message_ids": ["m-1"] });
    let failed = here.call((&alice, "a"), "message.recall", ids.clone()).await;
    assert_eq!(code(failed), codes::FEDERATION_UNREACHABLE.code);
    let kept = here.rows((&alice, "tablet")).await;
    assert!(kept.iter().all(|row| row["payload"]["type"] != "message.recalled"), "{kept:?}");
    *here.gateway.peer.lock() = Some(there.world.mesh.clone());
    let recalled = here.call((&alice, "a"), "message.recall", ids).await.unwrap();
    assert_eq!(recalled["recalled"], 1, "{recalled}");
    assert_eq!(here.gateway.asked_to_recall(), ["aid.net", "aid.net"]);
}

#[tokio::test]
async fn a_refusal_of_one_domain_outweighs_the_recall_of_another() {
    let (here, there, far) = three().await;
    let alice = here.agent("alice", "a").await;
    let (dave, erin) = (there.agent("dave", "d").await, far.agent("erin", "e").await);
    send(&here, &alice, &dave, "m-1").await;
    send(&here, &alice, &erin, "m-1").await;
    far.world.clock.advance_ms(121_000);
    let recalled =
        here.call((&alice, "a"), "message.recall", json!({ "message_ids": ["m-1"] })).await.unwrap();
    assert_eq!(recalled["errors"], json!([{ "message_id": "m-1", "error": "expired" }]));
    assert_eq!(texts(&far.rows((&erin, "e")).await), ["m-1"]);
}

#[tokio::test]
async fn the_senders_copies_are_recalled_too_and_the_recipients_domain_decides_about_the_time() {
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
async fn a_domain_that_cannot_be_reached_is_an_error_and_calling_again_completes_it() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    let carol = here.agent("carol", "c").await;
    send(&here, &alice, &dave, "there").await;
    send(&here, &alice, &carol, "here").await;
    *here.gateway.fails.lock() = Some(codes::FEDERATION_UNREACHABLE);
    let ids = json!({ "message_ids": ["there", "here"] });
    let failed = here.call((&alice, "a"), "message.recall", ids.clone()).await;
    assert_eq!(code(failed), codes::FEDERATION_UNREACHABLE.code);
    *here.gateway.fails.lock() = None;
    let recalled = here.call((&alice, "a"), "message.recall", ids).await.unwrap();
    assert_eq!(recalled["recalled"], 1);
    assert_eq!(recalled["errors"], json!([{ "message_id": "here", "error": "already_recalled" }]));
}

#[tokio::test]
async fn only_the_sender_recalls_it_in_another_domain_too() {
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
async fn what_still_waits_is_withdrawn() {
    let here = Domain::open_with("aid.com", Some(Duration::from_secs(600))).await;
    let there = Domain::open("aid.net").await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    send(&here, &alice, &dave, "m-1").await;
    send(&here, &alice, &dave, "m-2").await;
    let ids = json!({ "message_ids": ["m-1"] });
    let recalled = here.call((&alice, "a"), "message.recall", ids).await.unwrap();
    assert_eq!((&recalled["recalled"], &recalled["errors"]), (&json!(1), &Value::Null));
    *here.gateway.peer.lock() = Some(there.world.mesh.clone());
    MessageService::open(&here.world, &here.settings).await.unwrap().deliver_to("aid.net").await;
    assert_eq!(texts(&there.rows((&dave, "d")).await), ["m-2"]);

    // What was delivered after it had waited is recalled by the peer.
    let ids = json!({ "message_ids": ["m-2"] });
    let recalled = here.call((&alice, "a"), "message.recall", ids).await.unwrap();
    assert_eq!(recalled["recalled"], 1, "{recalled}");
    assert_eq!(here.gateway.methods_asked().last().unwrap(), "recall");
}
