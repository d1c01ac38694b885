//! What ends by itself, and what is removed.

use super::*;

const WEEK_MS: i64 = 7 * DAY_MS;

async fn seen(tasks: &TestTasks, cast: &Cast, task: &str) -> (String, Value) {
    let seen = tasks.get(&cast.alice, task).await;
    (seen["status"].as_str().unwrap().to_owned(), seen["reason"].clone())
}

#[tokio::test]
async fn a_task_that_nobody_accepts_is_canceled_after_a_week() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.submitted(&cast).await;
    let short = json!({ "to": cast.bob.aid, "input": text("soon"), "accept_timeout_s": 60 });
    let short = id(&tasks.ok(&cast.alice, "create", short).await);
    tasks.pass(59_999);
    assert_eq!(tasks.service.end_due().await.unwrap(), 0);
    tasks.pass(1);
    assert_eq!(tasks.service.end_due().await.unwrap(), 1);
    assert_eq!(seen(&tasks, &cast, &short).await, ("canceled".to_owned(), json!("accept_timeout")));

    // What is said does not give more time.
    tasks.ok(&cast.alice, "send_input", json!({ "task_id": task, "input": text("please") })).await;
    tasks.pass(WEEK_MS - 60_001);
    assert_eq!(tasks.service.end_due().await.unwrap(), 0);
    tasks.pass(1);
    tasks.told().await;
    assert_eq!(tasks.service.end_due().await.unwrap(), 1);
    assert_eq!(seen(&tasks, &cast, &task).await, ("canceled".to_owned(), json!("accept_timeout")));
    assert_eq!(tasks.code(&cast.bob, "accept", json!({ "task_id": task })).await, -32173);
    let events = tasks.events().await;
    assert!(events.iter().all(|event| params_of(event)["actor"] == "system"));
    let heard: Vec<String> = events.iter().map(audience).collect();
    assert_eq!(heard, ["alice", "bobb"]);
}

#[tokio::test]
async fn a_task_whose_owner_does_not_answer_fails_after_a_week() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.task_in(&cast, "input_required").await;
    let part = json!({ "task_id": task, "to": cast.dave.aid, "input": text("a part") });
    let part = id(&tasks.ok(&cast.bob, "delegate", part).await);
    tasks.pass(WEEK_MS - 1);
    tasks.ok(&cast.carol, "send_input", json!({ "task_id": task, "input": text("I do not know") })).await;
    tasks.ok(&cast.dave, "accept", json!({ "task_id": part })).await;
    assert_eq!(tasks.service.end_due().await.unwrap(), 0);
    tasks.pass(1);
    assert_eq!(tasks.service.end_due().await.unwrap(), 1);
    assert_eq!(seen(&tasks, &cast, &task).await, ("failed".to_owned(), json!("input_timeout")));
    let below = tasks.get(&cast.dave, &part).await;
    assert_eq!((&below["status"], &below["reason"]), (&json!("canceled"), &json!("parent_failed")));
}

#[tokio::test]
async fn a_task_that_nobody_works_on_fails_after_a_month_without_a_change() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    tasks.pass(29 * DAY_MS);
    tasks.ok(&cast.bob, "send_input", json!({ "task_id": task, "input": text("still at it") })).await;
    tasks.pass(29 * DAY_MS);
    assert_eq!(tasks.service.end_due().await.unwrap(), 0);
    tasks.pass(DAY_MS);
    assert_eq!(tasks.service.end_due().await.unwrap(), 1);
    assert_eq!(seen(&tasks, &cast, &task).await, ("failed".to_owned(), json!("stale")));
    let events = tasks.events().await;
    let last: Vec<String> = events.iter().rev().take(2).map(audience).collect();
    assert_eq!(last, ["bobb", "alice"], "both are told");
}

#[tokio::test]
async fn a_call_at_the_same_moment_wins_or_loses_as_a_whole() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    for _ in 0..10 {
        let task = tasks.submitted(&cast).await;
        tasks.pass(WEEK_MS);
        let mut calls = JoinSet::new();
        tasks.spawn(&mut calls, cast.bob.caller(), "accept", json!({ "task_id": task }));
        tasks.service.end_due().await.unwrap();
        let accepted = calls.join_all().await.remove(0);
        let (status, reason) = seen(&tasks, &cast, &task).await;
        match accepted {
            Ok(_) => assert_eq!((status.as_str(), &reason), ("working", &json!(null))),
            Err(error) => {
                assert_eq!(error.code(), -32173);
                assert_eq!((status.as_str(), &reason), ("canceled", &json!("accept_timeout")));
            }
        }
        assert_eq!(tasks.get(&cast.alice, &task).await["version"], json!(2));
    }
}

#[tokio::test]
async fn timers_of_many_tasks_are_found_in_steps_and_each_is_counted_once() {
    let tasks = TestTasks::with(Settings { open_tasks_per_sender: 300, ..Settings::default() }).await;
    let cast = tasks.cast().await;
    let mut calls = JoinSet::new();
    for _ in 0..300 {
        tasks.spawn(
            &mut calls,
            cast.alice.caller(),
            "create",
            json!({ "to": cast.bob.aid, "input": text("x") }),
        );
    }
    calls.join_all().await.into_iter().for_each(|answer| drop(answer.unwrap()));
    tasks.pass(WEEK_MS);
    let found = [tasks.service.end_due().await.unwrap(), tasks.service.end_due().await.unwrap()];
    assert_eq!((found, tasks.service.end_due().await.unwrap()), ([256, 44], 0));
    assert_eq!(tasks.service.metrics.timed_out.get(), 300);
    tasks.service.remove_ended().await.unwrap();
    assert_eq!(tasks.service.metrics.open.get(), 0);
}

#[tokio::test]
async fn what_ended_ninety_days_ago_is_removed_and_open_tasks_are_not() {
    let tasks = TestTasks::with(Settings { idle_timeout_seconds: u32::MAX, ..Settings::default() }).await;
    let cast = tasks.cast().await;
    let open = tasks.working(&cast).await;
    let part = tasks.delegated(&open, &cast.bob, &cast.carol, true).await;
    tasks.ok(&cast.carol, "complete", json!({ "task_id": part })).await;
    let ended = tasks.working(&cast).await;
    let below = tasks.delegated(&ended, &cast.bob, &cast.dave, false).await;
    let artifact = json!({ "id": "a", "type": "text", "content": "x" });
    tasks.ok(&cast.bob, "complete", json!({ "task_id": ended, "artifacts": [artifact] })).await;
    tasks.pass(90 * DAY_MS);
    assert_eq!(tasks.service.remove_ended().await.unwrap(), 0);
    tasks.pass(1);
    assert_eq!(tasks.service.remove_ended().await.unwrap(), 3);
    for task in [&part, &ended, &below] {
        for agent in [&cast.alice, &cast.bob, &cast.carol, &cast.dave] {
            assert_eq!(tasks.code(agent, "get", json!({ "task_id": task })).await, -32170);
        }
    }
    let seen = tasks.get(&cast.alice, &open).await;
    assert_eq!((&seen["status"], &seen["children"]), (&json!("working"), &json!([])));
    tasks.ok(&cast.bob, "complete", json!({ "task_id": open })).await;
    let listed = tasks.ok(&cast.alice, "list", json!({})).await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert_eq!(tasks.ok(&cast.dave, "list", json!({})).await["items"], json!([]));
}

#[tokio::test]
async fn old_answers_and_subscriptions_are_removed() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.submitted(&cast).await;
    tasks.ok(&cast.carol, "subscribe", json!({ "task_ids": [task] })).await;
    tasks.ok(&cast.bob, "reject", json!({ "task_id": task, "request_id": "r" })).await;
    let rows = async || {
        let now = tasks.test.world.clock.now_ms();
        (
            tasks.service.store.remove_answers(now).await.unwrap(),
            tasks.service.store.remove_subscriptions(now).await.unwrap(),
        )
    };
    tasks.pass(59_999);
    assert_eq!(rows().await, (0, 0));
    tasks.pass(1);
    assert_eq!(rows().await, (0, 1), "a minute after the end");
    tasks.pass(DAY_MS);
    assert_eq!(rows().await, (1, 0), "a day after the call");
    tasks.service.remove_expired().await.unwrap();
}
