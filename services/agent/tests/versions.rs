//! Manifests and their versions: each change counts once, in order, without gaps.

use super::support::{TestAgents, sample, text, with_required_member, with_scope, with_version};
use crate::sending::WebhookSender;
use crate::{AgentService, Settings, rpc};
use kernel::World;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::task::JoinSet;

#[tokio::test]
async fn a_version_grows_by_one_and_the_same_manifest_is_no_change() {
    let agents = TestAgents::open().await;
    let made = agents.ok(&agents.alice, "agent.create", json!({ "name": "Helper" })).await;
    let id = text(&made["agent"]["id"]);
    assert_eq!(made["agent"]["capability_manifest_version"], 0);
    assert_eq!(made["agent"].get("capability_manifest_hash"), None);

    let first = agents.patch(&id, sample()).await;
    let change = &first["manifest_change"];
    assert_eq!((&change["from_version"], &change["to_version"]), (&json!(0), &json!(1)));
    assert_eq!(change["hash"], first["agent"]["capability_manifest_hash"]);
    let again = agents.patch(&id, sample()).await;
    assert_eq!(
        (again.get("manifest_change"), &again["agent"]["capability_manifest_version"]),
        (None, &json!(1))
    );

    let second = agents.patch(&id, with_required_member()).await;
    let change = &second["manifest_change"];
    assert_eq!((&change["to_version"], &change["breaking"]), (&json!(2), &json!(true)));
    assert_eq!(change["hash"], "6f87f9eb657798f114718c56d642aa6b4433c15f263dfaa2cf7569b552a98fe4");
    assert_eq!(change["scopes_requiring_reauth"], json!(["filesystem:read"]));
    let reasons = change["reasons"].as_array().unwrap();
    assert!(
        reasons.iter().any(|reason| reason["rule"] == "R1" && reason["tool"] == "read_file"),
        "{reasons:?}"
    );

    let third = agents.patch(&id, with_version("1.1.0")).await;
    assert_eq!(third["agent"]["capability_manifest_version"], 3);
    let named = agents.ok(&agents.alice, "agent.update", json!({ "id": id, "name": "Other" })).await;
    assert_eq!((named.get("manifest_change"), &named["agent"]["name"]), (None, &json!("Other")));
    assert_eq!(named["agent"]["capability_manifest_version"], 3);
}

#[tokio::test]
async fn a_writer_that_expects_another_version_changes_nothing() {
    let agents = TestAgents::open().await;
    let id = agents.agent().await;
    let update = |version: i64| json!({ "id": id, "name": "New", "capability_manifest": with_version("2.0.0"), "expected_manifest_version": version });
    let error = agents.call(&agents.alice, "agent.update", update(0)).await.unwrap_err();
    assert_eq!((error.code(), error.data("kind")), (-32009, Some(&json!("manifest_version_conflict"))));
    assert_eq!((error.data("current"), error.data("http_status")), (Some(&json!(1)), Some(&json!(409))));
    let read = agents.ok(&agents.alice, "agent.get", json!({ "id": id })).await;
    assert_eq!(
        (&read["agent"]["name"], &read["agent"]["capability_manifest_version"]),
        (&json!("Helper"), &json!(1))
    );
    let updated = agents.ok(&agents.alice, "agent.update", update(1)).await;
    assert_eq!(updated["agent"]["capability_manifest_version"], 2);
}

#[tokio::test]
async fn what_is_wrong_with_a_manifest_is_said_and_nothing_changes() {
    let agents = TestAgents::open().await;
    let id = agents.agent().await;
    let reserved = with_scope(sample(), "system:reboot", "high");
    let mut several = reserved.clone();
    several["agent_version"] = json!("one");
    let mut large = sample();
    large["padding"] = json!("x".repeat(131_072));
    for (manifest, expected, status) in [
        (json!(null), "MANIFEST_INVALID", 422),
        (several, "MANIFEST_INVALID", 422),
        (reserved, "MANIFEST_RESERVED_SCOPE", 422),
        (large, "MANIFEST_TOO_LARGE", 413),
    ] {
        let params = json!({ "id": id, "capability_manifest": manifest });
        let error = agents.call(&agents.alice, "agent.update", params).await.unwrap_err();
        assert_eq!(error.data("kind"), Some(&json!(expected.to_ascii_lowercase())), "{error}");
        assert_eq!((error.code(), error.data("http_status")), (-32602, Some(&json!(status))), "{expected}");
        match status {
            413 => assert_eq!(error.data("limit"), Some(&json!(131_072))),
            _ => {
                assert!(error.data("violations").and_then(Value::as_array).is_some_and(|all| !all.is_empty()))
            }
        }
    }
    let read = agents.ok(&agents.alice, "agent.get", json!({ "id": id })).await;
    assert_eq!(read["agent"]["capability_manifest"], sample());
}

#[tokio::test]
async fn fifty_writers_at_once_get_versions_without_gaps_or_repeats() {
    let agents = TestAgents::open().await;
    let made = agents.ok(&agents.alice, "agent.create", json!({ "name": "Helper" })).await;
    let id = text(&made["agent"]["id"]);
    // Half of them in a second process on the same database.
    let sender: Arc<dyn WebhookSender> = agents.webhooks.clone();
    let world = World { cpu: Arc::default(), ..agents.test.world.clone() };
    let other = AgentService::open_with(&world, &Settings::default(), sender).await.unwrap();
    let tables = [rpc(agents.service.clone()), rpc(other)];
    let mut writers = JoinSet::new();
    for n in 0..50 {
        let (methods, caller) = (tables[n % 2].clone(), agents.alice.caller());
        let params = json!({ "id": id, "capability_manifest": with_version(&format!("1.0.{n}")) });
        writers.spawn(async move {
            let params = to_raw_value(&params).unwrap();
            let answer = methods.call(caller, "agent.update", Some(&params)).unwrap().await.unwrap();
            serde_json::from_str::<Value>(answer.result.get()).unwrap()
        });
    }
    let mut versions = BTreeSet::new();
    for answer in writers.join_all().await {
        let change = &answer["manifest_change"];
        let (from, to) = (change["from_version"].as_i64().unwrap(), change["to_version"].as_i64().unwrap());
        assert_eq!(
            (to, change["hash"].clone()),
            (from + 1, answer["agent"]["capability_manifest_hash"].clone())
        );
        assert!(versions.insert(to), "{to} was given twice");
    }
    assert_eq!(versions, (1..=50).collect::<BTreeSet<i64>>());
    let read = agents.ok(&agents.alice, "agent.get", json!({ "id": id })).await;
    assert_eq!(read["agent"]["capability_manifest_version"], 50);
}
