//! Retries: idempotency keys, request ids, input ids and expected versions.

use super::*;

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
