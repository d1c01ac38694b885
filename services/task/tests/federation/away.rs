//! Domains that cannot be reached, that take no tasks, or that do not know an agent.

use super::*;
use proto_schemas::requests::federation::PeerUp;

#[tokio::test]
async fn a_domain_that_is_away_holds_nothing_up_and_learns_of_everything_later() {
    let two = TwoTaskDomains::open().await;
    let TwoTaskDomains { near, far, alice, bob } = &two;
    let third = TaskDomain::open("c.example").await;
    near.link(&third);
    let erin = third.agent("erin").await;
    near.down(FAR);
    let create = |to: &TestAgent| json!({ "to": to.aid, "input": text("x") });
    let task = id(&near.tasks.ok(alice, "create", create(bob)).await);
    near.tell().await;
    near.tasks.ok(alice, "send_input", json!({ "task_id": task, "input": text("more") })).await;
    let other = id(&near.tasks.ok(alice, "create", create(&erin)).await);
    near.tell().await;
    assert_eq!(third.tasks.told().await, pairs(&[("erin", "updated submitted 1")]), "it did not wait");
    assert!(far.list(bob, json!({})).await.is_empty());
    assert_eq!(near.waiting().await, 1, "many changes of a task are one row");

    near.up(FAR);
    assert!(near.tell_due().await.is_empty(), "it is tried later");
    near.tasks.pass(3000);
    assert_eq!(near.tell_due().await, [FAR]);
    assert_eq!(near.waiting().await, 0);
    let events = far.tasks.events().await;
    assert_eq!((events.len(), &params_of(&events[0])["actor"]), (1, &json!("system")));
    assert_eq!(far.tasks.told().await, pairs(&[("bobb", "updated submitted 2")]));
    far.tasks.ok(bob, "accept", json!({ "task_id": task })).await;
    assert_eq!(two.told().await.0.last().unwrap().1, "updated working 3");
    third.link(near);
    third.tasks.ok(&erin, "accept", json!({ "task_id": other })).await;
}

#[tokio::test]
async fn a_proved_link_has_a_domain_tried_at_once() {
    let two = TwoTaskDomains::open().await;
    let TwoTaskDomains { near, alice, bob, .. } = &two;
    near.down(FAR);
    let create = json!({ "to": bob.aid, "input": text("x") });
    near.tasks.ok(alice, "create", create).await;
    near.tell().await;
    for _ in 0..10 {
        near.tasks.pass(300_000);
        assert_eq!(near.tell_due().await, [FAR]);
    }
    near.tasks.pass(3000);
    assert!(near.tell_due().await.is_empty());
    near.up(FAR);
    near.tasks.test.world.bus.signal(&PeerUp { issuer: FAR.to_owned() });
    let told = async {
        while near.waiting().await > 0 {
            tokio::task::yield_now().await;
        }
    };
    let service = &*near.tasks.service;
    tokio::select! {
        () = told => {}
        () = service.store.outbox.run(service) => panic!("it runs until the server stops"),
    }
}

#[tokio::test]
async fn a_call_while_the_home_is_away_says_so() {
    let two = TwoTaskDomains::open().await;
    let task = two.submitted().await;
    two.far.down(NEAR);
    assert_eq!(two.far.tasks.code(&two.bob, "accept", json!({ "task_id": task })).await, -32010);
    let listed = two.far.list(&two.bob, json!({})).await;
    assert_eq!((listed.len(), id(&listed[0])), (1, task), "what is known of it is shown");
}

#[tokio::test]
async fn a_task_for_somebody_who_is_not_there_ends() {
    let two = TwoTaskDomains::open().await;
    let TwoTaskDomains { near, alice, .. } = &two;
    let create = json!({ "to": "nobody.b.example", "input": text("x") });
    let task = id(&near.tasks.ok(alice, "create", create.clone()).await);
    near.tell().await;
    let seen = near.tasks.get(alice, &task).await;
    assert_eq!((&seen["status"], &seen["reason"]), (&json!("canceled"), &json!("assignee_unknown")));
    let told = near.tasks.told().await;
    assert_eq!(told, pairs(&[("alice but 1", "updated submitted 1"), ("alice", "updated canceled 2")]));
    near.tell().await;
    assert_eq!((near.waiting().await, near.tasks.get(alice, &task).await["version"].clone()), (0, json!(2)));

    let working = two.working().await;
    for (refused, reason) in [
        ("disabled", "federation_off"),
        ("issuer_blocked", "domain_blocked"),
        ("domain_unknown", "domain_unknown"),
        ("domain_untrusted", "domain_untrusted"),
        ("hello_refused", "assignee_unreachable"),
        ("namespace", "assignee_unreachable"),
    ] {
        *near.links.refused.lock() = Some(refused);
        let task = id(&near.tasks.ok(alice, "create", create.clone()).await);
        near.tasks.ok(alice, "send_input", json!({ "task_id": working, "input": text("x") })).await;
        near.tell().await;
        let seen = near.tasks.get(alice, &task).await;
        assert_eq!((&seen["status"], &seen["reason"]), (&json!("canceled"), &json!(reason)), "{refused}");
    }
    assert_eq!(near.tasks.get(alice, &working).await["status"], "working", "whoever accepted it knows of it");
    assert_eq!(near.waiting().await, 0);
}

#[tokio::test]
async fn an_answer_that_was_lost_has_no_effect_the_second_time() {
    let two = TwoTaskDomains::open().await;
    let TwoTaskDomains { near, far, alice, bob } = &two;
    let task = two.submitted().await;
    two.told().await;
    // The row is there again, as if the first answer had not come.
    near.down(FAR);
    near.tasks.ok(alice, "send_input", json!({ "task_id": task, "input": text("x") })).await;
    near.tell().await;
    near.up(FAR);
    near.tasks.pass(5000);
    let again = TaskService::open(&near.tasks.test.world, &Settings::default()).await.unwrap();
    let service = &near.tasks.service;
    assert_eq!(again.store.outbox.due().await.unwrap(), [FAR], "another process may tell it");
    tokio::join!(again.store.outbox.send_to(&*again, FAR), service.store.outbox.send_to(&**service, FAR));
    assert_eq!(far.tasks.told().await, pairs(&[("bobb", "updated submitted 2")]), "once");
    assert_eq!(far.list(bob, json!({})).await.len(), 1);
}

#[tokio::test]
async fn a_large_result_is_told_without_its_contents() {
    let two = TwoTaskDomains::open().await;
    let TwoTaskDomains { near, far, bob, .. } = &two;
    let carol = near.agent("carol").await;
    let task = two.working().await;
    let part = json!({ "task_id": task, "to": carol.aid, "input": text("a part") });
    let child = id(&far.tasks.ok(bob, "delegate", part).await);
    near.tasks.ok(&carol, "accept", json!({ "task_id": child })).await;
    two.told().await;
    let artifact = |n: usize| json!({ "id": n.to_string(), "type": "text", "content": "x".repeat(4096 - 2) });
    let artifacts: Vec<Value> = (0..50).map(artifact).collect();
    near.tasks.ok(&carol, "complete", json!({ "task_id": child, "artifacts": artifacts })).await;
    near.tell().await;
    let events = far.tasks.events().await;
    assert_eq!(events.len(), 51);
    let last = params_of(&events[50]);
    assert_eq!(last["artifacts"].as_array().unwrap().len(), 50);
    assert!(last["artifacts"].as_array().unwrap().iter().all(|artifact| artifact.get("content").is_none()));
}

/// Has the store as the build before made it: the marks are in a table of this service alone, and the migration that takes them over
/// has not run.
async fn with_old_tables(tasks: &TestTasks) {
    let world = &tasks.test.world;
    let db = testing::db_before(world, "task", &sqlx::migrate!("./migrations"), i64::MAX).await;
    for statement in [
        "CREATE TABLE task_relay (task_id TEXT NOT NULL, issuer TEXT NOT NULL, version BIGINT NOT NULL, due_at BIGINT NOT NULL,
             PRIMARY KEY (task_id, issuer))",
        "CREATE INDEX task_relay_due ON task_relay (issuer, due_at)",
        "INSERT INTO task_relay SELECT key, destination, version, position FROM relay_outbox",
        "DROP TABLE relay_outbox",
        "DROP TABLE relay_destination",
        "DELETE FROM _sqlx_migrations WHERE version IN (2, 3)",
    ] {
        sqlx::query(statement).execute(db.write_alone()).await.unwrap();
    }
    db.close().await;
}

#[tokio::test]
async fn what_waited_before_the_tables_changed_is_told_in_order() {
    let two = TwoTaskDomains::open().await;
    let TwoTaskDomains { near, far, alice, bob } = &two;
    near.down(FAR);
    let mut made = Vec::new();
    for n in 0..3 {
        let create = json!({ "to": bob.aid, "input": text(&n.to_string()) });
        made.push(id(&near.tasks.ok(alice, "create", create).await));
        near.tell().await;
        near.tasks.pass(10);
    }
    near.tasks.ok(alice, "send_input", json!({ "task_id": made[0], "input": text("more") })).await;
    with_old_tables(&near.tasks).await;

    let next = TaskService::open(&near.tasks.test.world, &Settings::default()).await.unwrap();
    near.up(FAR);
    assert_eq!(next.store.outbox.count().await.unwrap(), 3);
    assert!(next.store.outbox.due().await.unwrap().is_empty(), "they wait until their time");
    near.tasks.pass(2000);
    next.store.outbox.send_to(&*next, FAR).await;
    assert_eq!(next.store.outbox.count().await.unwrap(), 0);
    let events = far.tasks.events().await;
    let told: Vec<(Value, Value)> = events
        .iter()
        .map(params_of)
        .map(|params| (params["task_id"].clone(), params["version"].clone()))
        .collect();
    let expected = [(&made[1], 1), (&made[2], 1), (&made[0], 2)];
    assert_eq!(told, expected.map(|(task, version)| (json!(task), json!(version))));
}
