//! Messages by webhook: what turns them on, in which order they come, and what follows when one is not accepted.

use super::support::{HANGS, TestAgents, text};
use crate::sending::{MessageDeliveries, WebhookDeliveries};
use ring::hmac;
use serde_json::{Value, json};
use std::time::Duration;
use testing::TestAgent;

const URL: &str = "https://hooks.example/in";
const OTHER_URL: &str = "https://hooks.example/other";
const MINUTE_MS: i64 = 60_000;

/// A proof by an agent that its messages may be sent to a URL.
fn webhook_proof(agents: &TestAgents, agent: &TestAgent, owner: &TestAgent, url: &str, nonce: &str) -> Value {
    let timestamp = agents.test.world.clock.now_seconds();
    let signed = format!("aun-agent-webhook-v1\n{}\n{}\n{url}\n{timestamp}\n{nonce}", agent.aid, owner.aid);
    json!({ "aid": agent.aid, "timestamp": timestamp, "nonce": nonce, "signature": agent.sign(&signed) })
}

/// An agent of its own that gets its messages at a URL; gives its id and its secret.
async fn with_messages(agents: &TestAgents, agent: &TestAgent, url: &str) -> (String, String) {
    let nonce = format!("nonce-for-{:0>8}", agent.aid.len() + url.len());
    let params = json!({
        "name": "Helper", "connection_mode": "webhook", "webhook_url": url,
        "webhook_proof": webhook_proof(agents, agent, agent, url, &nonce),
    });
    let made = agents.ok(agent, "agent.create", params).await;
    assert_eq!(made["agent"]["webhook_messages"], true);
    agents.deliver_messages().await;
    (text(&made["agent"]["id"]), text(&made["webhook_secret"]))
}

async fn send(agents: &TestAgents, from: &TestAgent, to: &TestAgent, payload: Value) -> String {
    let sent = agents.ok(from, "message.send", json!({ "to": to.aid, "payload": payload })).await;
    text(&sent["message_id"])
}

/// The texts of the messages that were sent to a URL, and the ids of their deliveries.
fn received(agents: &TestAgents, url: &str) -> Vec<(String, String)> {
    let posts = agents.webhooks.posts.lock();
    let of_url = posts.iter().filter(|post| post.url == url);
    let read = of_url.filter_map(|post| {
        let body: Value = serde_json::from_str(&post.body).unwrap();
        let text = body["message"]["payload"]["text"].as_str()?.to_owned();
        let id = post.headers.iter().find(|(name, _)| *name == "x-hashee-delivery-id").unwrap().1.clone();
        Some((text, id))
    });
    read.collect()
}

fn texts(agents: &TestAgents, url: &str) -> Vec<String> {
    received(agents, url).into_iter().map(|(text, _)| text).collect()
}

async fn shown(agents: &TestAgents, owner: &TestAgent, id: &str) -> Value {
    agents.ok(owner, "agent.get", json!({ "id": id })).await["agent"].take()
}

fn acks(agents: &TestAgents) -> Vec<Value> {
    let events = agents.test.events.lock();
    let acks = events.iter().filter(|event| event.method == "event/message.ack");
    acks.map(|event| serde_json::from_str(event.params.get()).unwrap()).collect()
}

#[tokio::test]
async fn a_token_alone_does_not_turn_messages_on() {
    let agents = TestAgents::with_message_service().await;
    let (alice, bob, carol) = (&agents.alice, &agents.bob, &agents.carol);
    let mode = json!({ "name": "Helper", "connection_mode": "webhook", "webhook_url": URL });
    let id = text(&agents.ok(alice, "agent.create", mode).await["agent"]["id"]);
    assert_eq!(shown(&agents, alice, &id).await["webhook_messages"], false);
    assert!(shown(&agents, bob, &id).await.get("webhook_messages").is_none(), "for its owner alone");
    send(&agents, bob, alice, json!({ "text": "one" })).await;
    assert_eq!(agents.deliver_messages().await, 0);

    let good = webhook_proof(&agents, alice, alice, URL, "nonce-of-sixteen-1");
    let changed = |member: &str, value: Value| {
        let mut proof = good.clone();
        proof[member] = value;
        proof
    };
    let old = agents.test.world.clock.now_seconds() - 301;
    let registration = {
        let (now, nonce) = (agents.test.world.clock.now_seconds(), "nonce-of-sixteen-1");
        alice.sign(&format!("aun-agent-registration-v1\n{0}\n{0}\n{URL}\n{now}\n{nonce}", alice.aid))
    };
    for wrong in [
        changed("signature", json!(carol.sign("something"))),
        changed("signature", json!(registration)),
        changed("timestamp", json!(old)),
        changed("nonce", json!("nonce-of-sixteen-2")),
        webhook_proof(&agents, alice, carol, URL, "nonce-of-sixteen-1"),
        webhook_proof(&agents, alice, alice, OTHER_URL, "nonce-of-sixteen-1"),
        webhook_proof(&agents, carol, alice, URL, "nonce-of-sixteen-1"),
    ] {
        let params = json!({ "id": id, "webhook_proof": wrong });
        assert_eq!(agents.refused(alice, "agent.update", params).await, "AGENT_PROOF_INVALID", "{wrong}");
    }
    assert_eq!(shown(&agents, alice, &id).await["webhook_messages"], false);

    let agreed = agents.ok(alice, "agent.update", json!({ "id": id, "webhook_proof": good })).await;
    assert_eq!(agreed["agent"]["webhook_messages"], true);
    agents.deliver_messages().await;
    assert_eq!(texts(&agents, URL), ["one"], "what was sent before it had a device");
    let again = json!({ "id": id, "webhook_proof": good });
    assert_eq!(agents.refused(alice, "agent.update", again).await, "AGENT_PROOF_INVALID", "it is used once");

    let moved = agents.ok(alice, "agent.update", json!({ "id": id, "webhook_url": OTHER_URL })).await;
    assert_eq!(moved["agent"]["webhook_messages"], false, "the key has not agreed to this URL");
    send(&agents, bob, alice, json!({ "text": "two" })).await;
    agents.deliver_messages().await;
    assert_eq!((texts(&agents, OTHER_URL).len(), texts(&agents, URL).len()), (0, 1));
    let back = agents.ok(alice, "agent.update", json!({ "id": id, "webhook_url": URL })).await;
    assert_eq!(back["agent"]["webhook_messages"], true, "to this one it has");
    agents.deliver_messages().await;
    assert_eq!(texts(&agents, URL), ["one", "two"]);
}

#[tokio::test]
async fn a_proof_needs_the_mode_and_a_url() {
    let agents = TestAgents::with_message_service().await;
    let alice = &agents.alice;
    let proof = webhook_proof(&agents, alice, alice, URL, "nonce-of-sixteen-1");
    for params in [
        json!({ "name": "Helper", "webhook_proof": proof }),
        json!({ "name": "Helper", "webhook_url": URL, "webhook_proof": proof }),
    ] {
        assert_eq!(agents.refused(alice, "agent.create", params).await, "INVALID_PARAMS");
    }
    let mode = json!({
        "name": "Helper", "connection_mode": "webhook", "webhook_url": URL, "webhook_proof": proof,
    });
    agents.ok(alice, "agent.create", mode).await;
}

#[tokio::test]
async fn the_owner_of_another_aid_needs_the_key_of_that_aid() {
    let agents = TestAgents::with_message_service().await;
    let (alice, bob, carol) = (&agents.alice, &agents.bob, &agents.carol);
    let registration = super::registry::proof(&agents, carol, &alice.aid, "Helper", "nonce-of-sixteen-0", 0);
    let params = |webhook: Value| {
        json!({
            "name": "Helper", "connection_mode": "webhook", "webhook_url": URL, "proof": registration,
            "webhook_proof": webhook,
        })
    };
    let by_owner = params(webhook_proof(&agents, alice, alice, URL, "nonce-of-sixteen-1"));
    assert_eq!(agents.refused(alice, "agent.create", by_owner).await, "AGENT_PROOF_INVALID");
    let by_agent = params(webhook_proof(&agents, carol, alice, URL, "nonce-of-sixteen-1"));
    agents.ok(alice, "agent.create", by_agent).await;
    send(&agents, bob, carol, json!({ "text": "one" })).await;
    agents.deliver_messages().await;
    assert_eq!(texts(&agents, URL), ["one"]);
}

#[tokio::test]
async fn messages_come_signed_in_order_as_they_are_pulled_and_move_the_cursor() {
    let agents = TestAgents::with_message_service().await;
    let (alice, bob) = (&agents.alice, &agents.bob);
    let (id, secret) = with_messages(&agents, alice, URL).await;
    let tool =
        json!({ "type": "artifact", "text": "two", "headers": { "msg_subtype": "artifact_response" } });
    for payload in
        [json!({ "text": "one", "number": 1.50 }), tool, json!({ "type": "e2ee.other", "text": "three" })]
    {
        send(&agents, bob, alice, payload).await;
    }
    assert_eq!(agents.deliver_messages().await, 3);
    assert_eq!(texts(&agents, URL), ["one", "two", "three"]);
    let posts = std::mem::take(&mut *agents.webhooks.posts.lock());
    let kinds = agents.test.call_as(alice.by_token(), "message.pull", json!({})).await.unwrap();
    for (n, post) in posts.iter().enumerate() {
        let body: Value = serde_json::from_str(&post.body).unwrap();
        let kind = if n == 1 { "artifact_response" } else { "message.new" };
        assert_eq!(
            (&body["type"], &body["version"], &body["agent_id"]),
            (&json!(kind), &json!("v1"), &json!(id))
        );
        let mut pulled = kinds["messages"][n].clone();
        pulled["encrypted"] = json!(n == 2);
        assert_eq!(body["message"], pulled, "what a connected device pulls");
        let header = |name: &str| post.headers.iter().find(|(header, _)| *header == name).unwrap().1.clone();
        let signed =
            format!("{}.{}.{}", header("x-hashee-timestamp"), header("x-hashee-delivery-id"), post.body);
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let signature = hex::decode(header("x-hashee-signature")).unwrap();
        hmac::verify(&key, signed.as_bytes(), &signature).expect("it is signed with the secret");
        assert_eq!(header("x-hashee-agent-id"), id);
    }
    assert_eq!(kinds["server_ack_seq"], 3);
    let listed = agents.ok(alice, "agent.deliveries", json!({ "id": id })).await;
    assert_eq!(listed["deliveries"], json!([]), "messages are not copied");
    let online = agents.ok(bob, "message.query_online", json!({ "aids": [alice.aid] })).await;
    assert_eq!(online["online"][&alice.aid], false, "only connections count");
}

#[tokio::test]
async fn the_sender_is_told_what_the_webhook_accepted() {
    let agents = TestAgents::with_message_service().await;
    let (alice, bob) = (&agents.alice, &agents.bob);
    with_messages(&agents, alice, URL).await;
    agents.connect(bob, 5);
    send(&agents, bob, alice, json!({ "text": "one" })).await;
    agents.webhooks.answer(URL, Ok(500));
    agents.deliver_messages().await;
    assert_eq!(acks(&agents).len(), 0);
    agents.webhooks.answer(URL, Ok(204));
    agents.test.world.clock.advance_ms(1000);
    agents.deliver_messages().await;
    let acks = acks(&agents);
    let about = (&acks[0]["to"], &acks[0]["device_id"], &acks[0]["slot_id"], &acks[0]["ack_seq"]);
    assert_eq!(about, (&json!(alice.aid), &json!("webhook"), &json!(""), &json!(1)));
}

#[tokio::test]
async fn a_message_that_is_not_accepted_comes_again_later_and_later_before_all_others() {
    let agents = TestAgents::with_message_service().await;
    let (alice, bob) = (&agents.alice, &agents.bob);
    let (id, _) = with_messages(&agents, alice, URL).await;
    for number in ["one", "two"] {
        send(&agents, bob, alice, json!({ "text": number })).await;
    }
    agents.webhooks.answer(URL, Err("nobody answers".to_owned()));
    let clock = &agents.test.world.clock;
    for (attempt, wait) in [1000, 5000, 30_000, 300_000, 300_000, 300_000].into_iter().enumerate() {
        assert_eq!(agents.deliver_messages().await, 1, "attempt {attempt}");
        let unreachable = shown(&agents, alice, &id).await["webhook_unreachable"].clone();
        assert_eq!(unreachable, attempt >= 4, "after attempt {attempt}");
        clock.advance_ms(wait - 1);
        assert_eq!(agents.deliver_messages().await, 0, "before attempt {}", attempt + 1);
        clock.advance_ms(1);
    }
    agents.webhooks.answer(URL, Ok(200));
    assert_eq!(agents.deliver_messages().await, 2);
    let received = received(&agents, URL);
    assert!(received[..7].iter().all(|one| *one == received[0]), "under the same delivery id: {received:?}");
    assert_eq!((received[7].0.as_str(), received.len()), ("two", 8));
    assert_eq!(shown(&agents, alice, &id).await["webhook_unreachable"], false);
    let dead = agents.ok(alice, "agent.deliveries", json!({ "id": id, "status": "dead" })).await;
    assert_eq!(dead["deliveries"], json!([]), "where nothing answers, nothing is skipped");
}

#[tokio::test]
async fn a_webhook_may_say_when_it_wants_to_be_called_again() {
    let agents = TestAgents::with_message_service().await;
    let (alice, bob) = (&agents.alice, &agents.bob);
    with_messages(&agents, alice, URL).await;
    send(&agents, bob, alice, json!({ "text": "one" })).await;
    agents.webhooks.answer(URL, Ok(503));
    *agents.webhooks.retry_after.lock() = Some("120".to_owned());
    assert_eq!(agents.deliver_messages().await, 1);
    agents.test.world.clock.advance_ms(119_999);
    assert_eq!(agents.deliver_messages().await, 0);
    agents.test.world.clock.advance_ms(1);
    assert_eq!(agents.deliver_messages().await, 1);
}

#[tokio::test]
async fn a_message_that_is_refused_for_an_hour_is_skipped_and_listed_without_what_it_says() {
    let agents = TestAgents::with_message_service().await;
    let (alice, bob) = (&agents.alice, &agents.bob);
    let (id, _) = with_messages(&agents, alice, URL).await;
    agents.connect(bob, 5);
    let bad = send(&agents, bob, alice, json!({ "text": "a secret" })).await;
    agents.webhooks.answer(URL, Ok(422));
    let mut attempts = 0;
    for _ in 0..59 {
        attempts += agents.deliver_messages().await;
        agents.test.world.clock.advance_ms(MINUTE_MS);
    }
    assert!(attempts >= 10, "{attempts}");
    send(&agents, bob, alice, json!({ "text": "two" })).await;
    assert_eq!(texts(&agents, URL).last().unwrap(), "a secret", "for less than an hour");
    agents.test.world.clock.advance_ms(5 * MINUTE_MS);
    agents.deliver_messages().await;
    assert_eq!(texts(&agents, URL).last().unwrap(), "two", "the rest goes on");
    assert_eq!(acks(&agents).len(), 0, "nobody accepted it");

    let dead = agents.ok(alice, "agent.deliveries", json!({ "id": id, "status": "dead" })).await;
    let dead = &dead["deliveries"][0];
    assert_eq!((&dead["type"], &dead["status"]), (&json!("message.new"), &json!("dead")));
    assert_eq!(dead["last_error"], "it was answered with 422");
    assert_eq!((&dead["body"]["message_id"], &dead["body"]["seq"]), (&json!(bad), &json!(1)));
    assert_eq!(dead["id"], received(&agents, URL)[0].1);
    assert!(!dead.to_string().contains("secret"), "{dead}");
}

#[tokio::test]
async fn another_url_is_tried_at_once() {
    let agents = TestAgents::with_message_service().await;
    let (alice, bob) = (&agents.alice, &agents.bob);
    let (id, _) = with_messages(&agents, alice, URL).await;
    send(&agents, bob, alice, json!({ "text": "one" })).await;
    agents.webhooks.answer(URL, Ok(500));
    for _ in 0..5 {
        agents.deliver_messages().await;
        agents.test.world.clock.advance_ms(5 * MINUTE_MS);
    }
    agents.deliver_messages().await;
    assert_eq!(shown(&agents, alice, &id).await["webhook_unreachable"], true);
    let proof = webhook_proof(&agents, alice, alice, OTHER_URL, "nonce-of-another-url");
    let moved = json!({ "id": id, "webhook_url": OTHER_URL, "webhook_proof": proof });
    agents.ok(alice, "agent.update", moved).await;
    assert_eq!(agents.deliver_messages().await, 1);
    assert_eq!(texts(&agents, OTHER_URL), ["one"]);
}

#[tokio::test]
async fn who_leaves_the_mode_has_no_device_and_what_is_unread_waits_for_the_first_one() {
    let agents = TestAgents::with_message_service().await;
    let (alice, bob) = (&agents.alice, &agents.bob);
    let (id, _) = with_messages(&agents, alice, URL).await;
    send(&agents, bob, alice, json!({ "text": "one" })).await;
    agents.deliver_messages().await;
    agents.webhooks.answer(URL, Ok(500));
    send(&agents, bob, alice, json!({ "text": "two" })).await;
    agents.deliver_messages().await;
    let pull = || agents.test.call_as(alice.by_token(), "message.pull", json!({ "after_seq": 1 }));
    assert_eq!(pull().await.unwrap()["count"], 1);

    let left = json!({ "id": id, "connection_mode": "websocket" });
    let left = agents.ok(alice, "agent.update", left).await;
    assert_eq!(left["agent"]["webhook_messages"], false);
    assert_eq!(agents.deliver_messages().await, 0, "nothing is sent any more");
    assert_eq!(testing::code(pull().await), -32600, "over HTTP there is no device now");
    agents.test.inside("message.session_opened", json!({ "aid": alice.aid, "device_id": "" })).await;
    let page = agents.ok(alice, "message.pull", json!({ "after_seq": 1 })).await;
    assert_eq!(
        (&page["messages"][0]["payload"]["text"], &page["server_ack_seq"]),
        (&json!("two"), &json!(1))
    );

    let back = agents.ok(alice, "agent.update", json!({ "id": id, "connection_mode": "webhook" })).await;
    assert_eq!(back["agent"]["webhook_messages"], false, "the key is asked again");
}

/// Whoever has stolen the key for a moment agrees in the name of the AID, as its owner, and read everything from then on.
#[tokio::test]
async fn a_key_that_was_replaced_has_agreed_to_nothing() {
    let mut agents = TestAgents::with_message_service().await;
    let params = {
        let (mallory, alice) = (&agents.bob, &agents.alice);
        json!({
            "name": "Helper", "connection_mode": "webhook", "webhook_url": URL,
            "proof": super::registry::proof(&agents, alice, &mallory.aid, "Helper", "nonce-of-sixteen-0", 0),
            "webhook_proof": webhook_proof(&agents, alice, mallory, URL, "nonce-of-sixteen-1"),
        })
    };
    let id = text(&agents.ok(&agents.bob, "agent.create", params).await["agent"]["id"]);
    send(&agents, &agents.carol, &agents.alice, json!({ "text": "one" })).await;
    agents.deliver_messages().await;
    assert_eq!(texts(&agents, URL), ["one"]);

    agents.test.rekey(&mut agents.alice).await;
    send(&agents, &agents.carol, &agents.alice, json!({ "text": "two" })).await;
    agents.deliver_messages().await;
    assert_eq!(texts(&agents, URL), ["one"]);
    for who in [&agents.alice, &agents.bob] {
        assert_eq!(shown(&agents, who, &id).await["webhook_messages"], false);
    }
    // The new key agrees, and what has waited comes.
    let proof = webhook_proof(&agents, &agents.alice, &agents.bob, URL, "nonce-of-sixteen-2");
    agents.ok(&agents.bob, "agent.update", json!({ "id": id, "webhook_proof": proof })).await;
    agents.deliver_messages().await;
    assert_eq!(texts(&agents, URL), ["one", "two"]);
}

#[tokio::test]
async fn an_aid_can_end_its_webhook_where_somebody_else_is_the_owner_and_change_nothing_else() {
    let agents = TestAgents::with_message_service().await;
    let (alice, bob, carol) = (&agents.alice, &agents.bob, &agents.carol);
    let params = json!({
        "name": "Helper", "connection_mode": "webhook", "webhook_url": URL,
        "proof": super::registry::proof(&agents, alice, &bob.aid, "Helper", "nonce-of-sixteen-0", 0),
        "webhook_proof": webhook_proof(&agents, alice, bob, URL, "nonce-of-sixteen-1"),
    });
    let id = text(&agents.ok(bob, "agent.create", params).await["agent"]["id"]);
    assert_eq!(shown(&agents, alice, &id).await["webhook_messages"], true);
    for more in [
        json!({ "name": "Another" }),
        json!({ "webhook_url": OTHER_URL }),
        json!({ "description": null }),
        json!({ "capability_manifest": super::support::sample() }),
    ] {
        let mut params = json!({ "id": id, "connection_mode": "websocket" });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(
            agents.refused(alice, "agent.update", params.clone()).await,
            "AGENT_NOT_OWNER",
            "{params}"
        );
    }
    let end = json!({ "id": id, "connection_mode": "websocket" });
    assert_eq!(agents.refused(carol, "agent.update", end.clone()).await, "AGENT_NOT_OWNER");
    let ended = agents.ok(alice, "agent.update", end).await;
    assert_eq!(ended["agent"]["webhook_messages"], false);
    assert!(ended["agent"].get("webhook_url").is_none(), "what is the owner's stays the owner's: {ended}");
    send(&agents, carol, alice, json!({ "text": "one" })).await;
    agents.deliver_messages().await;
    assert_eq!(texts(&agents, URL).len(), 0);
}

#[tokio::test]
async fn an_agent_that_is_removed_has_no_device() {
    let agents = TestAgents::with_message_service().await;
    let (alice, bob) = (&agents.alice, &agents.bob);
    let (id, _) = with_messages(&agents, alice, URL).await;
    agents.ok(alice, "agent.delete", json!({ "id": id })).await;
    agents.deliver_messages().await;
    send(&agents, bob, alice, json!({ "text": "one" })).await;
    assert_eq!(agents.deliver_messages().await, 0);
    let next = agents.test.inside("message.webhook.next", json!({ "aid": alice.aid })).await;
    assert_eq!(next, json!({ "device": false }));
}

#[tokio::test]
async fn what_is_published_is_marked_and_sent_without_being_asked_for() {
    let agents = TestAgents::with_message_service().await;
    let (alice, bob) = (&agents.alice, &agents.bob);
    with_messages(&agents, alice, URL).await;
    send(&agents, bob, alice, json!({ "text": "one" })).await;
    let marked = async {
        while agents.service.outboxes.messages.count().await.unwrap() == 0 {
            agents.service.mark_noted().await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), marked).await.expect("the message is published");
    assert_eq!(agents.deliver_marked().await, 1);
    assert_eq!(agents.service.outboxes.messages.count().await.unwrap(), 0, "nothing is left");
}

#[tokio::test]
async fn a_webhook_that_hangs_delays_nobody_else_and_has_one_request_of_each_kind() {
    let agents = TestAgents::with_message_service().await;
    let (alice, bob, carol) = (&agents.alice, &agents.bob, &agents.carol);
    let (hanging, _) = with_messages(&agents, alice, URL).await;
    with_messages(&agents, carol, OTHER_URL).await;
    agents.webhooks.answer(URL, Ok(HANGS));
    agents.grant(bob, &hanging, &[]).await;
    for to in [alice, carol] {
        for number in ["one", "two"] {
            send(&agents, bob, to, json!({ "text": number })).await;
        }
    }
    agents.service.mark_waiting().await.unwrap();
    let (messages, events) =
        (MessageDeliveries(agents.service.clone()), WebhookDeliveries(agents.service.clone()));
    let outboxes = &agents.service.outboxes;
    let both = async { tokio::join!(outboxes.messages.run(&messages), outboxes.webhooks.run(&events)) };
    let done = async {
        while texts(&agents, OTHER_URL).len() < 2 || agents.webhooks.kinds(URL).len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(20), done);
    tokio::select! {
        _ = both => panic!("the tasks ended"),
        done = done => done.expect("the other webhook gets its messages"),
    }
    assert_eq!(texts(&agents, OTHER_URL), ["one", "two"]);
    assert_eq!(texts(&agents, URL), ["one"], "one message at a time");
}

#[tokio::test]
async fn messages_and_events_share_what_an_owner_may_send_at_once() {
    let mut settings = crate::Settings::default();
    settings.webhook.requests_per_owner = 1;
    let agents = TestAgents::with_services(settings, &["message"]).await;
    let (alice, bob) = (&agents.alice, &agents.bob);
    let (id, _) = with_messages(&agents, alice, URL).await;
    agents.webhooks.answer(URL, Ok(HANGS));
    agents.grant(bob, &id, &[]).await;
    send(&agents, bob, alice, json!({ "text": "one" })).await;
    agents.service.mark_waiting().await.unwrap();
    let (messages, events) =
        (MessageDeliveries(agents.service.clone()), WebhookDeliveries(agents.service.clone()));
    let outboxes = &agents.service.outboxes;
    let both = async { tokio::join!(outboxes.messages.run(&messages), outboxes.webhooks.run(&events)) };
    let one = async {
        while agents.webhooks.kinds(URL).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let refused = agents.call(alice, "agent.test_webhook", json!({ "id": id })).await.unwrap_err();
        assert!(refused.to_string().contains("in progress"), "{refused}");
        // Longer than both look for what is due.
        tokio::time::sleep(Duration::from_millis(1500)).await;
    };
    tokio::select! {
        _ = both => panic!("the tasks ended"),
        () = one => {}
    }
    assert_eq!(agents.webhooks.kinds(URL).len(), 1);
}

#[tokio::test]
async fn a_ping_is_signed_and_says_what_came_back() {
    let agents = TestAgents::with_message_service().await;
    let (alice, bob) = (&agents.alice, &agents.bob);
    let made = agents.ok(alice, "agent.create", json!({ "name": "Helper", "webhook_url": URL })).await;
    let id = &made["agent"]["id"];
    let tested = agents.ok(alice, "agent.test_webhook", json!({ "id": id })).await;
    assert_eq!(
        (&tested["accepted"], &tested["status"], tested.get("error")),
        (&json!(true), &json!(200), None)
    );
    let post = agents.webhooks.posts.lock().pop().unwrap();
    assert_eq!(post.body, r#"{"type":"ping","version":"v1"}"#);
    assert!(post.headers.contains(&("x-hashee-delivery-id", text(&tested["delivery_id"]))));
    agents.webhooks.answer(URL, Ok(404));
    let tested = agents.ok(alice, "agent.test_webhook", json!({ "id": id })).await;
    assert_eq!((&tested["accepted"], &tested["error"]), (&json!(false), &json!("it was answered with 404")));
    agents.webhooks.answer(URL, Err("no route".to_owned()));
    let tested = agents.ok(alice, "agent.test_webhook", json!({ "id": id })).await;
    assert_eq!((tested.get("status"), &tested["error"]), (None, &json!("no route")));
    assert_eq!(agents.refused(bob, "agent.test_webhook", json!({ "id": id })).await, "AGENT_NOT_OWNER");
}
