//! Questions as people ask them, the samples of the protocol, and what a directory that has just begun answers.

use serde_json::{Value, json};

use super::{document, put, until_found};
use crate::support::agent::ConnectedAgent;
use crate::support::{TestServer, until};

/// Searches of the tests are many.
const LIMITS: &str = "limits.classes.\"search.query\" = 100000\nlimits.classes.\"search.sync\" = 100000\n\
                      limits.classes.\"agent.publish\" = 100000";

/// What an agent publishes: its name, description, tags and text.
type PublishedAgent = (&'static str, &'static str, &'static str, &'static str);

const AGENTS: [PublishedAgent; 6] = [
    ("reviewer", "Reviewer", "面向工程团队的代码审查 Agent", "coding, review"),
    ("skies", "Sky Watch", "Tells the weather of the next ten days", "weather, forecast"),
    ("lawyer", "Clause", "Reads contracts and marks what is risky", "law"),
    ("slides", "Deck", "Makes slides from your notes", "office"),
    ("interpreter", "Dolmetscher", "Translates documents into German", "language"),
    ("accountant", "Ledger", "Prepares invoices and tax returns", "money"),
];

async fn directory() -> (TestServer, ConnectedAgent) {
    let server = TestServer::with(LIMITS).await;
    for (label, name, description, tags) in AGENTS {
        let agent = server.register(label).await;
        let tokens = server.login(&agent).await;
        let text = document(&agent.aid, name, &format!("tags: [{tags}]\n"));
        let text = text.replace(&format!("{name} helps"), description);
        assert_eq!(put(&server, &agent.aid, &tokens, &text).await.status, 200, "{label}");
    }
    let asker = server.agent("asker").await;
    until("all are listed", || async {
        let info = asker.call("search.ap_info", &json!({})).await;
        (info["agent_count"] == AGENTS.len()).then_some(())
    })
    .await;
    let last = server.aid("accountant");
    until_found(&asker, &json!({ "q": last, "tags": ["money"] }), &[&last]).await;
    (server, asker)
}

#[tokio::test]
async fn questions_as_people_ask_them_find_the_right_agent() {
    let (server, asker) = directory().await;
    for (question, label) in [
        ("code review", "reviewer"),
        ("code review assistant", "reviewer"),
        ("who can review my code?", "reviewer"),
        ("我想找一个能审查代码的助手", "reviewer"),
        ("審查代碼", "reviewer"),
        ("weather forecast", "skies"),
        ("What will the wether be like tomorrow?", "skies"),
        ("今天天气怎么样", "skies"),
        ("contract", "lawyer"),
        ("合同", "lawyer"),
        ("how do I make a presentation", "slides"),
        ("please translate this document", "interpreter"),
        ("invoice", "accountant"),
    ] {
        let page = asker.call("search.query", &json!({ "q": question, "explain": true })).await;
        assert_eq!(page["items"][0]["aid"], server.aid(label), "{question}: {page}");
        assert!(page.get("stale").is_none(), "{question}: {page}");
        let units = page["items"][0]["explanation"]["units"].as_array().expect("it is explained");
        assert!(units.iter().any(|unit| unit["found"][0]["by"].is_string()), "{question}: {units:?}");
    }
    let nobody = asker.call("search.query", &json!({ "q": "zyzzyva" })).await;
    assert_eq!(nobody["items"], json!([]));
}

/// The samples of `search.*` in the founding document, sent as they stand.
#[tokio::test]
async fn the_samples_of_the_protocol_are_answered_member_by_member() {
    let (server, asker) = directory().await;
    let aid = server.aid("reviewer");
    let page = asker
        .call("search.query", &json!({ "q": "code review assistant", "tags": ["coding"], "limit": 10 }))
        .await;
    let item = &page["items"][0];
    let url = format!("https://{aid}/agent.md");
    for (member, expected) in [
        ("aid", json!(aid)),
        ("name", json!("Reviewer")),
        ("description", json!("面向工程团队的代码审查 Agent")),
        ("tags", json!(["coding", "review"])),
        ("agent_md_url", json!(url)),
    ] {
        assert_eq!(item[member], expected, "{member}: {page}");
    }
    assert_eq!((page["items"].as_array().map(Vec::len), &page["next_cursor"]), (Some(1), &Value::Null));

    let got = asker.call("search.get_agent", &json!({ "aid": aid })).await;
    assert!(got["agent_md"].as_str().is_some_and(|text| text.starts_with("---\naid: ")), "{got}");
    assert_eq!((&got["content_type"], &got["agent_md_url"]), (&json!("text/markdown"), &json!(url)));
    let suggested = asker.call("search.suggest", &json!({ "prefix": "cod" })).await;
    assert_eq!(suggested["suggestions"][0], json!({ "type": "tag", "value": "coding" }));

    let info = asker.call("search.ap_info", &json!({})).await;
    assert_eq!(
        (&info["ap_id"], &info["public"]),
        (&json!(format!("search.{}", server.issuer)), &json!(true))
    );
    let can = json!({ "query": true, "suggest": true, "snapshot": true, "changes": true });
    assert_eq!(info["capabilities"], can);
    assert_eq!(info["change_cursor_head"], "chg_00000006");
    let version = info["current_snapshot_version"].clone();
    let sample = json!({ "version": version, "cursor": null, "limit": 500 });
    let snapshot = asker.call("search.snapshot", &sample).await;
    assert_eq!((&snapshot["snapshot_version"], &snapshot["has_more"]), (&version, &json!(false)));
    let changes = asker.call("search.changes", &json!({ "cursor": "chg_00000004", "limit": 200 })).await;
    assert_eq!(
        (&changes["from_cursor"], &changes["next_cursor"], &changes["has_more"]),
        (&json!("chg_00000004"), &json!("chg_00000006"), &json!(false))
    );
    let first = &changes["changes"][0];
    assert_eq!((&first["sequence"], &first["op"]), (&json!(5), &json!("upsert")));
    assert_eq!(first["aid"], server.aid("interpreter"));
}

#[tokio::test]
async fn the_snapshot_of_a_new_server_has_every_agent() {
    let (server, asker) = directory().await;
    let page = asker.call("search.snapshot", &json!({})).await;
    let mut aids: Vec<&str> =
        page["items"].as_array().expect("a list").iter().filter_map(|item| item["aid"].as_str()).collect();
    let mut expected = AGENTS.map(|(label, ..)| server.aid(label));
    expected.sort();
    assert_eq!(aids, expected, "in the order of their AIDs");
    // A page is read while others publish and begin with a snapshot of their own.
    let first = asker.call("search.snapshot", &json!({ "limit": 4 })).await;
    let more = json!({ "version": first["snapshot_version"], "cursor": first["next_cursor"], "limit": 4 });
    let second = asker.call("search.snapshot", &more).await;
    let items = [&first, &second].map(|page| page["items"].as_array().expect("a list"));
    aids = items.into_iter().flatten().filter_map(|item| item["aid"].as_str()).collect();
    assert_eq!(aids, expected);
}

#[tokio::test]
async fn a_bad_question_is_refused_with_the_parameter_that_is_bad() {
    let server = TestServer::shared().await;
    let asker = server.agent("asker").await;
    for (params, named) in [
        (json!({ "q": 7 }), "q must be"),
        (json!({ "q": "x", "tags": "x" }), "tags must be"),
        (json!({ "q": "x", "limit": 0 }), "limit must be"),
        (json!({ "q": "x", "limit": "x" }), "limit must be"),
    ] {
        let refused = asker.call_error("search.query", &params).await;
        assert_eq!(refused["code"], -32162, "{params}: {refused}");
        assert!(
            refused["message"].as_str().is_some_and(|text| text.starts_with(named)),
            "{params}: {refused}"
        );
    }
    let refused = asker.call_error("search.suggest", &json!({ "prefix": 7 })).await;
    assert_eq!(refused["code"], -32162, "{refused}");
}

#[tokio::test]
async fn an_empty_directory_has_a_date() {
    let server = TestServer::start().await;
    let asker = server.agent("asker").await;
    let info = asker.call("search.ap_info", &json!({})).await;
    assert_eq!(info["change_cursor_head"], "chg_00000000");
    let updated_at = info["updated_at"].as_str().expect("a time");
    assert!(updated_at > "2020", "{updated_at}");
}

/// The dictionary is 30 MB of tables, which a directory without Chinese does without.
#[tokio::test]
async fn the_first_chinese_text_loads_the_dictionary() {
    const MANY: i64 = 10 << 20;
    let server = TestServer::with(LIMITS).await;
    let asker = server.agent("asker").await;
    let after = async |question: &str| {
        asker.call("search.query", &json!({ "q": question })).await;
        i64::try_from(server.memory()).expect("a number")
    };
    let first = after("who can review my code?").await;
    let english = after("weather forecast for tomorrow").await;
    let chinese = after("今天天气怎么样").await;
    assert!(english - first < MANY, "{first} {english}");
    assert!(chinese - english > MANY, "{english} {chinese}");
}
