//! Registering agents: by whom, under which AID, and what is refused.

use super::support::{TestAgents, sample, text};
use crate::Settings;
use serde_json::{Value, json};
use testing::TestAgent;

/// A proof by an agent that somebody may register it under a name.
pub(super) fn proof(
    agents: &TestAgents,
    agent: &TestAgent,
    owner: &str,
    name: &str,
    nonce: &str,
    age: i64,
) -> Value {
    let timestamp = agents.test.world.clock.now_seconds() - age;
    let signed = format!("aun-agent-registration-v1\n{}\n{owner}\n{name}\n{timestamp}\n{nonce}", agent.aid);
    json!({ "aid": agent.aid, "timestamp": timestamp, "nonce": nonce, "signature": agent.sign(&signed) })
}

#[tokio::test]
async fn an_agent_is_registered_read_listed_and_removed() {
    let agents = TestAgents::open().await;
    let (alice, bob) = (&agents.alice, &agents.bob);
    let params = json!({
        "name": "Helper", "description": "Helps", "webhook_url": "https://hooks.example/in",
        "health_check_url": "https://hooks.example/health", "capability_manifest": sample(),
    });
    let made = agents.ok(alice, "agent.create", params).await;
    let agent = &made["agent"];
    assert_eq!((&agent["aid"], &agent["owner_id"]), (&json!(alice.aid), &json!(alice.aid)));
    assert_eq!(
        (&agent["connection_mode"], &agent["capability_manifest_version"]),
        (&json!("websocket"), &json!(1))
    );
    let hash = "caec494a0a6ce5631d5c43ac6ba492dbac5c4d0f03f6fa69b00c01edb523de80";
    assert_eq!(
        (&agent["capability_manifest"], &agent["capability_manifest_hash"]),
        (&sample(), &json!(hash))
    );
    assert!(text(&made["agent_token"]).starts_with("hsk_") && made["webhook_secret"].is_string());

    for id in [text(&agent["id"]), alice.aid.clone()] {
        let read = agents.ok(bob, "agent.get", json!({ "id": id })).await;
        assert_eq!(read["agent"]["capability_manifest"], sample());
        for hidden in
            ["webhook_url", "health_check_url", "webhook_unreachable", "webhook_secret", "token_hash"]
        {
            assert!(read["agent"].get(hidden).is_none(), "{hidden}");
        }
        let own = agents.ok(alice, "agent.get", json!({ "id": id })).await;
        assert_eq!(own["agent"]["webhook_url"], "https://hooks.example/in");
    }
    let listed = agents.ok(alice, "agent.list", json!({})).await;
    assert_eq!(
        (&listed["agents"][0]["id"], listed["agents"][0].get("capability_manifest")),
        (&agent["id"], None)
    );
    assert_eq!(agents.ok(bob, "agent.list", json!({})).await["agents"], json!([]));

    let about = json!({ "id": agent["id"] });
    assert_eq!(agents.refused(bob, "agent.delete", about.clone()).await, "AGENT_NOT_OWNER");
    agents.ok(alice, "agent.delete", about.clone()).await;
    for method in ["agent.get", "agent.delete", "agent.update", "agent.rotate_token", "agent.deliveries"] {
        assert_eq!(agents.refused(alice, method, about.clone()).await, "AGENT_NOT_FOUND", "{method}");
    }
}

#[tokio::test]
async fn secrets_are_not_stored_as_they_are_shown() {
    let agents = TestAgents::open().await;
    let made = agents.ok(&agents.alice, "agent.create", json!({ "name": "Helper" })).await;
    let row = agents.service.store.agent(&agents.alice.aid).await.unwrap().unwrap();
    assert_ne!(row.token_hash, text(&made["agent_token"]));
    assert_eq!((row.token_hash.len(), row.webhook_secret), (64, None));
}

#[tokio::test]
async fn another_aid_is_registered_only_with_its_own_agreement() {
    let agents = TestAgents::open().await;
    let (alice, bob, carol) = (&agents.alice, &agents.bob, &agents.carol);
    let nonce = "0123456789abcdef";
    let create = async |who: &TestAgent, name: &str, proof: Value| {
        agents.call(who, "agent.create", json!({ "name": name, "proof": proof })).await
    };
    let good = proof(&agents, bob, &alice.aid, "Helper", nonce, 10);
    let mut of_another_key = proof(&agents, carol, &alice.aid, "Helper", nonce, 10);
    of_another_key["aid"] = json!(bob.aid);
    let mut elsewhere = good.clone();
    elsewhere["aid"] = json!("bobb.other.example");
    let refused = [
        (carol, "Helper", good.clone()),
        (alice, "Other name", good.clone()),
        (alice, "Helper", proof(&agents, bob, &alice.aid, "Helper", nonce, 301)),
        (alice, "Helper", proof(&agents, bob, &alice.aid, "Helper", nonce, -301)),
        (alice, "Helper", proof(&agents, bob, &alice.aid, "Helper", "short", 0)),
        (alice, "Helper", of_another_key),
        (alice, "Helper", elsewhere),
    ];
    for (who, name, proof) in refused {
        let error = create(who, name, proof.clone()).await.unwrap_err();
        assert_eq!(error.data("kind"), Some(&json!("agent_proof_invalid")), "{proof}");
        assert_eq!((error.code(), error.data("http_status")), (-32004, Some(&json!(403))));
    }
    let made = create(alice, "Helper", good.clone()).await.unwrap();
    assert_eq!((&made["agent"]["aid"], &made["agent"]["owner_id"]), (&json!(bob.aid), &json!(alice.aid)));

    agents.ok(alice, "agent.delete", json!({ "id": bob.aid })).await;
    let again = create(alice, "Helper", good).await.unwrap_err();
    assert!(again.to_string().contains("used before"), "{again}");
    let fresh = proof(&agents, bob, &alice.aid, "Helper", "another-nonce-of-bob", 0);
    create(alice, "Helper", fresh).await.expect("a new proof");
}

#[tokio::test]
async fn there_is_one_agent_for_each_aid_and_a_limit_for_each_owner() {
    let agents = TestAgents::with(Settings { agents_per_owner: 2, ..Settings::default() }).await;
    let alice = &agents.alice;
    let id = agents.agent().await;
    let error = agents.call(alice, "agent.create", json!({ "name": "Again" })).await.unwrap_err();
    assert_eq!((error.code(), error.data("agent_id")), (-32009, Some(&json!(id))));
    for (agent, nonce) in [(&agents.bob, "nonce-of-bob-0000"), (&agents.carol, "nonce-of-carol-00")] {
        let proof = proof(&agents, agent, &alice.aid, "More", nonce, 0);
        let made = agents.call(alice, "agent.create", json!({ "name": "More", "proof": proof })).await;
        match agent.aid == agents.bob.aid {
            true => assert!(made.is_ok()),
            false => assert_eq!(made.unwrap_err().code(), -32029, "the third is too many"),
        }
    }
}

#[tokio::test]
async fn only_the_owner_changes_an_agent() {
    let agents = TestAgents::open().await;
    let id = agents.agent().await;
    let manifest = json!({ "id": id, "capability_manifest": sample() });
    for (method, params) in [
        ("agent.update", json!({ "id": id, "name": "Mine" })),
        ("agent.update", manifest),
        ("agent.rotate_token", json!({ "id": id })),
        ("agent.deliveries", json!({ "id": id })),
        ("agent.delete", json!({ "id": id })),
    ] {
        let error = agents.call(&agents.bob, method, params).await.unwrap_err();
        assert_eq!((error.code(), error.data("kind")), (-32004, Some(&json!("agent_not_owner"))), "{method}");
        assert_eq!(error.data("i18n_key"), Some(&json!("error.agent.not_owner")));
    }
}

#[tokio::test]
async fn what_an_agent_may_not_be_is_refused() {
    let agents = TestAgents::open().await;
    let alice = &agents.alice;
    let cases = [
        (json!({ "name": "" }), "INVALID_PARAMS"),
        (json!({ "name": "a\nb" }), "INVALID_PARAMS"),
        (json!({ "name": "x".repeat(121) }), "INVALID_PARAMS"),
        (json!({ "name": "Helper", "description": "x".repeat(2001) }), "INVALID_PARAMS"),
        (json!({ "name": "Helper", "connection_mode": "pigeon" }), "INVALID_PARAMS"),
        (json!({ "name": "Helper", "connection_mode": "webhook" }), "INVALID_PARAMS"),
        (json!({ "name": "Helper", "connection_mode": "polling" }), "CONNECTION_MODE_UNSUPPORTED"),
        (json!({ "name": "Helper", "webhook_url": "http://hooks.example/" }), "WEBHOOK_URL_REFUSED"),
        (json!({ "name": "Helper", "webhook_url": "https://127.0.0.1/" }), "WEBHOOK_URL_REFUSED"),
        (json!({ "name": "Helper", "webhook_url": "https://10.1.2.3/" }), "WEBHOOK_URL_REFUSED"),
        (json!({ "name": "Helper", "health_check_url": "https://[::1]/" }), "WEBHOOK_URL_REFUSED"),
        (json!({ "name": "Helper", "capability_manifest": null }), "MANIFEST_INVALID"),
        (json!({ "name": "Helper", "capability_manifest": {} }), "MANIFEST_INVALID"),
    ];
    for (params, expected) in cases {
        assert_eq!(agents.refused(alice, "agent.create", params.clone()).await, expected, "{params}");
    }
    assert_eq!(agents.ok(alice, "agent.list", json!({})).await["agents"], json!([]), "nothing was stored");
    agents
        .ok(alice, "agent.create", json!({ "name": "x".repeat(120), "description": "ü".repeat(2000) }))
        .await;
}

#[tokio::test]
async fn agents_are_listed_page_by_page() {
    let agents = TestAgents::open().await;
    let alice = &agents.alice;
    agents.agent().await;
    for (at, agent) in [&agents.bob, &agents.carol].into_iter().enumerate() {
        let proof = proof(&agents, agent, &alice.aid, "More", &format!("nonce-number-{at:04}"), 0);
        agents.ok(alice, "agent.create", json!({ "name": "More", "proof": proof })).await;
    }
    let first = agents.ok(alice, "agent.list", json!({ "limit": 2 })).await;
    let aids = |page: &Value| -> Vec<String> {
        page["agents"].as_array().unwrap().iter().map(|agent| text(&agent["aid"])).collect()
    };
    assert_eq!(aids(&first), [alice.aid.clone(), agents.bob.aid.clone()]);
    let next = json!({ "limit": 2, "cursor": first["next_cursor"] });
    let second = agents.ok(alice, "agent.list", next).await;
    assert_eq!((aids(&second), second.get("next_cursor")), (vec![agents.carol.aid.clone()], None));
    assert_eq!(agents.refused(alice, "agent.list", json!({ "cursor": "x" })).await, "INVALID_PARAMS");
}
