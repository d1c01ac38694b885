//! What `task.get` shows.

mod assigned;

use super::*;

#[tokio::test]
async fn a_task_is_read_as_a_whole() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let create = json!({
        "to": cast.bob.aid, "input": { "type": "json", "content": { "n": 1.50 } }, "visibility": "shared", "title": "T",
        "participants": [cast.carol.aid, cast.alice.aid], "metadata": { "b": 1, "a": [2] },
    });
    let created = tasks.ok(&cast.alice, "create", create).await;
    let task = id(&created);
    assert!(task.starts_with("task_"));
    assert_eq!(created["created_at"], "2026-11-15T00:16:01Z");
    let seen = tasks.get(&cast.carol, &task).await;
    let mut expected = json!({
        "task_id": task, "root_task_id": task, "parent_task_id": null, "depth": 0, "status": "submitted", "version": 1,
        "owner": cast.alice.aid, "assignee": cast.bob.aid, "participants": [cast.alice.aid, cast.bob.aid, cast.carol.aid],
        "visibility": "shared", "required": true, "title": "T", "input": { "type": "json", "content": { "n": 1.50 } },
        "artifacts": [], "messages_truncated": false, "children": [], "reason": null, "metadata": { "b": 1, "a": [2] },
        "created_at": created["created_at"], "updated_at": created["created_at"], "accepted_at": null, "ended_at": null,
        "home_issuer": "aid.pub",
    });
    let message = &seen["messages"][0];
    expected["messages"] = json!([{
        "seq": 1, "id": message["id"], "from": cast.alice.aid, "kind": "input", "body": expected["input"],
        "created_at": created["created_at"],
    }]);
    assert_eq!(seen, expected);

    tasks.pass(1500);
    tasks.ok(&cast.bob, "accept", json!({ "task_id": task })).await;
    let child = tasks.delegated(&task, &cast.bob, &cast.dave, false).await;
    let seen = tasks.get(&cast.carol, &task).await;
    assert_eq!(seen["accepted_at"], "2026-11-15T00:16:02Z");
    assert_eq!(
        seen["children"],
        json!([{ "task_id": child, "assignee": cast.dave.aid, "status": "working", "required": false }])
    );
}

#[tokio::test]
async fn the_last_messages_are_shown_or_those_after_a_number() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    for n in 2..=120 {
        tasks.ok(&cast.alice, "send_input", json!({ "task_id": task, "input": text(&n.to_string()) })).await;
    }
    let seqs = |seen: &Value| {
        let messages = seen["messages"].as_array().unwrap();
        messages.iter().map(|message| message["seq"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    let last = tasks.get(&cast.alice, &task).await;
    assert_eq!((seqs(&last), &last["messages_truncated"]), ((21..=120).collect(), &json!(true)));
    assert_eq!(last["input"], text("do it"), "the input is shown by itself");
    let after = async |seq: i64| {
        tasks.ok(&cast.alice, "get", json!({ "task_id": task, "messages_after_seq": seq })).await
    };
    let first = after(0).await;
    assert_eq!((seqs(&first), &first["messages_truncated"]), ((1..=100).collect(), &json!(true)));
    let rest = after(100).await;
    assert_eq!((seqs(&rest), &rest["messages_truncated"]), ((101..=120).collect(), &json!(false)));
    assert_eq!(seqs(&after(120).await), Vec::<i64>::new());
}

#[tokio::test]
async fn long_messages_are_shown_a_few_at_a_time_and_none_is_left_out() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    for _ in 0..10 {
        let long = json!({ "task_id": task, "input": text(&"x".repeat(60 << 10)) });
        tasks.ok(&cast.alice, "send_input", long).await;
    }
    let (mut seen, mut after) = (Vec::new(), 0);
    loop {
        let page = tasks.ok(&cast.bob, "get", json!({ "task_id": task, "messages_after_seq": after })).await;
        assert!(page.to_string().len() < 300 << 10);
        let messages = page["messages"].as_array().unwrap();
        seen.extend(messages.iter().map(|message| message["seq"].as_i64().unwrap()));
        after = *seen.last().unwrap();
        if page["messages_truncated"] == json!(false) {
            break;
        }
    }
    assert_eq!(seen, (1..=11).collect::<Vec<_>>());
}

#[tokio::test]
async fn tasks_are_there_after_a_restart() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    let before = tasks.get(&cast.alice, &task).await;
    let TestTasks { test, service } = tasks;
    drop(service);
    let test = test.restart().await;
    let after = test.call_as(cast.alice.caller(), "task.get", json!({ "task_id": task })).await.unwrap();
    assert_eq!(after, before);
}

#[tokio::test]
async fn everything_but_subscribing_works_over_http() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let by_token = async |agent: &TestAgent, method: &str, params: Value| {
        tasks.test.call_as(agent.by_token(), &format!("task.{method}"), params).await
    };
    let created =
        by_token(&cast.alice, "create", json!({ "to": cast.bob.aid, "input": text("x") })).await.unwrap();
    by_token(&cast.bob, "accept", json!({ "task_id": created["task_id"] })).await.unwrap();
    let seen = by_token(&cast.alice, "get", json!({ "task_id": created["task_id"] })).await.unwrap();
    assert_eq!(seen["status"], "working");
    assert!(by_token(&cast.alice, "subscribe", json!({ "task_ids": [created["task_id"]] })).await.is_err());
    let told = tasks.told().await;
    assert_eq!(told[0].0, "alice but 0", "a call over HTTP has no connection, so all are told");
}
