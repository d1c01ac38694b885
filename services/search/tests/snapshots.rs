//! Snapshots: those of every midnight, those for a reader, and the versions of documents that they show.

use super::*;

const MINUTE_MS: i64 = 60_000;

fn is_midnight(version: &str) -> bool {
    version.ends_with("T00:00:00Z")
}

#[tokio::test]
async fn a_snapshot_is_full_when_it_is_asked_for() {
    let directory = TestDirectory::open().await;
    // As every server does when it starts, before anybody has published anything.
    directory.search.tick().await.unwrap();
    let empty = directory.get("search.ap_info", json!({})).await["current_snapshot_version"].clone();
    for number in 0..30 {
        directory.put(&document(&format!("agent{number:02}"), "")).await;
    }
    directory.update().await;
    let (agents, version, cut) = directory.snapshot(7).await;
    assert_eq!((agents.len(), cut.as_str()), (30, "chg_00000030"));
    assert!(!is_midnight(&version), "{version}");
    let info = directory.get("search.ap_info", json!({})).await;
    assert_eq!(info["snapshot_versions"], json!([version, empty]));
    assert_eq!(info["current_snapshot_version"], json!(version));
}

#[tokio::test]
async fn readers_of_the_same_minute_get_the_same_snapshot() {
    let directory = TestDirectory::open().await;
    directory.publish("anna").await;
    directory.search.tick().await.unwrap();
    directory.publish("bert").await;
    let (_, first, _) = directory.snapshot(1).await;
    directory.publish("carl").await;
    directory.test.world.clock.advance_ms(MINUTE_MS);
    let (agents, same, cut) = directory.snapshot(1).await;
    assert_eq!((same, agents.len()), (first.clone(), 2));
    // What is missing in it is in the changes.
    let mut live = agents;
    directory.follow(&mut live, cut, 10).await;
    assert_eq!(live.len(), 3);
    directory.test.world.clock.advance_ms(1000);
    let (agents, later, _) = directory.snapshot(1).await;
    assert!(later > first && agents.len() == 3, "{later}");
    directory.test.world.clock.advance_ms(10 * MINUTE_MS);
    assert_eq!(directory.snapshot(1).await.1, later, "nothing has changed since");
}

#[tokio::test]
async fn a_snapshot_stays_as_long_as_its_pages_are_read() {
    let directory = TestDirectory::open().await;
    directory.search.tick().await.unwrap();
    for number in 0..8 {
        directory.publish(&format!("agent{number}")).await;
    }
    let mut page = directory.get("search.snapshot", json!({ "limit": 1 })).await;
    let (version, mut read) = (page["snapshot_version"].clone(), 1);
    while page["has_more"] == json!(true) {
        directory.test.world.clock.advance_ms(15 * MINUTE_MS);
        // Other readers begin with snapshots of their own.
        directory.put(&document("agent0", &format!("tags: [t{read}]\n"))).await;
        directory.update().await;
        assert_ne!(json!(directory.snapshot(10).await.1), version);
        directory.search.tick().await.unwrap();
        directory.search.remove_old().await.unwrap();
        page = directory.get("search.snapshot", json!({ "cursor": page["next_cursor"], "limit": 1 })).await;
        assert_eq!(page["snapshot_version"], version);
        read += 1;
    }
    assert_eq!(read, 8);
    let wanted = json!({ "version": version, "limit": 1 });
    directory.get("search.snapshot", wanted.clone()).await;
    directory.test.world.clock.advance_ms(17 * MINUTE_MS);
    directory.search.tick().await.unwrap();
    directory.search.remove_old().await.unwrap();
    assert_eq!(code(directory.call("search.snapshot", wanted).await), -32163, "nobody has read it for long");
    let info = directory.get("search.ap_info", json!({})).await;
    let versions = info["snapshot_versions"].as_array().unwrap();
    assert!(versions.iter().all(|version| is_midnight(version.as_str().unwrap())), "{info}");
    assert_eq!(stored_versions(&directory).await, 8, "those that a snapshot showed are gone with it");
}

/// What was removed from the directory since is in it.
#[tokio::test]
async fn a_snapshot_of_a_reader_ends_after_six_hours_however_often_it_is_read() {
    let directory = TestDirectory::open().await;
    directory.search.tick().await.unwrap();
    for number in 0..3 {
        directory.publish(&format!("agent{number}")).await;
    }
    let wanted = json!({ "version": directory.snapshot(10).await.1, "limit": 1 });
    for _ in 0..35 {
        directory.test.world.clock.advance_ms(10 * MINUTE_MS);
        directory.get("search.snapshot", wanted.clone()).await;
        directory.search.tick().await.unwrap();
    }
    directory.get("search.snapshot", wanted.clone()).await;
    directory.test.world.clock.advance_ms(11 * MINUTE_MS);
    directory.search.tick().await.unwrap();
    assert_eq!(code(directory.call("search.snapshot", wanted).await), -32163);
}

/// How many versions of documents are stored.
async fn stored_versions(directory: &TestDirectory) -> i64 {
    let mut log = directory.search.store.write_log(0).await.unwrap();
    let count = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM listing").fetch_one(&mut **log.tx());
    count.await.unwrap()
}

#[tokio::test]
async fn every_midnight_a_snapshot_is_frozen_and_the_newest_three_stay() {
    let directory = TestDirectory::open().await;
    directory.publish("anna").await;
    directory.publish("bert").await;
    let first = directory.get("search.snapshot", json!({ "limit": 1 })).await;
    for day in 0..4 {
        directory.pass_days(1);
        directory.search.tick().await.unwrap();
        directory.search.tick().await.unwrap();
        directory.publish(&format!("day{day}")).await;
        directory.search.remove_old().await.unwrap();
    }
    let info = directory.get("search.ap_info", json!({})).await;
    let versions: Vec<String> = info["snapshot_versions"].as_array().unwrap().iter().map(text).collect();
    assert_eq!(versions.len(), 3);
    assert!(versions.iter().all(|version| version.ends_with("T00:00:00Z")), "{versions:?}");
    assert!(versions.is_sorted_by(|newer, older| newer > older));
    let next = json!({ "cursor": first["next_cursor"] });
    let stale = directory.call("search.snapshot", next).await.unwrap_err();
    assert_eq!((stale.code(), stale.data("snapshot_version")), (-32163, Some(&json!(versions[0]))));
    assert_eq!(directory.snapshot_of(Some(&versions[0]), 1).await.0.len(), 5);
}

#[tokio::test]
async fn a_version_that_no_snapshot_shows_is_not_stored_any_more() {
    let directory = TestDirectory::open().await;
    let publish = async |version: usize| {
        directory.put(&document("anna", &format!("tags: [v{version}]\n"))).await;
        directory.update().await;
    };
    let versions = async || stored_versions(&directory).await;
    for version in 0..5 {
        publish(version).await;
    }
    assert_eq!(versions().await, 1, "nobody has asked for a snapshot");
    let (frozen, version, _) = directory.snapshot(10).await;
    for version in 5..10 {
        publish(version).await;
    }
    assert_eq!(versions().await, 2, "the one of the snapshot, and the newest");
    directory.snapshot(10).await;
    publish(10).await;
    assert_eq!(versions().await, 3, "two snapshots show one each");
    assert_eq!(directory.snapshot_of(Some(&version), 10).await.0, frozen);
    for _ in 0..3 {
        directory.pass_days(1);
        directory.search.tick().await.unwrap();
    }
    directory.search.remove_old().await.unwrap();
    assert_eq!(versions().await, 1, "its snapshot is gone");
}
