//! The loop alone, with an authority that a test makes up.

use super::*;
use crate::store::test_tables::TestTables;
use crate::{Rpc, Service, TaskStatus};
use parking_lot::Mutex;
use proto_schemas::requests::ca::{CertRevoked, EndedAgent, EndedAgents, EndedAgentsPage};
use std::collections::BTreeSet;

const NOW: i64 = 1_794_701_761;

/// Says who has ended, a few on each page, and remembers from which second it was asked.
#[derive(Default)]
struct TestAuthority {
    ended: Mutex<BTreeSet<(i64, String)>>,
    asked: Mutex<Vec<i64>>,
    down: Mutex<bool>,
    refused: Mutex<usize>,
}

impl TestAuthority {
    async fn ended_agents(
        self: Arc<Self>,
        caller: Caller,
        params: EndedAgents,
    ) -> Result<EndedAgentsPage, RpcError> {
        if *self.down.lock() {
            *self.refused.lock() += 1;
            return Err(RpcError::unavailable("down", anyhow::anyhow!("on purpose")));
        }
        assert_eq!(caller.service_name(), Some("task"));
        let after = params.after_aid.map_or((params.since, String::new()), |aid| (params.since, aid));
        if after.1.is_empty() {
            self.asked.lock().push(params.since);
        }
        let ended = self.ended.lock();
        let later: Vec<EndedAgent> = ended
            .iter()
            .filter(|(at, aid)| (*at, aid) > (after.0, &after.1))
            .map(|(ended_at, aid)| EndedAgent { aid: aid.clone(), ended_at: *ended_at })
            .collect();
        Ok(EndedAgentsPage { has_more: later.len() > 2, agents: later.into_iter().take(2).collect() })
    }
}

/// Remembers whom it was to remove, and fails for some.
#[derive(Default)]
struct RecordingRemover {
    removed: Mutex<Vec<String>>,
    failing: Mutex<BTreeSet<String>>,
}

impl RemoveAgent for RecordingRemover {
    async fn remove_agent(&self, aid: &Aid, _: i64) -> Result<(), RpcError> {
        if self.failing.lock().contains(aid.as_str()) {
            return Err(RpcError::unavailable("the store is down", anyhow::anyhow!("on purpose")));
        }
        self.removed.lock().push(aid.to_string());
        Ok(())
    }
}

struct TestRemoval {
    world: World,
    tables: TestTables,
    authority: Arc<TestAuthority>,
    recording: Arc<RecordingRemover>,
}

impl TestRemoval {
    async fn open() -> TestRemoval {
        let tables = TestTables::open(
            "CREATE TABLE agent_removal (done_until BIGINT NOT NULL); INSERT INTO agent_removal VALUES (0)",
        )
        .await;
        let store = testing::store_url().parse().unwrap();
        let mut world = World::local("aid.pub", std::path::Path::new("unused"), store);
        world.clock = Clock::manual(NOW * 1000);
        let authority = Arc::<TestAuthority>::default();
        let methods = Rpc::new(authority.clone()).method(TestAuthority::ended_agents);
        world.add(Service::new(&["ca"], methods, AgentRemoval::nothing_kept("it is a test")));
        TestRemoval { world, tables, authority, recording: Arc::default() }
    }

    fn remover(&self) -> AgentRemover<RecordingRemover> {
        AgentRemover::new(&self.world, "task", &self.tables.db, self.recording.clone())
    }

    fn end(&self, name: &str, at: i64) {
        self.authority.ended.lock().insert((at, format!("{name}.aid.pub")));
    }

    fn fails(&self, name: &str) {
        self.recording.failing.lock().insert(format!("{name}.aid.pub"));
    }

    /// Whom it has removed since this was last asked.
    fn removed(&self) -> Vec<String> {
        let removed = std::mem::take(&mut *self.recording.removed.lock());
        removed.into_iter().map(|aid| aid.split_once('.').unwrap().0.to_owned()).collect()
    }

    fn last_asked(&self) -> i64 {
        *self.authority.asked.lock().last().unwrap()
    }
}

#[tokio::test]
async fn every_page_is_removed_and_what_is_done_is_not_asked_for_again() {
    let test = TestRemoval::open().await;
    for (at, name) in ["alice", "bobby", "carol", "david", "erika"].into_iter().enumerate() {
        test.end(name, NOW - 100_000 + at as i64);
    }
    assert_eq!(test.remover().remove_ended().await.unwrap(), 5);
    assert_eq!(test.removed(), ["alice", "bobby", "carol", "david", "erika"]);
    assert_eq!(test.last_asked(), 0);

    // As after a restart.
    test.end("frank", NOW - 10);
    assert_eq!(test.remover().remove_ended().await.unwrap(), 1);
    assert_eq!(test.removed(), ["frank"]);
    assert_eq!(test.last_asked(), NOW - OVERLAP_SECONDS);
}

#[tokio::test]
async fn what_ended_a_moment_ago_is_removed_again_for_ten_minutes() {
    let test = TestRemoval::open().await;
    test.end("alice", NOW - 1);
    let remover = test.remover();
    for _ in 0..2 {
        remover.remove_ended().await.unwrap();
        assert_eq!(test.removed(), ["alice"]);
    }
    test.world.clock.advance_ms(OVERLAP_SECONDS * 1000);
    remover.remove_ended().await.unwrap();
    test.removed();
    remover.remove_ended().await.unwrap();
    assert_eq!(test.removed(), [""; 0]);
}

#[tokio::test]
async fn an_agent_whose_removal_fails_holds_up_no_other_and_is_tried_until_it_is_done() {
    let test = TestRemoval::open().await;
    for (at, name) in ["alice", "bobby", "carol"].into_iter().enumerate() {
        test.end(name, NOW - 10_000 + at as i64);
    }
    test.fails("bobby");
    let remover = test.remover();
    for _ in 0..2 {
        assert_eq!(remover.remove_ended().await.unwrap_err().code(), 5003);
        assert!(test.removed().ends_with(&["carol".to_owned()]));
    }
    assert_eq!(test.last_asked(), NOW - 10_000 + 1, "alice is done, and bobby is not");
    test.recording.failing.lock().clear();
    remover.remove_ended().await.unwrap();
    assert_eq!(test.removed(), ["bobby", "carol"]);
}

#[tokio::test]
async fn a_store_that_is_down_is_not_asked_for_every_agent_of_the_list() {
    let test = TestRemoval::open().await;
    for number in 0..4 * MOST_FAILURES {
        let name = format!("agent-{number:03}");
        test.end(&name, NOW - 10_000);
        test.fails(&name);
    }
    test.end("zacharias", NOW - 5000);
    assert!(test.remover().remove_ended().await.is_err());
    assert_eq!(test.removed(), [""; 0], "it was not reached");
    test.recording.failing.lock().clear();
    assert_eq!(test.remover().remove_ended().await.unwrap(), 4 * MOST_FAILURES + 1);
}

#[tokio::test]
async fn the_task_waits_for_an_authority_that_is_down_and_is_woken_by_a_revocation() {
    let test = TestRemoval::open().await;
    *test.authority.down.lock() = true;
    let methods = Rpc::new(test.recording.clone());
    test.world.add(Service::new(&["test"], methods, test.remover().removal()));
    let refused = async {
        while *test.authority.refused.lock() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), refused).await.expect("it asks while it is down");
    test.end("alice", NOW);
    *test.authority.down.lock() = false;
    let removed = async {
        while test.removed() != ["alice"] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), removed).await.expect("it tries again");
    let woken = async {
        test.end("bobby", NOW);
        while !test.removed().contains(&"bobby".to_owned()) {
            test.world.bus.signal(&CertRevoked { aid: "bobby.aid.pub".to_owned() });
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), woken).await.expect("a revocation wakes it");
    let running = TaskStatus { running: true, restarts: 0 };
    assert_eq!(test.world.tasks.statuses(), [(("test", "agent_removal"), running)]);
    test.world.stop.cancel();
}
