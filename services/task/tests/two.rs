//! Two processes on one database: each waits for the other where they are about the same, so that everything holds as with one.

use super::*;
use std::collections::BTreeSet;

/// The second process, with an own queue and an own publisher.
async fn other(tasks: &TestTasks) -> Arc<TaskService> {
    TaskService::open(&tasks.test.world, &Settings::default()).await.unwrap()
}

fn spawn(
    calls: &mut JoinSet<Result<Value, RpcError>>,
    process: &Arc<TaskService>,
    caller: Caller,
    method: &str,
    params: Value,
) {
    let (methods, method) = (rpc(process.clone()), format!("task.{method}"));
    calls.spawn(async move {
        let params = to_raw_value(&params).unwrap();
        let answer = methods.call(caller, &method, Some(&params)).unwrap().await?;
        Ok(serde_json::from_str(answer.result.get()).unwrap())
    });
}

#[tokio::test]
async fn limits_hold_and_keys_count_once_when_two_processes_write() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let processes = [tasks.service.clone(), other(&tasks).await];
    let root = tasks.working(&cast).await;
    let part = |n: usize| json!({ "task_id": root, "to": cast.dave.aid, "input": text(&n.to_string()) });
    let keyed = json!({ "to": cast.bob.aid, "input": text("x"), "idempotency_key": "k" });
    let (mut parts, mut created) = (JoinSet::new(), JoinSet::new());
    for n in 0..40 {
        spawn(&mut parts, &processes[n % 2], cast.bob.caller(), "delegate", part(n));
        spawn(&mut created, &processes[n % 2], cast.alice.caller(), "create", keyed.clone());
    }
    let parts = parts.join_all().await;
    assert_eq!(parts.iter().filter(|answer| answer.is_ok()).count(), 20);
    assert!(parts.iter().filter_map(|answer| answer.as_ref().err()).all(|error| error.code() == -32179));
    let created: BTreeSet<String> =
        created.join_all().await.iter().map(|answer| id(answer.as_ref().unwrap())).collect();
    assert_eq!(created.len(), 1, "one key, one task");
    let seen = tasks.get(&cast.bob, &root).await;
    assert_eq!((seen["children"].as_array().unwrap().len(), &seen["version"]), (20, &json!(22)));
}

#[tokio::test]
async fn quotas_hold_when_two_processes_write() {
    let settings = Settings { open_tasks_per_sender: 5, ..Settings::default() };
    let tasks = TestTasks::with(settings.clone()).await;
    let cast = tasks.cast().await;
    let second = TaskService::open(&tasks.test.world, &settings).await.unwrap();
    let processes = [tasks.service.clone(), second];
    let mut calls = JoinSet::new();
    for n in 0..30 {
        let create = json!({ "to": cast.bob.aid, "input": text("x") });
        let caller = if n % 3 == 0 { cast.alice.caller() } else { cast.carol.caller() };
        spawn(&mut calls, &processes[n % 2], caller, "create", create);
    }
    let made = calls.join_all().await.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(made, 10, "five of each");
}

#[tokio::test]
async fn an_end_and_a_delegation_in_two_processes_leave_a_legal_tree() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let processes = [tasks.service.clone(), other(&tasks).await];
    for round in 0..8 {
        let root = tasks.working(&cast).await;
        let below = tasks.delegated(&root, &cast.bob, &cast.carol, false).await;
        let mut calls = JoinSet::new();
        for n in 0..6 {
            let part = json!({ "task_id": below, "to": cast.dave.aid, "input": text(&n.to_string()) });
            spawn(&mut calls, &processes[n % 2], cast.carol.caller(), "delegate", part);
        }
        let end = if round % 2 == 0 { (&cast.alice, "cancel") } else { (&cast.bob, "complete") };
        spawn(&mut calls, &processes[1], end.0.caller(), end.1, json!({ "task_id": root }));
        let answers = calls.join_all().await;
        for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            assert_eq!(error.code(), -32173, "{error}");
        }
        let tree = tasks.ok(&cast.alice, "children", json!({ "task_id": root, "recursive": true })).await;
        for task in tree["children"].as_array().unwrap() {
            assert_eq!(task["status"], "canceled", "{task}");
        }
        let made = answers.iter().flatten().filter(|answer| answer.get("parent_task_id").is_some()).count();
        assert_eq!(tree["count"], json!(made + 1), "what was acknowledged is there");
    }
}

#[tokio::test]
async fn what_one_process_did_is_seen_by_the_other_and_told_to_those_who_subscribed_there() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let second = other(&tasks).await;
    let task = tasks.submitted(&cast).await;
    let mut calls = JoinSet::new();
    spawn(&mut calls, &second, at(&cast.carol, "laptop", "", 5), "subscribe", json!({ "task_ids": [task] }));
    calls.join_all().await.remove(0).unwrap();
    tasks.told().await;
    tasks.ok(&cast.bob, "accept", json!({ "task_id": task })).await;
    assert_eq!(
        tasks.told().await,
        pairs(&[("alice", "updated working 2"), ("carol at laptop ", "updated working 2")])
    );
    let mut calls = JoinSet::new();
    spawn(&mut calls, &second, cast.bob.caller(), "accept", json!({ "task_id": task }));
    assert_eq!(code(calls.join_all().await.remove(0)), -32176);
    tasks.pass(30 * DAY_MS);
    let (one, other) = tokio::join!(tasks.service.end_due(), second.end_due());
    assert!(one.unwrap() + other.unwrap() >= 1);
    assert_eq!(tasks.get(&cast.alice, &task).await["version"], json!(3), "ended once");
}
