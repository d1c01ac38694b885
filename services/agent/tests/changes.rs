//! What readers of `agent.changes` see.

use super::{put, signed};
use crate::store::{AgentMdWrite, Condition, NewAgentMd};
use crate::{AgentService, Settings};
use futures_util::future::join_all;
use kernel::Caller;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use proto_schemas::requests::agent::{ChangedAgents, Changes};
use serde_json::json;
use sqlx::migrate::Migrator;
use std::borrow::Cow;
use std::collections::BTreeMap;
use testing::{TestWorld, code};

/// A reader, and the documents as it knows them.
#[derive(Clone, Default)]
struct DocumentReader {
    position: i64,
    documents: BTreeMap<String, String>,
}

impl DocumentReader {
    async fn read(&mut self, test: &TestWorld, limit: i64) -> bool {
        let request = Changes { after: self.position, limit: Some(limit) };
        let page: ChangedAgents = test.world.mesh.ask(Caller::service("search"), &request).await.unwrap();
        assert!(page.changes.len() <= usize::try_from(limit).unwrap());
        for change in page.changes {
            assert!(change.position > self.position && change.position <= page.head);
            self.position = change.position;
            match (&*change.op, change.content) {
                ("upsert", Some(content)) => self.documents.insert(change.aid, content),
                ("delete", None) => self.documents.remove(&change.aid),
                other => panic!("{other:?}"),
            };
        }
        page.has_more
    }
}

async fn store(agent: &AgentService, aid: &str, content: &str) -> AgentMdWrite {
    let payer = agent.store.account.payer_of(kernel::Aid::parse(aid).unwrap());
    let new = NewAgentMd { aid, content, etag: content, signed: false, now: 7, payer };
    agent.store.put(&new, &Condition::Always).await.unwrap()
}

#[derive(Clone, Debug)]
enum AgentMdStep {
    Put(u8, u8),
    Delete(u8),
    Read {
        reader: usize,
        limit: i64,
    },
    /// Another reader begins where this one is.
    Fork(usize),
}

fn steps() -> impl Strategy<Value = Vec<AgentMdStep>> {
    let step = prop_oneof![
        4 => (0..6u8, 0..4u8).prop_map(|(aid, content)| AgentMdStep::Put(aid, content)),
        2 => (0..6u8).prop_map(AgentMdStep::Delete),
        3 => (0..9usize, 1..5i64).prop_map(|(reader, limit)| AgentMdStep::Read { reader, limit }),
        1 => (0..9usize).prop_map(AgentMdStep::Fork),
    ];
    prop::collection::vec(step, 1..40)
}

#[test]
fn a_reader_that_begins_anywhere_ends_with_the_live_documents() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let test = runtime.block_on(TestWorld::with(&["ca", "auth"]).and(crate::open).into_future());
    let agent = runtime.block_on(AgentService::open(&test.world, &Settings::default())).unwrap();
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(48) });
    let names = test.world.ids.clone();
    let outcome = runner.run(&steps(), |steps| {
        // Names of its own: each case begins with none of them.
        let case = hex::encode(names.bytes::<4>());
        runtime.block_on(run(&test, &agent, &case, &steps));
        Ok(())
    });
    outcome.unwrap();
}

async fn run(test: &TestWorld, agent: &AgentService, case: &str, steps: &[AgentMdStep]) {
    let name = |number: u8| format!("agent{number}-{case}.aid.pub");
    let mut live = BTreeMap::new();
    let mut readers =
        vec![DocumentReader { position: agent.store.head().await.unwrap(), ..DocumentReader::default() }];
    for step in steps {
        match step {
            AgentMdStep::Put(aid, content) => {
                let (aid, content) = (name(*aid), format!("document {content}"));
                let unchanged = live.insert(aid.clone(), content.clone()).as_ref() == Some(&content);
                let outcome = store(agent, &aid, &content).await;
                assert_eq!(outcome == AgentMdWrite::Unchanged(7), unchanged);
            }
            AgentMdStep::Delete(aid) => {
                let aid = name(*aid);
                let outcome = agent.store.delete(&aid, 8, &Condition::Always).await.unwrap();
                assert_eq!(outcome == AgentMdWrite::Written, live.remove(&aid).is_some());
            }
            AgentMdStep::Read { reader, limit } => {
                let reader = reader % readers.len();
                readers[reader].read(test, *limit).await;
            }
            AgentMdStep::Fork(reader) => readers.push(readers[reader % readers.len()].clone()),
        }
    }
    readers.push(DocumentReader::default());
    for (limit, mut reader) in (1..).zip(readers) {
        while reader.read(test, limit).await {}
        reader.documents.retain(|aid, _| aid.contains(case));
        assert_eq!(reader.documents, live);
    }
}

#[tokio::test]
async fn concurrent_writes_get_positions_in_order_and_without_gaps() {
    // So few at once that none waits for the store longer than it may on a crowded machine.
    const WRITERS: usize = 6;
    const AGENTS: i64 = 60;
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let agent = AgentService::open(&test.world, &Settings::default()).await.unwrap();
    let writes = join_all((0_i64..).take(WRITERS).map(|writer| {
        let agent = &agent;
        async move {
            for n in (writer..AGENTS).step_by(WRITERS) {
                let outcome = store(agent, &format!("agent{n}.aid.pub"), "text").await;
                assert_eq!(outcome, AgentMdWrite::Written);
            }
        }
    }));
    // A position that became visible after a later one would be missed here.
    let reading = async {
        let mut seen = Vec::new();
        while i64::try_from(seen.len()).unwrap() < AGENTS {
            let rows = agent.store.changes(seen.last().copied().unwrap_or(0), i64::MAX, 7).await.unwrap();
            seen.extend(rows.into_iter().map(|row| row.position));
            tokio::task::yield_now().await;
        }
        seen
    };
    let (_, seen) = tokio::join!(writes, reading);
    assert_eq!(seen, (1..=AGENTS).collect::<Vec<_>>());
    assert_eq!(agent.store.head().await.unwrap(), AGENTS);
}

#[tokio::test]
async fn a_write_that_does_not_happen_takes_no_position() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let agent = AgentService::open(&test.world, &Settings::default()).await.unwrap();
    store(&agent, "alice.aid.pub", "one").await;
    let other = Condition::Is(vec!["two".to_owned()]);
    assert_eq!(agent.store.delete("alice.aid.pub", 8, &other).await.unwrap(), AgentMdWrite::Refused);
    assert_eq!(
        agent.store.delete("carol.aid.pub", 8, &Condition::Always).await.unwrap(),
        AgentMdWrite::Absent
    );
    assert_eq!(store(&agent, "alice.aid.pub", "one").await, AgentMdWrite::Unchanged(7));
    store(&agent, "alice.aid.pub", "two").await;
    let rows = agent.store.changes(0, i64::MAX, 10).await.unwrap();
    let [last] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((last.position, &*last.aid, &*last.op, last.updated_at), (2, "alice.aid.pub", "upsert", 7));
    assert_eq!((last.content.as_deref(), last.signed), (Some("two"), Some(0)));
}

#[tokio::test]
async fn a_change_says_whether_the_document_is_signed() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    let content = signed(&test, &alice, &alice.aid, "text");
    put(&test, &alice.aid, &content, json!({})).await.unwrap();
    let unsigned = format!("---\naid: {}\nname: c\ntype: human\n---\n", carol.aid);
    put(&test, &carol.aid, &unsigned, json!({})).await.unwrap();
    let now = test.world.clock.now_ms();
    let page = test.inside("agent.changes", json!({ "after": 0, "limit": 1 })).await;
    let change = |position: i64, aid: &str, content: &str, signed: bool| json!({ "position": position, "aid": aid, "op": "upsert", "updated_at": now, "content": content, "signed": signed });
    let first = change(1, &alice.aid, &content, true);
    assert_eq!(page, json!({ "head": 2, "has_more": true, "changes": [first] }));
    let page = test.inside("agent.changes", json!({ "after": 1 })).await;
    let second = change(2, &carol.aid, &unsigned, false);
    assert_eq!(page, json!({ "head": 2, "has_more": false, "changes": [second] }));
    for params in [json!({ "after": -1 }), json!({ "after": 0, "limit": 0 }), json!({})] {
        let refused = test.call_as(Caller::service("search"), "agent.changes", params).await;
        assert_eq!(code(refused), -32602);
    }
}

#[tokio::test]
async fn documents_of_before_have_positions_in_the_order_of_their_times() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let all = sqlx::migrate!("./migrations");
    let first = Migrator { migrations: Cow::Owned(all.migrations[..1].to_vec()), ..Migrator::DEFAULT };
    let old = test.world.db("agent_of_before", &first).await.unwrap();
    for (aid, content, updated_at) in [
        ("carol.aid.pub", "text <!-- AUN-SIGNATURE\n-->", 5_i64),
        ("alice.aid.pub", "text <!-- aun-signature", 5),
        ("bobby.aid.pub", "text", 3),
    ] {
        let insert = "INSERT INTO agent_md (aid, content, etag, updated_at) VALUES ($1, $2, $1, $3)";
        let insert = sqlx::query(insert).bind(aid).bind(content).bind(updated_at);
        insert.execute(old.write_alone()).await.unwrap();
    }
    old.close().await;
    let db = test.world.db("agent_of_before", &all).await.unwrap();
    let (keeping, share) = (&crate::store::keeping::KEEPING, crate::store::keeping::share(1 << 20));
    let account = kernel::Account::open(&test.world, &db, keeping, share).await.unwrap();
    let store = crate::store::Store::new(db, test.world.stores.tally("agent"), account);
    let rows = store.changes(0, i64::MAX, 10).await.unwrap();
    let rows: Vec<_> =
        rows.iter().map(|row| (row.position, &*row.aid, &*row.op, row.updated_at, row.signed)).collect();
    assert_eq!(
        rows,
        [
            (1, "bobby.aid.pub", "upsert", 3, Some(0)),
            (2, "alice.aid.pub", "upsert", 5, Some(0)),
            (3, "carol.aid.pub", "upsert", 5, Some(1)),
        ]
    );
    assert_eq!(store.head().await.unwrap(), 3);
}
