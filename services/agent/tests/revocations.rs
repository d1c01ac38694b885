//! Documents of agents that were revoked.

use super::{put, signed};
use crate::store::{Condition, NewAgentMd};
use crate::{AgentService, Settings};
use certs::Certificate;
use serde_json::{Value, json};
use std::sync::Arc;
use testing::{DAY_MS, TestAgent, TestWorld};

async fn publish(test: &TestWorld, agent: &TestAgent) {
    put(test, &agent.aid, &signed(test, agent, &agent.aid, "text"), json!({})).await.unwrap();
}

async fn has_document(test: &TestWorld, agent: &TestAgent) -> bool {
    test.inside("agent.get_agent_md", json!({ "aid": agent.aid })).await["found"] == true
}

/// The service once more, on the same store: a test does its work by itself.
async fn opened(test: &TestWorld) -> Arc<AgentService> {
    AgentService::open(&test.world, &Settings::default()).await.unwrap()
}

#[tokio::test]
async fn a_revoked_agent_loses_its_document_and_nobody_else_does() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let agent = opened(&test).await;
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    publish(&test, &alice).await;
    publish(&test, &carol).await;
    assert_eq!(agent.remove_revoked().await.unwrap(), 0);

    test.inside("ca.revoke_cert", json!({ "aid": alice.aid })).await;
    agent.revoked.notified().await;
    assert_eq!(agent.remove_revoked().await.unwrap(), 1);
    assert!(!has_document(&test, &alice).await && has_document(&test, &carol).await);
    let changes = test.inside("agent.changes", json!({ "after": 0 })).await["changes"].clone();
    let ops: Vec<(&Value, &Value)> =
        changes.as_array().unwrap().iter().map(|change| (&change["aid"], &change["op"])).collect();
    assert_eq!(ops, [(&json!(carol.aid), &json!("upsert")), (&json!(alice.aid), &json!("delete"))]);
    assert!(test.events.lock().last().is_some_and(|event| event.method == "agent.changed"));
}

#[tokio::test]
async fn an_agent_with_a_certificate_left_keeps_its_document() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let alice = test.register("alice").await;
    publish(&test, &alice).await;
    let serial = Certificate::from_pem(&alice.cert).unwrap().serial().to_owned();
    test.inside("ca.renew_cert", json!({ "aid": alice.aid, "old_serial": serial })).await;
    test.inside("ca.revoke_cert", json!({ "serial": serial })).await;
    let agent = opened(&test).await;
    assert_eq!(agent.remove_revoked().await.unwrap(), 0);
    assert!(has_document(&test, &alice).await);
    test.world.clock.advance_ms(DAY_MS);
    test.inside("ca.revoke_cert", json!({ "aid": alice.aid })).await;
    assert_eq!(agent.remove_revoked().await.unwrap(), 1);
}

#[tokio::test]
async fn what_was_revoked_while_it_was_down_is_found_and_remembered() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    publish(&test, &alice).await;
    publish(&test, &carol).await;
    test.inside("ca.revoke_cert", json!({ "aid": alice.aid })).await;
    test.world.clock.advance_ms(DAY_MS);
    let test = test.restart().await;
    let agent = opened(&test).await;
    assert_eq!(agent.remove_revoked().await.unwrap(), 1);
    let since = agent.store.revoked_since().await.unwrap();
    let asked = test.inside("ca.revoked_agents", json!({ "since": since })).await;
    assert_eq!(asked["agents"], json!([]), "it is not asked for again");
    test.inside("ca.revoke_cert", json!({ "aid": carol.aid })).await;
    assert_eq!(agent.remove_revoked().await.unwrap(), 1, "a later one is");
}

#[tokio::test]
async fn a_document_that_was_stored_just_after_the_revocation_is_removed_too() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let agent = opened(&test).await;
    let alice = test.register("alice").await;
    test.inside("ca.revoke_cert", json!({ "aid": alice.aid })).await;
    assert_eq!(agent.remove_revoked().await.unwrap(), 0);
    let now = test.world.clock.now_ms();
    let late = NewAgentMd { aid: &alice.aid, content: "x", etag: "\"x\"", signed: false, now };
    agent.store.put(&late, &Condition::Always).await.unwrap();
    test.world.clock.advance_ms(60_000);
    assert_eq!(agent.remove_revoked().await.unwrap(), 1);
    assert!(!has_document(&test, &alice).await);
}
