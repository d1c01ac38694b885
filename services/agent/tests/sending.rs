//! What is sent: events that survive a restart, devices that connect later, and webhooks.

use super::registry::proof;
use super::support::{HANGS, TestAgents, publish, sample, text, with_required_member, with_version};
use crate::sending::WebhookDeliveries;
use crate::{AgentService, Settings};
use ring::hmac;
use serde_json::{Value, json};
use std::future::Future;
use std::time::Duration;
use testing::TestAgent;

const URL: &str = "https://hooks.example/in";

/// An agent of somebody with a webhook; gives its id and its secret.
async fn with_webhook(agents: &TestAgents, owner: &TestAgent, url: &str) -> (String, String) {
    let params = json!({ "name": "Helper", "capability_manifest": sample(), "webhook_url": url });
    let made = agents.ok(owner, "agent.create", params).await;
    (text(&made["agent"]["id"]), text(&made["webhook_secret"]))
}

/// Another agent of the same owner, with an AID of its own; gives its id.
async fn another_with_webhook(agents: &TestAgents, owner: &TestAgent, name: &str, url: &str) -> String {
    let agent = agents.test.register(name).await;
    let proof = proof(agents, &agent, &owner.aid, "Helper", &format!("nonce-for-{name:0>8}"), 0);
    let params = json!({ "name": "Helper", "webhook_url": url, "proof": proof });
    text(&agents.ok(owner, "agent.create", params).await["agent"]["id"])
}

/// Runs a task until something holds.
async fn while_running(task: impl Future<Output = ()>, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let both = async {
        tokio::select! {
            () = task => panic!("the task ended"),
            () = waiting => {}
        }
    };
    tokio::time::timeout(Duration::from_secs(20), both).await.expect("it holds in time");
}

#[tokio::test]
async fn an_event_that_was_stored_is_published_by_who_comes_after() {
    let agents = TestAgents::open().await;
    let id = agents.agent().await;
    agents.grant(&agents.bob, &id, &["filesystem:read"]).await;
    agents.told().await;
    agents.patch(&id, with_required_member()).await;
    agents.connect(&agents.bob, 1);
    // The process that stored it published nothing; another one opens the same database.
    let next = AgentService::open(&agents.test.world, &Settings::default()).await.unwrap();
    publish(&next).await;
    assert_eq!(next.outboxes.events.count().await.unwrap(), 0, "it is done with");
    let events = agents.test.events.lock();
    assert_eq!(events.iter().filter(|event| event.method == "event/h2a.reauth_required").count(), 1);
}

#[tokio::test]
async fn a_device_that_connects_later_is_told_what_is_open() {
    let agents = TestAgents::open().await;
    let (bob, id) = (&agents.bob, agents.agent().await);
    let relation = agents.grant(bob, &id, &["filesystem:read"]).await;
    agents.patch(&id, with_required_member()).await;
    assert!(agents.told().await.is_empty(), "nobody is connected");

    let count = || {
        let events = agents.test.events.lock();
        events.iter().filter(|event| event.method == "event/h2a.reauth_required").count()
    };
    let opened = |connection: u64| json!({ "aid": bob.aid, "device_id": "", "connection": connection });
    agents.test.inside("h2a.session_opened", opened(7)).await;
    agents.connect(bob, 7);
    while_running(agents.service.tell_arrivals(), || count() == 1).await;
    {
        let events = agents.test.events.lock();
        let event = events.iter().find(|event| event.method == "event/h2a.reauth_required").unwrap();
        let params: Value = serde_json::from_str(event.params.get()).unwrap();
        assert!(format!("{:?}", event.to).contains('7'), "{:?}", event.to);
        assert_eq!(params["scopes_requiring_reauth"], json!(["filesystem:read"]));
    }
    let device = json!({ "aid": bob.aid, "device_id": "" });
    assert_eq!(agents.test.inside("h2a.session_resync", device.clone()).await, json!({ "published": 1 }));
    let answer = json!({ "id": relation, "granted_scopes": ["filesystem:read"] });
    agents.ok(bob, "h2a.update", answer).await;
    assert_eq!(agents.test.inside("h2a.session_resync", device).await, json!({ "published": 0 }));
}

#[tokio::test]
async fn a_webhook_gets_what_happens_with_a_signature_that_verifies() {
    let agents = TestAgents::open().await;
    let (id, secret) = with_webhook(&agents, &agents.alice, URL).await;
    agents.grant(&agents.bob, &id, &["filesystem:read"]).await;
    agents.patch(&id, with_required_member()).await;
    agents.patch(&id, with_version("1.0.1")).await;
    // One at a time, in order.
    for _ in 0..3 {
        assert_eq!(agents.deliver().await, 1);
    }
    assert_eq!(agents.deliver().await, 0);
    let kinds = agents.webhooks.kinds(URL);
    assert_eq!(kinds, ["relation.established", "h2a.reauth_required", "h2a.manifest_updated"]);
    for post in agents.webhooks.posts.lock().iter() {
        let header = |name: &str| {
            let found = post.headers.iter().find(|(header, _)| *header == name);
            found.map(|(_, value)| value.clone()).unwrap()
        };
        let signed =
            format!("{}.{}.{}", header("x-hashee-timestamp"), header("x-hashee-delivery-id"), post.body);
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let signature = hex::decode(header("x-hashee-signature")).unwrap();
        hmac::verify(&key, signed.as_bytes(), &signature).expect("the signature verifies");
        assert_eq!(header("x-hashee-agent-id"), id);
        let body: Value = serde_json::from_str(&post.body).unwrap();
        assert_eq!((&body["version"], &body["agent_id"]), (&json!("v1"), &json!(id)));
    }
}

#[tokio::test]
async fn a_webhook_that_fails_is_tried_five_times_and_its_owner_sees_it() {
    let agents = TestAgents::open().await;
    let (id, _) = with_webhook(&agents, &agents.alice, URL).await;
    agents.webhooks.answer(URL, Ok(500));
    agents.patch(&id, with_version("1.0.1")).await;
    for wait in [1_000, 5_000, 30_000, 300_000] {
        assert_eq!(agents.deliver().await, 1);
        agents.test.world.clock.advance_ms(wait - 1);
        assert_eq!(agents.deliver().await, 0, "{wait}");
        agents.test.world.clock.advance_ms(1);
    }
    agents.webhooks.answer(URL, Err("no answer within 10000 ms".to_owned()));
    assert_eq!(agents.deliver().await, 1);
    assert_eq!((agents.webhooks.kinds(URL).len(), agents.deliver().await), (5, 0));

    let dead = agents.ok(&agents.alice, "agent.deliveries", json!({ "id": id, "status": "dead" })).await;
    let dead = &dead["deliveries"][0];
    assert_eq!((&dead["attempts"], &dead["type"]), (&json!(5), &json!("h2a.manifest_updated")));
    assert_eq!(
        (&dead["last_error"], dead["ended_at"].is_string()),
        (&json!("no answer within 10000 ms"), true)
    );
    let unreachable = async || {
        agents.ok(&agents.alice, "agent.get", json!({ "id": id })).await["agent"]["webhook_unreachable"]
            == true
    };
    assert!(unreachable().await);
    agents.webhooks.answer(URL, Ok(204));
    agents.patch(&id, with_version("1.0.2")).await;
    agents.deliver().await;
    assert!(!unreachable().await, "it answers again");
    let all = agents.ok(&agents.alice, "agent.deliveries", json!({ "id": id })).await;
    let states: Vec<&Value> =
        all["deliveries"].as_array().unwrap().iter().map(|one| &one["status"]).collect();
    assert_eq!(states, ["delivered", "dead"], "the newest first");
}

#[tokio::test]
async fn a_webhook_that_hangs_does_not_delay_another() {
    let agents = TestAgents::open().await;
    let (hanging, _) = with_webhook(&agents, &agents.alice, URL).await;
    let other_url = "https://other.example/in";
    let (other, _) = with_webhook(&agents, &agents.carol, other_url).await;
    agents.webhooks.answer(URL, Ok(HANGS));
    agents.grant(&agents.bob, &hanging, &[]).await;
    agents.patch(&hanging, with_version("1.0.1")).await;
    let both = || agents.webhooks.kinds(other_url).len() == 1 && !agents.webhooks.kinds(URL).is_empty();
    agents.grant(&agents.bob, &other, &[]).await;
    let deliveries = WebhookDeliveries(agents.service.clone());
    while_running(agents.service.outboxes.webhooks.run(&deliveries), both).await;
    assert_eq!(agents.webhooks.kinds(URL).len(), 1, "of one agent one at a time");
}

#[tokio::test]
async fn of_the_changes_of_one_relation_the_newest_that_nobody_was_told_of_is_published() {
    let agents = TestAgents::open().await;
    let (bob, id) = (&agents.bob, agents.agent().await);
    agents.connect(bob, 1);
    agents.connect(&agents.carol, 2);
    let relation = agents.grant(bob, &id, &[]).await;
    let other = agents.grant(&agents.carol, &id, &[]).await;
    agents.patch(&id, with_required_member()).await;
    for scopes in [json!([]), json!(["filesystem:read"])] {
        agents.ok(bob, "h2a.update", json!({ "id": relation, "granted_scopes": scopes })).await;
    }
    agents.ok(bob, "h2a.revoke", json!({ "id": relation })).await;
    assert_eq!(agents.service.outboxes.events.count().await.unwrap(), 3);
    let told = agents.told().await;
    let about: Vec<(&str, &Value, &Value)> = told
        .iter()
        .filter(|(_, name, _)| name == "relation_changed")
        .map(|(_, _, params)| (params["change"].as_str().unwrap(), &params["relation_id"], &params["status"]))
        .collect();
    let (relation, other) = (json!(relation), json!(other));
    let (active, revoked) = (json!("active"), json!("revoked"));
    assert_eq!(about, [("established", &other, &active), ("revoked", &relation, &revoked)]);
    assert!(told.iter().any(|(_, name, _)| name == "reauth_required"), "questions are not replaced");
}

#[tokio::test]
async fn webhooks_of_one_owner_are_called_four_at_a_time() {
    let agents = TestAgents::open().await;
    agents.webhooks.answer(URL, Ok(HANGS));
    for number in 0..8 {
        let id = another_with_webhook(&agents, &agents.alice, &format!("helper{number}"), URL).await;
        agents.grant(&agents.bob, &id, &[]).await;
    }
    let other_url = "https://other.example/in";
    let (other, _) = with_webhook(&agents, &agents.carol, other_url).await;
    agents.grant(&agents.bob, &other, &[]).await;
    let deliveries = WebhookDeliveries(agents.service.clone());
    let both = || agents.webhooks.kinds(other_url).len() == 1 && agents.webhooks.kinds(URL).len() >= 4;
    while_running(agents.service.outboxes.webhooks.run(&deliveries), both).await;
    assert_eq!(agents.webhooks.kinds(URL).len(), 4);
}

#[tokio::test]
async fn an_owner_with_too_many_deliveries_reads_why_its_oldest_were_given_up() {
    let mut settings = Settings::default();
    settings.webhook.waiting_per_owner = 2;
    let agents = TestAgents::with(settings).await;
    let (first, _) = with_webhook(&agents, &agents.alice, URL).await;
    let second = another_with_webhook(&agents, &agents.alice, "helper", URL).await;
    let (other, _) = with_webhook(&agents, &agents.carol, URL).await;
    for id in [&other, &first, &second] {
        agents.grant(&agents.bob, id, &[]).await;
    }
    agents.grant(&agents.carol, &second, &[]).await;
    let dead = agents.ok(&agents.alice, "agent.deliveries", json!({ "id": first })).await;
    let dead = &dead["deliveries"][0];
    assert_eq!(
        (&dead["status"], &dead["last_error"]),
        (&json!("dead"), &json!("replaced: too many newer ones of its owner are waiting"))
    );
    let waiting = agents.ok(&agents.carol, "agent.deliveries", json!({ "id": other })).await;
    assert_eq!(waiting["deliveries"][0]["status"], "waiting", "another owner's");
}

#[tokio::test]
async fn of_many_deliveries_the_newest_are_kept() {
    let agents = TestAgents::open().await;
    let (id, _) = with_webhook(&agents, &agents.alice, URL).await;
    for n in 0..103 {
        agents.patch(&id, with_version(&format!("1.1.{n}"))).await;
    }
    let list = async |status: &str| {
        let params = json!({ "id": id, "status": status, "limit": 100 });
        agents.ok(&agents.alice, "agent.deliveries", params).await
    };
    let (waiting, dead) = (list("waiting").await, list("dead").await);
    assert_eq!((waiting["deliveries"].as_array().unwrap().len(), waiting.get("next_cursor")), (100, None));
    assert_eq!(dead["deliveries"].as_array().unwrap().len(), 3);
    assert_eq!(waiting["deliveries"][0]["body"]["new_manifest_version"], 104);
}

#[tokio::test]
async fn a_secret_is_shown_when_a_webhook_is_set_first_and_when_it_is_replaced() {
    let agents = TestAgents::open().await;
    let (alice, id) = (&agents.alice, agents.agent().await);
    let set = |url: Value| json!({ "id": id, "webhook_url": url });
    let first = agents.ok(alice, "agent.update", set(json!(URL))).await;
    assert!(first["webhook_secret"].is_string());
    let moved = agents.ok(alice, "agent.update", set(json!("https://hooks.example/other"))).await;
    assert_eq!(moved.get("webhook_secret"), None);
    let rotated = agents.ok(alice, "agent.rotate_token", json!({ "id": id, "webhook_secret": true })).await;
    assert!(rotated["webhook_secret"].is_string() && rotated["webhook_secret"] != first["webhook_secret"]);
    let removed = agents.ok(alice, "agent.update", set(json!(null))).await;
    assert_eq!(removed["agent"].get("webhook_url"), None);
    agents.patch(&id, with_version("1.0.1")).await;
    assert_eq!(agents.deliver().await, 0, "there is no webhook");
}
