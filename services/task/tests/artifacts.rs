//! Results: what is stored of them, when they are the same, and how much there may be.

use super::*;

fn artifact(id: &str, content: &str) -> Value {
    json!({ "id": id, "type": "text", "name": id, "mime_type": "text/plain", "content": content })
}

async fn add(tasks: &TestTasks, cast: &Cast, task: &str, artifact: Value) -> Result<Value, RpcError> {
    tasks.call(&cast.bob, "add_artifact", json!({ "task_id": task, "artifact": artifact })).await
}

#[tokio::test]
async fn an_artifact_is_stored_with_its_size_and_hash_and_the_same_again_changes_nothing() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    let added = add(&tasks, &cast, &task, artifact("a", "hello")).await.unwrap();
    assert_eq!(added, json!({ "task_id": task, "artifact_id": "a", "version": 3 }));
    assert_eq!(
        add(&tasks, &cast, &task, artifact("a", "hello")).await.unwrap(),
        added,
        "nothing has changed"
    );
    let other = add(&tasks, &cast, &task, artifact("a", "bye")).await.unwrap_err();
    assert_eq!((other.code(), other.data("reason")), (-32602, Some(&json!("artifact_conflict"))));

    let elsewhere = json!({ "id": "b", "type": "storage_ref", "ref": { "bucket": "x", "object_key": "y" }, "size_bytes": 9 });
    tasks
        .ok(
            &cast.bob,
            "complete",
            json!({ "task_id": task, "artifacts": [artifact("a", "hello"), elsewhere] }),
        )
        .await;
    let seen = tasks.get(&cast.alice, &task).await;
    assert_eq!(seen["version"], json!(4));
    let stored = seen["artifacts"].as_array().unwrap();
    assert_eq!(stored.len(), 2);
    assert_eq!((&stored[0]["content"], &stored[0]["size_bytes"]), (&json!("hello"), &json!(5)));
    assert_eq!(
        stored[0]["sha256"],
        json!("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")
    );
    assert_eq!(stored[0]["created_by"], json!(cast.bob.aid));
    assert_eq!(stored[1]["ref"], json!({ "bucket": "x", "object_key": "y" }));
    assert!(stored[1].get("content").is_none());
}

#[tokio::test]
async fn one_artifact_and_all_together_are_limited() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    const MOST: usize = 256 << 10;
    assert_eq!(code(add(&tasks, &cast, &task, artifact("large", &"x".repeat(MOST + 1))).await), -32174);
    for n in 0..4 {
        add(&tasks, &cast, &task, artifact(&format!("a{n}"), &"x".repeat(MOST))).await.unwrap();
    }
    assert_eq!(code(add(&tasks, &cast, &task, artifact("one more", "x")).await), -32174, "1 MiB in all");
    let complete = json!({ "task_id": task, "artifacts": [artifact("one more", "x")] });
    assert_eq!(tasks.code(&cast.bob, "complete", complete).await, -32174);
    assert_eq!(tasks.status(&cast.alice, &task).await, "working", "a call that is refused changes nothing");
    add(&tasks, &cast, &task, json!({ "id": "empty", "type": "text", "content": "" })).await.unwrap();
    tasks.ok(&cast.bob, "complete", json!({ "task_id": task })).await;
    let content = &tasks.get(&cast.alice, &task).await["artifacts"][3]["content"];
    assert_eq!(content.as_str().map(str::len), Some(MOST));
}

#[tokio::test]
async fn a_task_has_at_most_fifty_artifacts() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    for n in 0..49 {
        add(&tasks, &cast, &task, artifact(&n.to_string(), "x")).await.unwrap();
    }
    let two = json!({ "task_id": task, "artifacts": [artifact("a", "x"), artifact("b", "x")] });
    assert_eq!(tasks.code(&cast.bob, "complete", two).await, -32174);
    let one =
        json!({ "task_id": task, "artifacts": [artifact("a", "x"), artifact("a", "x"), artifact("0", "x")] });
    tasks.ok(&cast.bob, "complete", one).await;
    assert_eq!(tasks.get(&cast.alice, &task).await["artifacts"].as_array().unwrap().len(), 50);
}

#[tokio::test]
async fn every_kind_of_content_comes_back_as_it_was_written() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    let contents =
        [json!("\u{0}\u{1}\"\\ 代码 🦀"), json!({ "a": [1, null, true] }), json!([]), json!(7), json!(false)];
    for (n, content) in contents.iter().enumerate() {
        let artifact = json!({ "id": n.to_string(), "type": "json", "content": content });
        add(&tasks, &cast, &task, artifact).await.unwrap();
        let said = json!({ "type": "json", "content": content });
        tasks.ok(&cast.alice, "send_input", json!({ "task_id": task, "input": said })).await;
    }
    let seen = tasks.get(&cast.alice, &task).await;
    for (n, content) in contents.iter().enumerate() {
        assert_eq!(seen["artifacts"][n]["content"], *content);
        assert_eq!(seen["messages"][n + 1]["body"]["content"], *content);
    }
}

#[tokio::test]
async fn events_carry_short_contents_and_no_long_ones() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    add(&tasks, &cast, &task, artifact("short", &"x".repeat(4096))).await.unwrap();
    let long = artifact("long", &"x".repeat(4097));
    tasks.ok(&cast.bob, "complete", json!({ "task_id": task, "artifacts": [long] })).await;
    let events = tasks.events().await;
    let of = |method: &str| {
        let found = events.iter().filter(|event| event.method == method).map(params_of);
        found.collect::<Vec<Value>>()
    };
    let told = of("event/task.artifact");
    assert_eq!(told[0]["artifact"]["content"].as_str().map(str::len), Some(4096));
    assert!(told[1]["artifact"].get("content").is_none());
    assert_eq!(told[1]["artifact"]["size_bytes"], json!(4097));
    let completed = &of("event/task.completed")[0];
    assert_eq!(completed["artifacts"].as_array().unwrap().len(), 2);
    assert!(
        completed["artifacts"][0].get("content").is_some()
            && completed["artifacts"][1].get("content").is_none()
    );
    assert_eq!(completed["unsuccessful_children"], json!([]));
}
