//! Both sides work on a task that is in one of the two domains.

use super::*;

#[tokio::test]
async fn a_task_goes_through_all_its_states_between_two_domains() {
    let two = TwoTaskDomains::open().await;
    let TwoTaskDomains { near, far, alice, bob } = &two;
    let carol = near.agent("carol").await;
    let task = two.submitted().await;
    let about = json!({ "task_id": task });
    let (told_near, told_far) = two.told().await;
    assert_eq!(told_near, pairs(&[("alice but 1", "updated submitted 1")]));
    assert_eq!(told_far, pairs(&[("bobb", "updated submitted 1")]));
    let listed = far.list(bob, json!({ "role": "assignee", "status": "submitted" })).await;
    assert_eq!(
        (&listed[0]["task_id"], &listed[0]["remote"], &listed[0]["home_issuer"], &listed[0]["title"]),
        (&json!(task), &json!(true), &json!(NEAR), &json!("a review"))
    );
    assert!(near.list(alice, json!({})).await[0].get("remote").is_none());

    assert_eq!(
        far.tasks.ok(bob, "accept", about.clone()).await,
        json!({ "task_id": task, "status": "working" })
    );
    let (told_near, told_far) = two.told().await;
    assert_eq!((told_near, told_far), (pairs(&[("alice", "updated working 2")]), vec![]));
    assert_eq!(far.list(bob, json!({ "status": "working" })).await[0]["version"], 2);

    let laptop = at(bob, "laptop", "one", 7);
    let ask = json!({ "task_id": task, "message": text("which?") });
    far.tasks.test.call_as(laptop, "task.request_input", ask).await.unwrap();
    let (told_near, told_far) = two.told().await;
    assert_eq!(told_near, pairs(&[("alice", "updated input_required 3")]));
    assert_eq!(told_far, pairs(&[("bobb but at laptop one", "updated input_required 3")]));
    near.tasks.ok(alice, "send_input", json!({ "task_id": task, "input": text("this") })).await;
    near.tell().await;
    assert_eq!(params_of(&far.tasks.events().await[0])["message"], text("this"));
    assert_eq!(two.told().await.1, pairs(&[("bobb", "updated working 4")]));

    let part = json!({ "task_id": task, "to": carol.aid, "input": text("a part") });
    let child = id(&far.tasks.ok(bob, "delegate", part).await);
    let (told_near, told_far) = two.told().await;
    assert_eq!(told_near, pairs(&[("alice", "delegated working 5"), ("carol", "updated submitted 1")]));
    assert_eq!(told_far, pairs(&[("bobb but at  ", "updated submitted 1")]));
    assert_eq!(id(&far.list(bob, json!({ "role": "owner", "parent_task_id": task })).await[0]), child);
    assert_eq!(far.tasks.code(bob, "complete", about.clone()).await, -32185, "a required part is open");
    near.tasks.ok(&carol, "accept", json!({ "task_id": child })).await;
    near.tasks.ok(&carol, "complete", json!({ "task_id": child })).await;
    let (told_near, told_far) = two.told().await;
    assert_eq!(told_near, vec![]);
    assert_eq!(told_far, pairs(&[("bobb", "updated working 2"), ("bobb", "completed completed 3")]));

    let seen = far.tasks.get(bob, &task).await;
    assert_eq!(seen, near.tasks.get(alice, &task).await, "both see the same");
    assert_eq!((&seen["home_issuer"], &seen["children"][0]["status"]), (&json!(NEAR), &json!("completed")));
    assert_eq!(far.tasks.ok(bob, "children", about.clone()).await["count"], 1);
    let add = json!({ "task_id": task, "artifact": { "id": "a", "type": "text", "content": "x" } });
    assert_eq!(far.tasks.ok(bob, "add_artifact", add).await["artifact_id"], "a");
    let complete =
        json!({ "task_id": task, "artifacts": [{ "id": "b", "type": "text" }], "request_id": "r" });
    let completed = far.tasks.ok(bob, "complete", complete.clone()).await;
    assert_eq!(far.tasks.ok(bob, "complete", complete).await, completed, "a retry is answered the same");
    let (told_near, told_far) = two.told().await;
    assert_eq!(
        told_near,
        pairs(&[
            ("alice", "artifact working 6"),
            ("alice", "artifact completed 7"),
            ("alice", "completed completed 7"),
        ])
    );
    assert_eq!(told_far, vec![]);
    assert_eq!(far.list(bob, json!({ "status": "completed", "role": "assignee" })).await[0]["version"], 7);
    assert_eq!(near.waiting().await, 0);
}

#[tokio::test]
async fn what_may_not_be_done_is_refused_by_the_home_with_its_code() {
    let two = TwoTaskDomains::open().await;
    let TwoTaskDomains { near, far, alice, bob } = &two;
    let task = two.submitted().await;
    let about = json!({ "task_id": task });
    for (method, code) in [("cancel", -32175), ("fail", -32171), ("complete", -32171)] {
        assert_eq!(far.tasks.code(bob, method, about.clone()).await, code, "{method}");
    }
    let version = far.tasks.refused(bob, "accept", json!({ "task_id": task, "expected_version": 3 })).await;
    assert_eq!(version.data("current_version"), Some(&json!(1)));
    near.tasks.ok(alice, "cancel", json!({ "task_id": task, "reason": "late" })).await;
    assert_eq!(two.told().await.1, pairs(&[("bobb", "updated submitted 1"), ("bobb", "updated canceled 2")]));
    assert_eq!(far.tasks.code(bob, "accept", about.clone()).await, -32173);

    let carl = far.agent("carl").await;
    near.links.calls.lock().clear();
    far.links.calls.lock().clear();
    for method in ["get", "accept", "children"] {
        let hidden = far.tasks.refused(&carl, method, about.clone()).await;
        let unknown = far.tasks.refused(&carl, method, json!({ "task_id": "task_unknown" })).await;
        assert_eq!((hidden.code(), unknown.code()), (-32170, -32170));
    }
    assert!(far.links.calls.lock().is_empty(), "who has no stub asks nobody");
}

#[tokio::test]
async fn what_another_domain_calls_is_not_passed_on() {
    let two = TwoTaskDomains::open().await;
    let TwoTaskDomains { far, alice, .. } = &two;
    let task = two.submitted().await;
    far.links.calls.lock().clear();
    for aid in [&two.bob.aid, &alice.aid] {
        let aid = Aid::parse(aid).unwrap();
        let caller = foreign("c.example", aid, DeviceId::default(), SlotId::default());
        for (method, params) in
            [("task.get", json!({ "task_id": task })), ("task.accept", json!({ "task_id": task }))]
        {
            assert_eq!(code(far.tasks.test.call_as(caller.clone(), method, params).await), -32170);
        }
        let subscribe = json!({ "task_ids": [task] });
        let answer = far.tasks.test.call_as(caller, "task.subscribe", subscribe).await.unwrap();
        assert_eq!(answer, json!({ "subscribed": [] }));
    }
    assert!(far.links.calls.lock().is_empty());
    for method in ["task.create", "task.list"] {
        let aid = Aid::parse(&alice.aid).unwrap();
        let caller = foreign(NEAR, aid, DeviceId::default(), SlotId::default());
        assert_eq!(code(far.tasks.test.call_as(caller, method, json!({})).await), -32601, "{method}");
    }
}

#[tokio::test]
async fn who_subscribes_in_another_domain_hears_of_what_others_do() {
    let two = TwoTaskDomains::open().await;
    let TwoTaskDomains { near, far, alice, bob } = &two;
    let carol = far.agent("carol").await;
    let create = json!({ "to": bob.aid, "input": text("x"), "participants": [carol.aid] });
    let task = id(&near.tasks.ok(alice, "create", create).await);
    let own = id(&far.tasks.ok(&carol, "create", json!({ "to": carol.aid, "input": text("y") })).await);
    two.told().await;
    let laptop = || at(&carol, "laptop", "one/web", 7);
    let wanted = json!({ "task_ids": ["task_unknown", task, own] });
    let subscribed = far.tasks.test.call_as(laptop(), "task.subscribe", wanted.clone()).await.unwrap();
    assert_eq!(subscribed, json!({ "subscribed": [task, own] }), "in the order in which they were named");
    far.tasks.ok(bob, "accept", json!({ "task_id": task })).await;
    let said = json!({ "task_id": task, "input": text("hm") });
    far.tasks.test.call_as(laptop(), "task.send_input", said).await.unwrap();
    let (told_near, told_far) = two.told().await;
    assert_eq!(told_near, pairs(&[("alice", "updated working 2"), ("alice", "updated working 3")]));
    assert_eq!(
        told_far,
        pairs(&[("carol at laptop one", "updated working 2"), ("bobb", "updated working 3")]),
        "nobody hears of its own call"
    );
    far.down(NEAR);
    let subscribed = far.tasks.test.call_as(laptop(), "task.subscribe", wanted.clone()).await.unwrap();
    assert_eq!(subscribed, json!({ "subscribed": [own] }), "what its home does not answer is left out");
    far.up(NEAR);
    let removed = far.tasks.test.call_as(laptop(), "task.unsubscribe", wanted).await.unwrap();
    assert_eq!(removed, json!({ "unsubscribed": [task, own] }));
    near.tasks.ok(alice, "cancel", json!({ "task_id": task })).await;
    assert_eq!(two.told().await.1, pairs(&[("bobb", "updated canceled 4")]));
}
