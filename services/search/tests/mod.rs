//! The directory alone, on either engine: documents go in through the agent service, and tasks are run by hand.

mod copying;
mod log;
mod lookup;
mod model;
mod refusals;
mod snapshots;
mod two;

use super::tasks::ingest::Ingested;
use super::*;
use kernel::RpcError;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use testing::{DAY_MS, TestAgent, TestWorld, code};

/// A world whose directory does its work when it is told to.
struct TestDirectory {
    test: TestWorld,
    search: Arc<SearchService>,
    asker: TestAgent,
}

impl TestDirectory {
    async fn open() -> TestDirectory {
        TestDirectory::with(Settings::default()).await
    }

    async fn with(settings: Settings) -> TestDirectory {
        TestDirectory::of_issuer("aid.pub", settings).await
    }

    async fn of_issuer(issuer: &str, settings: Settings) -> TestDirectory {
        let test = TestWorld::with(&["ca", "auth", "agent"]).of_issuer(issuer).await;
        let asker = test.register("asker").await;
        TestDirectory::beside(test, asker, &settings).await
    }

    async fn beside(test: TestWorld, asker: TestAgent, settings: &Settings) -> TestDirectory {
        let search = SearchService::open(&test.world, settings).await.unwrap();
        let removal = AgentRemoval::nothing_kept("it reads the changes of the agent service");
        test.world.add(Service::new(&["search"], rpc(search.clone()), removal));
        TestDirectory { test, search, asker }
    }

    /// Opens everything again on the same data.
    async fn restart(self) -> TestDirectory {
        let TestDirectory { test, search, asker } = self;
        test.world.mesh.remove("search");
        drop(search);
        TestDirectory::beside(test.restart().await, asker, &Settings::default()).await
    }

    async fn call(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        self.test.call_as(self.asker.caller(), method, params).await
    }

    async fn get(&self, method: &str, params: Value) -> Value {
        self.call(method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    async fn put(&self, content: &str) {
        let aid = content.lines().find_map(|line| line.strip_prefix("aid: ")).unwrap();
        self.test.inside("agent.put_agent_md", json!({ "aid": aid, "content": content })).await;
    }

    /// A complete, public document, and that it is in the log and in the index.
    async fn publish(&self, name: &str) {
        self.put(&document(name, "")).await;
        self.update().await;
    }

    async fn unpublish(&self, name: &str) {
        self.test.inside("agent.delete_agent_md", json!({ "aid": format!("{name}.aid.pub") })).await;
        self.update().await;
    }

    async fn ingest(&self) {
        while self.search.ingest_page().await.unwrap() == Ingested::More {}
    }

    async fn update(&self) {
        self.ingest().await;
        self.search.refresh_peer_states().await.unwrap();
        self.search.index_all().await.unwrap();
    }

    fn pass_days(&self, days: i64) {
        self.test.world.clock.advance_ms(days * DAY_MS);
    }

    /// The whole of the newest snapshot, with its version and the cursor of its cut.
    async fn snapshot(&self, limit: i64) -> (BTreeMap<String, String>, String, String) {
        self.snapshot_of(None, limit).await
    }

    async fn snapshot_of(
        &self,
        version: Option<&str>,
        limit: i64,
    ) -> (BTreeMap<String, String>, String, String) {
        let mut page = self.get("search.snapshot", json!({ "version": version, "limit": limit })).await;
        let mut hashes = BTreeMap::new();
        loop {
            for item in page["items"].as_array().unwrap() {
                let twice = hashes.insert(text(&item["aid"]), text(&item["agent_md_sha256"]));
                assert!(twice.is_none(), "{item}");
            }
            if page["has_more"] == json!(false) {
                assert_eq!(page["next_cursor"], json!(null));
                return (hashes, text(&page["snapshot_version"]), text(&page["change_cursor"]));
            }
            let next =
                json!({ "version": page["snapshot_version"], "cursor": page["next_cursor"], "limit": limit });
            page = self.get("search.snapshot", next).await;
        }
    }

    /// Applies all changes after a cursor; returns the last cursor.
    async fn follow(&self, hashes: &mut BTreeMap<String, String>, cursor: String, limit: i64) -> String {
        let mut cursor = cursor;
        loop {
            let page = self.get("search.changes", json!({ "cursor": cursor, "limit": limit })).await;
            assert_eq!(page["from_cursor"], json!(cursor));
            apply(hashes, &page);
            cursor = text(&page["next_cursor"]);
            if page["has_more"] == json!(false) {
                return cursor;
            }
        }
    }

    /// The AIDs that a query finds, over all its pages.
    async fn found(&self, query: Value) -> Vec<String> {
        let mut query = query;
        let mut aids = Vec::new();
        loop {
            let page = self.get("search.query", query.clone()).await;
            aids.extend(page["items"].as_array().unwrap().iter().map(|item| text(&item["aid"])));
            if page["next_cursor"].is_null() {
                return aids;
            }
            query["cursor"] = page["next_cursor"].clone();
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// A document that is found by its name; `more` is further front matter.
fn document(name: &str, more: &str) -> String {
    document_of(name, "aid.pub", more)
}

fn document_of(name: &str, issuer: &str, more: &str) -> String {
    format!(
        "---\naid: {name}.{issuer}\nname: Agent {name}\ntype: assistant\nversion: 1.0.0\ndescription: It is called {name}\n{more}---\n# {name}\n"
    )
}

fn apply(hashes: &mut BTreeMap<String, String>, page: &Value) {
    let mut last = 0;
    for change in page["changes"].as_array().unwrap() {
        let sequence = change["sequence"].as_i64().unwrap();
        assert!(sequence > last, "{page}");
        last = sequence;
        match change["op"].as_str().unwrap() {
            "upsert" => {
                hashes.insert(text(&change["aid"]), text(&change["agent_md_sha256"]));
            }
            "delete" => {
                hashes.remove(change["aid"].as_str().unwrap());
            }
            other => panic!("{other}"),
        }
    }
    let next = cursor::ChangeCursor::parse(page["next_cursor"].as_str().unwrap()).unwrap();
    assert!(next.0 >= last, "{page}");
}
