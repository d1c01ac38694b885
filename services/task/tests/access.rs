//! Who may read what, and what nobody can find out.

use super::*;

async fn tree(tasks: &TestTasks, cast: &Cast, visibility: &str) -> (String, String) {
    let params = json!({ "to": cast.bob.aid, "input": text("do it"), "visibility": visibility });
    let root = id(&tasks.ok(&cast.alice, "create", params).await);
    tasks.ok(&cast.bob, "accept", json!({ "task_id": root })).await;
    let child = tasks.delegated(&root, &cast.bob, &cast.carol, true).await;
    (root, child)
}

async fn reads(tasks: &TestTasks, agent: &TestAgent, task: &str) -> i32 {
    let about = json!({ "task_id": task });
    let code = tasks.code(agent, "get", about.clone()).await;
    let subscribed = tasks.ok(agent, "subscribe", json!({ "task_ids": [task] })).await;
    let expected = if code == 0 { json!([task]) } else { json!([]) };
    assert_eq!(subscribed["subscribed"], expected, "who may read may subscribe, and nobody else");
    code
}

#[tokio::test]
async fn a_private_task_is_read_by_those_who_take_part() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let (root, child) = tree(&tasks, &cast, "private").await;
    for (agent, of_root, of_child) in
        [(&cast.alice, 0, -32175), (&cast.bob, 0, 0), (&cast.carol, -32170, 0), (&cast.dave, -32170, -32170)]
    {
        assert_eq!(reads(&tasks, agent, &root).await, of_root, "{}", agent.aid);
        assert_eq!(reads(&tasks, agent, &child).await, of_child, "{}", agent.aid);
    }
    let seen = tasks.get(&cast.bob, &child).await;
    assert_eq!(seen["participants"], json!([cast.bob.aid, cast.carol.aid]));
    assert_eq!(
        (&seen["depth"], &seen["parent_task_id"], &seen["root_task_id"]),
        (&json!(1), &json!(root), &json!(root))
    );
}

#[tokio::test]
async fn a_shared_task_is_read_by_those_of_its_tree_and_a_public_one_by_everybody() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let (root, child) = tree(&tasks, &cast, "shared").await;
    for agent in [&cast.alice, &cast.bob, &cast.carol] {
        assert_eq!(reads(&tasks, agent, &root).await, 0, "{}", agent.aid);
        assert_eq!(reads(&tasks, agent, &child).await, 0, "{}", agent.aid);
    }
    assert_eq!(reads(&tasks, &cast.dave, &root).await, -32170);

    let (root, child) = tree(&tasks, &cast, "public").await;
    assert_eq!(reads(&tasks, &cast.dave, &root).await, 0);
    assert_eq!(reads(&tasks, &cast.dave, &child).await, 0);
    // To read is not to take part.
    let more = json!({ "task_id": root, "input": text("me, too") });
    assert_eq!(tasks.code(&cast.dave, "send_input", more).await, -32175);
    let part = json!({ "task_id": root, "to": cast.alice.aid, "input": text("a part") });
    assert_eq!(tasks.code(&cast.dave, "delegate", part).await, -32178);
    let listed = tasks.ok(&cast.dave, "list", json!({})).await;
    assert_eq!(listed["items"], json!([]), "only those with a role find it in their lists");
}

#[tokio::test]
async fn nobody_can_tell_a_hidden_task_from_one_that_does_not_exist() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let hidden = tasks.working(&cast).await;
    let unknown = format!("{}x", &hidden[..hidden.len() - 1]);
    let calls = [
        ("get", json!({})),
        ("children", json!({})),
        ("accept", json!({ "expected_version": 7 })),
        ("reject", json!({ "reason": "no" })),
        ("send_input", json!({ "input": text("x") })),
        ("request_input", json!({ "message": text("x") })),
        ("delegate", json!({ "to": cast.alice.aid, "input": text("x") })),
        ("add_artifact", json!({ "artifact": { "id": "a", "type": "text" } })),
        ("complete", json!({ "request_id": "r" })),
        ("fail", json!({})),
        ("cancel", json!({})),
    ];
    for (method, params) in calls {
        let about = |task: &str| {
            let mut params = params.clone();
            params["task_id"] = json!(task);
            params
        };
        let one = tasks.refused(&cast.dave, method, about(&hidden)).await;
        let other = tasks.refused(&cast.dave, method, about(&unknown)).await;
        assert_eq!(one.code(), -32170, "{method}");
        let shown = |error: &RpcError| {
            serde_json::to_string(error).unwrap().replace(&hidden, "").replace(&unknown, "")
        };
        assert_eq!(shown(&one), shown(&other), "{method}: the same code, words and data");
    }
    let listed = tasks.ok(&cast.dave, "list", json!({ "parent_task_id": hidden })).await;
    assert_eq!(listed["items"], json!([]));
    let listed = tasks.ok(&cast.dave, "list", json!({ "peer": cast.alice.aid })).await;
    assert_eq!(listed["items"], json!([]));
    for method in ["subscribe", "unsubscribe"] {
        let answer = tasks.ok(&cast.dave, method, json!({ "task_ids": [hidden, unknown] })).await;
        assert_eq!(answer.as_object().unwrap().values().next(), Some(&json!([])), "{method}");
    }
}

#[tokio::test]
async fn the_owner_of_the_root_sees_and_cancels_what_is_below_and_others_only_what_they_read() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let (root, child) = tree(&tasks, &cast, "private").await;
    let leaf = tasks.delegated(&child, &cast.carol, &cast.dave, true).await;
    let below = async |agent: &TestAgent, task: &str| {
        let found = tasks.ok(agent, "children", json!({ "task_id": task, "recursive": true })).await;
        let children = found["children"].as_array().unwrap();
        assert_eq!(found["count"], json!(children.len()));
        children.iter().map(id).collect::<Vec<_>>()
    };
    assert_eq!(below(&cast.alice, &root).await, [child.clone(), leaf.clone()]);
    assert_eq!(below(&cast.alice, &child).await, [&*leaf]);
    assert_eq!(below(&cast.bob, &root).await, [child.clone(), leaf.clone()], "bob owns the child");
    let direct = tasks.ok(&cast.alice, "children", json!({ "task_id": root })).await;
    assert_eq!(direct["children"].as_array().unwrap().iter().map(id).collect::<Vec<_>>(), [&*child]);
    assert_eq!(tasks.code(&cast.carol, "children", json!({ "task_id": root })).await, -32170);

    assert_eq!(
        tasks.code(&cast.bob, "cancel", json!({ "task_id": leaf })).await,
        -32170,
        "bob has no part in it"
    );
    assert_eq!(tasks.code(&cast.dave, "cancel", json!({ "task_id": leaf })).await, -32175);
    tasks.ok(&cast.alice, "cancel", json!({ "task_id": leaf })).await;
    assert_eq!(tasks.status(&cast.carol, &leaf).await, "canceled");
    assert_eq!(tasks.status(&cast.carol, &child).await, "working");
}

#[tokio::test]
async fn a_task_is_given_to_agents_of_this_domain_who_exist() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let create =
        |to: &str, participants: Value| json!({ "to": to, "input": text("x"), "participants": participants });
    let unknown = tasks.refused(&cast.alice, "create", create("nobody.aid.pub", json!([]))).await;
    assert_eq!((unknown.code(), unknown.data("reason")), (-32602, Some(&json!("assignee_unknown"))));
    let unknown =
        tasks.refused(&cast.alice, "create", create(&cast.bob.aid, json!(["nobody.aid.pub"]))).await;
    assert_eq!((unknown.code(), unknown.data("reason")), (-32602, Some(&json!("participant_unknown"))));
    for (to, participants) in [("dave.aid.com", json!([])), (&*cast.bob.aid, json!(["dave.aid.com"]))] {
        let foreign = tasks.refused(&cast.alice, "create", create(to, participants)).await;
        assert_eq!((foreign.code(), foreign.data("target_issuer")), (-32010, Some(&json!("aid.com"))));
    }
    let task = tasks.working(&cast).await;
    for (to, code) in
        [("nobody.aid.pub", -32602), ("dave.aid.com", -32010), (&*cast.bob.aid, -32602), ("x", -32602)]
    {
        let part = json!({ "task_id": task, "to": to, "input": text("a part") });
        assert_eq!(tasks.code(&cast.bob, "delegate", part).await, code, "{to}");
    }
    // One may give oneself something to do.
    let own = id(&tasks.ok(&cast.alice, "create", create(&cast.alice.aid, json!([]))).await);
    assert_eq!(tasks.get(&cast.alice, &own).await["participants"], json!([cast.alice.aid]));
    tasks.ok(&cast.alice, "accept", json!({ "task_id": own })).await;
    let listed = tasks.ok(&cast.alice, "list", json!({ "status": "working" })).await;
    assert_eq!(listed["items"].as_array().unwrap().iter().filter(|item| id(item) == own).count(), 1);
}
