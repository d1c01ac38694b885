//! What is kept of tasks of other domains, how much, and how long.

use super::*;
use crate::model::state::TaskState;
use crate::store::{StubKey, StubRow};
use proto_schemas::requests::task::{TaskId, TaskRole, TaskVisibility};

fn stub(aid: &str, number: usize, state: TaskState) -> StubRow {
    let task_id = TaskId::try_from(format!("task_{number:05}")).unwrap();
    StubRow {
        key: StubKey { aid: Aid::parse(aid).unwrap(), task_id },
        home_issuer: NEAR.to_owned(),
        role: TaskRole::Assignee,
        state,
        version: 1,
        owner: Aid::parse("anna.aid.pub").unwrap(),
        assignee: Aid::parse(aid).unwrap(),
        parent_id: None,
        required: true,
        title: String::new(),
        visibility: TaskVisibility::Private,
        created_at: 1,
        updated_at: 1,
    }
}

#[tokio::test]
async fn an_agent_has_so_many_tasks_of_one_domain_at_most() {
    let far = TaskDomain::open(FAR).await;
    let bob = far.agent("bobb").await;
    let store = &far.tasks.service.store;
    let now = far.tasks.service.clock.now_ms();
    let mut all: Vec<StubRow> = (0..9999).map(|n| stub(&bob.aid, n, TaskState::Working)).collect();
    all.push(stub(&bob.aid, 9999, TaskState::Completed));
    assert!(store.write_stubs(NEAR, &all, now).await.unwrap().refused.is_empty());
    let more = [stub(&bob.aid, 10_000, TaskState::Working), stub(&bob.aid, 10_001, TaskState::Working)];
    let written = store.write_stubs(NEAR, &more, now).await.unwrap();
    assert_eq!(written.refused.len(), 1, "one had ended, and made space for one");
    assert!(written.known.contains_key(&more[0].key) && !written.known.contains_key(&more[1].key));
    assert!(far.list(&bob, json!({ "status": "completed" })).await.is_empty());
    let changed = StubRow { version: 2, ..stub(&bob.aid, 5, TaskState::Failed) };
    assert!(store.write_stubs(NEAR, &[changed], now).await.unwrap().refused.is_empty());
    assert_eq!(far.list(&bob, json!({ "status": "failed" })).await.len(), 1);
    let elsewhere =
        StubRow { home_issuer: "c.example".to_owned(), ..stub(&bob.aid, 20_000, TaskState::Working) };
    assert!(store.write_stubs("c.example", &[elsewhere], now).await.unwrap().refused.is_empty());
}

#[tokio::test]
async fn what_is_over_is_forgotten() {
    let two = TwoTaskDomains::open().await;
    let TwoTaskDomains { near, far, alice, bob } = &two;
    let (ended, open) = (two.submitted().await, two.submitted().await);
    near.tasks.ok(alice, "cancel", json!({ "task_id": ended })).await;
    near.tell().await;
    assert_eq!(far.tasks.get(bob, &ended).await["status"], "canceled");
    near.tasks.pass(91 * DAY_MS);
    near.tasks.service.remove_ended().await.unwrap();
    assert_eq!(far.list(bob, json!({})).await.len(), 2);
    assert_eq!(far.tasks.code(bob, "get", json!({ "task_id": ended })).await, -32170);
    assert_eq!(far.list(bob, json!({})).await.len(), 1, "its home does not know it any more");

    let ended = two.submitted().await;
    far.tasks.ok(bob, "reject", json!({ "task_id": ended })).await;
    near.tell().await;
    far.tasks.pass(91 * DAY_MS);
    far.tasks.service.remove_ended().await.unwrap();
    let left = far.list(bob, json!({})).await;
    assert_eq!((left.len(), id(&left[0])), (1, open));
    far.tasks.pass(30 * DAY_MS);
    far.tasks.service.remove_ended().await.unwrap();
    assert!(far.list(bob, json!({})).await.is_empty(), "nothing was heard of it for so long");
}

#[tokio::test]
async fn a_list_has_tasks_of_all_domains_in_one_order() {
    let two = TwoTaskDomains::open().await;
    let TwoTaskDomains { near, far, bob, .. } = &two;
    let carl = far.agent("carl").await;
    let mut made = Vec::new();
    for n in 0..7 {
        near.tasks.pass(10);
        far.tasks.pass(10);
        made.push(match n % 2 {
            0 => two.submitted().await,
            _ => id(&far.tasks.ok(&carl, "create", json!({ "to": bob.aid, "input": text("x") })).await),
        });
    }
    made.reverse();
    for limit in [1, 2, 3, 7, 100] {
        let (mut seen, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let page = far.tasks.ok(bob, "list", json!({ "limit": limit, "cursor": cursor })).await;
            seen.extend(page["items"].as_array().unwrap().iter().map(id));
            cursor = page["next_cursor"].clone();
            if page["has_more"] == false {
                break;
            }
        }
        assert_eq!(seen, made, "{limit}");
    }
    let of_alice = far.list(bob, json!({ "peer": two.alice.aid })).await;
    assert_eq!((of_alice.len(), &of_alice[0]["remote"]), (4, &json!(true)));
    assert!(far.list(bob, json!({ "role": "participant" })).await.is_empty());
    assert!(far.list(bob, json!({ "parent_task_id": made[0] })).await.is_empty());
}
