//! Trusted roots: added and removed while servers run, before their first start, and while they are stopped.

use serde_json::{Value, json};

use super::{named, say, words};
use crate::support::domain::{DomainPair, TestDomain};
use crate::support::{TestServer, printed, until};

async fn listed(server: &TestServer) -> Value {
    let output = server.aund(&["certs", "trust", "list", "--json"]).await;
    assert!(output.status.success(), "{}", printed(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the list is JSON")
}

/// What the list says of a root.
async fn status(server: &TestServer, fingerprint: &str) -> Option<String> {
    let list = listed(server).await;
    let mut roots = list["root_cas"].as_array().expect("a list of roots").iter();
    let root = roots.find(|root| root["fingerprint_sha256"] == fingerprint)?;
    root["status"].as_str().map(str::to_owned)
}

fn digits(server: &TestServer) -> String {
    server.root().fingerprint().trim_start_matches("sha256:").to_owned()
}

#[tokio::test]
async fn a_root_is_added_listed_and_removed_whether_the_server_runs_or_not() {
    let other = TestServer::start().await;
    let (root, file) = (digits(&other), other.data().join("pki/root.crt"));
    let file = file.to_str().expect("a path is text");
    let mut server = TestServer::start().await;
    for running in [true, false] {
        let unsaid = server.aund(&["certs", "trust", "add", file]).await;
        assert_eq!(unsaid.status.code(), Some(2), "what it is for has to be said: {unsaid:?}");
        let add = ["certs", "trust", "add", file, "--domain", other.issuer.as_str()];
        let added = server.aund(&add).await;
        assert!(printed(&added.stdout).starts_with("trusted: AUN Root CA"), "{added:?}");
        assert!(printed(&added.stdout).contains(&root), "{added:?}");
        assert_eq!(status(&server, &root).await.as_deref(), Some("active"));
        let again = server.aund(&add).await;
        assert!(printed(&again.stdout).starts_with("already trusted"), "{again:?}");
        let shown = printed(&server.aund(&["certs", "trust", "list"]).await.stdout);
        assert_eq!(shown.lines().filter(|line| line.starts_with("active")).count(), 2, "{shown}");
        assert!(shown.lines().any(|line| line.ends_with(&format!(", for {}", other.issuer))), "{shown}");

        let removed = server.aund(&["certs", "trust", "remove", &root]).await;
        assert!(printed(&removed.stdout).starts_with("no longer trusted"), "{removed:?}");
        assert_eq!(status(&server, &root).await.as_deref(), Some("retired"));
        for (which, word) in
            [(digits(&server), "cannot be removed from its own list"), ("0".repeat(64), "trusted root")]
        {
            let refused = server.aund(&["certs", "trust", "remove", &which]).await;
            assert_eq!(refused.status.code(), Some(1));
            assert!(printed(&refused.stderr).contains(word), "{refused:?}");
        }
        let issuer = other.data().join("pki/ca/issuer.crt");
        let issuer = issuer.to_str().expect("text");
        let refused = server.aund(&["certs", "trust", "add", issuer, "--domain", "other.test"]).await;
        assert!(printed(&refused.stderr).contains("another one signed it"), "{refused:?}");
        if running {
            server.terminate();
            server.ended().await;
        }
    }
}

#[tokio::test]
async fn a_root_that_was_added_before_the_first_start_is_in_the_first_list_that_counts() {
    let other = TestServer::start().await;
    let (root, file) = (digits(&other), other.data().join("pki/root.crt"));
    let mut server = TestServer::prepared("");
    let add = ["certs", "trust", "add", file.to_str().expect("text"), "--domain", "*.east.test,east.test"];
    let added = server.aund(&add).await;
    assert!(printed(&added.stdout).contains("the first start will trust it"), "{added:?}");
    assert_eq!(status(&server, &root).await.as_deref(), Some("waiting"));
    let removed = server.aund(&["certs", "trust", "remove", &root]).await;
    assert!(removed.status.success() && status(&server, &root).await.is_none(), "{removed:?}");
    server.aund(&add).await;
    server.start_again();
    assert_eq!(status(&server, &root).await.as_deref(), Some("active"));
    let list = listed(&server).await;
    let mut roots = list["root_cas"].as_array().expect("a list of roots").iter();
    let entry = roots.find(|entry| entry["fingerprint_sha256"] == root).expect("it is in the list");
    assert_eq!(entry["domains"], json!(["*.east.test", "east.test"]));
}

#[tokio::test]
async fn without_a_trusted_root_nothing_crosses_and_with_one_it_does_without_a_restart() {
    let pair = DomainPair::without_trust("", "").await;
    let (alice, carol) = (pair.near.agent("alice").await, pair.far.agent("carol").await);
    let error = alice.call_error("message.send", &named(carol.aid(), "m-1", "hello")).await;
    let told = (&error["code"], &error["data"]["reason"], &error["data"]["retryable"]);
    assert_eq!(told, (&json!(-32010), &json!("domain_untrusted"), &json!(false)), "{error}");
    let add = r#"far.test is not trusted: add its root with "aund certs trust add … --domain far.test""#;
    assert_eq!(error["message"], add, "what an operator has to do: {error}");

    pair.near.trusts(&pair.far).await;
    let refused = || async {
        let error = alice.try_call("message.send", &named(carol.aid(), "m-1", "hello")).await.err()?;
        (error["data"]["phase"] == "hello").then_some(error)
    };
    let error = until("the far side refuses our hello", refused).await;
    let told = (&error["code"], &error["data"]["reason"], &error["data"]["retryable"]);
    assert_eq!(told, (&json!(-32012), &json!("hello_refused"), &json!(false)), "{error}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("its operator has to")), "{error}");
    assert_eq!(words(&carol).await, Vec::<String>::new());

    pair.far.trusts(&pair.near).await;
    let sent = || async { alice.try_call("message.send", &named(carol.aid(), "m-1", "hello")).await.ok() };
    until("both trust each other", sent).await;
    assert_eq!(words(&carol).await, ["hello"]);
}

#[tokio::test]
async fn after_a_root_was_removed_no_new_link_is_made() {
    let mut pair = DomainPair::start().await;
    let (alice, carol) = (pair.near.agent("alice").await, pair.far.agent("carol").await);
    say(&alice, carol.aid(), "before").await;
    let output = pair.far.aund(&["certs", "trust", "remove", &digits(&pair.near)]).await;
    assert!(output.status.success(), "{output:?}");
    pair.near.restart().await;
    pair.near.knows_its_gateway().await;
    let alice = pair.near.reconnect(&alice).await;
    let error = alice.call_error("message.send", &named(carol.aid(), "m-2", "after")).await;
    assert_eq!((&error["code"], &error["data"]["phase"]), (&json!(-32012), &json!("hello")), "{error}");
    assert_eq!(words(&carol).await, ["before"]);
}

#[tokio::test]
async fn a_domain_on_the_block_list_is_refused_in_both_directions() {
    let pair = DomainPair::with("federation.block = [\"far.test\"]", "").await;
    let (alice, carol) = (pair.near.agent("alice").await, pair.far.agent("carol").await);
    let out = alice.call_error("message.send", &named(carol.aid(), "m-1", "hello")).await;
    assert_eq!((&out["code"], &out["data"]["reason"]), (&json!(-32012), &json!("issuer_blocked")), "{out}");
    assert_eq!(out["data"]["retryable"], false, "{out}");
    let into = carol.call_error("message.send", &named(alice.aid(), "m-1", "hello")).await;
    assert_eq!((&into["code"], &into["data"]["retryable"]), (&json!(-32012), &json!(false)), "{into}");
    assert!(words(&alice).await.is_empty() && words(&carol).await.is_empty());
}

#[tokio::test]
async fn an_operator_sees_the_way_to_a_domain_and_where_it_breaks() {
    let mut pair = DomainPair::start().await;
    let (alice, carol) = (pair.near.agent("alice").await, pair.far.agent("carol").await);
    let nobody = pair.near.aund_on_gateway(&["peers"]).await;
    assert!(printed(&nobody.stdout).contains("no peer"), "{nobody:?}");
    say(&alice, carol.aid(), "hello").await;
    // Only one gateway of a domain has the link to another.
    let shown = pair.near.aund_on_gateways(&["peers"]).await;
    let shown: String = shown.iter().map(|output| printed(&output.stdout)).collect();
    assert!(shown.lines().any(|line| line.starts_with("far.test") && line.contains(" up ")), "{shown}");
    let rows = pair.near.aund_on_gateways(&["peers", "--json"]).await;
    let mut rows =
        rows.iter().map(|output| -> Value { serde_json::from_slice(&output.stdout).expect("JSON") });
    assert!(
        rows.any(|rows| rows["peers"][0]["issuer"] == "far.test" && rows["peers"][0]["outbound"] == "up")
    );

    let good = pair.near.aund_on_gateway(&["peers", "test", "far.test"]).await;
    assert!(good.status.success(), "{good:?}");
    for step in ["discover", "connect", "hello", "ping"] {
        let text = printed(&good.stdout);
        assert!(text.lines().any(|line| line.starts_with(step) && line.contains(" ok ")), "{step} in {text}");
    }
    let bad = pair.near.aund_on_gateway(&["peers", "test", "nowhere.invalid"]).await;
    assert_eq!(bad.status.code(), Some(1), "{bad:?}");
    assert!(printed(&bad.stdout).contains("discover  FAILED"), "{bad:?}");
    pair.far.kill();
    let gone = pair.near.aund_on_gateway(&["peers", "test", "far.test"]).await;
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");

    let stopped = TestDomain::new("stopped").prepared("");
    let nobody = stopped.aund_on_gateway(&["peers"]).await;
    assert!(printed(&nobody.stderr).contains("no server runs on"), "{nobody:?}");
}
