//! Trees: their limits, also when many delegate at once, what blocks an end, and what an end ends.

use super::*;

async fn storm(tasks: &TestTasks, calls: Vec<(&TestAgent, Value)>) -> (usize, Vec<i32>) {
    let mut running = JoinSet::new();
    for (agent, params) in calls {
        tasks.spawn(&mut running, agent.caller(), "delegate", params);
    }
    let answers = running.join_all().await;
    let refused: Vec<i32> =
        answers.iter().filter_map(|answer| answer.as_ref().err()).map(RpcError::code).collect();
    (answers.len() - refused.len(), refused)
}

#[tokio::test]
async fn a_task_has_at_most_twenty_parts_also_when_many_are_passed_on_at_once() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let root = tasks.working(&cast).await;
    let part =
        |n: usize| json!({ "task_id": root, "to": cast.dave.aid, "input": text(&format!("part {n}")) });
    let (made, refused) = storm(&tasks, (0..50).map(|n| (&cast.bob, part(n))).collect()).await;
    assert_eq!((made, refused.len()), (20, 30));
    assert!(refused.iter().all(|code| *code == -32179), "{refused:?}");
    let limit = tasks.refused(&cast.bob, "delegate", part(50)).await;
    assert_eq!(limit.data("limit"), Some(&json!("children")));
    let seen = tasks.get(&cast.bob, &root).await;
    assert_eq!((seen["children"].as_array().unwrap().len(), &seen["version"]), (20, &json!(22)));
}

#[tokio::test]
async fn a_root_has_at_most_a_hundred_below_it_also_when_many_are_passed_on_at_once() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let root = tasks.working(&cast).await;
    let mut parts = Vec::new();
    for _ in 0..10 {
        parts.push(tasks.delegated(&root, &cast.bob, &cast.carol, true).await);
    }
    let (carol, dave) = (&cast.carol, &cast.dave.aid);
    let all = parts.iter().flat_map(|part| {
        (0..12).map(move |n| (carol, json!({ "task_id": part, "to": dave, "input": text(&n.to_string()) })))
    });
    let (made, refused) = storm(&tasks, all.collect()).await;
    assert_eq!((made, refused.len()), (90, 30));
    assert!(refused.iter().all(|code| *code == -32179), "{refused:?}");
    let below = tasks.ok(&cast.alice, "children", json!({ "task_id": root, "recursive": true })).await;
    assert_eq!(below["count"], json!(100));
    let more = json!({ "task_id": root, "to": cast.dave.aid, "input": text("one more") });
    assert_eq!(tasks.refused(&cast.bob, "delegate", more).await.data("limit"), Some(&json!("descendants")));
}

#[tokio::test]
async fn work_that_goes_round_in_a_loop_ends_at_the_fifth_level() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let mut task = tasks.working(&cast).await;
    let (mut by, mut to) = (&cast.bob, &cast.carol);
    for depth in 1..=5 {
        task = tasks.delegated(&task, by, to, true).await;
        (by, to) = (to, by);
        assert_eq!(tasks.get(by, &task).await["depth"], json!(depth));
    }
    let more = json!({ "task_id": task, "to": to.aid, "input": text("again") });
    let refused = tasks.refused(by, "delegate", more).await;
    assert_eq!((refused.code(), refused.data("limit")), (-32179, Some(&json!("depth"))));
}

#[tokio::test]
async fn a_required_part_that_is_open_blocks_the_end() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let root = tasks.working(&cast).await;
    let part = tasks.delegated(&root, &cast.bob, &cast.carol, true).await;
    let complete = json!({ "task_id": root });
    let child = |status: &str| json!([{ "task_id": part, "assignee": cast.carol.aid, "status": status, "required": true }]);
    let blocked = tasks.refused(&cast.bob, "complete", complete.clone()).await;
    assert_eq!((blocked.code(), blocked.data("children")), (-32185, Some(&child("working"))));
    tasks.ok(&cast.carol, "request_input", json!({ "task_id": part, "message": text("?") })).await;
    let blocked = tasks.refused(&cast.bob, "complete", complete.clone()).await;
    assert_eq!((blocked.code(), blocked.data("children")), (-32185, Some(&child("input_required"))));
    tasks.ok(&cast.carol, "fail", json!({ "task_id": part })).await;
    let done = tasks.ok(&cast.bob, "complete", complete).await;
    assert_eq!(
        done,
        json!({ "task_id": root, "status": "completed", "unsuccessful_children": child("failed") })
    );
}

#[tokio::test]
async fn a_part_that_ended_well_is_not_listed_and_an_optional_one_is_canceled() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let root = tasks.working(&cast).await;
    let done = tasks.delegated(&root, &cast.bob, &cast.carol, true).await;
    tasks.ok(&cast.carol, "complete", json!({ "task_id": done })).await;
    let optional = tasks.delegated(&root, &cast.bob, &cast.carol, false).await;
    let below = tasks.delegated(&optional, &cast.carol, &cast.dave, true).await;
    let failed = tasks.delegated(&root, &cast.bob, &cast.carol, false).await;
    tasks.ok(&cast.carol, "fail", json!({ "task_id": failed })).await;
    let answer = tasks.ok(&cast.bob, "complete", json!({ "task_id": root })).await;
    assert_eq!(answer, json!({ "task_id": root, "status": "completed" }));
    for (task, reader, status, reason) in [
        (&done, &cast.bob, "completed", json!(null)),
        (&optional, &cast.bob, "canceled", json!("parent_completed")),
        (&below, &cast.dave, "canceled", json!("parent_completed")),
        (&failed, &cast.bob, "failed", json!(null)),
    ] {
        let seen = tasks.get(reader, task).await;
        assert_eq!((seen["status"].as_str(), &seen["reason"]), (Some(status), &reason));
    }
}

#[tokio::test]
async fn an_end_ends_everything_open_below_in_one_commit() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    for (method, reason) in [("cancel", "parent_canceled"), ("fail", "parent_failed")] {
        let root = tasks.working(&cast).await;
        let part = tasks.delegated(&root, &cast.bob, &cast.carol, true).await;
        let leaf = tasks.delegated(&part, &cast.carol, &cast.dave, false).await;
        let ended = tasks.delegated(&root, &cast.bob, &cast.carol, true).await;
        tasks.ok(&cast.carol, "complete", json!({ "task_id": ended })).await;
        tasks.told().await;
        let by = if method == "cancel" { &cast.alice } else { &cast.bob };
        tasks.ok(by, method, json!({ "task_id": root, "reason": "enough" })).await;
        let seen = [
            tasks.get(&cast.alice, &root).await,
            tasks.get(&cast.bob, &part).await,
            tasks.get(&cast.dave, &leaf).await,
        ];
        assert_eq!(seen[0]["reason"], "enough");
        for below in &seen[1..] {
            assert_eq!((&below["status"], &below["reason"]), (&json!("canceled"), &json!(reason)));
            assert_eq!(below["ended_at"], seen[0]["ended_at"], "in the same commit");
        }
        assert_eq!(tasks.status(&cast.bob, &ended).await, "completed", "what has ended stays as it is");
        let told: Vec<String> = tasks.events().await.iter().map(|event| id(&params_of(event))).collect();
        let first = |task: &String| told.iter().position(|told| told == task).unwrap();
        assert!(first(&leaf) < first(&part) && first(&part) < first(&root), "{told:?}");
        tasks.test.events.lock().clear();
    }
}
