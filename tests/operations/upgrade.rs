//! A data folder of an earlier build, with something waiting in every outbox, is taken over: nothing is lost, and the order stays.
//!
//! It needs that earlier build: `AUND_TEST_BEFORE=…/aund cargo test … -- --ignored upgrade`, once for each store.

use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::agent::agents_http::{answer, manifest};
use crate::federation::{named, words};
use crate::support::agent::{ConnectedAgent, text};
use crate::support::domain::DomainPair;
use crate::support::{TestServer, setting, until, within};

const SETTINGS: &str = "message.peer_retention_seconds = 3600\nagent.webhook.allow_private = true";

#[tokio::test]
#[ignore = "it needs an earlier build, which AUND_TEST_BEFORE names"]
async fn what_waits_in_a_folder_of_an_earlier_build_is_delivered_in_order() {
    let before = setting("AUND_TEST_BEFORE").expect("AUND_TEST_BEFORE names an earlier build");
    let mut pair = DomainPair::with_earlier_build(&before, SETTINGS).await;
    let (alice, carol) = (pair.near.agent("alice").await, pair.far.agent("carol").await);
    let task = create_task(&alice, carol.aid()).await;
    until_listed(&carol, &task, "submitted").await;
    alice.call("message.send", &named(carol.aid(), "m-0", "0")).await;
    pair.far.kill();

    let kept = named(carol.aid(), "m-1", "1");
    let is_kept = || async {
        alice.try_call("message.send", &kept).await.ok().filter(|sent| sent["status"] == "queued")
    };
    until("a message is kept", is_kept).await;
    for n in 2..60 {
        let sent = alice.call("message.send", &named(carol.aid(), &format!("m-{n}"), &n.to_string())).await;
        assert_eq!(sent["status"], "queued", "{sent}");
    }
    let late = create_task(&alice, carol.aid()).await;
    alice.call("task.cancel", &json!({ "task_id": task })).await;
    // Nobody listens at the port: every delivery waits.
    let hook =
        TcpListener::bind("127.0.0.1:0").await.expect("a port is free").local_addr().expect("it listens");
    let agent = change_manifest(&pair.near, &alice, &format!("http://{hook}/hook")).await;

    pair.near.kill();
    pair.near.start_again();
    let hook = TcpListener::bind(hook).await.expect("the port is still free");
    pair.far.start_again();
    let carol = pair.far.reconnect(&carol).await;
    until("every message arrives", || async { (words(&carol).await.len() == 60).then_some(()) }).await;
    assert_eq!(words(&carol).await, (0..60).map(|n| n.to_string()).collect::<Vec<_>>());
    until_listed(&carol, &late, "submitted").await;
    until_listed(&carol, &task, "canceled").await;
    let mut versions = Vec::new();
    while versions.last() != Some(&json!(4)) {
        let body = delivered(&hook).await;
        assert_eq!(body["agent_id"], json!(agent), "{body}");
        versions.push(body["new_manifest_version"].clone());
    }
    assert_eq!(versions, [json!(2), json!(3), json!(4)]);
}

async fn create_task(owner: &ConnectedAgent, assignee: &str) -> String {
    let params = json!({ "to": assignee, "input": { "type": "text", "content": "please" } });
    text(&owner.call("task.create", &params).await["task_id"])
}

/// Waits until a domain was told of a task, and that it has this status.
async fn until_listed(agent: &ConnectedAgent, task: &str, status: &str) {
    until("the task is listed", || async {
        let page = agent.call("task.list", &json!({ "status": status })).await;
        let items = page["items"].as_array().expect("a page has items");
        items.iter().any(|item| item["task_id"] == *task).then_some(())
    })
    .await;
}

/// An agent that somebody has granted something, and three changes of its manifest that ask again for it.
async fn change_manifest(server: &TestServer, owner: &ConnectedAgent, hook: &str) -> String {
    let user = server.agent("user-one").await;
    let params = json!({ "name": "Helper", "webhook_url": hook, "capability_manifest": manifest(&["p0"]) });
    let id = text(&owner.call("agent.create", &params).await["agent"]["id"]);
    let grant = json!({ "agent_id": id, "granted_scopes": ["filesystem:read"] });
    user.call("h2a.grant", &grant).await;
    for required in [&["p0", "p1"][..], &["p0", "p1", "p2"], &["p0", "p1", "p2", "p3"]] {
        owner.call("agent.update", &json!({ "id": id, "capability_manifest": manifest(required) })).await;
    }
    id
}

/// The next body that is sent to the webhook about consent.
async fn delivered(hook: &TcpListener) -> Value {
    loop {
        let (stream, _) = within("a webhook", hook.accept()).await.expect("it listens");
        let (_, body) = answer(stream).await;
        let body: Value = serde_json::from_str(&body).expect("a body is JSON");
        if body["type"] == "h2a.reauth_required" {
            return body;
        }
    }
}
