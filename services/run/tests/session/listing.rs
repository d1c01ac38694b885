//! Lists of sessions.

use crate::tests::support::{TestRun, TestRuns, admin, hwlab, refusal, unidesk};
use kernel::Caller;
use serde_json::{Value, json};

/// The ids on a page, and the cursor of the next one.
async fn page(runs: &TestRuns, caller: &Caller, params: Value) -> (Vec<String>, Value) {
    let page = runs.call(caller, "session.list", params).await.unwrap();
    let ids = page["sessions"].as_array().unwrap().iter();
    (ids.map(|one| one["sessionId"].as_str().unwrap().to_owned()).collect(), page["nextCursor"].clone())
}

async fn sessions(runs: &TestRuns, many: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..many {
        ids.push(runs.session().await);
        runs.test.world.clock.advance_ms(10);
    }
    ids
}

#[tokio::test]
async fn the_last_changed_comes_first_and_pages_have_every_session_once() {
    let runs = TestRuns::open().await;
    let mut ids = sessions(&runs, 5).await;
    // Two that changed in the same millisecond are told apart by their ids.
    runs.sql("UPDATE run_session SET updated_at = 17 WHERE version = 0").await;
    ids.sort();
    ids.reverse();
    let changed = ids.remove(3);
    runs.end_a_command(&changed).await;
    ids.insert(0, changed);
    for limit in [1, 2, 3, 5, 200] {
        let (mut seen, mut cursor) = (Vec::new(), json!(null));
        loop {
            let mut params = json!({ "state": "all", "limit": limit });
            if !cursor.is_null() {
                params["cursor"] = cursor;
            }
            let (more, next) = page(&runs, &hwlab(), params).await;
            assert!((1..=limit).contains(&more.len()), "{limit}");
            seen.extend(more);
            cursor = next;
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!(seen, ids, "{limit}");
    }
    for bad in [
        json!({ "limit": 0 }),
        json!({ "limit": 201 }),
        json!({ "state": "asleep" }),
        json!({ "cursor": "x" }),
        json!({ "readerId": "" }),
        json!({ "backendProfile": "Not A Slug" }),
    ] {
        assert_eq!(runs.refused("session.list", bad.clone()).await, refusal("schema-invalid", 400), "{bad}");
    }
}

#[tokio::test]
async fn by_default_only_running_and_unread_sessions_are_listed() {
    let runs = TestRuns::open().await;
    let ids = sessions(&runs, 3).await;
    assert_eq!(page(&runs, &hwlab(), json!({})).await.0.len(), 0);
    runs.end_a_command(&ids[0]).await;
    runs.insert_run(&TestRun { session: Some(&ids[1]), ..TestRun::NEW }).await;
    let both = vec![ids[0].clone(), ids[1].clone()];
    assert_eq!(page(&runs, &hwlab(), json!({})).await.0, both);
    runs.ok("session.read", json!({ "sessionId": ids[0] })).await;
    assert_eq!(page(&runs, &hwlab(), json!({})).await.0, [ids[1].clone()]);
    assert_eq!(page(&runs, &hwlab(), json!({ "readerId": "web" })).await.0, both, "another reader");
    assert_eq!(page(&runs, &hwlab(), json!({ "state": "all" })).await.0.len(), 3);
    let codex = json!({ "state": "all", "backendProfile": "codex" });
    assert_eq!(page(&runs, &hwlab(), codex).await, (Vec::new(), json!(null)));
    let example = json!({ "state": "all", "backendProfile": "example", "limit": 2 });
    let (first, cursor) = page(&runs, &hwlab(), example).await;
    assert!(first.len() == 2 && cursor.is_string());
}

#[tokio::test]
async fn a_caller_lists_the_sessions_of_its_tenants() {
    let runs = TestRuns::open().await;
    let own = sessions(&runs, 2).await;
    let params = json!({ "tenantId": "unidesk", "projectId": "p", "backendProfile": "example" });
    let other = runs.call(&unidesk(), "session.create", params).await.unwrap();
    let other = other["session"]["sessionId"].as_str().unwrap().to_owned();
    let all = json!({ "state": "all" });
    assert_eq!(page(&runs, &unidesk(), all.clone()).await.0, std::slice::from_ref(&other));
    let ids = vec![other, own[1].clone(), own[0].clone()];
    assert_eq!(page(&runs, &admin(), all).await.0, ids, "in one order");
    let (first, cursor) = page(&runs, &admin(), json!({ "state": "all", "limit": 2 })).await;
    assert_eq!(first, ids[..2]);
    let rest = json!({ "state": "all", "limit": 2, "cursor": cursor });
    assert_eq!(page(&runs, &admin(), rest).await, (vec![ids[2].clone()], json!(null)));
}
