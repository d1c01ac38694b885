//! Relations: what can be granted, who may read and change it, and what a changed manifest does to it.

use super::support::{TestAgents, sample, text, with_required_member, with_scope, with_version};
use crate::Settings;
use serde_json::{Value, json};
use testing::{DAY_MS, TestAgent};

#[tokio::test]
async fn a_user_grants_what_the_agent_declares() {
    let agents = TestAgents::open().await;
    let (bob, id) = (&agents.bob, agents.agent().await);
    let grant = |scopes: Value| json!({ "agent_id": id, "granted_scopes": scopes });
    let error =
        agents.call(bob, "h2a.grant", grant(json!(["shell:exec", "filesystem:read"]))).await.unwrap_err();
    assert_eq!((error.code(), error.data("kind")), (-32602, Some(&json!("scope_not_declared"))));
    assert_eq!(
        (error.data("scopes"), error.data("http_status")),
        (Some(&json!(["shell:exec"])), Some(&json!(422)))
    );

    // What is not declared is repeated in the answer, so it has a limit.
    let long = format!("{}:{}", "s".repeat(32), "s".repeat(33));
    assert_eq!(agents.refused(bob, "h2a.grant", grant(json!([long]))).await, "INVALID_PARAMS");
    let longest = json!([long[1..]]);
    assert_eq!(agents.refused(bob, "h2a.grant", grant(longest)).await, "SCOPE_NOT_DECLARED");

    let made = agents.ok(bob, "h2a.grant", grant(json!(["filesystem:read", "filesystem:read"]))).await;
    let relation = &made["relation"];
    assert_eq!((&made["created"], &relation["status"]), (&json!(true), &json!("active")));
    assert_eq!((&relation["user_id"], &relation["agent_aid"]), (&json!(bob.aid), &json!(agents.alice.aid)));
    assert_eq!(
        (&relation["granted_scopes"], &relation["granted_manifest_version"]),
        (&json!(["filesystem:read"]), &json!(1))
    );
    let again = agents.ok(bob, "h2a.grant", grant(json!(["filesystem:read"]))).await;
    assert_eq!((&again["created"], &again["relation"]), (&json!(false), relation));
    let other = agents.call(bob, "h2a.grant", grant(json!([]))).await.unwrap_err();
    assert_eq!(
        (other.data("kind"), other.data("relation_id")),
        (Some(&json!("relation_exists")), Some(&relation["id"]))
    );
    let nobody = json!({ "agent_id": "nobody.aid.pub", "granted_scopes": [] });
    assert_eq!(agents.refused(bob, "h2a.grant", nobody).await, "AGENT_NOT_FOUND");
}

#[tokio::test]
async fn a_tool_that_is_required_needs_its_scope() {
    let agents = TestAgents::open().await;
    let mut manifest = sample();
    manifest["tools"][0]["required"] = json!(true);
    let id = agents.agent().await;
    agents.patch(&id, manifest).await;
    let without = json!({ "agent_id": id, "granted_scopes": [] });
    let error = agents.call(&agents.bob, "h2a.grant", without).await.unwrap_err();
    assert_eq!(error.data("kind"), Some(&json!("required_scope_not_granted")));
    assert_eq!(
        (error.data("tools"), error.data("scopes")),
        (Some(&json!(["read_file"])), Some(&json!(["filesystem:read"])))
    );
    let relation = agents.grant(&agents.bob, &id, &["filesystem:read"]).await;
    let less = json!({ "id": relation, "granted_scopes": [] });
    assert_eq!(agents.refused(&agents.bob, "h2a.update", less).await, "REQUIRED_SCOPE_NOT_GRANTED");
}

#[tokio::test]
async fn a_relation_is_read_by_its_parties_and_changed_by_its_user() {
    let agents = TestAgents::open().await;
    let (alice, bob, carol) = (&agents.alice, &agents.bob, &agents.carol);
    let id = agents.agent().await;
    let relation = agents.grant(bob, &id, &["filesystem:read"]).await;
    let about = json!({ "id": relation });
    for who in [alice, bob] {
        assert_eq!(agents.ok(who, "h2a.get", about.clone()).await["relation"]["id"], json!(relation));
    }
    assert_eq!(
        agents.ok(bob, "h2a.get", json!({ "id": alice.aid })).await["relation"]["id"],
        json!(relation)
    );
    assert_eq!(agents.refused(carol, "h2a.get", about.clone()).await, "RELATION_FORBIDDEN");
    assert_eq!(agents.refused(carol, "h2a.get", json!({ "id": alice.aid })).await, "RELATION_NOT_FOUND");
    for who in [alice, carol] {
        let update = json!({ "id": relation, "granted_scopes": [] });
        assert_eq!(agents.refused(who, "h2a.update", update).await, "RELATION_FORBIDDEN");
        assert_eq!(agents.refused(who, "h2a.revoke", about.clone()).await, "RELATION_FORBIDDEN");
    }
    agents.grant(carol, &id, &[]).await;
    let many = async |who: &TestAgent, params: Value| {
        agents.ok(who, "h2a.list", params).await["relations"].as_array().unwrap().len()
    };
    let of_agent = json!({ "agent_id": id });
    assert_eq!((many(alice, of_agent.clone()).await, many(alice, json!({})).await), (2, 0));
    assert_eq!((many(bob, of_agent).await, many(bob, json!({ "reauth_required": true })).await), (1, 0));
    let first = agents.ok(alice, "h2a.list", json!({ "agent_id": id, "limit": 1 })).await;
    let next = json!({ "agent_id": id, "limit": 1, "cursor": first["next_cursor"] });
    let second = agents.ok(alice, "h2a.list", next).await;
    assert_eq!((&second["relations"][0]["user_id"], second.get("next_cursor")), (&json!(carol.aid), None));

    assert_eq!(agents.ok(bob, "h2a.revoke", about.clone()).await["relation"]["status"], "revoked");
    agents.ok(bob, "h2a.revoke", about.clone()).await;
    let update = json!({ "id": relation, "granted_scopes": [] });
    assert_eq!(agents.refused(bob, "h2a.update", update).await, "RELATION_REVOKED");
    assert_ne!(agents.grant(bob, &id, &[]).await, relation, "a new one");
    agents.test.world.clock.advance_ms(31 * DAY_MS);
    assert_eq!(agents.service.remove_old().await.unwrap(), 1);
    assert_eq!(agents.refused(bob, "h2a.get", about).await, "RELATION_NOT_FOUND");
}

#[tokio::test]
async fn a_breaking_change_asks_every_active_user_and_nobody_else() {
    let agents = TestAgents::open().await;
    let (bob, carol, id) = (&agents.bob, &agents.carol, agents.agent().await);
    let dave = agents.test.register("dave").await;
    agents.grant(bob, &id, &["filesystem:read"]).await;
    let suspended = agents.grant(carol, &id, &["filesystem:read"]).await;
    let revoked = agents.grant(&dave, &id, &[]).await;
    agents.test.inside("h2a.suspend", json!({ "id": suspended })).await;
    agents.ok(&dave, "h2a.revoke", json!({ "id": revoked })).await;
    for who in [bob, carol, &dave] {
        agents.connect(who, 1);
    }
    agents.told().await;

    agents.patch(&id, with_required_member()).await;
    let told = agents.told_of_manifests().await;
    assert_eq!(told.len(), 1, "{told:?}");
    let (to, name, params) = &told[0];
    assert!(to.contains(&bob.aid) && name == "reauth_required", "{told:?}");
    assert_eq!((&params["agent_id"], &params["new_manifest_version"]), (&json!(id), &json!(2)));
    assert_eq!(params["scopes_requiring_reauth"], json!(["filesystem:read"]));
    let relation = agents.relation(bob).await;
    assert_eq!(
        (&relation["reauth_required"], &relation["reauth_manifest_version"]),
        (&json!(true), &json!(2))
    );
    assert_eq!(relation["granted_scopes"], json!(["filesystem:read"]), "nothing is blocked meanwhile");
    assert_eq!(agents.relation(carol).await["reauth_required"], true, "for the time after the suspension");
    assert_eq!(agents.relation(&dave).await["reauth_required"], false);

    agents.patch(&id, with_version("1.0.1")).await;
    let told = agents.told_of_manifests().await;
    assert_eq!((told.len(), told[0].1.as_str()), (1, "manifest_updated"));
    assert_eq!(agents.relation(bob).await["reauth_required"], true, "still open");
}

#[tokio::test]
async fn what_a_user_is_asked_about_grows_until_the_user_answers() {
    let agents = TestAgents::open().await;
    let (bob, id) = (&agents.bob, agents.agent().await);
    let relation = agents.grant(bob, &id, &["filesystem:read"]).await;
    let two = with_scope(sample(), "camera:use", "high");
    agents.patch(&id, two.clone()).await;
    agents.patch(&id, with_scope(two, "shell:exec", "high")).await;
    let asked = agents.relation(bob).await;
    assert_eq!(
        (&asked["reauth_scopes"], &asked["reauth_manifest_version"]),
        (&json!(["camera:use", "shell:exec"]), &json!(3))
    );

    let answer = |version: i64| json!({ "id": relation, "granted_scopes": ["filesystem:read", "camera:use"], "manifest_version": version });
    let error = agents.call(bob, "h2a.update", answer(2)).await.unwrap_err();
    assert_eq!((error.code(), error.data("kind")), (-32009, Some(&json!("manifest_version_conflict"))));
    assert_eq!(agents.relation(bob).await["reauth_required"], true);
    let answered = agents.ok(bob, "h2a.update", answer(3)).await["relation"].clone();
    assert_eq!((&answered["reauth_required"], &answered["reauth_scopes"]), (&json!(false), &json!([])));
    assert_eq!(answered["granted_scopes"], json!(["camera:use", "filesystem:read"]));
    assert_eq!(
        (&answered["granted_manifest_version"], answered.get("reauth_manifest_version")),
        (&json!(3), None)
    );
}

#[tokio::test]
async fn scopes_that_are_gone_are_taken_out_of_every_grant() {
    let agents = TestAgents::open().await;
    let (bob, carol, id) = (&agents.bob, &agents.carol, agents.agent().await);
    agents.patch(&id, with_scope(sample(), "camera:use", "high")).await;
    agents.grant(bob, &id, &["camera:use", "filesystem:read"]).await;
    agents.grant(carol, &id, &["filesystem:read"]).await;
    agents.connect(bob, 1);
    agents.told().await;
    let updated = agents.patch(&id, sample()).await;
    assert_eq!(updated["manifest_change"]["breaking"], false);
    let relation = agents.relation(bob).await;
    assert_eq!(
        (&relation["granted_scopes"], &relation["reauth_required"]),
        (&json!(["filesystem:read"]), &json!(false))
    );
    assert_eq!(agents.relation(carol).await["granted_scopes"], json!(["filesystem:read"]));
    let told = agents.told_of_manifests().await;
    assert_eq!((told.len(), told[0].1.as_str()), (1, "manifest_updated"), "silently");

    // A breaking change that takes a scope away, too: both at once.
    let mut other = with_scope(sample(), "shell:exec", "high");
    other["permission_scopes"].as_array_mut().unwrap().remove(0);
    other["tools"] = json!([]);
    agents.patch(&id, other).await;
    let relation = agents.relation(bob).await;
    assert_eq!(
        (&relation["granted_scopes"], &relation["reauth_scopes"]),
        (&json!([]), &json!(["shell:exec"]))
    );
}

#[tokio::test]
async fn the_first_manifest_asks_users_who_granted_nothing_yet() {
    let agents = TestAgents::open().await;
    let made = agents.ok(&agents.alice, "agent.create", json!({ "name": "Helper" })).await;
    let id = text(&made["agent"]["id"]);
    agents.grant(&agents.bob, &id, &[]).await;
    agents.patch(&id, sample()).await;
    assert_eq!(agents.relation(&agents.bob).await["reauth_scopes"], json!(["filesystem:read"]));
}

#[tokio::test]
async fn both_sides_are_told_of_a_relation_and_the_operator_suspends_and_restores_it() {
    let agents = TestAgents::open().await;
    let (bob, id) = (&agents.bob, agents.agent().await);
    agents.connect(bob, 1);
    agents.connect(&agents.alice, 2);
    agents.told().await;
    let relation = agents.grant(bob, &id, &[]).await;
    let about = json!({ "id": relation });
    for (method, change, status) in [
        ("", "established", "active"),
        ("h2a.suspend", "suspended", "suspended"),
        ("h2a.restore", "restored", "active"),
    ] {
        if !method.is_empty() {
            let answer = agents.test.inside(method, about.clone()).await;
            assert_eq!(answer["relation"]["status"], status);
            agents.test.inside(method, about.clone()).await;
        }
        let told = agents.told().await;
        assert_eq!(told.len(), 2, "{told:?}");
        for ((to, _, params), who) in told.iter().zip([bob, &agents.alice]) {
            assert!(to.contains(&who.aid), "{told:?}");
            assert_eq!((&params["change"], &params["status"]), (&json!(change), &json!(status)));
        }
    }
    for method in ["h2a.suspend", "h2a.restore"] {
        assert_eq!(agents.call(bob, method, about.clone()).await.unwrap_err().code(), -32601);
    }
}

#[tokio::test]
async fn a_user_has_so_many_relations_and_no_more() {
    let agents = TestAgents::with(Settings { relations_per_user: 1, ..Settings::default() }).await;
    let id = agents.agent().await;
    agents.ok(&agents.carol, "agent.create", json!({ "name": "Second" })).await;
    agents.grant(&agents.bob, &id, &[]).await;
    let second = json!({ "agent_id": agents.carol.aid, "granted_scopes": [] });
    let error = agents.call(&agents.bob, "h2a.grant", second).await.unwrap_err();
    assert_eq!((error.code(), error.data("kind")), (-32029, Some(&json!("relation_limit_reached"))));
}
