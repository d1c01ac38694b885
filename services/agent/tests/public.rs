//! What is read of an agent without a token, and what people are shown of its scopes.

use super::put;
use super::support::{TestAgents, sample, with_scope};
use kernel::Caller;
use serde_json::{Value, json};

impl TestAgents {
    async fn without_token(&self, id: &str) -> Result<Value, (i32, Value, String)> {
        let nobody = Caller::Unauthenticated(Some([127, 0, 0, 1].into()));
        let read = self.test.call_as(nobody, "agent.get", json!({ "id": id })).await;
        read.map(|mut read| read["agent"].take()).map_err(|error| {
            (error.code(), error.data("kind").cloned().unwrap_or_default(), error.to_string())
        })
    }

    /// Alice says about herself who may find her.
    async fn describe(&self, visibility: &str) {
        let aid = &self.alice.aid;
        let content = format!("---\naid: {aid}\nname: a\ntype: agent\n{visibility}---\n# a\n");
        put(&self.test, aid, &content, json!({})).await.expect("a document is accepted");
    }
}

#[tokio::test]
async fn without_a_token_an_agent_is_read_that_describes_itself_to_everybody() {
    let agents = TestAgents::open().await;
    let params = json!({
        "name": "Helper", "description": "Helps", "connection_mode": "webhook", "webhook_url": "https://hooks.example/in",
        "health_check_url": "https://hooks.example/health", "capability_manifest": sample(),
    });
    let made = agents.ok(&agents.alice, "agent.create", params).await;
    let id = made["agent"]["id"].as_str().unwrap().to_owned();
    let unknown = agents.without_token("0190163d-868b-7ce2-a5f1-c1b6d0b3a7e4").await.unwrap_err();
    assert_eq!((unknown.0, &unknown.1), (-32001, &json!("unauthenticated")));

    let hidden = async |why: &str| {
        for id in [id.as_str(), &agents.alice.aid] {
            assert_eq!(agents.without_token(id).await.unwrap_err(), unknown, "{why}");
        }
    };
    hidden("it has published nothing").await;
    for visibility in ["visibility: private\n", "visibility: unlisted\n"] {
        agents.describe(visibility).await;
        hidden(visibility).await;
    }
    for other in [agents.bob.aid.as_str(), "helper.other.example", "nobody.aid.pub", "?"] {
        assert_eq!(agents.without_token(other).await.unwrap_err(), unknown, "{other}");
    }

    for visibility in ["", "visibility: public\n"] {
        agents.describe(visibility).await;
        for id in [&id, &agents.alice.aid] {
            let read = agents.without_token(id).await.unwrap();
            let full = agents.ok(&agents.bob, "agent.get", json!({ "id": id })).await["agent"].clone();
            let mut expected = full.as_object().unwrap().clone();
            for owners in ["owner_id", "connection_mode"] {
                assert!(expected.remove(owners).is_some(), "{owners}");
            }
            assert_eq!(read, Value::Object(expected));
        }
    }
    agents.test.inside("agent.delete_agent_md", json!({ "aid": agents.alice.aid })).await;
    hidden("it is described no more").await;
}

#[tokio::test]
async fn a_manifest_comes_with_what_people_are_shown_of_its_scopes() {
    let agents = TestAgents::open().await;
    let id = agents.agent().await;
    agents.patch(&id, with_scope(sample(), "shell:exec", "high")).await;
    let read = agents.ok(&agents.bob, "agent.get", json!({ "id": id })).await;
    let expected = json!({
        "filesystem:read": {
            "zh": { "label": "读取本地文件", "description": "读取此设备上的文件内容" },
            "en": { "label": "Read local files", "description": "Read the contents of files on this device" },
        },
        "shell:exec": { "": { "label": "A scope", "description": "What it is for" } },
    });
    assert_eq!(read["agent"]["scope_texts"], expected);

    let none = agents.ok(&agents.bob, "agent.create", json!({ "name": "Without a manifest" })).await;
    let none = agents.ok(&agents.bob, "agent.get", json!({ "id": none["agent"]["id"] })).await;
    assert!(none["agent"].get("scope_texts").is_none(), "{none}");
}

#[tokio::test]
async fn a_grant_that_names_no_scopes_grants_none() {
    let agents = TestAgents::open().await;
    let id = agents.agent().await;
    let made = agents.ok(&agents.bob, "h2a.grant", json!({ "agent_id": id })).await;
    assert_eq!((&made["created"], &made["relation"]["granted_scopes"]), (&json!(true), &json!([])));
    let again = agents.ok(&agents.bob, "h2a.grant", json!({ "agent_id": id, "granted_scopes": [] })).await;
    assert_eq!((&again["created"], &again["relation"]), (&json!(false), &made["relation"]));
    assert_eq!(agents.relation(&agents.bob).await["granted_scopes"], json!([]));
}

#[tokio::test]
async fn times_of_agents_and_relations_are_whole_seconds() {
    let agents = TestAgents::open().await;
    agents.test.world.clock.advance_ms(345);
    let id = agents.agent().await;
    agents.grant(&agents.bob, &id, &[]).await;
    let second = kernel::iso(agents.test.world.clock.now_ms());
    assert_eq!(second.len(), "2026-03-21T13:00:00Z".len());
    let read = agents.ok(&agents.bob, "agent.get", json!({ "id": id })).await;
    let relation = agents.relation(&agents.bob).await;
    for found in [&read["agent"], &relation] {
        assert_eq!((&found["created_at"], &found["updated_at"]), (&json!(second), &json!(second)));
    }
}
