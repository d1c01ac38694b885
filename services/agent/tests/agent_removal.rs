//! What is removed of agents whose AID ended.

use super::registry::proof;
use super::support::{TestAgents, sample};
use super::{put, signed};
use crate::store::{Condition, NewAgentMd};
use crate::{AgentService, Settings};
use certs::Certificate;
use kernel::AgentRemover;
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

/// What its task does: a pass over the agents that ended. Gives how many those were.
async fn remove_ended(test: &TestWorld, agent: &Arc<AgentService>) -> usize {
    AgentRemover::new(&test.world, "agent", agent.store.db(), agent.clone()).remove_ended().await.unwrap()
}

#[tokio::test]
async fn a_revoked_agent_loses_its_document_and_nobody_else_does() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let agent = opened(&test).await;
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    publish(&test, &alice).await;
    publish(&test, &carol).await;
    assert_eq!(remove_ended(&test, &agent).await, 0);

    test.inside("ca.revoke_cert", json!({ "aid": alice.aid })).await;
    assert_eq!(remove_ended(&test, &agent).await, 1);
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
    assert_eq!(remove_ended(&test, &agent).await, 0);
    assert!(has_document(&test, &alice).await);
    test.world.clock.advance_ms(DAY_MS);
    test.inside("ca.revoke_cert", json!({ "aid": alice.aid })).await;
    assert_eq!(remove_ended(&test, &agent).await, 1);
    assert!(!has_document(&test, &alice).await);
}

#[tokio::test]
async fn what_was_revoked_while_it_was_down_is_found_after_the_start() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let alice = test.register("alice").await;
    publish(&test, &alice).await;
    test.inside("ca.revoke_cert", json!({ "aid": alice.aid })).await;
    test.world.clock.advance_ms(DAY_MS);
    let test = test.restart().await;
    let agent = opened(&test).await;
    assert_eq!(remove_ended(&test, &agent).await, 1);
    assert!(!has_document(&test, &alice).await);
    assert_eq!(remove_ended(&test, &agent).await, 0, "it is remembered");
}

#[tokio::test]
async fn a_document_that_was_stored_just_after_the_revocation_is_removed_too() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let agent = opened(&test).await;
    let alice = test.register("alice").await;
    test.inside("ca.revoke_cert", json!({ "aid": alice.aid })).await;
    remove_ended(&test, &agent).await;
    let now = test.world.clock.now_ms();
    let payer = agent.store.account.payer_of(kernel::Aid::parse(&alice.aid).unwrap());
    let late = NewAgentMd { aid: &alice.aid, content: "x", etag: "\"x\"", signed: false, now, payer };
    agent.store.put(&late, &Condition::Always).await.unwrap();
    test.world.clock.advance_ms(60_000);
    remove_ended(&test, &agent).await;
    assert!(!has_document(&test, &alice).await);
}

#[tokio::test]
async fn what_is_registered_about_a_revoked_agent_is_removed() {
    let agents = TestAgents::open().await;
    let id = agents.agent().await;
    let relation = agents.grant(&agents.bob, &id, &[]).await;
    agents.test.inside("ca.revoke_cert", json!({ "aid": agents.alice.aid })).await;
    remove_ended(&agents.test, &agents.service).await;
    assert_eq!(agents.refused(&agents.bob, "agent.get", json!({ "id": id })).await, "AGENT_NOT_FOUND");
    let left = agents.ok(&agents.bob, "h2a.get", json!({ "id": relation })).await;
    assert_eq!(left["relation"]["status"], "revoked");
}

#[tokio::test]
async fn what_a_revoked_agent_registered_for_others_and_granted_them_is_removed() {
    let agents = TestAgents::open().await;
    let (alice, bob, carol) = (&agents.alice, &agents.bob, &agents.carol);
    let helper = agents.agent().await;
    let proof = proof(&agents, carol, &bob.aid, "Other", "nonce-number-0001", 0);
    let other = json!({ "name": "Other", "proof": proof, "capability_manifest": sample() });
    agents.ok(bob, "agent.create", other).await;
    agents.grant(bob, &helper, &["filesystem:read"]).await;
    agents.connect(alice, 7);
    agents.told().await;

    agents.test.inside("ca.revoke_cert", json!({ "aid": bob.aid })).await;
    remove_ended(&agents.test, &agents.service).await;
    assert_eq!(agents.refused(alice, "agent.get", json!({ "id": carol.aid })).await, "AGENT_NOT_FOUND");
    let relations = agents.ok(bob, "h2a.list", json!({})).await;
    assert_eq!(relations["relations"], json!([]));
    let told = agents.told().await;
    let of_alice: Vec<&Value> = told
        .iter()
        .filter(|(to, ..)| to.contains(&alice.aid))
        .map(|(_, _, params)| &params["change"])
        .collect();
    assert_eq!(of_alice, ["revoked"], "the other side hears of it");
    agents.ok(alice, "agent.get", json!({ "id": helper })).await;
}
