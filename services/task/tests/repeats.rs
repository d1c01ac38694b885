//! Retries: idempotency keys, request ids, input ids and expected versions.

use super::*;
use certs::canonical_json;
use kernel::sha256_hex;

#[tokio::test]
async fn a_key_makes_one_task_however_often_it_is_sent() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let create = json!({ "to": cast.bob.aid, "input": text("x"), "idempotency_key": "k" });
    let mut calls = JoinSet::new();
    for _ in 0..10 {
        tasks.spawn(&mut calls, cast.alice.caller(), "create", create.clone());
    }
    let answers: Vec<Value> = calls.join_all().await.into_iter().map(Result::unwrap).collect();
    assert!(answers.iter().all(|answer| id(answer) == id(&answers[0])));
    assert_eq!(answers.iter().filter(|answer| answer.get("duplicate").is_none()).count(), 1);
    let listed = tasks.ok(&cast.alice, "list", json!({})).await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);

    // Written in another way, it is the same call.
    let same = json!({ "idempotency_key": "k", "input": text("x"), "visibility": null, "to": cast.bob.aid.to_uppercase() });
    assert_eq!(tasks.ok(&cast.alice, "create", same).await["duplicate"], json!(true));
    let other = json!({ "to": cast.bob.aid, "input": text("y"), "idempotency_key": "k" });
    let refused = tasks.refused(&cast.alice, "create", other).await;
    assert_eq!((refused.code(), refused.data("reason")), (-32602, Some(&json!("idempotency_conflict"))));
    assert!(
        tasks.ok(&cast.carol, "create", create.clone()).await.get("duplicate").is_none(),
        "another agent's key"
    );

    tasks.pass(DAY_MS);
    let later = tasks.ok(&cast.alice, "create", create).await;
    assert!(later.get("duplicate").is_none() && id(&later) != id(&answers[0]), "after a day it is forgotten");
}

#[tokio::test]
async fn a_key_delegates_once_and_is_not_one_for_another_call() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    let part =
        json!({ "task_id": task, "to": cast.dave.aid, "input": text("a part"), "idempotency_key": "k" });
    let mut calls = JoinSet::new();
    for _ in 0..10 {
        tasks.spawn(&mut calls, cast.bob.caller(), "delegate", part.clone());
    }
    let answers: Vec<Value> = calls.join_all().await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|answer| answer.get("duplicate").is_none()).count(), 1);
    let seen = tasks.get(&cast.bob, &task).await;
    assert_eq!(seen["children"].as_array().unwrap().len(), 1);
    assert_eq!(seen["version"], json!(3), "one change, however often it was asked for");
    let create = json!({ "to": cast.dave.aid, "input": text("a part"), "idempotency_key": "k" });
    assert_eq!(tasks.code(&cast.bob, "create", create).await, -32602);
}

#[tokio::test]
async fn a_request_id_is_answered_as_the_first_time() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.submitted(&cast).await;
    let accept = json!({ "task_id": task, "request_id": "r" });
    let first = tasks.ok(&cast.bob, "accept", accept.clone()).await;
    assert_eq!(tasks.ok(&cast.bob, "accept", accept.clone()).await, first);
    assert_eq!(tasks.code(&cast.bob, "accept", json!({ "task_id": task })).await, -32176);
    assert_eq!(tasks.get(&cast.bob, &task).await["version"], json!(2));
    // The same words of another agent, and another call with the same words.
    assert_eq!(tasks.code(&cast.alice, "accept", accept.clone()).await, -32175, "the rights come first");
    let reject = tasks.refused(&cast.bob, "reject", accept.clone()).await;
    assert_eq!((reject.code(), reject.data("reason")), (-32602, Some(&json!("idempotency_conflict"))));

    let fail = json!({ "task_id": task, "reason": "no", "request_id": "f" });
    let failed = tasks.ok(&cast.bob, "fail", fail.clone()).await;
    assert_eq!(tasks.ok(&cast.bob, "fail", fail.clone()).await, failed);
    assert_eq!(tasks.code(&cast.bob, "fail", json!({ "task_id": task, "reason": "no" })).await, -32186);
    assert_eq!(tasks.ok(&cast.bob, "accept", accept.clone()).await, first, "also after the end");
    tasks.pass(DAY_MS);
    assert_eq!(tasks.code(&cast.bob, "fail", fail).await, -32186, "for a day");
}

#[tokio::test]
async fn a_call_that_was_refused_is_not_remembered() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.submitted(&cast).await;
    let complete = json!({ "task_id": task, "request_id": "r" });
    assert_eq!(tasks.code(&cast.bob, "complete", complete.clone()).await, -32171);
    tasks.ok(&cast.bob, "accept", json!({ "task_id": task })).await;
    assert_eq!(tasks.ok(&cast.bob, "complete", complete).await["status"], "completed");
}

#[tokio::test]
async fn an_input_id_is_taken_once() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    let input = json!({ "task_id": task, "input": { "type": "json", "content": { "a": 1, "b": 2 } }, "input_id": "i" });
    let mut calls = JoinSet::new();
    for _ in 0..5 {
        tasks.spawn(&mut calls, cast.alice.caller(), "send_input", input.clone());
    }
    let answers: Vec<Value> = calls.join_all().await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|answer| answer.get("duplicate").is_none()).count(), 1);
    let seen = tasks.get(&cast.alice, &task).await;
    assert_eq!((seen["messages"].as_array().unwrap().len(), &seen["messages"][1]["id"]), (2, &json!("i")));
    let other = json!({ "task_id": task, "input": text("other"), "input_id": "i" });
    assert_eq!(tasks.code(&cast.alice, "send_input", other).await, -32602);
    assert_eq!(tasks.code(&cast.carol, "send_input", input.clone()).await, -32602, "said by somebody else");
    tasks.ok(&cast.bob, "complete", json!({ "task_id": task })).await;
    let after = tasks.ok(&cast.alice, "send_input", input).await;
    assert_eq!(
        after,
        json!({ "task_id": task, "status": "completed", "duplicate": true }),
        "it is no new input"
    );
}

#[tokio::test]
async fn an_expected_version_is_compared_after_the_state() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.submitted(&cast).await;
    let accept = |version: i64| json!({ "task_id": task, "expected_version": version });
    let refused = tasks.refused(&cast.bob, "accept", accept(7)).await;
    assert_eq!((refused.code(), refused.data("current_version")), (-32171, Some(&json!(1))));
    tasks.ok(&cast.bob, "accept", accept(1)).await;
    assert_eq!(tasks.code(&cast.bob, "accept", accept(1)).await, -32176, "the state comes first");
    let cancel = |version: i64| json!({ "task_id": task, "expected_version": version });
    assert_eq!(tasks.code(&cast.alice, "cancel", cancel(1)).await, -32171);
    tasks.ok(&cast.alice, "cancel", cancel(2)).await;
    assert_eq!(tasks.code(&cast.alice, "cancel", cancel(1)).await, -32173);
}

#[tokio::test]
async fn of_two_who_act_at_once_one_is_first() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    for _ in 0..10 {
        let task = tasks.submitted(&cast).await;
        let mut calls = JoinSet::new();
        tasks.spawn(&mut calls, cast.bob.caller(), "accept", json!({ "task_id": task }));
        tasks.spawn(&mut calls, cast.alice.caller(), "cancel", json!({ "task_id": task }));
        let codes: Vec<i32> = calls
            .join_all()
            .await
            .into_iter()
            .map(|it| it.map_or_else(|error| error.code(), |_| 0))
            .collect();
        let seen = tasks.get(&cast.alice, &task).await;
        assert_eq!(seen["status"], "canceled");
        let accepted = !seen["accepted_at"].is_null();
        assert_eq!(codes.contains(&-32173), !accepted, "{codes:?} {seen}");
        assert_eq!(seen["version"], json!(if accepted { 3 } else { 2 }));
    }
}

/// A key is stored for a day with the hash of its call, also while the server is updated. What is hashed are all members but those about
/// repeating, with null for those that were left out.
#[tokio::test]
async fn a_call_has_the_hash_that_earlier_builds_have_stored() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let Cast { alice, bob, dave, .. } = &cast;
    let create = json!({ "to": bob.aid, "input": text("x"), "idempotency_key": "k" });
    let task = id(&tasks.ok(alice, "create", create).await);
    let created = tasks.stored_text("SELECT body_hash FROM task_answer WHERE key = $1", "k").await;
    assert_eq!(created, "b6235e04fbaf3041373bd958be9b294b71d5946945219c9af8c0a87ad000a880");

    let sent = json!({ "id": "a", "type": "text", "content": "x" });
    let hashed = json!({ "id": "a", "type": "text", "content": "x", "name": null, "mime_type": null, "ref": null,
        "size_bytes": null, "sha256": null });
    let calls = [
        (bob, "accept", json!({}), json!({})),
        (bob, "request_input", json!({ "message": text("?") }), json!({ "message": text("?") })),
        (
            alice,
            "send_input",
            json!({ "input": text("!") }),
            json!({ "input": text("!"), "input_id": null, "require_input": null }),
        ),
        (bob, "add_artifact", json!({ "artifact": sent }), json!({ "artifact": hashed })),
        (
            bob,
            "delegate",
            json!({ "to": dave.aid.to_uppercase(), "input": text("a part"), "required": false }),
            json!({ "to": dave.aid, "input": text("a part"), "required": false, "visibility": null }),
        ),
        (bob, "complete", json!({ "artifacts": [sent] }), json!({ "artifacts": [hashed] })),
    ];
    for (agent, method, params, body) in calls {
        tasks.call_with_hash(agent, method, &task, params, body).await;
    }
    for (agent, method, status) in
        [(bob, "reject", "submitted"), (bob, "fail", "working"), (alice, "cancel", "working")]
    {
        let task = tasks.task_in(&cast, status).await;
        tasks.call_with_hash(agent, method, &task, json!({}), json!({ "reason": null })).await;
    }
    let digest = tasks.stored_text("SELECT digest FROM task_artifact WHERE task_id = $1", &task).await;
    assert_eq!(digest, "e9234d1f53ea825d04c94b9ea7d1a987f03745511214945a67a6c1bdc0778ffa");
}

impl TestTasks {
    /// Makes a call whose hash is that of this body.
    async fn call_with_hash(
        &self,
        agent: &TestAgent,
        method: &str,
        task: &str,
        mut params: Value,
        mut body: Value,
    ) {
        (params["task_id"], params["request_id"]) = (json!(task), json!(method));
        self.ok(agent, method, params).await;
        let key = format!("{} {method}", agent.aid);
        let stored = self.stored_text("SELECT body_hash FROM task_answer WHERE key = $1", &key).await;
        body["task_id"] = json!(task);
        let hashed = [format!("task.{method}").as_bytes(), &canonical_json(&body)].concat();
        assert_eq!(stored, sha256_hex(hashed), "{method}");
    }

    async fn stored_text(&self, statement: &'static str, key: &str) -> String {
        let mut tx = self.service.store.begin().await.unwrap();
        sqlx::query_scalar(statement).bind(key).fetch_one(&mut *tx).await.unwrap()
    }
}

#[tokio::test]
async fn calls_without_an_effect_store_nothing_whatever_their_request_ids_are() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    let add = |request: String| {
        let artifact = json!({ "id": "a", "type": "text", "content": "x" });
        json!({ "task_id": task, "artifact": artifact, "request_id": request })
    };
    for n in 0..20 {
        let added = tasks.ok(&cast.bob, "add_artifact", add(format!("r{n}"))).await;
        assert_eq!(added["version"], 3, "{n}");
    }
    let answers: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM task_answer")
        .fetch_one(tasks.service.store.db().read())
        .await
        .unwrap();
    assert_eq!(answers, 1, "nobody pays for the others");
    assert_eq!(tasks.ok(&cast.bob, "add_artifact", add("r0".to_owned())).await["version"], 3);
}
