//! The log, and what is removed from it.

use super::*;

#[tokio::test]
async fn a_snapshot_stays_as_it_was_and_its_changes_lead_to_the_present() {
    let directory = TestDirectory::open().await;
    for name in ["anna", "bert", "carl"] {
        directory.publish(name).await;
    }
    let info = directory.get("search.ap_info", json!({})).await;
    assert_eq!(info["ap_id"], "search.aid.pub");
    assert_eq!((&info["change_cursor_head"], &info["agent_count"]), (&json!("chg_00000003"), &json!(3)));
    let (frozen, version, cut) = directory.snapshot(2).await;
    assert_eq!(frozen.keys().collect::<Vec<_>>(), ["anna.aid.pub", "bert.aid.pub", "carl.aid.pub"]);
    assert_eq!(
        (json!(version.clone()), cut.as_str()),
        (info["current_snapshot_version"].clone(), "chg_00000003")
    );

    directory.put(&document("bert", "tags: [new]\n")).await;
    directory.unpublish("anna").await;
    directory.publish("dora").await;
    assert_eq!(
        directory.snapshot_of(Some(&version), 1).await.0,
        frozen,
        "what changes afterwards is not in it"
    );

    let mut live = frozen.clone();
    let head = directory.follow(&mut live, cut.clone(), 1).await;
    assert_eq!(live.keys().collect::<Vec<_>>(), ["bert.aid.pub", "carl.aid.pub", "dora.aid.pub"]);
    assert_ne!(live["bert.aid.pub"], frozen["bert.aid.pub"]);
    let again = directory.get("search.changes", json!({ "cursor": head })).await;
    assert_eq!((&again["changes"], &again["next_cursor"]), (&json!([]), &json!(head)));
}

#[tokio::test]
async fn a_page_has_each_agent_once_as_it_is_now() {
    let directory = TestDirectory::open().await;
    for _ in 0..3 {
        directory.publish("anna").await;
        directory.unpublish("anna").await;
    }
    directory.put(&document("anna", "tags: [last]\n")).await;
    directory.publish("bert").await;
    let page = directory.get("search.changes", json!({})).await;
    let changes = page["changes"].as_array().unwrap();
    let summary: Vec<_> = changes.iter().map(|change| (&change["op"], &change["aid"])).collect();
    let upsert = json!("upsert");
    assert_eq!(summary, [(&upsert, &json!("anna.aid.pub")), (&upsert, &json!("bert.aid.pub"))]);
    assert_eq!(
        (&page["from_cursor"], &page["next_cursor"]),
        (&json!("chg_00000000"), &json!("chg_00000008"))
    );
}

#[tokio::test]
async fn what_did_not_change_is_not_logged_again() {
    let directory = TestDirectory::open().await;
    directory.publish("anna").await;
    directory.publish("anna").await;
    assert_eq!(directory.get("search.ap_info", json!({})).await["change_cursor_head"], "chg_00000001");
}

#[tokio::test]
async fn cursors_that_cannot_be_used_are_refused_with_where_to_go_on() {
    let directory = TestDirectory::open().await;
    directory.publish("anna").await;
    let refused = async |params: Value| directory.call("search.changes", params).await.unwrap_err();
    for (params, expected) in [
        (json!({ "cursor": "chg_00000002" }), -32164),
        (json!({ "cursor": "chg_x" }), -32602),
        (json!({ "cursor": "1" }), -32602),
        (json!({ "limit": 0 }), -32602),
        (json!({ "limit": -1 }), -32602),
    ] {
        assert_eq!(refused(params.clone()).await.code(), expected, "{params}");
    }
    let beyond = refused(json!({ "cursor": "chg_99999999" })).await;
    assert_eq!(beyond.data("reason"), Some(&json!("unknown_epoch")));
    assert_eq!(beyond.data("floor_cursor"), Some(&json!("chg_00000000")));
    let newest = directory.get("search.ap_info", json!({})).await["current_snapshot_version"].clone();
    assert_eq!(beyond.data("snapshot_version"), Some(&newest));
    directory.get("search.changes", json!({ "limit": 1_000_000 })).await;

    let refused = async |params: Value| code(directory.call("search.snapshot", params).await);
    assert_eq!(refused(json!({ "limit": 0 })).await, -32602);
    assert_eq!(refused(json!({ "version": "2020-01-01T00:00:00Z" })).await, -32163);
    assert_eq!(refused(json!({ "cursor": "snap_0001" })).await, -32602);
    directory.publish("bert").await;
    directory.pass_days(1);
    directory.search.tick().await.unwrap();
    let page = directory.get("search.snapshot", json!({ "limit": 1 })).await;
    assert_eq!(refused(json!({ "cursor": page["next_cursor"], "version": newest })).await, -32602);
}

#[tokio::test]
async fn what_a_later_change_replaces_is_removed_after_a_day_and_all_after_a_month() {
    let directory = TestDirectory::open().await;
    for name in ["anna", "bert", "anna", "anna"] {
        directory.put(&document(name, &format!("tags: [t{}]\n", directory.test.world.clock.now_ms()))).await;
        directory.update().await;
        directory.test.world.clock.advance_ms(1000);
    }
    let (_, _, cut) = directory.snapshot(10).await;
    let mut live = BTreeMap::new();
    directory.follow(&mut live, "chg_00000000".to_owned(), 1).await;
    directory.pass_days(2);
    directory.search.remove_old().await.unwrap();
    let compacted = directory.get("search.changes", json!({ "limit": 1 })).await;
    assert_eq!(compacted["changes"][0]["sequence"], 2, "{compacted}");
    let mut after = BTreeMap::new();
    directory.follow(&mut after, "chg_00000000".to_owned(), 1).await;
    assert_eq!(live, after);

    directory.pass_days(31);
    directory.search.tick().await.unwrap();
    directory.search.remove_old().await.unwrap();
    for cursor in [json!(null), json!("chg_00000000"), json!("chg_00000003")] {
        assert_eq!(
            code(directory.call("search.changes", json!({ "cursor": cursor })).await),
            -32164,
            "{cursor}"
        );
    }
    let floor = directory.get("search.ap_info", json!({})).await["log_floor_cursor"].clone();
    assert_eq!(floor, "chg_00000004");
    assert_eq!(directory.get("search.changes", json!({ "cursor": cut })).await["changes"], json!([]));
    assert_eq!(directory.snapshot(10).await.0, live, "the documents are still there");
}

#[tokio::test]
async fn an_agent_service_that_counts_anew_makes_all_cursors_void() {
    let directory = TestDirectory::open().await;
    directory.publish("anna").await;
    directory.publish("bert").await;
    let (_, _, cut) = directory.snapshot(10).await;
    // As if the agent service had been set up from an older backup: it has not given out this position.
    let mut log = directory.search.store.write_log(0).await.unwrap();
    assert!(log.advance_position(2, 50).await.unwrap());
    directory.search.store.commit(log).await.unwrap();
    directory.update().await;
    assert_eq!(code(directory.call("search.changes", json!({ "cursor": cut })).await), -32164);
    let head = directory.get("search.ap_info", json!({})).await["change_cursor_head"].clone();
    assert!(cursor::ChangeCursor::parse(&text(&head)).unwrap().0 > 1_000_000, "{head}");
    let (hashes, _, cut) = directory.snapshot(10).await;
    let mut live = hashes;
    directory.follow(&mut live, cut, 10).await;
    assert_eq!(live.len(), 2);
    assert_eq!(directory.found(json!({ "q": "agent" })).await.len(), 2);
}

#[tokio::test]
async fn a_directory_that_is_off_says_so() {
    let directory = TestDirectory::with(Settings { enabled: false, ..Settings::default() }).await;
    for method in ["ap_info", "snapshot", "changes", "query", "get_agent", "suggest"] {
        let params = json!({ "aid": "anna.aid.pub", "q": "x" });
        assert_eq!(code(directory.call(&format!("search.{method}"), params).await), -32160, "{method}");
    }
}
