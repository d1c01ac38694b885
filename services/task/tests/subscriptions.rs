//! Subscriptions: whom they tell, how long they last, and how many there may be.

use super::*;
use std::collections::BTreeSet;

#[tokio::test]
async fn a_participant_hears_what_it_subscribed_to() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.submitted(&cast).await;
    let laptop = at(&cast.carol, "laptop", "main/cli", 5);
    let subscribe = json!({ "task_ids": [task], "events": ["completed", "artifact"] });
    let answer = tasks.test.call_as(laptop.clone(), "task.subscribe", subscribe).await.unwrap();
    assert_eq!(answer, json!({ "subscribed": [task] }));
    tasks.told().await;
    tasks.ok(&cast.bob, "accept", json!({ "task_id": task })).await;
    assert_eq!(tasks.told().await, pairs(&[("alice", "updated working 2")]), "she did not ask for that");
    let add = json!({ "task_id": task, "artifact": { "id": "a", "type": "text" } });
    tasks.ok(&cast.bob, "add_artifact", add).await;
    assert_eq!(
        tasks.told().await,
        pairs(&[("alice", "artifact working 3"), ("carol at laptop main", "artifact working 3")])
    );
    // What was said last counts; nothing said means everything.
    tasks
        .test
        .call_as(laptop.clone(), "task.subscribe", json!({ "task_ids": [task], "events": [] }))
        .await
        .unwrap();
    tasks.ok(&cast.bob, "send_input", json!({ "task_id": task, "input": text("x") })).await;
    assert_eq!(
        tasks.told().await,
        pairs(&[
            ("alice", "updated working 4"),
            ("bobb but 1", "updated working 4"),
            ("carol at laptop main", "updated working 4")
        ])
    );
    let gone = tasks
        .test
        .call_as(laptop.clone(), "task.unsubscribe", json!({ "task_ids": [task, task] }))
        .await
        .unwrap();
    assert_eq!(gone, json!({ "unsubscribed": [task] }));
    let again = tasks.test.call_as(laptop, "task.unsubscribe", json!({ "task_ids": [task] })).await.unwrap();
    assert_eq!(again, json!({ "unsubscribed": [] }));
    tasks.ok(&cast.bob, "complete", json!({ "task_id": task })).await;
    assert_eq!(tasks.told().await, pairs(&[("alice", "completed completed 5")]));
}

#[tokio::test]
async fn a_connection_is_told_once_and_the_calling_one_not_at_all() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    // Owners and those who call: a subscription does not tell them twice, or of what they do themselves.
    for (agent, device) in
        [(&cast.alice, "laptop"), (&cast.bob, "laptop"), (&cast.carol, "laptop"), (&cast.carol, "phone")]
    {
        let caller = at(agent, device, "", 7);
        tasks.test.call_as(caller, "task.subscribe", json!({ "task_ids": [task] })).await.unwrap();
    }
    tasks.told().await;
    let said = json!({ "task_id": task, "input": text("x") });
    tasks.test.call_as(at(&cast.carol, "laptop", "", 7), "task.send_input", said.clone()).await.unwrap();
    assert_eq!(
        tasks.told().await,
        pairs(&[
            ("alice", "updated working 3"),
            ("bobb", "updated working 3"),
            ("carol at phone ", "updated working 3")
        ])
    );
    let add = json!({ "task_id": task, "artifact": { "id": "a", "type": "text" } });
    tasks.test.call_as(at(&cast.bob, "phone", "", 8), "task.add_artifact", add).await.unwrap();
    assert_eq!(
        tasks.told().await,
        pairs(&[
            ("alice", "artifact working 4"),
            ("bobb at laptop ", "artifact working 4"),
            ("carol at laptop ", "artifact working 4"),
            ("carol at phone ", "artifact working 4"),
        ]),
        "another device of the assignee has subscribed"
    );
    tasks.test.call_as(cast.carol.by_token(), "task.send_input", said).await.unwrap();
    let told = tasks.told().await;
    assert_eq!(
        told.iter().filter(|(to, _)| to.starts_with("carol")).count(),
        2,
        "a call over HTTP has no connection"
    );
}

#[tokio::test]
async fn a_subscription_lasts_across_connections_and_restarts() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.submitted(&cast).await;
    let subscribe = json!({ "task_ids": [task] });
    tasks.test.call_as(at(&cast.carol, "laptop", "main", 5), "task.subscribe", subscribe).await.unwrap();
    let TestTasks { test, service } = tasks;
    drop(service);
    let test = test.restart().await;
    let service = TaskService::open(&test.world, &Settings::default()).await.unwrap();
    test.world.add(alone(&service));
    let seen = test.events.clone();
    test.world.bus.listen(move |event| seen.lock().push(event.clone()));
    let tasks = TestTasks { test, service };
    tasks.arrive(&cast.carol, "laptop", "main", 6);
    tasks.test.events.lock().clear();
    tasks.ok(&cast.bob, "accept", json!({ "task_id": task })).await;
    assert_eq!(tasks.told().await, pairs(&[("carol at laptop main", "updated working 2")]));
}

#[tokio::test]
async fn a_subscription_ends_a_minute_after_its_task() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    let part = tasks.delegated(&task, &cast.bob, &cast.dave, false).await;
    let of = async || {
        let wanted = BTreeSet::from([&task, &part].map(|id| id.parse().unwrap()));
        tasks.service.store.subscribers(&wanted, tasks.test.world.clock.now_ms()).await.unwrap().len()
    };
    tasks.ok(&cast.carol, "subscribe", json!({ "task_ids": [task] })).await;
    tasks.ok(&cast.bob, "subscribe", json!({ "task_ids": [part] })).await;
    assert_eq!(of().await, 2);
    tasks.ok(&cast.alice, "cancel", json!({ "task_id": task })).await;
    assert_eq!(of().await, 2, "they hear of the end");
    let told = tasks.told().await;
    assert!(told.contains(&("carol at  ".to_owned(), "updated canceled 4".to_owned())), "{told:?}");
    tasks.pass(60_000);
    assert_eq!(of().await, 0);
    // To subscribe to what has ended is no mistake, and does not last either.
    let answer = tasks.ok(&cast.carol, "subscribe", json!({ "task_ids": [task] })).await;
    assert_eq!((&answer["subscribed"], of().await), (&json!([task]), 0));
    tasks.service.remove_expired().await.unwrap();
}

#[tokio::test]
async fn whoever_may_not_read_a_task_any_more_is_not_told_any_more() {
    let tasks = TestTasks::with(Settings { idle_timeout_seconds: u32::MAX, ..Settings::default() }).await;
    let cast = tasks.cast().await;
    let create = json!({ "to": cast.bob.aid, "input": text("x"), "visibility": "shared" });
    let root = id(&tasks.ok(&cast.alice, "create", create).await);
    tasks.ok(&cast.bob, "accept", json!({ "task_id": root })).await;
    let part = tasks.delegated(&root, &cast.bob, &cast.dave, true).await;
    tasks.ok(&cast.dave, "subscribe", json!({ "task_ids": [root] })).await;
    tasks.ok(&cast.dave, "complete", json!({ "task_id": part })).await;
    // The part is removed after its time, and with it what connects Dave with the tree.
    tasks.pass(91 * DAY_MS);
    tasks.service.remove_ended().await.unwrap();
    assert_eq!(tasks.code(&cast.dave, "get", json!({ "task_id": root })).await, -32170);
    tasks.told().await;
    tasks.ok(&cast.alice, "send_input", json!({ "task_id": root, "input": text("y") })).await;
    let told = tasks.told().await;
    assert!(told.iter().all(|(to, _)| !to.starts_with("dave")), "{told:?}");
    let answer = tasks.ok(&cast.dave, "unsubscribe", json!({ "task_ids": [root] })).await;
    assert_eq!(answer["unsubscribed"], json!([]), "the subscription has ended");
}

#[tokio::test]
async fn a_device_and_slot_has_at_most_a_thousand() {
    let tasks =
        TestTasks::with(Settings { open_tasks: 2000, open_tasks_per_sender: 2000, ..Settings::default() })
            .await;
    let cast = tasks.cast().await;
    let mut calls = JoinSet::new();
    for _ in 0..1001 {
        tasks.spawn(
            &mut calls,
            cast.alice.caller(),
            "create",
            json!({ "to": cast.bob.aid, "input": text("x") }),
        );
    }
    let made: Vec<String> =
        calls.join_all().await.iter().map(|answer| id(answer.as_ref().unwrap())).collect();
    for hundred in made.chunks(100).take(10) {
        let answer = tasks.ok(&cast.bob, "subscribe", json!({ "task_ids": hundred })).await;
        assert_eq!(answer["subscribed"], json!(hundred));
    }
    let more = json!({ "task_ids": [made[1000], made[0]] });
    assert_eq!(tasks.code(&cast.bob, "subscribe", more.clone()).await, -32029);
    tasks.ok(&cast.bob, "subscribe", json!({ "task_ids": [made[0], made[1]] })).await;
    let phone = at(&cast.bob, "phone", "", 9);
    tasks.test.call_as(phone, "task.subscribe", more.clone()).await.unwrap();
    tasks.ok(&cast.bob, "unsubscribe", json!({ "task_ids": [made[5]] })).await;
    tasks.ok(&cast.bob, "subscribe", more).await;
}
