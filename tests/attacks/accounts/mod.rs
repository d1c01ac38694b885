//! What an agent makes the server keep is counted for it, and limited.

mod networks;

use serde_json::{Value, json};

use crate::support::agent::{ConnectedAgent, text};
use crate::support::{TestServer, printed, until};

/// Small shares, and calls without end.
const SMALL: &str = "task.kept_bytes = 1048576\nagent.kept_bytes = 3584\nlimits.calls_per_second = 1000000
limits.classes.\"task.create\" = 1000000";

fn said(words: &str) -> Value {
    json!({ "type": "text", "content": words })
}

/// Gives tasks with long inputs until one is refused: how many were stored, and why no more.
async fn fill(from: &ConnectedAgent, to: &ConnectedAgent) -> (Vec<String>, Value) {
    let words = "x".repeat(60_000);
    let mut stored = Vec::new();
    for _ in 0..100 {
        let task = json!({ "to": to.aid(), "input": said(&words) });
        match from.try_call("task.create", &task).await {
            Ok(created) => stored.push(text(&created["task_id"])),
            Err(error) => return (stored, error),
        }
    }
    (stored, Value::Null)
}

/// What `meta.account` says of one namespace.
async fn account(agent: &ConnectedAgent, namespace: &str) -> Value {
    let account = agent.call("meta.account", &json!({})).await;
    assert_eq!(account["aid"], agent.aid());
    let namespaces = account["namespaces"].as_array().expect("a list");
    namespaces.iter().find(|of| of["namespace"] == namespace).expect("it keeps something").clone()
}

/// Tasks had no quota of bytes: 312 MB in eight seconds, kept for 90 days.
#[tokio::test]
async fn who_fills_tasks_is_refused_and_others_are_not() {
    let server = TestServer::with(SMALL).await;
    let (mallory, bob, carol) =
        (server.agent("mallory").await, server.agent("bobb").await, server.agent("carol").await);
    let (stored, error) = fill(&mallory, &bob).await;
    assert_eq!(stored.len(), 17, "tasks of 60 kB in 1 MiB: {error}");
    let data = &error["data"];
    assert_eq!((&error["code"], &data["scope"]), (&json!(-32029), &json!("task.kept_bytes")));
    assert_eq!((&data["limit"], &data["retryable"]), (&json!(1 << 20), &json!(false)));
    assert!(data["retry_after_ms"].is_null(), "nothing runs out by itself");

    let kept = account(&mallory, "task").await;
    assert_eq!((&kept["bytes"], &kept["bytes_limit"]), (&data["held"], &data["limit"]));
    assert_eq!(kept["rows"], 34, "a task is a row, and its input is one");
    assert_eq!(account(&bob, "task").await["bytes"], 0, "who is given tasks does not pay for them");

    // What needs no space goes on, and who works on a task pays for what comes out.
    bob.call("task.accept", &json!({ "task_id": stored[0] })).await;
    let artifact = json!({ "id": "result", "type": "text", "content": "y".repeat(1000) });
    bob.call("task.add_artifact", &json!({ "task_id": stored[0], "artifact": artifact })).await;
    assert!(account(&bob, "task").await["bytes"].as_i64() > Some(1500));
    mallory.call("task.cancel", &json!({ "task_id": stored[1] })).await;
    let small = json!({ "task_id": stored[0], "input": said("more") });
    mallory.call("task.send_input", &small).await;
    let long = json!({ "task_id": stored[0], "input": said(&"x".repeat(60_000)) });
    assert_eq!(mallory.call_error("task.send_input", &long).await["data"]["scope"], "task.kept_bytes");
    assert_eq!(fill(&carol, &bob).await.0.len(), 17, "she has a share of her own");
}

/// Documents and manifests were limited one by one, and not together.
#[tokio::test]
async fn who_has_many_grants_and_a_long_document_is_refused_the_next_one() {
    let server = TestServer::with(SMALL).await;
    let alice = server.agent("alice").await;
    let document = |words: usize| {
        let front = format!("---\naid: {}\nname: Alice\ntype: assistant\nversion: 1.0.0\n---\n", alice.aid());
        front + &"word ".repeat(words)
    };
    let put = async |words: usize| {
        let request = server.http("PUT", "/agent.md").host(alice.aid()).bearer(&alice.tokens.access);
        request.body(document(words)).send().await
    };
    assert_eq!(put(500).await.status, 200);
    let refused = put(750).await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert!(refused.text().contains("may be stored"), "{}", refused.text());
    assert!(account(&alice, "agent").await["bytes"].as_i64() < Some(3584), "the first one stays");
    assert_eq!(put(10).await.status, 200, "a shorter one is never refused");
}

#[tokio::test]
async fn the_operator_sees_accounts_gives_one_agent_more_and_counts_again() {
    let server = TestServer::with(SMALL).await;
    let (mallory, bob) = (server.agent("mallory").await, server.agent("bobb").await);
    assert_eq!(fill(&mallory, &bob).await.0.len(), 17);
    let aund = async |words: &[&str]| {
        let output = server.aund_on_gateway(words).await;
        assert!(output.status.success(), "{}", printed(&output.stderr));
        (printed(&output.stdout), printed(&output.stderr))
    };
    let (listed, _) = aund(&["accounts"]).await;
    assert!(listed.contains(mallory.aid()) && listed.contains("1.0 MiB"), "{listed}");
    let set = ["accounts", "set", mallory.aid(), "--namespace", "task", "--bytes", "2MiB"];
    assert!(aund(&set).await.0.contains("2.0 MiB"));
    // Other processes hear of it within five seconds.
    until("more is kept", async || fill(&mallory, &bob).await.0.pop()).await;
    let (json, noted) = aund(&["accounts", mallory.aid(), "--recount", "--json"]).await;
    assert!(noted.contains("task: corrected 0 accounts"), "{noted}");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert!(json["accounts"].as_array().is_some_and(|accounts| accounts.len() == 3), "{json}");
}
