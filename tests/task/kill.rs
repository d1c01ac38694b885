//! kill -9 while agents pass work on as fast as they can: the tree that is there is a legal one, and nothing acknowledged is missing.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{accepted, said};
use crate::support::agent::{ConnectedAgent, text};
use crate::support::{TestServer, setting};

/// A task that was acknowledged, and how far.
struct Acknowledged {
    task_id: String,
    depth: usize,
    accepted: bool,
    children: usize,
}

#[tokio::test]
async fn a_storm_of_delegations_that_is_killed_leaves_legal_trees_with_everything_acknowledged() {
    let limits = "limits.classes.\"task.create\" = 1000000\nlimits.calls_per_second = 100000";
    let mut server = TestServer::with_two("task", limits).await;
    let (mut alice, mut bob, mut carol) =
        (server.agent("alice").await, server.agent("bobb").await, server.agent("carol").await);
    let mut trees = Vec::new();
    for _ in 0..2 {
        let task_id = accepted(&alice, &bob).await;
        trees.push(vec![Acknowledged { task_id, depth: 0, accepted: true, children: 0 }]);
    }
    // More of them take minutes: a hundred were seen once.
    let rounds = setting("AUND_TEST_KILLS").and_then(|rounds| rounds.parse().ok()).unwrap_or(4);
    for round in 0..rounds {
        let [one, other] = &mut trees[..] else { unreachable!("there are two") };
        let grown = [Notify::new(), Notify::new()];
        let storm = async {
            tokio::join!(grow(&bob, &carol, one, &grown[0]), grow(&bob, &carol, other, &grown[1]));
        };
        let interruption = async {
            for tree in &grown {
                tree.notified().await;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        };
        tokio::select! {
            () = storm => {}
            () = interruption => {}
        }
        server.kill();
        server.start_again();
        (alice, bob, carol) =
            (server.reconnect(&alice).await, server.reconnect(&bob).await, server.reconnect(&carol).await);
        for tree in &trees {
            assert!(round > 0 || tree.len() > 1, "something was acknowledged");
            assert_legal(&alice, &bob, &carol, tree).await;
        }
        let accounts = server.by_operator("task.account", &json!({ "recount": true })).await;
        assert_eq!(accounts.expect("it is answered")["corrected"], 0, "accounts are what their rows are");
    }
    for tree in &trees {
        let root = json!({ "task_id": tree[0].task_id, "recursive": true });
        alice.call("task.cancel", &json!({ "task_id": tree[0].task_id })).await;
        let below = alice.call("task.children", &root).await;
        let below = below["children"].as_array().expect("a list");
        assert!(below.iter().all(|task| task["status"] == "canceled"), "{below:?}");
    }
}

fn sides<'a>(
    bob: &'a ConnectedAgent,
    carol: &'a ConnectedAgent,
    depth: usize,
) -> (&'a ConnectedAgent, &'a ConnectedAgent) {
    if depth.is_multiple_of(2) { (bob, carol) } else { (carol, bob) }
}

/// Bob and Carol pass work to and fro, until the tree is full or they are cut off.
async fn grow(bob: &ConnectedAgent, carol: &ConnectedAgent, tree: &mut Vec<Acknowledged>, grown: &Notify) {
    let mut refused = 0;
    for n in 0.. {
        let at = n % tree.len();
        if refused > tree.len() {
            return;
        }
        if !tree[at].accepted {
            let (assignee, _) = sides(bob, carol, tree[at].depth);
            // An acceptance that was cut off may have been stored.
            let answer = assignee.try_call("task.accept", &json!({ "task_id": tree[at].task_id })).await;
            assert!(answer.as_ref().err().is_none_or(|error| error["code"] == -32176), "{answer:?}");
            tree[at].accepted = true;
        }
        let (by, to) = sides(bob, carol, tree[at].depth);
        let part = json!({ "task_id": tree[at].task_id, "to": to.aid(), "input": said("a part"), "required": n % 2 == 0 });
        match by.try_call("task.delegate", &part).await {
            Ok(answer) => {
                let (task_id, depth) = (text(&answer["task_id"]), tree[at].depth + 1);
                tree[at].children += 1;
                tree.push(Acknowledged { task_id, depth, accepted: false, children: 0 });
                grown.notify_one();
                refused = 0;
            }
            Err(error) => {
                assert_eq!(error["code"], -32179, "{error}");
                refused += 1;
            }
        }
    }
}

async fn assert_legal(
    alice: &ConnectedAgent,
    bob: &ConnectedAgent,
    carol: &ConnectedAgent,
    tree: &[Acknowledged],
) {
    let root = &tree[0].task_id;
    let found = alice.call("task.children", &json!({ "task_id": root, "recursive": true })).await;
    let found = found["children"].as_array().expect("a list");
    assert!(found.len() <= 100 && found.len() >= tree.len() - 1);
    let mut children: BTreeMap<String, usize> = BTreeMap::new();
    let mut depths = BTreeMap::from([(root.clone(), 0)]);
    for task in found {
        let parent = text(&task["parent_task_id"]);
        // What is above is listed before what is below.
        let depth = depths[&parent] + 1;
        depths.insert(text(&task["task_id"]), depth);
        *children.entry(parent).or_default() += 1;
        assert!(depth <= 5, "{task}");
    }
    assert!(children.values().all(|many| *many <= 20));
    for known in tree {
        let (reader, _) = sides(bob, carol, known.depth);
        let seen: Value = reader.call("task.get", &json!({ "task_id": known.task_id })).await;
        assert_eq!(seen["depth"], json!(known.depth));
        assert!(!known.accepted || seen["status"] == "working", "{seen}");
        let stored = children.get(&known.task_id).copied().unwrap_or_default();
        assert!(stored >= known.children, "{} of {} are missing", known.children - stored, known.children);
        assert_eq!(seen["children"].as_array().map(Vec::len), Some(stored));
        // Made, perhaps accepted, and once for each part: a change is a version.
        let accepted = usize::from(seen["status"] == "working");
        assert_eq!(seen["version"], json!(1 + accepted + stored));
    }
}
