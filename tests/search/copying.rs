//! Two domains that copy each other's directory.

use serde_json::json;

use super::{delete, document, put, until_found};
use crate::support::agent::TestIdentity;
use crate::support::domain::DomainPair;
use crate::support::{TestServer, printed, until};

/// Both domains copy from the other one.
async fn pair() -> DomainPair {
    DomainPair::with("search.peers = [\"far.test\"]", "search.peers = [\"near.test\"]").await
}

async fn published(server: &TestServer, name: &str) -> TestIdentity {
    let agent = server.register(name).await;
    let tokens = server.login(&agent).await;
    let answer = put(server, &agent.aid, &tokens, &document(&agent.aid, name, "")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    agent
}

#[tokio::test]
async fn agents_of_one_domain_are_found_in_the_other_and_never_come_back() {
    let pair = pair().await;
    let (near, far) = (published(&pair.near, "nearby").await, published(&pair.far, "farout").await);
    let (here, there) = (pair.near.agent("asker").await, pair.far.agent("asker").await);
    until_found(&here, &json!({ "q": "farout" }), &[&far.aid]).await;
    until_found(&there, &json!({ "q": "nearby" }), &[&near.aid]).await;
    let page = here.call("search.query", &json!({ "q": "farout" })).await;
    assert_eq!(page["items"][0]["source_ap"], "search.far.test");
    let info = here.call("search.ap_info", &json!({})).await;
    assert_eq!(info["agent_count"], 2);

    let tokens = pair.far.login(&far).await;
    let changed = document(&far.aid, "farout", "tags: [\"moved\"]\n");
    assert_eq!(put(&pair.far, &far.aid, &tokens, &changed).await.status, 200);
    until_found(&here, &json!({ "tags": ["moved"] }), &[&far.aid]).await;
    assert_eq!(here.call("search.get_agent", &json!({ "aid": far.aid })).await["agent_md"], json!(changed));
    assert_eq!(delete(&pair.far, &far.aid, &tokens).await.status, 204);
    until_found(&here, &json!({ "q": "farout" }), &[]).await;

    let shown = pair.near.aund_on_gateway(&["peers", "--json"]).await;
    let peers: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("it is JSON");
    let far = peers["peers"].as_array().expect("a list").iter().find(|peer| peer["issuer"] == "far.test");
    assert_eq!(
        far.expect("the peer is shown")["directory"]["state"],
        "waiting",
        "{}",
        printed(&shown.stdout)
    );
}

#[tokio::test]
async fn a_peer_that_was_away_is_copied_from_where_the_copy_was() {
    let mut pair = pair().await;
    let first = published(&pair.far, "first").await;
    let asker = pair.near.agent("asker").await;
    until_found(&asker, &json!({ "q": "first" }), &[&first.aid]).await;
    pair.near.kill();
    let second = published(&pair.far, "second").await;
    let tokens = pair.far.login(&first).await;
    assert_eq!(delete(&pair.far, &first.aid, &tokens).await.status, 204);
    pair.near.start_again();
    let asker = pair.near.reconnect(&asker).await;
    until_found(&asker, &json!({ "q": "second" }), &[&second.aid]).await;
    until_found(&asker, &json!({ "q": "first" }), &[]).await;

    pair.far.kill();
    until("the copy notices", || async {
        let shown = pair.near.aund_on_gateway(&["peers", "--json"]).await;
        printed(&shown.stdout).contains("\"failed\"").then_some(())
    })
    .await;
    pair.far.start_again();
    let third = published(&pair.far, "third").await;
    until_found(&asker, &json!({ "q": "third" }), &[&third.aid]).await;
}
