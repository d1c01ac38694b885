//! The invariants of the contract, for any order of writes, reads and passing time.

use super::*;
use kernel::sha256_hex;
use proptest::prelude::*;
use std::collections::HashSet;
use testing::cases;

#[derive(Clone, Debug)]
enum DirectoryStep {
    Put {
        agent: usize,
        visibility: usize,
        revision: usize,
    },
    Delete {
        agent: usize,
    },
    /// Changes reach the log.
    Ingest,
    /// The log reaches the index.
    Index,
    Days(i64),
    Minutes(i64),
    /// Snapshots by the clock, compaction, retention.
    Maintain,
    /// A reader loads the newest snapshot, up to this page.
    Load {
        reader: usize,
        limit: i64,
    },
    /// A reader goes on: with its snapshot, or with the changes.
    Read {
        reader: usize,
        limit: i64,
    },
}

const AGENTS: [&str; 5] = ["anna", "bert", "carl", "dora", "emil"];
const READERS: usize = 2;

fn step() -> impl Strategy<Value = DirectoryStep> {
    prop_oneof![
        6 => (0..AGENTS.len(), 0..4_usize, 0..3_usize)
            .prop_map(|(agent, visibility, revision)| DirectoryStep::Put { agent, visibility, revision }),
        2 => (0..AGENTS.len()).prop_map(|agent| DirectoryStep::Delete { agent }),
        4 => Just(DirectoryStep::Ingest),
        2 => Just(DirectoryStep::Index),
        1 => (1..20_i64).prop_map(DirectoryStep::Days),
        2 => (1..20_i64).prop_map(DirectoryStep::Minutes),
        2 => Just(DirectoryStep::Maintain),
        2 => (0..READERS, 1..4_i64).prop_map(|(reader, limit)| DirectoryStep::Load { reader, limit }),
        5 => (0..READERS, 1..4_i64).prop_map(|(reader, limit)| DirectoryStep::Read { reader, limit }),
    ]
}

/// Somebody who copies the directory through its methods.
#[derive(Clone, Default)]
struct DirectoryReader {
    hashes: BTreeMap<String, String>,
    snapshot: Option<(String, Option<String>)>,
    cursor: Option<String>,
}

impl DirectoryReader {
    /// Begins with the newest snapshot.
    fn begin(&mut self) {
        *self = DirectoryReader::default();
    }

    /// Reads a page; returns whether nothing is left.
    async fn read(&mut self, directory: &TestDirectory, limit: i64) -> bool {
        if let Some(cursor) = self.cursor.clone() {
            let wanted = json!({ "cursor": cursor, "limit": limit });
            let Ok(page) = self.or_restart(directory.call("search.changes", wanted.clone()).await) else {
                return false;
            };
            apply(&mut self.hashes, &page);
            let mut twice = self.hashes.clone();
            apply(&mut twice, &page);
            assert_eq!(twice, self.hashes, "a page can be applied twice");
            self.cursor = Some(text(&page["next_cursor"]));
            return page["has_more"] == json!(false);
        }
        let (version, cursor) = self.snapshot.clone().unzip();
        let wanted = json!({ "version": version, "cursor": cursor.flatten(), "limit": limit });
        let Ok(page) = self.or_restart(directory.call("search.snapshot", wanted).await) else { return false };
        for item in page["items"].as_array().unwrap() {
            self.hashes.insert(text(&item["aid"]), text(&item["agent_md_sha256"]));
        }
        match page["has_more"] == json!(true) {
            true => self.snapshot = Some((text(&page["snapshot_version"]), Some(text(&page["next_cursor"])))),
            false => self.cursor = Some(text(&page["change_cursor"])),
        }
        false
    }

    fn or_restart(&mut self, answer: Result<Value, RpcError>) -> Result<Value, ()> {
        answer.map_err(|error| {
            assert!([-32163, -32164].contains(&error.code()), "{error}");
            self.begin();
        })
    }
}

/// What is published, and what of it the directory lists.
#[derive(Default)]
struct Published {
    documents: BTreeMap<String, (String, bool)>,
}

impl Published {
    fn listed(&self) -> BTreeMap<String, String> {
        let listed = self.documents.iter().filter(|(_, (_, listed))| *listed);
        listed.map(|(aid, (content, _))| (aid.clone(), sha256_hex(content))).collect()
    }
}

async fn run(steps: Vec<DirectoryStep>) {
    // A snapshot is made for nearly every reader that begins.
    let directory = TestDirectory::with(Settings { snapshot_seconds: 1, ..Settings::default() }).await;
    let mut published = Published::default();
    let mut readers = vec![DirectoryReader::default(); READERS];
    for step in steps {
        directory.test.world.clock.advance_ms(1000);
        match step {
            DirectoryStep::Put { agent, visibility, revision } => {
                let more = ["", "visibility: public\n", "visibility: unlisted\n", "visibility: private\n"]
                    [visibility];
                let name = AGENTS[agent];
                let content = document(name, &format!("tags: [r{revision}]\n{more}"));
                directory.put(&content).await;
                published.documents.insert(format!("{name}.aid.pub"), (content, visibility < 2));
            }
            DirectoryStep::Delete { agent } => {
                let aid = format!("{}.aid.pub", AGENTS[agent]);
                if published.documents.remove(&aid).is_some() {
                    directory.test.inside("agent.delete_agent_md", json!({ "aid": aid })).await;
                }
            }
            DirectoryStep::Ingest => directory.ingest().await,
            DirectoryStep::Index => directory.search.index_all().await.unwrap(),
            DirectoryStep::Days(days) => directory.pass_days(days),
            DirectoryStep::Minutes(minutes) => directory.test.world.clock.advance_ms(minutes * 60_000),
            DirectoryStep::Maintain => {
                directory.search.tick().await.unwrap();
                directory.search.remove_old().await.unwrap();
            }
            DirectoryStep::Load { reader, limit } => {
                readers[reader].begin();
                readers[reader].read(&directory, limit).await;
            }
            DirectoryStep::Read { reader, limit } => {
                readers[reader].read(&directory, limit).await;
            }
        }
    }

    directory.update().await;
    let expected = published.listed();
    for mut reader in readers {
        while !reader.read(&directory, 2).await {}
        assert_eq!(reader.hashes, expected);
    }
    // Every snapshot that is still there leads to the present, too.
    let info = directory.get("search.ap_info", json!({})).await;
    for version in info["snapshot_versions"].as_array().unwrap() {
        let mut reader =
            DirectoryReader { snapshot: Some((text(version), None)), ..DirectoryReader::default() };
        while !reader.read(&directory, 1).await {}
        assert_eq!(reader.hashes, expected, "{version}");
    }
    for (aid, hash) in &expected {
        let found = directory.get("search.get_agent", json!({ "aid": aid })).await;
        assert_eq!(sha256_hex(text(&found["agent_md"])), *hash);
    }
    let found = directory.found(json!({ "q": "agent", "limit": 2 })).await;
    assert_eq!(found.len(), found.iter().collect::<HashSet<_>>().len(), "{found:?}");
    assert_eq!(found.into_iter().collect::<HashSet<_>>(), expected.keys().cloned().collect());
}

proptest! {
    #![proptest_config(cases(24))]
    #[test]
    fn snapshot_and_changes_lead_to_what_is_published(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}
