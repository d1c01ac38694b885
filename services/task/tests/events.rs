//! Who is told of what, in which order.

use super::*;

#[tokio::test]
async fn the_owner_hears_everything_and_the_assignee_what_it_has_to_know() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.submitted(&cast).await;
    let told = tasks.told().await;
    assert_eq!(told, pairs(&[("alice but 1", "updated submitted 1"), ("bobb", "updated submitted 1")]));
    let about = json!({ "task_id": task });

    tasks.ok(&cast.bob, "accept", about.clone()).await;
    assert_eq!(tasks.told().await, pairs(&[("alice", "updated working 2")]));

    tasks.ok(&cast.carol, "send_input", json!({ "task_id": task, "input": text("hm") })).await;
    assert_eq!(tasks.told().await, pairs(&[("alice", "updated working 3"), ("bobb", "updated working 3")]));

    tasks.ok(&cast.bob, "request_input", json!({ "task_id": task, "message": text("?") })).await;
    let events = tasks.events().await;
    assert!(events.iter().all(|event| params_of(event)["message"] == text("?")));
    let told = tasks.told().await;
    assert_eq!(
        told,
        pairs(&[("alice", "updated input_required 4"), ("bobb but 1", "updated input_required 4")])
    );

    tasks.ok(&cast.alice, "send_input", json!({ "task_id": task, "input": text("!") })).await;
    assert_eq!(
        tasks.told().await,
        pairs(&[("alice but 1", "updated working 5"), ("bobb", "updated working 5")])
    );

    let part = tasks.delegated(&task, &cast.bob, &cast.dave, true).await;
    let events = tasks.events().await;
    let first = params_of(&events[0]);
    assert_eq!(
        (&first["child_task_id"], &first["assignee"], &first["required"], &first["actor"]),
        (&json!(part), &json!(cast.dave.aid), &json!(true), &json!(cast.bob.aid))
    );
    assert_eq!(
        tasks.told().await,
        pairs(&[
            ("alice", "delegated working 6"),
            ("bobb but 1", "updated submitted 1"),
            ("dave", "updated submitted 1"),
            ("bobb", "updated working 2"),
        ])
    );

    tasks.ok(&cast.dave, "fail", json!({ "task_id": part, "reason": "no" })).await;
    let events = tasks.events().await;
    assert_eq!(params_of(&events[0])["reason"], "no");
    assert_eq!(tasks.told().await, pairs(&[("bobb", "failed failed 3")]));

    let artifacts = json!([{ "id": "a", "type": "text", "content": "x" }, { "id": "b", "type": "text" }]);
    tasks.ok(&cast.bob, "complete", json!({ "task_id": task, "artifacts": artifacts })).await;
    let events = tasks.events().await;
    let last = params_of(&events[2]);
    assert_eq!(last["unsuccessful_children"][0]["task_id"], json!(part));
    assert_eq!(
        tasks.told().await,
        pairs(&[
            ("alice", "artifact completed 7"),
            ("alice", "artifact completed 7"),
            ("alice", "completed completed 7"),
        ])
    );

    let other = tasks.submitted(&cast).await;
    tasks.told().await;
    tasks.ok(&cast.bob, "reject", json!({ "task_id": other, "reason": "busy" })).await;
    let events = tasks.events().await;
    assert_eq!(params_of(&events[0])["reason"], "busy");
    assert_eq!(tasks.told().await, pairs(&[("alice", "updated rejected 2")]));

    let other = tasks.submitted(&cast).await;
    tasks.told().await;
    tasks.ok(&cast.alice, "cancel", json!({ "task_id": other, "reason": "late" })).await;
    assert_eq!(
        tasks.told().await,
        pairs(&[("alice but 1", "updated canceled 2"), ("bobb", "updated canceled 2")])
    );
}

#[tokio::test]
async fn what_changes_nothing_is_not_told() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    let add = json!({ "task_id": task, "artifact": { "id": "a", "type": "text" }, "request_id": "r" });
    tasks.ok(&cast.bob, "add_artifact", add.clone()).await;
    tasks.told().await;
    tasks.ok(&cast.bob, "add_artifact", add).await;
    tasks
        .ok(&cast.bob, "add_artifact", json!({ "task_id": task, "artifact": { "id": "a", "type": "text" } }))
        .await;
    tasks.refused(&cast.bob, "accept", json!({ "task_id": task })).await;
    assert!(tasks.told().await.is_empty());
}

#[tokio::test]
async fn nothing_is_published_for_those_who_are_not_connected() {
    let tasks = TestTasks::open().await;
    let (anna, bert) = (tasks.test.register("anna").await, tasks.test.register("bert").await);
    tasks.arrive(&bert, "", "", 2);
    tasks.ok(&anna, "create", json!({ "to": bert.aid, "input": text("x") })).await;
    assert_eq!(tasks.told().await, pairs(&[("bert", "updated submitted 1")]));
}

#[tokio::test]
async fn events_are_as_their_schemas_say_and_leave_in_the_order_of_versions() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    let mut calls = JoinSet::new();
    for n in 0..30 {
        let said = json!({ "task_id": task, "input": text(&n.to_string()) });
        tasks.spawn(&mut calls, cast.carol.caller(), "send_input", said);
        let add =
            json!({ "task_id": task, "artifact": { "id": n.to_string(), "type": "text", "content": "x" } });
        tasks.spawn(&mut calls, cast.bob.caller(), "add_artifact", add);
    }
    calls.join_all().await.into_iter().for_each(|answer| drop(answer.unwrap()));
    let part = tasks.delegated(&task, &cast.bob, &cast.dave, false).await;
    tasks.ok(&cast.dave, "fail", json!({ "task_id": part })).await;
    tasks.ok(&cast.bob, "complete", json!({ "task_id": task })).await;
    let events = tasks.events().await;
    for event in &events {
        let schema = proto_schemas::find_event(&event.method).unwrap();
        let exact = proto_schemas::exact(&schema.doc()["params"]);
        if let Err(flaw) = jsonschema::validate(&exact, &params_of(event)) {
            panic!("{}: {flaw} in {}", event.method, event.params);
        }
    }
    let of_owner = events.iter().filter(|event| audience(event).starts_with("alice"));
    let of_task = of_owner.map(params_of).filter(|params| params["task_id"] == json!(task));
    let versions: Vec<i64> = of_task.map(|params| params["version"].as_i64().unwrap()).collect();
    let mut each = versions.clone();
    each.dedup();
    assert_eq!(each, (1..=64).collect::<Vec<_>>(), "none is missing and none comes late");
}
