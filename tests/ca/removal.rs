//! What the services keep for an agent is gone after its AID was revoked, also if the server is killed at that moment.

use serde_json::{Value, json};

use crate::support::agent::{ConnectedAgent, text};
use crate::support::{TestServer, until};

async fn given(owner: &ConnectedAgent, assignee: &ConnectedAgent) -> String {
    let input = json!({ "type": "text", "content": "please" });
    text(&owner.call("task.create", &json!({ "to": assignee.aid(), "input": input })).await["task_id"])
}

/// How a task stands: its status and why it ended.
async fn seen(agent: &ConnectedAgent, task: &str) -> (Value, Value) {
    let task = agent.call("task.get", &json!({ "task_id": task })).await;
    (task["status"].clone(), task["reason"].clone())
}

async fn prekey_of(asking: &ConnectedAgent, aid: &str) -> Value {
    asking.call("message.e2ee.get_prekey", &json!({ "aid": aid })).await["found"].clone()
}

async fn is_in_directory(asking: &ConnectedAgent, aid: &str) -> bool {
    asking.try_call("search.get_agent", &json!({ "aid": aid })).await.is_ok()
}

#[tokio::test]
async fn everything_of_a_revoked_agent_is_removed_though_the_server_is_killed_right_after() {
    let mut server = TestServer::start().await;
    let (alice, carol) = (server.agent("alice").await, server.agent("carol").await);
    let revoked = carol.aid().to_owned();
    let (asked, asking) = (given(&alice, &carol).await, given(&carol, &alice).await);
    carol.call("task.accept", &json!({ "task_id": asked })).await;
    for number in 0..20 {
        alice.call("message.send", &json!({ "to": revoked, "payload": { "number": number } })).await;
    }
    let prekey = json!({ "prekey_id": "p", "public_key": "MFkw", "signature": "MEUC" });
    carol.call("message.e2ee.put_prekey", &prekey).await;
    let content =
        format!("---\naid: {revoked}\nname: Carol\ntype: agent\nversion: 1.0.0\n---\n# Carol reviews\n");
    let document = json!({ "aid": revoked, "content": content });
    server.by_operator("agent.put_agent_md", &document).await.expect("a document is accepted");
    assert_eq!(prekey_of(&alice, &revoked).await, true);
    until("the directory has it", || async { is_in_directory(&alice, &revoked).await.then_some(()) }).await;

    let reason = json!({ "aid": revoked, "reason": "keyCompromise" });
    server.by_operator("ca.revoke_cert", &reason).await.expect("the operator revokes");
    server.kill();
    server.start_again();
    let alice = server.reconnect(&alice).await;

    let ended = |state: &str, reason: &str| (json!(state), json!(reason));
    for (task, expected) in
        [(&asked, ended("failed", "assignee_revoked")), (&asking, ended("canceled", "owner_revoked"))]
    {
        until("the task has ended", || async { (seen(&alice, task).await == expected).then_some(()) }).await;
    }
    until("its key is gone", || async { (prekey_of(&alice, &revoked).await == false).then_some(()) }).await;
    until("it left the directory", || async { (!is_in_directory(&alice, &revoked).await).then_some(()) })
        .await;
    let found = server.by_operator("agent.get_agent_md", &json!({ "aid": revoked })).await;
    assert_eq!(found.expect("the operator is answered")["found"], false);
    until("it has no inbox", || async {
        let sent = alice.try_call("message.send", &json!({ "to": revoked, "payload": {} })).await;
        sent.err().filter(|error| error["code"] == -32008)
    })
    .await;
}
