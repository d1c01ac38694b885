//! Parameters that are too long, and what there may be too much of.

use super::*;

#[tokio::test]
async fn parameters_have_their_lengths() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    let base = json!({ "to": cast.bob.aid, "input": text("x") });
    for (member, bad) in [
        ("title", json!("x".repeat(257))),
        ("title", json!("a\u{0}b")),
        ("idempotency_key", json!("")),
        ("idempotency_key", json!("x".repeat(129))),
        ("metadata", json!([])),
        ("metadata", json!({ "a": "x".repeat(4096) })),
        ("accept_timeout_s", json!(0)),
        ("accept_timeout_s", json!(30 * 86_400 + 1)),
        ("participants", json!(["nobody"])),
        ("input", text(&"x".repeat(64 << 10))),
        ("input", json!("text")),
        ("visibility", json!("Private")),
    ] {
        let mut params = base.clone();
        params[member] = bad;
        assert_eq!(tasks.code(&cast.alice, "create", params).await, -32602, "{member}");
    }
    for (method, params) in [
        ("accept", json!({ "task_id": task, "request_id": "x".repeat(65) })),
        ("cancel", json!({ "task_id": task, "reason": "x".repeat(1025) })),
        ("send_input", json!({ "task_id": task, "input": text("x"), "input_id": "x".repeat(129) })),
        ("get", json!({ "task_id": task, "messages_after_seq": -1 })),
        ("get", json!({ "task_id": "x".repeat(81) })),
        ("list", json!({ "limit": 0 })),
        ("list", json!({ "status": [] })),
        ("list", json!({ "role": "nobody" })),
        ("subscribe", json!({ "task_ids": vec![&task; 101] })),
        ("subscribe", json!({ "task_ids": [] })),
    ] {
        assert_eq!(tasks.code(&cast.alice, method, params.clone()).await, -32602, "{method} {params:.100}");
    }
}

#[tokio::test]
async fn a_task_has_at_most_fifty_participants() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let mut names = Vec::new();
    for n in 0..49 {
        names.push(tasks.test.register(&format!("agent{n}")).await.aid);
    }
    let create = |names: &[String]| json!({ "to": cast.bob.aid, "input": text("x"), "participants": names });
    assert_eq!(tasks.code(&cast.alice, "create", create(&names)).await, -32602);
    let task = id(&tasks.ok(&cast.alice, "create", create(&names[..48])).await);
    assert_eq!(tasks.get(&cast.alice, &task).await["participants"].as_array().unwrap().len(), 50);
}

#[tokio::test]
async fn a_thousand_messages_are_enough() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    let mut calls = JoinSet::new();
    for n in 0..1010 {
        let said = json!({ "task_id": task, "input": text(&n.to_string()) });
        tasks.spawn(&mut calls, cast.alice.caller(), "send_input", said);
    }
    let answers = calls.join_all().await;
    let refused: Vec<&RpcError> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert_eq!(refused.len(), 11, "the input is the first");
    assert!(refused.iter().all(|error| error.code() == -32602));
    assert_eq!(refused[0].data("reason"), Some(&json!("too_many_messages")));
    let ask = json!({ "task_id": task, "message": text("?") });
    assert_eq!(tasks.code(&cast.bob, "request_input", ask).await, -32602);
    tasks.ok(&cast.bob, "complete", json!({ "task_id": task })).await;
}

#[tokio::test]
async fn open_tasks_are_limited_for_who_gives_and_for_who_is_given() {
    let tasks = TestTasks::with(Settings { open_tasks: 5, ..Settings::default() }).await;
    let cast = tasks.cast().await;
    let create = |to: &TestAgent| json!({ "to": to.aid, "input": text("x") });
    let mut calls = JoinSet::new();
    for _ in 0..12 {
        tasks.spawn(&mut calls, cast.alice.caller(), "create", create(&cast.bob));
    }
    let answers = calls.join_all().await;
    let made: Vec<String> = answers.iter().filter_map(|answer| answer.as_ref().ok()).map(id).collect();
    assert_eq!(made.len(), 5);
    assert!(answers.iter().filter_map(|answer| answer.as_ref().err()).all(|error| error.code() == -32029));
    assert_eq!(tasks.code(&cast.alice, "create", create(&cast.carol)).await, -32029, "alice gave five");
    let own = id(&tasks.ok(&cast.carol, "create", create(&cast.dave)).await);
    tasks.ok(&cast.dave, "accept", json!({ "task_id": own })).await;
    let part = json!({ "task_id": own, "to": cast.bob.aid, "input": text("a part") });
    tasks.ok(&cast.dave, "delegate", part).await;
    tasks.ok(&cast.bob, "reject", json!({ "task_id": made[0] })).await;
    tasks.ok(&cast.alice, "create", create(&cast.carol)).await;
    assert_eq!(tasks.code(&cast.alice, "create", create(&cast.carol)).await, -32029);
}

#[tokio::test]
async fn who_fills_a_list_of_open_tasks_keeps_nobody_else_out() {
    let settings = Settings { open_tasks: 8, open_tasks_per_sender: 6, ..Settings::default() };
    let tasks = TestTasks::with(settings).await;
    let cast = tasks.cast().await;
    let create = json!({ "to": cast.bob.aid, "input": text("x") });
    let mut made = Vec::new();
    for _ in 0..6 {
        made.push(id(&tasks.ok(&cast.alice, "create", create.clone()).await));
    }
    let refused = tasks.refused(&cast.alice, "create", create.clone()).await;
    assert_eq!((refused.code(), refused.data("limit")), (-32029, Some(&json!(6))));
    assert_eq!((refused.data("held"), refused.data("retryable")), (Some(&json!(6)), Some(&json!(false))));
    assert_eq!(refused.to_string(), format!("{} has 6 open tasks of yours", cast.bob.aid));
    assert_eq!(refused.data("scope"), Some(&json!("task.open_tasks_per_sender")));
    // Two are left, and each of the others has four anyway.
    for sender in [&cast.carol, &cast.dave] {
        for _ in 0..4 {
            tasks.ok(sender, "create", create.clone()).await;
        }
        let refused = tasks.refused(sender, "create", create.clone()).await;
        assert_eq!(refused.data("scope"), Some(&json!("task.open_tasks")));
    }
    tasks.ok(&cast.bob, "reject", json!({ "task_id": made[0] })).await;
    assert_eq!(tasks.code(&cast.alice, "create", create).await, -32029, "the list is full all the same");
}
