//! Lists: filters, roles and pages.

use super::*;
use std::collections::BTreeSet;

async fn walk(tasks: &TestTasks, agent: &TestAgent, mut params: Value) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let page = tasks.ok(agent, "list", params.clone()).await;
        found.extend(page["items"].as_array().unwrap().iter().map(id));
        assert_eq!(page["has_more"], json!(!page["next_cursor"].is_null()));
        if page["next_cursor"].is_null() {
            return found;
        }
        params["cursor"] = page["next_cursor"].clone();
    }
}

#[tokio::test]
async fn pages_have_every_task_once_the_last_changed_first() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let mut made = Vec::new();
    for n in 0..30 {
        made.push(tasks.submitted(&cast).await);
        // Several have the same time.
        tasks.pass(n % 3 * 1000);
    }
    for (n, task) in made.iter().enumerate() {
        match n % 5 {
            0 => drop(tasks.ok(&cast.bob, "accept", json!({ "task_id": task })).await),
            1 => drop(tasks.ok(&cast.bob, "reject", json!({ "task_id": task })).await),
            _ => {}
        }
    }
    for agent in [&cast.alice, &cast.bob, &cast.carol] {
        let mut expected = Vec::new();
        for task in &made {
            expected.push((
                tasks.get(agent, task).await["updated_at"].as_str().unwrap().to_owned(),
                task.clone(),
            ));
        }
        expected.sort_by(|one, other| other.cmp(one));
        let expected: Vec<String> = expected.into_iter().map(|(_, task)| task).collect();
        for limit in [1, 7, 30, 1000] {
            assert_eq!(walk(&tasks, agent, json!({ "limit": limit })).await, expected, "{}", agent.aid);
        }
    }
    assert!(walk(&tasks, &cast.dave, json!({})).await.is_empty());
    let page = tasks.ok(&cast.alice, "list", json!({})).await;
    assert_eq!(page["items"].as_array().unwrap().len(), 20, "that many where nothing is said");
    assert!(page["next_cursor"].as_str().unwrap().starts_with("tl_"));
}

#[tokio::test]
async fn a_list_is_filtered_by_status_role_peer_and_parent() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let given = tasks.submitted(&cast).await;
    let worked = tasks.working(&cast).await;
    let part = tasks.delegated(&worked, &cast.bob, &cast.alice, true).await;
    let own = id(&tasks.ok(&cast.bob, "create", json!({ "to": cast.bob.aid, "input": text("x") })).await);
    let found = async |agent: &TestAgent, params: Value| {
        walk(&tasks, agent, params).await.into_iter().collect::<BTreeSet<String>>()
    };
    let set = |tasks: &[&String]| tasks.iter().map(|task| task.to_string()).collect::<BTreeSet<String>>();
    assert_eq!(found(&cast.bob, json!({})).await, set(&[&given, &worked, &part, &own]));
    assert_eq!(
        found(&cast.bob, json!({ "role": "assignee" })).await,
        set(&[&given, &worked]),
        "not what he gave himself"
    );
    assert_eq!(found(&cast.bob, json!({ "role": "owner" })).await, set(&[&part, &own]));
    assert_eq!(found(&cast.carol, json!({ "role": "participant" })).await, set(&[&given, &worked]));
    assert_eq!(found(&cast.alice, json!({ "role": "participant" })).await, set(&[]));
    assert_eq!(found(&cast.bob, json!({ "status": "submitted" })).await, set(&[&given, &own]));
    assert_eq!(found(&cast.bob, json!({ "status": ["working", "submitted", "working"] })).await.len(), 4);
    assert_eq!(found(&cast.bob, json!({ "status": ["completed"] })).await, set(&[]));
    assert_eq!(found(&cast.bob, json!({ "peer": cast.alice.aid })).await, set(&[&given, &worked, &part]));
    assert_eq!(found(&cast.carol, json!({ "peer": cast.bob.aid })).await, set(&[&given, &worked]));
    assert_eq!(found(&cast.bob, json!({ "parent_task_id": worked })).await, set(&[&part]));
    assert_eq!(
        found(&cast.carol, json!({ "parent_task_id": worked })).await,
        set(&[]),
        "she has no part in it"
    );
    let offline = json!({ "role": "assignee", "status": "submitted", "peer": cast.alice.aid, "parent_task_id": worked });
    assert_eq!(found(&cast.bob, offline).await, set(&[]));
    let item = tasks.ok(&cast.alice, "list", json!({ "role": "assignee" })).await["items"][0].clone();
    let seen = tasks.get(&cast.alice, &part).await;
    for (name, value) in item.as_object().unwrap() {
        assert_eq!(seen[name], *value, "{name}");
    }
}

#[tokio::test]
async fn a_cursor_is_one_that_was_answered() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    for cursor in ["", "tl_", "x", "tl_%%%", "tl_YWJj", "tl_MSA", "cur_MSB0"] {
        assert_eq!(tasks.code(&cast.alice, "list", json!({ "cursor": cursor })).await, -32602, "{cursor}");
    }
    // It says where to go on in the caller's own list: somebody else's is worth nothing.
    for _ in 0..2 {
        tasks.submitted(&cast).await;
    }
    let page = tasks.ok(&cast.alice, "list", json!({ "limit": 1 })).await;
    let theirs = tasks.ok(&cast.dave, "list", json!({ "cursor": page["next_cursor"] })).await;
    assert_eq!(theirs["items"], json!([]));
}
