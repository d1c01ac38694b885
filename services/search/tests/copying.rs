//! Copying the directory of another domain, as it should be and from one that does not keep to the rules.

use super::*;
use crate::store::{LeasedPeer, PeerStep};
use crate::sync::copy::Copied;
use kernel::{DiskReading, Engine, Forwarder, PendingAnswer, Relayed, codes, sha256_hex};
use parking_lot::Mutex;
use proto_schemas::requests::gateway::ForwardFederation;
use serde_json::value::{RawValue, to_raw_value};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const PEER: &str = "b.example";

/// A peer link that leads to another world of this test.
struct TestLink {
    to: Arc<Mesh>,
    up: AtomicBool,
    calls: AtomicU32,
}

impl Forwarder for TestLink {
    fn forward(self: Arc<Self>, _: &Caller, forward: ForwardFederation) -> PendingAnswer<Box<RawValue>> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::Relaxed);
            if !self.up.load(Ordering::Relaxed) {
                return Err(RpcError::plain(codes::FEDERATION_UNREACHABLE));
            }
            assert!(forward.as_service == Some(true) && forward.target_issuer.as_deref() == Some(PEER));
            let method = format!("{}.{}", forward.namespace, forward.method);
            self.to.call(directory_of("aid.pub"), &method, Some(forward.params)).await
        })
    }
}

fn directory_of(issuer: &str) -> Caller {
    let relayed = Relayed { from_issuer: issuer.to_owned(), relay_id: "r".to_owned(), depth: 0 };
    Caller::ForeignService { service: "search".to_owned(), relayed }
}

/// A directory that copies another one.
struct TwoDirectories {
    here: TestDirectory,
    there: TestDirectory,
    link: Arc<TestLink>,
    peer: LeasedPeer,
}

impl TwoDirectories {
    async fn open() -> TwoDirectories {
        let there = TestDirectory::of_issuer(PEER, Settings::default()).await;
        let here =
            TestDirectory::with(Settings { peers: vec![PEER.to_owned()], ..Settings::default() }).await;
        let to = there.test.world.mesh.clone();
        let link = Arc::new(TestLink { to, up: AtomicBool::new(true), calls: AtomicU32::new(0) });
        here.test.world.mesh.set_forwarder(link.clone());
        let peer = here.search.store.lease_peer(PEER, here.search.clock.now_ms()).await.unwrap().unwrap();
        TwoDirectories { here, there, link, peer }
    }

    async fn publish_there(&self, name: &str, more: &str) {
        self.there.put(&document_of(name, PEER, more)).await;
        self.there.update().await;
    }

    /// Copies until nothing is left.
    async fn copy(&mut self) {
        while self.here.search.copy_step(&mut self.peer).await.unwrap() == Copied::More {}
        self.here.update().await;
    }

    /// What is listed there, and what was copied of it.
    async fn assert_level(&self) {
        let there = everything(&self.there).await;
        let here = everything(&self.here).await;
        let copied: BTreeMap<_, _> = here.into_iter().filter(|(aid, _)| aid.ends_with(PEER)).collect();
        assert_eq!(copied, there);
        let found = self.here.found(json!({ "q": "agent", "issuer": PEER, "limit": 50 })).await;
        assert_eq!(found.len(), there.len());
    }
}

async fn everything(directory: &TestDirectory) -> BTreeMap<String, String> {
    let (mut hashes, _, cut) = directory.snapshot(100).await;
    directory.follow(&mut hashes, cut, 100).await;
    hashes
}

#[tokio::test]
async fn a_copy_begins_with_the_snapshot_and_follows_the_changes() {
    let mut two = TwoDirectories::open().await;
    two.here.publish("local").await;
    for name in ["anna", "bert", "carl"] {
        two.publish_there(name, "").await;
    }
    two.copy().await;
    two.assert_level().await;
    assert_eq!(two.peer.row.step(), PeerStep::Changes);
    let found = two.here.get("search.get_agent", json!({ "aid": "anna.b.example" })).await;
    assert_eq!(
        (&found["source_ap"], &found["agent_md"]),
        (&json!("search.b.example"), &json!(document_of("anna", PEER, "")))
    );

    two.publish_there("bert", "tags: [new]\n").await;
    two.publish_there("carl", "visibility: unlisted\n").await;
    two.publish_there("dora", "").await;
    two.there.test.inside("agent.delete_agent_md", json!({ "aid": "anna.b.example" })).await;
    two.there.update().await;
    two.copy().await;
    two.assert_level().await;

    let listed = two.here.test.inside("search.peers", json!({})).await;
    assert_eq!((&listed["peers"][0]["issuer"], &listed["peers"][0]["agents"]), (&json!(PEER), &json!(2)));
    assert_eq!((&listed["peers"][0]["state"], &listed["peers"][0]["lag_ms"]), (&json!("waiting"), &json!(0)));
}

#[tokio::test]
async fn copies_are_not_passed_on() {
    let mut two = TwoDirectories::open().await;
    two.here.publish("local").await;
    two.publish_there("anna", "").await;
    two.copy().await;
    let as_directory = async |method: &str| {
        two.here.test.call_as(directory_of("c.example"), method, json!({ "limit": 1 })).await.unwrap()
    };
    let snapshot = as_directory("search.snapshot").await;
    assert_eq!(
        (&snapshot["items"][0]["aid"], &snapshot["has_more"]),
        (&json!("local.aid.pub"), &json!(false))
    );
    assert_eq!(snapshot["items"][0]["agent_md"], json!(document("local", "")));
    let changes = as_directory("search.changes").await;
    assert_eq!(
        (&changes["changes"][0]["aid"], &changes["has_more"]),
        (&json!("local.aid.pub"), &json!(false))
    );
    assert_eq!(changes["next_cursor"], two.here.get("search.ap_info", json!({})).await["change_cursor_head"]);
    assert_eq!(two.here.search.store.followers().await.unwrap(), ["c.example"]);

    let closed = TestDirectory::with(Settings { public: false, ..Settings::default() }).await;
    let refused = closed.test.call_as(directory_of("c.example"), "search.changes", json!({})).await;
    assert_eq!(code(refused), -32160);
    assert_eq!(closed.get("search.ap_info", json!({})).await["public"], json!(false));
}

#[tokio::test]
async fn a_cursor_that_expired_starts_the_copy_again_and_removes_what_is_gone() {
    let mut two = TwoDirectories::open().await;
    for name in ["anna", "bert", "carl"] {
        two.publish_there(name, "").await;
    }
    two.copy().await;
    two.there.test.inside("agent.delete_agent_md", json!({ "aid": "anna.b.example" })).await;
    two.publish_there("dora", "").await;
    two.there.pass_days(40);
    two.there.search.tick().await.unwrap();
    two.there.search.remove_old().await.unwrap();
    two.copy().await;
    two.assert_level().await;
    assert_eq!(two.peer.row.pass, 2);
    two.here.pass_days(1);
    let head = two.here.get("search.ap_info", json!({})).await["change_cursor_head"].clone();
    two.copy().await;
    assert_eq!(two.here.get("search.ap_info", json!({})).await["change_cursor_head"], head, "nothing is new");
}

#[tokio::test]
async fn a_snapshot_that_is_replaced_meanwhile_is_begun_again() {
    let mut two = TwoDirectories::open().await;
    for number in 0..250 {
        let long = document_of(&format!("agent{number:03}"), PEER, "") + &"x".repeat(3000);
        two.there.put(&long).await;
    }
    two.there.update().await;
    assert_eq!(two.here.search.copy_step(&mut two.peer).await.unwrap(), Copied::More);
    assert_eq!(two.peer.row.step(), PeerStep::Snapshot, "a page has at most half a mebibyte or so");
    for _ in 0..4 {
        two.there.pass_days(1);
        two.there.search.tick().await.unwrap();
    }
    two.there.search.remove_old().await.unwrap();
    two.copy().await;
    two.assert_level().await;
}

#[tokio::test]
async fn a_copy_goes_on_where_it_was_after_a_restart_and_while_the_peer_is_away() {
    let mut two = TwoDirectories::open().await;
    two.publish_there("anna", "").await;
    two.copy().await;
    two.link.up.store(false, Ordering::Relaxed);
    assert_eq!(code(two.here.search.copy_step(&mut two.peer).await.map_err(RpcError::from)), -32010);
    let listed = two.here.test.inside("search.peers", json!({})).await;
    assert_eq!(listed["peers"][0]["state"], "failed");
    assert!(listed["peers"][0]["last_error"].is_string(), "{listed}");
    let many = if two.there.test.world.store.engine() == Engine::Sqlite { 10_000 } else { 2000 };
    for number in 0..many {
        two.there.put(&document_of(&format!("agent{number:05}"), PEER, "")).await;
    }
    two.there.update().await;

    two.link.up.store(true, Ordering::Relaxed);
    two.here.search.store.leases.release(&two.peer.lease).await.unwrap();
    two.peer = two.here.search.store.lease_peer(PEER, two.here.search.clock.now_ms()).await.unwrap().unwrap();
    assert_eq!(two.peer.row.step(), PeerStep::Changes);
    let before = two.link.calls.load(Ordering::Relaxed);
    two.copy().await;
    assert!(two.link.calls.load(Ordering::Relaxed) - before <= 30, "in pages, not one by one");
    let (here, there) = (everything(&two.here).await, everything(&two.there).await);
    assert_eq!(here, there);
    let status = two.here.test.inside("search.status", json!({})).await;
    assert_eq!(status["index"]["documents"], many + 1);
}

#[tokio::test]
async fn a_copy_waits_while_there_is_no_free_space() {
    let mut two = TwoDirectories::open().await;
    two.publish_there("anna", "").await;
    two.here.test.world.disk.set(DiskReading::of_disk(0, 1));
    assert_eq!(code(two.here.search.copy_step(&mut two.peer).await.map_err(RpcError::from)), 5003);
    assert!(everything(&two.here).await.is_empty());
    two.here.test.world.disk.set(DiskReading::of_disk(1, 0));
    two.copy().await;
    two.assert_level().await;
}

#[tokio::test]
async fn one_process_copies_at_a_time_and_another_takes_over() {
    let mut two = TwoDirectories::open().await;
    let store = &two.here.search.store;
    let now = two.here.search.clock.now_ms();
    assert!(store.lease_peer(PEER, now).await.unwrap().is_none());
    let other = store.lease_peer(PEER, now + 60_000).await.unwrap().unwrap();
    two.publish_there("anna", "").await;
    assert_eq!(two.here.search.copy_step(&mut two.peer).await.unwrap(), Copied::Elsewhere);
    assert!(everything(&two.here).await.is_empty(), "whoever lost the lease stores nothing");
    two.peer = other;
    two.copy().await;
    two.assert_level().await;
}

#[tokio::test]
async fn agents_of_a_silent_peer_are_marked_then_hidden_then_removed() {
    let mut two = TwoDirectories::open().await;
    two.here.publish("local").await;
    two.publish_there("anna", "tags: [there]\n").await;
    two.copy().await;
    let aid = json!({ "aid": "anna.b.example" });
    let query = json!({ "q": "agent" });
    assert_eq!(two.here.get("search.query", query.clone()).await.get("stale"), None);
    two.here.pass_days(2);
    two.here.update().await;
    let marked = two.here.get("search.query", query.clone()).await;
    assert_eq!((&marked["stale"], marked["items"].as_array().unwrap().len()), (&json!(true), 2));
    two.here.pass_days(6);
    two.here.update().await;
    assert_eq!(two.here.found(query.clone()).await, ["local.aid.pub"]);
    assert_eq!(two.here.get("search.suggest", json!({ "prefix": "the" })).await["suggestions"], json!([]));
    assert_eq!(code(two.here.call("search.get_agent", aid.clone()).await), -32161);
    assert_eq!(two.here.test.inside("search.peers", json!({})).await["peers"][0]["hidden"], true);
    two.here.search.remove_old().await.unwrap();
    assert_eq!(everything(&two.here).await.len(), 2);

    two.copy().await;
    assert_eq!(two.here.found(query.clone()).await.len(), 2, "it is back");
    two.here.pass_days(31);
    two.here.search.remove_old().await.unwrap();
    two.here.update().await;
    assert_eq!(everything(&two.here).await.len(), 1);
    let log = two.here.get("search.changes", json!({ "cursor": "chg_00000002" })).await;
    assert_eq!(
        (&log["changes"][0]["op"], &log["changes"][0]["aid"]),
        (&json!("delete"), &json!("anna.b.example"))
    );
}

#[tokio::test]
async fn a_peer_that_has_something_new_ends_the_wait() {
    let two = TwoDirectories::open().await;
    let notify = json!({ "change_cursor_head": "chg_00000001" });
    let woken = two.here.search.wake.sync.of(PEER);
    two.here.test.call_as(directory_of("c.example"), "search.notify", notify.clone()).await.unwrap();
    two.here.test.call_as(directory_of(PEER), "search.notify", notify.clone()).await.unwrap();
    woken.notified().await;
    assert!(two.here.call("search.notify", notify).await.is_err(), "no agent may");
}

/// A peer that answers what a test says.
struct FakeDirectory(Mutex<FakeAnswers>);

type FakeAnswers = Box<dyn FnMut(&str, Value) -> Result<Value, RpcError> + Send>;

impl Forwarder for FakeDirectory {
    fn forward(self: Arc<Self>, _: &Caller, forward: ForwardFederation) -> PendingAnswer<Box<RawValue>> {
        let params = serde_json::from_str(forward.params.get()).unwrap();
        let answer = (self.0.lock())(&forward.method, params);
        Box::pin(async move { Ok(to_raw_value(&answer?).unwrap()) })
    }
}

async fn copy_from(
    settings: Settings,
    answer: impl FnMut(&str, Value) -> Result<Value, RpcError> + Send + 'static,
) -> (TestDirectory, Result<(), RpcError>) {
    let here = TestDirectory::with(Settings { peers: vec![PEER.to_owned()], ..settings }).await;
    here.test.world.mesh.set_forwarder(Arc::new(FakeDirectory(Mutex::new(Box::new(answer)))));
    let mut peer = here.search.store.lease_peer(PEER, here.search.clock.now_ms()).await.unwrap().unwrap();
    let copied = loop {
        match here.search.copy_step(&mut peer).await {
            Ok(Copied::More) => {}
            Ok(_) => break Ok(()),
            Err(error) => break Err(error.into()),
        }
    };
    here.update().await;
    (here, copied)
}

fn item(name: &str) -> Value {
    let content = document_of(name, PEER, "");
    json!({
        "aid": format!("{name}.{PEER}"), "agent_md_url": "https://x/agent.md", "agent_md_sha256": sha256_hex(&content),
        "source_ap": "search.b.example", "updated_at": "2026-03-20T12:00:00Z", "agent_md": content, "signed": false,
    })
}

fn snapshot_of(items: Vec<Value>, next: Option<&str>) -> Value {
    json!({
        "snapshot_version": "2026-03-21T00:00:00Z", "items": items, "next_cursor": next, "has_more": next.is_some(),
        "change_cursor": "chg_00000007",
    })
}

fn no_changes() -> Value {
    json!({ "from_cursor": "chg_00000007", "next_cursor": "chg_00000007", "changes": [], "has_more": false })
}

#[tokio::test]
async fn entries_that_are_not_the_peers_or_not_what_they_claim_are_left_out() {
    let change = |name: &str, member: &str, value: Value| {
        let mut item = item(name);
        item[member] = value;
        item
    };
    let private = document_of("private", PEER, "visibility: private\n");
    let items = vec![
        item("good"),
        change("hash", "agent_md_sha256", json!("00".repeat(32))),
        change("else", "aid", json!("else.aid.pub")),
        change("other", "aid", json!("other.c.example")),
        change("source", "source_ap", json!("search.c.example")),
        change("about", "agent_md", json!(document_of("somebody", PEER, ""))),
        change("yaml", "agent_md", json!("no front matter")),
        json!({
            "aid": "private.b.example", "agent_md_url": "", "agent_md_sha256": sha256_hex(&private),
            "source_ap": "search.b.example", "updated_at": "", "agent_md": private,
        }),
    ];
    let (here, copied) = copy_from(Settings::default(), move |method, _| {
        Ok(if method == "snapshot" { snapshot_of(items.clone(), None) } else { no_changes() })
    })
    .await;
    copied.unwrap();
    assert_eq!(everything(&here).await.into_keys().collect::<Vec<_>>(), ["good.b.example"]);
    assert!(here.search.metrics.refused_items.get() >= 4);
}

#[tokio::test]
async fn a_directory_that_sends_no_documents_is_asked_for_each() {
    let (here, copied) = copy_from(Settings::default(), |method, params| {
        Ok(match method {
            "snapshot" => {
                let mut bare = item("bare");
                bare.as_object_mut().unwrap().remove("agent_md");
                snapshot_of(vec![bare], None)
            }
            "get_agent" => {
                assert_eq!(params["aid"], "bare.b.example");
                json!({
                    "aid": "bare.b.example", "agent_md": document_of("bare", PEER, ""), "content_type": "text/markdown",
                    "agent_md_url": "", "updated_at": "", "etag": "", "sha256": "", "source_ap": "", "signed": false,
                })
            }
            _ => no_changes(),
        })
    })
    .await;
    copied.unwrap();
    assert_eq!(everything(&here).await.len(), 1);
}

#[tokio::test]
async fn a_snapshot_without_end_ends() {
    let few = Settings { peer_agents: 50, ..Settings::default() };
    let mut pages = 0;
    let (here, copied) = copy_from(few, move |_, _| {
        pages += 1;
        assert!(pages < 20, "it is asked again and again");
        let items = (0..10).map(|number| item(&format!("agent-{pages}-{number}"))).collect();
        Ok(snapshot_of(items, Some(&format!("snap_{pages}"))))
    })
    .await;
    assert_eq!(code(copied), -32012);
    assert_eq!(everything(&here).await.len(), 50);

    for (items, next) in [(vec![], "snap_1"), (vec![item("same")], "snap_same")] {
        let (_, copied) =
            copy_from(Settings::default(), move |_, _| Ok(snapshot_of(items.clone(), Some(next)))).await;
        assert_eq!(code(copied), -32012);
    }
    let (_, copied) =
        copy_from(Settings::default(), |_, _| Err(RpcError::plain(codes::search::SNAPSHOT_STALE))).await;
    assert_eq!(code(copied), -32163, "a first question is not asked again at once");
    let (_, copied) = copy_from(Settings::default(), |_, _| Ok(json!({ "items": 7 }))).await;
    assert_eq!(code(copied), -32012);
}

#[tokio::test]
async fn changes_that_do_not_go_on_are_refused() {
    let (_, copied) = copy_from(Settings::default(), |method, _| {
        Ok(match method {
            "snapshot" => snapshot_of(vec![], None),
            _ => json!({ "from_cursor": "chg_00000007", "next_cursor": "chg_00000007", "changes": [], "has_more": true }),
        })
    })
    .await;
    assert_eq!(code(copied), -32012);
}

#[tokio::test]
async fn a_peer_with_as_many_agents_as_may_be_can_change_them_and_not_add_one() {
    let mut pages = 0;
    let few = Settings { peer_agents: 2, ..Settings::default() };
    let (here, copied) = copy_from(few, move |method, _| {
        let change = |name: &str, tag: &str| {
            let content = document_of(name, PEER, &format!("tags: [{tag}]\n"));
            json!({
                "sequence": 8, "op": "upsert", "aid": format!("{name}.{PEER}"), "updated_at": "2026-03-20T12:00:00Z",
                "agent_md": content,
            })
        };
        if method == "snapshot" {
            return Ok(snapshot_of(vec![item("anna"), item("bert")], None));
        }
        pages += 1;
        let changes = if pages == 1 { [change("anna", "new")] } else { [change("carl", "new")] };
        Ok(json!({
            "from_cursor": "chg_00000007", "next_cursor": format!("chg_0000010{pages}"), "changes": changes, "has_more": true,
        }))
    })
    .await;
    assert_eq!(code(copied), -32012);
    assert_eq!(here.found(json!({ "tags": ["new"] })).await, ["anna.b.example"]);
    assert_eq!(everything(&here).await.len(), 2);
}
