//! Finding agents, and who is not found.

use super::*;
use kernel::sha256_hex;

#[tokio::test]
async fn a_published_agent_is_found_by_words_tags_and_name() {
    let directory = TestDirectory::open().await;
    directory.put("---\naid: reviewer.aid.pub\nname: Reviewer\ntype: codeagent\nversion: 1.2.0\ndescription: Reads your changes\ntags: [Coding, review]\nskills:\n  - name: Rust\n---\n# Reviewer\nFinds **bugs** in pull requests. 代码审查\n").await;
    directory.publish("other").await;
    for query in [
        json!({ "q": "reviewer" }),
        json!({ "q": "BUGS pull" }),
        json!({ "q": "rust" }),
        json!({ "q": "代码" }),
        json!({ "q": "reviewer.aid.pub" }),
        json!({ "tags": ["coding"] }),
        json!({ "tags": ["REVIEW", "coding"] }),
        json!({ "q": "changes", "tags": ["coding"], "type": "codeagent", "issuer": "aid.pub", "signed": false }),
    ] {
        let page = directory.get("search.query", query.clone()).await;
        let item = &page["items"][0];
        assert_eq!(item["aid"], "reviewer.aid.pub", "{query}");
        assert_eq!(
            (&item["name"], &item["description"], &item["tags"]),
            (&json!("Reviewer"), &json!("Reads your changes"), &json!(["coding", "review"]))
        );
        assert_eq!(item["agent_md_url"], "https://reviewer.aid.pub/agent.md");
        assert_eq!((&item["source_ap"], &item["signed"]), (&json!("search.aid.pub"), &json!(false)));
        assert_eq!(page["next_cursor"], json!(null));
    }
    for nothing in [
        json!({ "q": "nobodyhasthis" }),
        json!({ "tags": ["coding", "missing"] }),
        json!({ "q": "reviewer", "type": "human" }),
        json!({ "q": "reviewer", "issuer": "b.example" }),
        json!({ "q": "reviewer", "signed": true }),
    ] {
        assert_eq!(directory.found(nothing.clone()).await, [] as [&str; 0], "{nothing}");
    }
    let explained = directory.get("search.query", json!({ "q": "reviewer", "explain": true })).await;
    assert_eq!(explained["items"][0]["explanation"]["name_equals"], 120.0, "{explained}");
}

#[tokio::test]
async fn only_public_complete_documents_are_listed() {
    let directory = TestDirectory::open().await;
    let aid = json!({ "aid": "anna.aid.pub" });
    let listed = async || {
        directory.update().await;
        let queried = !directory.found(json!({ "q": "anna" })).await.is_empty();
        let tagged = !directory.found(json!({ "tags": ["secret"] })).await.is_empty();
        let suggested =
            directory.get("search.suggest", json!({ "prefix": "ann" })).await["suggestions"] != json!([]);
        let by_tag =
            directory.get("search.suggest", json!({ "prefix": "secr" })).await["suggestions"] != json!([]);
        let mut live = BTreeMap::new();
        directory.follow(&mut live, "chg_00000000".to_owned(), 100).await;
        let logged = live.contains_key("anna.aid.pub");
        assert_eq!([queried, tagged, suggested, by_tag], [logged; 4]);
        logged
    };
    let tags = "tags: [secret]\n";
    directory.put(&document("anna", tags)).await;
    assert!(listed().await);
    directory.put(&document("anna", &format!("{tags}visibility: unlisted\n"))).await;
    assert!(!listed().await);
    let unlisted = directory.get("search.get_agent", aid.clone()).await;
    assert!(text(&unlisted["agent_md"]).contains("unlisted"), "who knows the AID can read it");
    directory.put(&document("anna", tags)).await;
    assert!(listed().await);
    directory.put(&document("anna", &format!("{tags}visibility: private\n"))).await;
    assert!(!listed().await);
    assert_eq!(code(directory.call("search.get_agent", aid.clone()).await), -32161);
    for incomplete in ["version: 1.0.0\n", "description: It is called anna\n"] {
        directory.put(&document("anna", tags)).await;
        assert!(listed().await);
        directory.put(&document("anna", tags).replace(incomplete, "")).await;
        assert!(!listed().await, "without {incomplete}");
    }
    directory.put(&document("anna", tags)).await;
    assert!(listed().await);
    directory.unpublish("anna").await;
    assert!(!listed().await);
    assert_eq!(code(directory.call("search.get_agent", aid).await), -32161);
}

#[tokio::test]
async fn a_document_is_read_as_it_was_published() {
    let directory = TestDirectory::open().await;
    directory.publish("anna").await;
    let (hashes, ..) = directory.snapshot(10).await;
    let found = directory.get("search.get_agent", json!({ "aid": "ANNA.aid.pub" })).await;
    let content = text(&found["agent_md"]);
    assert_eq!(content, document("anna", ""));
    assert_eq!(text(&found["sha256"]), sha256_hex(&content));
    assert_eq!(text(&found["sha256"]), hashes["anna.aid.pub"]);
    assert_eq!(found["content_type"], "text/markdown");
    assert_eq!(found["updated_at"], "2026-11-15T00:16:01Z");
}

#[tokio::test]
async fn a_query_goes_on_with_its_own_cursor_for_ten_minutes() {
    let directory = TestDirectory::open().await;
    for number in 0..7 {
        directory.put(&document(&format!("agent{number}"), "")).await;
    }
    directory.update().await;
    let all = directory.found(json!({ "q": "agent", "limit": 50 })).await;
    assert_eq!(all.len(), 7);
    assert_eq!(directory.found(json!({ "q": "agent", "limit": 2 })).await, all);

    let page = directory.get("search.query", json!({ "q": "agent", "limit": 2 })).await;
    let other = json!({ "q": "other", "cursor": page["next_cursor"] });
    let refused = directory.call("search.query", other).await.unwrap_err();
    assert_eq!((refused.code(), refused.data("reason")), (-32162, Some(&json!("cursor_expired"))));
    let same = json!({ "q": " AGENT ", "cursor": page["next_cursor"] });
    directory.test.world.clock.advance_ms(600_000);
    directory.get("search.query", same.clone()).await;
    directory.test.world.clock.advance_ms(1);
    let late = directory.call("search.query", same).await.unwrap_err();
    assert_eq!((late.code(), late.data("reason")), (-32162, Some(&json!("cursor_expired"))));
}

#[tokio::test]
async fn what_is_typed_is_completed_by_agents_then_tags_then_what_five_have_asked() {
    let directory = TestDirectory::open().await;
    directory.put(&document("code1", "tags: [coding, common]\n")).await;
    directory.put(&document("else1", "tags: [coding, code]\n")).await;
    directory.update().await;
    // Agents share bits: of twelve, five have different ones.
    for asker in 0..12 {
        let name = format!("asker{asker}");
        let asker = directory.test.register(&name).await;
        for q in ["code1", "nothing is found"] {
            directory.test.call_as(asker.caller(), "search.query", json!({ "q": q })).await.unwrap();
        }
        directory.get("search.query", json!({ "q": "coding" })).await;
    }
    directory.search.tick().await.unwrap();
    let suggested = async |params: Value| {
        let answer = directory.get("search.suggest", params).await;
        let pair = |one: &Value| (text(&one["type"]), text(&one["value"]));
        answer["suggestions"].as_array().unwrap().iter().map(pair).collect::<Vec<_>>()
    };
    let pairs =
        |of: &[(&str, &str)]| of.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect::<Vec<_>>();
    assert_eq!(
        suggested(json!({ "prefix": "cod" })).await,
        pairs(&[("aid", "code1.aid.pub"), ("tag", "coding"), ("tag", "code"), ("query", "code1")])
    );
    assert_eq!(suggested(json!({ "prefix": "cod", "limit": 1 })).await, pairs(&[("aid", "code1.aid.pub")]));
    assert_eq!(
        suggested(json!({})).await,
        pairs(&[("tag", "coding"), ("tag", "code"), ("tag", "common")]),
        "the tags that are used most"
    );
    assert!(suggested(json!({ "prefix": "noth" })).await.is_empty(), "who finds nothing suggests nothing");
    directory.pass_days(8);
    directory.search.tick().await.unwrap();
    let later = suggested(json!({ "prefix": "cod" })).await;
    assert!(later.iter().all(|(kind, _)| kind != "query"), "{later:?}");
}

#[tokio::test]
async fn the_index_is_made_anew_while_the_old_one_answers() {
    let directory = TestDirectory::open().await;
    for number in 0..20 {
        directory.put(&document(&format!("agent{number}"), "")).await;
    }
    directory.update().await;
    let before = directory.found(json!({ "q": "agent", "limit": 50 })).await;
    directory.test.inside("search.rebuild", json!({})).await;
    directory.publish("last").await;
    let after = directory.found(json!({ "q": "agent", "limit": 50 })).await;
    assert_eq!(after.len(), before.len() + 1);
    let status = directory.test.inside("search.status", json!({})).await;
    assert_eq!((&status["index"]["documents"], &status["index"]["generation"]), (&json!(21), &json!(21)));
    assert_eq!((&status["index"]["rebuilding"], &status["agents"]), (&json!(false), &json!(21)));
    directory.unpublish("last").await;
    assert_eq!(directory.found(json!({ "q": "agent", "limit": 50 })).await, before);
}

#[tokio::test]
async fn a_restart_goes_on_with_the_index_that_is_there() {
    let directory = TestDirectory::open().await;
    directory.publish("anna").await;
    let directory = directory.restart().await;
    let index = directory.search.index();
    assert_eq!((index.generation(), index.documents()), (1, 1));
}

#[tokio::test]
async fn an_agent_is_found_by_the_tools_and_scopes_it_declares() {
    let directory = TestDirectory::open().await;
    let helper = directory.test.register("helper").await;
    directory.publish("helper").await;
    let about = json!({ "aid": helper.aid });
    assert_eq!(directory.get("search.get_agent", about.clone()).await.get("manifest_version"), None);
    let manifest = |tool: &str, scope: &str| {
        json!({
            "schema_version": "1.0",
            "agent_version": "1.0.0",
            "tools": [{
                "name": tool,
                "description_i18n_key": "agent.cap.tool",
                "input_schema": { "type": "object", "additionalProperties": false },
                "permission_scope": scope
            }],
            "permission_scopes": [{
                "id": scope,
                "label_i18n_key": "agent.scope.label",
                "sensitivity": "high",
                "label_fallback": "A scope",
                "description_fallback": "What it is for"
            }],
            "capability_flags": {}
        })
    };
    let first = json!({ "name": "Helper", "capability_manifest": manifest("zebrawatch", "quagga:observe") });
    let made = directory.test.call_as(helper.caller(), "agent.create", first).await.unwrap();
    directory.update().await;
    let found = async |words: &str| {
        let page = directory.get("search.query", json!({ "q": words })).await;
        page["items"].as_array().unwrap().iter().any(|item| item["aid"] == helper.aid.as_str())
    };
    assert!(found("zebrawatch").await && found("quagga").await);
    let shown = directory.get("search.get_agent", about.clone()).await;
    assert_eq!(
        (&shown["manifest_version"], &shown["manifest_hash"]),
        (&json!(1), &made["agent"]["capability_manifest_hash"])
    );

    let id = &made["agent"]["id"];
    let second = json!({ "id": id, "capability_manifest": manifest("okapiwatch", "quagga:observe") });
    directory.test.call_as(helper.caller(), "agent.update", second).await.unwrap();
    directory.update().await;
    assert!(found("okapiwatch").await && !found("zebrawatch").await);
    assert_eq!(directory.get("search.get_agent", about.clone()).await["manifest_version"], 2);
    directory.test.call_as(helper.caller(), "agent.delete", json!({ "id": id })).await.unwrap();
    directory.update().await;
    assert!(!found("okapiwatch").await);
    assert_eq!(directory.get("search.get_agent", about).await.get("manifest_version"), None);
}

#[tokio::test]
async fn an_index_of_an_older_build_is_built_again_and_answers_are_stale_until_then() {
    let directory = TestDirectory::open().await;
    directory.publish("anna").await;
    let question = json!({ "q": "anna" });
    assert_eq!(directory.get("search.query", question.clone()).await.get("stale"), None);
    // The analysis of the older build has another version.
    let mut changed = 0;
    for process in std::fs::read_dir(directory.test.world.data.join("search-index")).unwrap() {
        let meta = process.unwrap().path().join("a/meta.json");
        let text = std::fs::read_to_string(&meta).unwrap();
        assert!(text.contains(index::TOKENIZER), "{text}");
        std::fs::write(&meta, text.replace(index::TOKENIZER, "words-1")).unwrap();
        changed += 1;
    }
    assert!(changed > 0);
    let directory = directory.restart().await;
    let page = directory.get("search.query", question.clone()).await;
    assert_eq!((&page["items"], &page["stale"]), (&json!([]), &json!(true)));
    directory.search.index_all().await.unwrap();
    let page = directory.get("search.query", question).await;
    assert_eq!((&page["items"][0]["aid"], page.get("stale")), (&json!("anna.aid.pub"), None));
    let directory = directory.restart().await;
    assert_eq!(directory.get("search.query", json!({ "q": "anna" })).await.get("stale"), None);
}
