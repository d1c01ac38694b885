//! The directory: what agents publish is found, here and in the domains that copy it.

mod copying;
mod kill;
mod questions;

use serde_json::{Value, json};

use crate::support::agent::{ConnectedAgent, TestTokens};
use crate::support::http::TestResponse;
use crate::support::{TestServer, until};

/// A document that is complete and public; `more` is further front matter.
fn document(aid: &str, name: &str, more: &str) -> String {
    format!(
        "---\naid: \"{aid}\"\nname: \"{name}\"\ntype: \"assistant\"\nversion: \"1.0.0\"\ndescription: \"{name} helps\"\n{more}---\n\n# {name}\n"
    )
}

async fn put(server: &TestServer, aid: &str, tokens: &TestTokens, text: &str) -> TestResponse {
    let request = server.http("PUT", "/agent.md").host(aid).bearer(&tokens.access);
    request.header("Content-Type", "text/markdown; charset=utf-8").body(text).send().await
}

async fn delete(server: &TestServer, aid: &str, tokens: &TestTokens) -> TestResponse {
    server.http("DELETE", "/agent.md").host(aid).bearer(&tokens.access).send().await
}

/// The AIDs on the first page.
async fn found(asker: &ConnectedAgent, query: &Value) -> Vec<String> {
    let page = asker.call("search.query", query).await;
    let items = page["items"].as_array().expect("a page has items");
    items.iter().map(|item| item["aid"].as_str().expect("an AID is text").to_owned()).collect()
}

/// Waits until a query finds just this. Not as fast as it can: searches are limited, too.
async fn until_found(asker: &ConnectedAgent, query: &Value, expected: &[&str]) {
    until(&format!("{query} finds {expected:?}"), || async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        (found(asker, query).await == expected).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_document_without_a_version_is_accepted_and_not_listed() {
    let server = TestServer::shared().await;
    let (alice, asker) = (server.register("alice").await, server.agent("asker").await);
    let tokens = server.login(&alice).await;
    let word = alice.aid.replace(['.', '-'], "");
    let (query, text) = (json!({ "q": word }), document(&alice.aid, &word, ""));
    assert_eq!(put(&server, &alice.aid, &tokens, &text).await.status, 200);
    until_found(&asker, &query, &[&alice.aid]).await;
    let bare = text.replace("version: \"1.0.0\"\n", "");
    let answer = put(&server, &alice.aid, &tokens, &bare).await;
    assert_eq!(answer.status, 200, "older clients leave it out: {}", answer.text());
    until_found(&asker, &query, &[]).await;
    assert_eq!(server.http("GET", "/agent.md").host(&alice.aid).send().await.text(), bare);
}

#[tokio::test]
async fn what_an_agent_publishes_is_found_and_what_it_takes_back_is_not() {
    let server = TestServer::shared().await;
    let (alice, asker) = (server.register("alice").await, server.agent("asker").await);
    let tokens = server.login(&alice).await;
    // Other tests use the same directory: a word of this test's own.
    let word = alice.aid.replace(['.', '-'], "");
    let query = json!({ "q": word });
    let text = document(&alice.aid, &word, &format!("tags: [\"{}\"]\n", &word[..12]));
    assert_eq!(put(&server, &alice.aid, &tokens, &text).await.status, 200);
    until_found(&asker, &query, &[&alice.aid]).await;

    let page = asker.call("search.query", &json!({ "tags": [&word[..12]], "limit": 1 })).await;
    let item = &page["items"][0];
    assert_eq!(
        (&item["aid"], &item["name"], &item["type"]),
        (&json!(alice.aid), &json!(word), &json!("assistant"))
    );
    assert_eq!(item["agent_md_url"], format!("https://{}/agent.md", alice.aid));
    let got = asker.call("search.get_agent", &json!({ "aid": alice.aid })).await;
    assert_eq!(got["agent_md"], json!(text));
    let suggested = asker.call("search.suggest", &json!({ "prefix": alice.aid })).await;
    assert_eq!(suggested["suggestions"][0], json!({ "type": "aid", "value": alice.aid }));

    let unlisted = document(&alice.aid, &word, "visibility: unlisted\n");
    assert_eq!(put(&server, &alice.aid, &tokens, &unlisted).await.status, 200);
    until_found(&asker, &query, &[]).await;
    assert_eq!(
        asker.call("search.get_agent", &json!({ "aid": alice.aid })).await["agent_md"],
        json!(unlisted)
    );
    assert_eq!(delete(&server, &alice.aid, &tokens).await.status, 204);
    until("the document is gone", || async {
        let answer = asker.try_call("search.get_agent", &json!({ "aid": alice.aid })).await;
        answer.is_err_and(|error| error["code"] == -32161).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_revoked_agent_is_not_found_any_more() {
    let server = TestServer::with_two("search", "").await;
    let (alice, asker) = (server.register("alice").await, server.agent("asker").await);
    let tokens = server.login(&alice).await;
    assert_eq!(put(&server, &alice.aid, &tokens, &document(&alice.aid, "alice", "")).await.status, 200);
    let query = json!({ "q": "alice" });
    until_found(&asker, &query, &[&alice.aid]).await;
    let revoked = server.aund(&["certs", "revoke", &alice.aid, "--reason", "keyCompromise"]).await;
    assert!(revoked.status.success(), "{}", crate::support::printed(&revoked.stderr));
    until_found(&asker, &query, &[]).await;
    assert_eq!(server.http("GET", "/agent.md").host(&alice.aid).send().await.status, 404);
}

#[tokio::test]
async fn searches_are_limited_by_agent() {
    let server = TestServer::shared().await;
    let (fast, slow) = (server.agent("fast").await, server.agent("slow").await);
    let query = json!({ "q": "anything" });
    let mut refused = None;
    for _ in 0..200 {
        if let Err(error) = fast.try_call("search.query", &query).await {
            refused = Some(error);
            break;
        }
    }
    let refused = refused.expect("two hundred at once are too many");
    assert_eq!(refused["code"], -32029);
    assert!(refused["data"]["retry_after_ms"].as_u64().is_some_and(|wait| wait > 0), "{refused}");
    slow.call("search.query", &query).await;
    let other = fast.call_error("search.get_agent", &json!({ "aid": "nobody.agents.localhost" })).await;
    assert_eq!(other["code"], -32161, "another class is counted by itself");
}

#[tokio::test]
async fn a_directory_that_is_turned_off_says_so() {
    let server = TestServer::with("search.enabled = false").await;
    let tags = || async { server.get("/capabilities").await.json()["features"].clone() };
    until("the gateway knows", || async {
        let tags = tags().await;
        let advertised = |tag: &str| tags.as_array().expect("a list").contains(&json!(tag));
        (advertised("ns_task") && !advertised("ns_search")).then_some(())
    })
    .await;
    let alice = server.agent("alice").await;
    let namespaces = alice.welcome["capabilities"]["namespaces"].as_array().expect("a list");
    assert!(!namespaces.contains(&json!("search")) && namespaces.contains(&json!("task")), "{namespaces:?}");
    let discovered = alice.call("rpc.discover", &json!({})).await.to_string();
    assert!(!discovered.contains("search.query") && discovered.contains("task.create"));
    for method in [
        "search.ap_info",
        "search.query",
        "search.suggest",
        "search.snapshot",
        "search.changes",
        "search.get_agent",
    ] {
        let refused = alice.call_error(method, &json!({ "q": "anything", "aid": alice.aid() })).await;
        assert_eq!(refused["code"], -32160, "{method}");
    }
}

#[tokio::test]
async fn the_operator_has_the_index_made_anew() {
    let server = TestServer::start().await;
    let (alice, asker) = (server.register("alice").await, server.agent("asker").await);
    let tokens = server.login(&alice).await;
    assert_eq!(put(&server, &alice.aid, &tokens, &document(&alice.aid, "alice", "")).await.status, 200);
    until_found(&asker, &json!({ "q": "alice" }), &[&alice.aid]).await;
    let ended = server.aund_on("search", &["agents", "index", "--rebuild"]).await;
    assert!(ended.status.success(), "{}", crate::support::printed(&ended.stderr));
    assert_eq!(found(&asker, &json!({ "q": "alice" })).await, [alice.aid.as_str()]);
}
