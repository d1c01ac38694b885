//! Agents of two domains work on one task: both see the same, each hears what it should, and a restart loses nothing.

use serde_json::{Value, json};

use super::{create, next_is, said};
use crate::support::agent::{ConnectedAgent, text};
use crate::support::domain::DomainPair;
use crate::support::{TestServer, split, until};

/// Waits until a domain was told of a task, and that it has this status.
async fn until_listed(agent: &ConnectedAgent, task: &str, status: &str) -> Value {
    until("the task is listed", || async {
        let page = agent.call("task.list", &json!({ "status": status, "limit": 100 })).await;
        let items = page["items"].as_array().expect("a page has items");
        items.iter().find(|item| item["task_id"] == *task).cloned()
    })
    .await
}

/// The events of a task until this one, in short. While a domain is away events are dropped, so only the last one is certain.
async fn until_heard(agent: &ConnectedAgent, expected: &str) -> Value {
    loop {
        let (short, params) = super::next(agent).await;
        if short == expected {
            return params;
        }
    }
}

#[tokio::test]
async fn a_task_goes_to_and_fro_between_two_domains() {
    let pair = DomainPair::shared().await;
    let (alice, bob, carol) =
        (pair.near.agent("alice").await, pair.far.agent("bobb").await, pair.near.agent("carol").await);
    let phone = pair.far.connect_device(&bob, "phone", "default").await;
    let task = create(&alice, &bob).await;
    let heard = next_is(&bob, "updated submitted 1").await;
    assert_eq!((&heard["task_id"], &heard["actor"]), (&json!(task), &json!(alice.aid())));
    next_is(&phone, "updated submitted 1").await;
    let listed = until_listed(&bob, &task, "submitted").await;
    assert_eq!((&listed["remote"], &listed["home_issuer"]), (&json!(true), &json!("near.test")));

    let about = json!({ "task_id": task });
    assert_eq!(bob.call("task.accept", &about).await, json!({ "task_id": task, "status": "working" }));
    next_is(&alice, "updated working 2").await;
    assert_eq!(bob.call_error("task.accept", &about).await["code"], -32176);
    bob.call("task.request_input", &json!({ "task_id": task, "message": said("which PR?") })).await;
    assert_eq!(next_is(&alice, "updated input_required 3").await["message"], said("which PR?"));
    next_is(&phone, "updated input_required 3").await;
    alice.call("task.send_input", &json!({ "task_id": task, "input": said("7") })).await;
    // The first that the calling connection hears is what somebody else did.
    assert_eq!(next_is(&bob, "updated working 4").await["message"], said("7"));
    next_is(&phone, "updated working 4").await;

    let part = json!({ "task_id": task, "to": carol.aid(), "input": said("a part") });
    let child = text(&bob.call("task.delegate", &part).await["task_id"]);
    assert_eq!(next_is(&alice, "delegated working 5").await["child_task_id"], json!(child));
    next_is(&carol, "updated submitted 1").await;
    next_is(&phone, "updated submitted 1").await;
    assert_eq!(bob.call_error("task.complete", &about).await["code"], -32185);
    carol.call("task.accept", &json!({ "task_id": child })).await;
    let artifact = json!({ "id": "part", "type": "text", "content": "fine" });
    carol.call("task.complete", &json!({ "task_id": child, "artifacts": [artifact] })).await;
    for owner in [&bob, &phone] {
        next_is(owner, "updated working 2").await;
        assert_eq!(next_is(owner, "artifact completed 3").await["artifact"]["content"], "fine");
        next_is(owner, "completed completed 3").await;
    }

    let seen = bob.call("task.get", &about).await;
    assert_eq!(seen, alice.call("task.get", &about).await, "both see the same");
    assert_eq!(seen["home_issuer"], "near.test");
    assert_eq!(bob.call("task.children", &about).await["count"], 1);
    let complete = json!({ "task_id": task, "request_id": "r-1" });
    let completed = bob.call("task.complete", &complete).await;
    assert_eq!(bob.call("task.complete", &complete).await, completed);
    next_is(&alice, "completed completed 6").await;
    until_listed(&bob, &task, "completed").await;

    let canceled = create(&alice, &bob).await;
    next_is(&bob, "updated submitted 1").await;
    alice.call("task.cancel", &json!({ "task_id": canceled, "reason": "late" })).await;
    assert_eq!(next_is(&bob, "updated canceled 2").await["reason"], "late");
    assert_eq!(bob.call_error("task.accept", &json!({ "task_id": canceled })).await["code"], -32173);
    assert!(bob.events_so_far().await.is_empty() && alice.events_so_far().await.is_empty());
    assert_eq!(carol.call_error("task.get", &about).await["code"], -32170, "it is not hers to read");
}

#[tokio::test]
async fn a_participant_subscribes_in_its_own_domain() {
    let pair = DomainPair::shared().await;
    let (alice, bob, carol) =
        (pair.near.agent("alice").await, pair.near.agent("bobb").await, pair.far.agent("carol").await);
    let params = json!({ "to": bob.aid(), "input": said("x"), "participants": [carol.aid()] });
    let task = text(&alice.call("task.create", &params).await["task_id"]);
    until_listed(&carol, &task, "submitted").await;
    let subscribed = carol.call("task.subscribe", &json!({ "task_ids": [task] })).await;
    assert_eq!(subscribed, json!({ "subscribed": [task] }));
    bob.call("task.accept", &json!({ "task_id": task })).await;
    next_is(&carol, "updated working 2").await;
    carol.call("task.send_input", &json!({ "task_id": task, "input": said("hm") })).await;
    bob.call("task.fail", &json!({ "task_id": task, "reason": "no" })).await;
    assert_eq!(next_is(&carol, "failed failed 4").await["reason"], "no", "nothing of its own came before");
}

#[tokio::test]
async fn a_task_for_nobody_is_canceled() {
    let pair = DomainPair::shared().await;
    let alice = pair.near.agent("alice").await;
    let params = json!({ "to": "nobody.far.test", "input": said("x") });
    alice.call("task.create", &params).await;
    assert_eq!(next_is(&alice, "updated canceled 2").await["reason"], "assignee_unknown");
}

#[tokio::test]
async fn the_domain_of_the_assignee_restarts_in_the_middle() {
    let mut pair = DomainPair::start().await;
    let (alice, bob, carol) =
        (pair.near.agent("alice").await, pair.far.agent("bobb").await, pair.near.agent("carol").await);
    let task = create(&alice, &bob).await;
    next_is(&bob, "updated submitted 1").await;
    bob.call("task.accept", &json!({ "task_id": task })).await;
    next_is(&alice, "updated working 2").await;

    pair.far.kill();
    alice.call("task.send_input", &json!({ "task_id": task, "input": said("more") })).await;
    let late = create(&alice, &bob).await;
    let gone = create(&alice, &bob).await;
    alice.call("task.cancel", &json!({ "task_id": gone })).await;
    let local = create(&alice, &carol).await;
    assert_eq!(next_is(&carol, "updated submitted 1").await["task_id"], json!(local), "nobody else waits");
    pair.far.start_again();
    pair.far.knows_its_gateway().await;
    let bob = pair.far.reconnect(&bob).await;

    until_listed(&bob, &late, "submitted").await;
    until_listed(&bob, &gone, "canceled").await;
    until("the change is known", || async {
        (until_listed(&bob, &task, "working").await["version"] == 3).then_some(())
    })
    .await;
    let part = json!({ "task_id": task, "to": carol.aid(), "input": said("a part") });
    let child = text(&bob.call("task.delegate", &part).await["task_id"]);
    next_is(&carol, "updated submitted 1").await;
    carol.call("task.accept", &json!({ "task_id": child })).await;
    carol.call("task.complete", &json!({ "task_id": child })).await;
    until_heard(&bob, "completed completed 3").await;
    bob.call("task.complete", &json!({ "task_id": task })).await;
    until_heard(&alice, "completed completed 5").await;
    bob.call("task.reject", &json!({ "task_id": late, "reason": "busy" })).await;
    assert_eq!(until_heard(&alice, "updated rejected 2").await["reason"], "busy");
}

#[tokio::test]
async fn the_home_of_a_task_restarts_in_the_middle() {
    let mut pair = DomainPair::start().await;
    let (alice, bob, carol) =
        (pair.near.agent("alice").await, pair.far.agent("bobb").await, pair.near.agent("carol").await);
    let task = create(&alice, &bob).await;
    next_is(&bob, "updated submitted 1").await;
    let about = json!({ "task_id": task });
    bob.call("task.accept", &about).await;
    let part = json!({ "task_id": task, "to": carol.aid(), "input": said("a part") });
    let child = text(&bob.call("task.delegate", &part).await["task_id"]);
    until_listed(&bob, &child, "submitted").await;

    pair.near.kill();
    // Whether the link was still open when the call was sent is chance; that it says which of the two it was is not.
    let error = bob.call_error("task.get", &about).await;
    let lost = error["code"] == -32011 && error["data"]["reason"] == "link_lost";
    assert!(lost || error["code"] == -32010 && error["data"]["phase"].is_string(), "{error}");
    assert_eq!(error["data"]["target_issuer"], "near.test", "{error}");
    assert_eq!(until_listed(&bob, &task, "working").await["home_issuer"], "near.test", "it is not forgotten");
    pair.near.start_again();
    pair.near.knows_its_gateway().await;
    let (alice, carol) = (pair.near.reconnect(&alice).await, pair.near.reconnect(&carol).await);

    carol.call("task.accept", &json!({ "task_id": child })).await;
    carol.call("task.complete", &json!({ "task_id": child })).await;
    until_listed(&bob, &child, "completed").await;
    until("the home answers again", || async { bob.try_call("task.get", &about).await.ok() }).await;
    bob.call("task.request_input", &json!({ "task_id": task, "message": said("done?") })).await;
    until_heard(&alice, "updated input_required 4").await;
    alice.call("task.send_input", &json!({ "task_id": task, "input": said("yes") })).await;
    until_heard(&bob, "updated working 5").await;
    bob.call("task.complete", &about).await;
    until_heard(&alice, "completed completed 6").await;
    assert_eq!(bob.call("task.get", &about).await, alice.call("task.get", &about).await);
}

/// A task that cannot reach the domain of its assignee until somebody does something about it ends, and says why.
#[tokio::test]
async fn a_task_for_a_domain_that_cannot_be_asked_for_good_ends_with_the_reason() {
    let blocked = DomainPair::with("federation.block = [\"far.test\"]", "").await;
    let untrusted = DomainPair::without_trust("", "").await;
    for (n, (server, to, reason)) in [
        (&untrusted.near, "carol.no.such.invalid", "domain_unknown"),
        (&untrusted.near, "carol.far.test", "domain_untrusted"),
        (&blocked.near, "carol.far.test", "domain_blocked"),
    ]
    .into_iter()
    .enumerate()
    {
        let alice = server.agent(&format!("alice{n}")).await;
        let created = alice.call("task.create", &json!({ "to": to, "input": said("please") })).await;
        assert_eq!(created["status"], "submitted", "{created}");
        let about = json!({ "task_id": created["task_id"] });
        let ended = || async {
            let task = alice.call("task.get", &about).await;
            (task["status"] == "canceled").then_some(task)
        };
        let task = until("the task ends", ended).await;
        // Where no resolver answers, nobody knows whether the name exists.
        let unanswered = to.ends_with(".invalid") && task["reason"] == "domain_untrusted";
        assert!(unanswered || task["reason"] == reason, "{to}: {task}");
    }
}

/// One process knows that it has no federation and refuses the task. In a split server the service learns it when it tells the other
/// domain, and the task ends with that reason.
#[tokio::test]
async fn where_federation_is_switched_off_a_task_for_another_domain_ends_for_good() {
    let server = TestServer::shared_with("federation.enabled = false").await;
    let alice = server.agent("alice").await;
    let message = json!({ "to": "carol.far.test", "payload": { "text": "hello" } });
    // In a split server the service first has to find its gateway; until then it may be worth another try.
    until("a message to another domain is refused for good", || async {
        let error = alice.call_error("message.send", &message).await;
        (error["data"]["retryable"] == false).then_some(())
    })
    .await;

    let create = json!({ "to": "carol.far.test", "input": said("please") });
    match alice.try_call("task.create", &create).await {
        Err(error) => {
            assert!(!split(), "{error}");
            assert_eq!(
                (&error["code"], &error["data"]["retryable"]),
                (&json!(-32010), &json!(false)),
                "{error}"
            );
        }
        Ok(created) => {
            assert!(split(), "{created}");
            let about = json!({ "task_id": created["task_id"] });
            let task = until("the task ends", || async {
                let task = alice.call("task.get", &about).await;
                (task["status"] == "canceled").then_some(task)
            })
            .await;
            assert_eq!(task["reason"], "federation_off", "{task}");
        }
    }
}
