//! Questions that are refused: the code says that it is the question, and the sentence which parameter it is.

use super::*;

#[tokio::test]
async fn every_bad_parameter_of_a_question_is_named_under_one_code() {
    let directory = TestDirectory::open().await;
    directory.publish("anna").await;
    let tags: Vec<String> = (0..11).map(|tag| format!("t{tag}")).collect();
    for (method, params, named) in [
        ("query", json!({}), "q and tags must not both be empty"),
        ("query", json!({ "q": "", "tags": [] }), "q and tags must not both be empty"),
        ("query", json!({ "q": "   " }), "q and tags must not both be empty"),
        ("query", json!({ "q": 7 }), "q must be"),
        ("query", json!({ "q": ["anna"] }), "q must be"),
        ("query", json!({ "q": "x".repeat(257) }), "q must have at most 256 characters"),
        ("query", json!({ "q": "x".repeat(10_000) }), "q must have at most 256 characters"),
        ("query", json!({ "tags": "x" }), "tags must be"),
        ("query", json!({ "tags": ["a", 7] }), "tags[1] must be a string"),
        ("query", json!({ "tags": tags }), "tags must have at most 10 entries"),
        ("query", json!({ "tags": ["a", "x".repeat(33)] }), "tags[1] must have at most 32 characters"),
        ("query", json!({ "q": "anna", "limit": 0 }), "limit must be at least 1"),
        ("query", json!({ "q": "anna", "limit": -1 }), "limit must be at least 1"),
        ("query", json!({ "q": "anna", "limit": "x" }), "limit must be"),
        ("query", json!({ "q": "anna", "limit": 1.5 }), "limit must be"),
        ("query", json!({ "q": "anna", "type": 7 }), "type must be"),
        ("query", json!({ "q": "anna", "issuer": [] }), "issuer must be"),
        ("query", json!({ "q": "anna", "signed": "yes" }), "signed must be"),
        ("query", json!({ "q": "anna", "explain": 1 }), "explain must be"),
        ("query", json!({ "q": "anna", "cursor": 7 }), "cursor must be"),
        (
            "query",
            json!({ "q": "anna", "cursor": "cur_abc123" }),
            "cursor must be a next_cursor of this method",
        ),
        ("query", json!({ "q": "anna", "cursor": "" }), "cursor must be a next_cursor of this method"),
        ("suggest", json!({ "prefix": 7 }), "prefix must be"),
        ("suggest", json!({ "prefix": "x".repeat(65) }), "prefix must have at most 64 characters"),
        ("suggest", json!({ "limit": 0 }), "limit must be at least 1"),
        ("suggest", json!({ "limit": "x" }), "limit must be"),
    ] {
        let refused = directory.call(&format!("search.{method}"), params.clone()).await.unwrap_err();
        assert_eq!(refused.code(), -32162, "{params}: {refused}");
        assert!(refused.to_string().starts_with(named), "{params}: {refused}");
    }
    directory.get("search.query", json!({ "q": "x".repeat(256), "limit": 1_000_000 })).await;
    directory.get("search.query", json!({ "q": null, "tags": ["a"], "limit": null })).await;
    // Copying has the code of the protocol.
    assert_eq!(code(directory.call("search.snapshot", json!({ "limit": "x" })).await), -32602);
    assert_eq!(code(directory.call("search.changes", json!({ "cursor": 7 })).await), -32602);
}

#[tokio::test]
async fn an_empty_directory_was_last_changed_when_it_was_made() {
    let directory = TestDirectory::open().await;
    let updated_at = async || text(&directory.get("search.ap_info", json!({})).await["updated_at"]);
    let made = updated_at().await;
    assert_eq!(&made[..13], "2026-11-15T00", "the clock of the test");
    directory.pass_days(1);
    let again = SearchService::open(&directory.test.world, &Settings::default()).await.unwrap();
    assert_eq!(again.store.state().await.unwrap().changed_at, kernel::from_iso(&made).unwrap());
    assert_eq!(updated_at().await, made, "it is made once");
    directory.publish("anna").await;
    assert_eq!(&updated_at().await[..10], "2026-11-16");
}
