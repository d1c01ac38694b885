//! Work that one agent gives another: both sides see the same, and hear of what the other one does.

mod federation;
mod kill;

use serde_json::{Value, json};

use crate::support::agent::{ConnectedAgent, text};
use crate::support::{TestServer, until};

fn said(content: &str) -> Value {
    json!({ "type": "text", "content": content })
}

async fn create(owner: &ConnectedAgent, assignee: &ConnectedAgent) -> String {
    let params = json!({ "to": assignee.aid(), "input": said("please review this") });
    text(&owner.call("task.create", &params).await["task_id"])
}

async fn accepted(owner: &ConnectedAgent, assignee: &ConnectedAgent) -> String {
    let task = create(owner, assignee).await;
    assignee.call("task.accept", &json!({ "task_id": task })).await;
    task
}

/// The next event, in short: `updated working 2`; and its parameters.
async fn next(agent: &ConnectedAgent) -> (String, Value) {
    let event = agent.next_event().await;
    let name = text(&event["method"]);
    let name = name.strip_prefix("event/task.").unwrap_or_else(|| panic!("{event}"));
    let schema = proto_schemas::find_event(&text(&event["method"])).expect("an event has a schema");
    let exact = proto_schemas::exact(&schema.doc()["params"]);
    assert!(jsonschema::is_valid(&exact, &event["params"]), "{event}");
    let params = event["params"].clone();
    (format!("{name} {} {}", text(&params["status"]), params["version"]), params)
}

async fn next_is(agent: &ConnectedAgent, expected: &str) -> Value {
    let (short, params) = next(agent).await;
    assert_eq!(short, expected, "{params}");
    params
}

#[tokio::test]
async fn a_task_goes_from_one_agent_to_another_and_both_hear_of_it() {
    let server = TestServer::shared().await;
    let (alice, bob) = (server.agent("alice").await, server.agent("bobb").await);
    let phone = server.connect_device(&alice, "phone", "default").await;
    let task = create(&alice, &bob).await;
    let heard = next_is(&bob, "updated submitted 1").await;
    assert_eq!((&heard["task_id"], &heard["actor"]), (&json!(task), &json!(alice.aid())));
    next_is(&phone, "updated submitted 1").await;

    let about = json!({ "task_id": task });
    assert_eq!(bob.call("task.accept", &about).await, json!({ "task_id": task, "status": "working" }));
    // The first that the calling connection hears is what somebody else did.
    next_is(&alice, "updated working 2").await;
    next_is(&phone, "updated working 2").await;

    bob.call("task.request_input", &json!({ "task_id": task, "message": said("which PR?") })).await;
    assert_eq!(next_is(&alice, "updated input_required 3").await["message"], said("which PR?"));
    next_is(&phone, "updated input_required 3").await;
    assert_eq!(bob.call_error("task.complete", &about).await["code"], -32172);
    let answer = phone.call("task.send_input", &json!({ "task_id": task, "input": said("7") })).await;
    assert_eq!(answer["status"], "working");
    assert_eq!(
        next_is(&bob, "updated working 4").await["message"],
        said("7"),
        "nothing of its own came before"
    );
    next_is(&alice, "updated working 4").await;

    let artifact =
        json!({ "id": "summary", "type": "text", "mime_type": "text/markdown", "content": "no risk" });
    let complete = json!({ "task_id": task, "artifacts": [artifact], "request_id": "r-1" });
    let completed = bob.call("task.complete", &complete).await;
    assert_eq!(
        bob.call("task.complete", &complete).await,
        completed,
        "a retry is answered as the first time"
    );
    for owner in [&alice, &phone] {
        assert_eq!(next_is(owner, "artifact completed 5").await["artifact"]["content"], "no risk");
        assert_eq!(next_is(owner, "completed completed 5").await["artifacts"][0]["id"], "summary");
    }
    let seen = alice.call("task.get", &about).await;
    assert_eq!((&seen["status"], &seen["version"]), (&json!("completed"), &json!(5)));
    assert_eq!(seen["artifacts"][0]["created_by"], json!(bob.aid()));
    assert_eq!(seen["messages"].as_array().map(Vec::len), Some(3));
    assert!(bob.events_so_far().await.is_empty() && alice.events_so_far().await.is_empty());
}

#[tokio::test]
async fn what_may_not_be_done_is_refused_with_its_code() {
    let server = TestServer::shared().await;
    let (alice, bob, carol) =
        (server.agent("alice").await, server.agent("bobb").await, server.agent("carol").await);
    let code = async |agent: &ConnectedAgent, method: &str, params: Value| {
        agent.call_error(&format!("task.{method}"), &params).await["code"].clone()
    };
    let task = create(&alice, &bob).await;
    let about = json!({ "task_id": task });
    assert_eq!(code(&carol, "get", about.clone()).await, -32170);
    assert_eq!(code(&bob, "fail", about.clone()).await, -32171);
    assert_eq!(code(&alice, "accept", about.clone()).await, -32175);
    bob.call("task.reject", &json!({ "task_id": task, "reason": "busy" })).await;
    assert_eq!(code(&bob, "accept", about).await, -32177);

    let task = accepted(&alice, &bob).await;
    let about = json!({ "task_id": task });
    assert_eq!(code(&bob, "accept", about.clone()).await, -32176);
    let large = json!({ "id": "a", "type": "text", "content": "x".repeat((256 << 10) + 1) });
    assert_eq!(code(&bob, "add_artifact", json!({ "task_id": task, "artifact": large })).await, -32174);
    let part = json!({ "task_id": task, "to": carol.aid(), "input": said("a part") });
    assert_eq!(code(&alice, "delegate", part.clone()).await, -32178);
    for _ in 0..20 {
        bob.call("task.delegate", &part).await;
    }
    assert_eq!(code(&bob, "delegate", part).await, -32179);
    let blocked = bob.call_error("task.complete", &about).await;
    assert_eq!(
        (&blocked["code"], blocked["data"]["children"].as_array().map(Vec::len)),
        (&json!(-32185), Some(20))
    );
    bob.call("task.fail", &json!({ "task_id": task, "reason": "too much" })).await;
    assert_eq!(code(&bob, "fail", about.clone()).await, -32186);

    let below = carol.call("task.list", &json!({ "role": "assignee", "limit": 100 })).await;
    let below = below["items"].as_array().expect("a page has items");
    assert!(below.len() == 20 && below.iter().all(|part| part["status"] == "canceled"));
    assert_eq!(code(&carol, "accept", json!({ "task_id": below[0]["task_id"] })).await, -32173);
    let elsewhere = json!({ "to": "dave.elsewhere.example", "input": said("x") });
    let waits = alice.call("task.create", &elsewhere).await;
    assert_eq!(waits["status"], "submitted", "a domain that is not there holds nothing up");
}

#[tokio::test]
async fn a_participant_subscribes_and_hears_again_after_it_has_connected_again() {
    let server = TestServer::shared().await;
    let (alice, bob, carol) =
        (server.agent("alice").await, server.agent("bobb").await, server.agent("carol").await);
    let params = json!({ "to": bob.aid(), "input": said("x"), "participants": [carol.aid()] });
    let task = text(&alice.call("task.create", &params).await["task_id"]);
    let other = create(&alice, &bob).await;
    let subscribed = carol.call("task.subscribe", &json!({ "task_ids": [other, task] })).await;
    assert_eq!(subscribed, json!({ "subscribed": [task] }), "the other one is not hers to read");
    bob.call("task.accept", &json!({ "task_id": task })).await;
    next_is(&carol, "updated working 2").await;
    let carol = server.reconnect(&carol).await;
    bob.call("task.accept", &json!({ "task_id": other })).await;
    bob.call("task.fail", &json!({ "task_id": task, "reason": "no" })).await;
    assert_eq!(next_is(&carol, "failed failed 3").await["reason"], "no");
    carol.call("task.unsubscribe", &json!({ "task_ids": [task] })).await;
}

#[tokio::test]
async fn a_restart_loses_no_task_and_no_subscription() {
    let mut server = TestServer::start().await;
    let (alice, bob, carol) =
        (server.agent("alice").await, server.agent("bobb").await, server.agent("carol").await);
    let params = json!({ "to": bob.aid(), "input": said("x"), "participants": [carol.aid()] });
    let task = text(&alice.call("task.create", &params).await["task_id"]);
    carol.call("task.subscribe", &json!({ "task_ids": [task] })).await;
    let before = alice.call("task.get", &json!({ "task_id": task })).await;
    server.kill();
    server.start_again();
    let (alice, bob, carol) =
        (server.reconnect(&alice).await, server.reconnect(&bob).await, server.reconnect(&carol).await);
    assert_eq!(alice.call("task.get", &json!({ "task_id": task })).await, before);
    bob.call("task.accept", &json!({ "task_id": task })).await;
    next_is(&carol, "updated working 2").await;
    next_is(&alice, "updated working 2").await;
}

#[tokio::test]
async fn a_task_that_nobody_accepts_ends_by_itself() {
    let server = TestServer::with("task.idle_timeout_seconds = 1").await;
    let (alice, bob) = (server.agent("alice").await, server.agent("bobb").await);
    let params = json!({ "to": bob.aid(), "input": said("soon"), "accept_timeout_s": 1 });
    alice.call("task.create", &params).await;
    next_is(&bob, "updated submitted 1").await;
    for agent in [&alice, &bob] {
        let ended = next_is(agent, "updated canceled 2").await;
        assert_eq!((&ended["actor"], &ended["reason"]), (&json!("system"), &json!("accept_timeout")));
    }
    accepted(&alice, &bob).await;
    next_is(&alice, "updated working 2").await;
    assert_eq!(next_is(&alice, "failed failed 3").await["reason"], "stale");
    until("it is counted", || async {
        (server.metric_of_all("aund_task_timed_out_total").await == 2.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn agents_give_each_other_tasks_over_http_too() {
    let server = TestServer::shared().await;
    let (alice, bob) = (server.agent("alice").await, server.agent("bobb").await);
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "task.create", "params": { "to": bob.aid(), "input": said("x") },
    });
    let request =
        server.http("POST", "/rpc").bearer(&alice.tokens.access).header("Content-Type", "application/json");
    let answer = request.body(call.to_string()).send().await.json();
    let task = &answer["result"]["task_id"];
    assert!(task.is_string(), "{answer}");
    assert_eq!(next_is(&bob, "updated submitted 1").await["task_id"], *task);
    assert_eq!(
        next_is(&alice, "updated submitted 1").await["task_id"],
        *task,
        "no connection of hers has called"
    );
}

#[tokio::test]
async fn new_tasks_are_limited_by_agent() {
    let server = TestServer::with("limits.classes.\"task.create\" = 5").await;
    let (alice, bob) = (server.agent("alice").await, server.agent("bobb").await);
    let params = json!({ "to": bob.aid(), "input": said("x") });
    let mut refused = None;
    for _ in 0..200 {
        if let Err(error) = alice.try_call("task.create", &params).await {
            refused = Some(error);
            break;
        }
    }
    let refused = refused.expect("a storm of tasks is slowed down");
    assert_eq!(refused["code"], -32029);
    alice.call("task.list", &json!({})).await;
}
