//! Publishing: what is refused, signatures, and concurrent changes.

mod agent_removal;
mod changes;
mod envelopes;
mod http;
mod peers;
mod public;
mod registry;
mod relations;
mod sending;
mod support;
mod taken_over;
mod versions;
mod webhook_messages;

use certs::Certificate;
use kernel::{Caller, RpcError};
use proto_schemas::Code;
use serde_json::{Value, json};
use testing::{DAY_MS, TestAgent, TestWorld};

fn signed(test: &TestWorld, agent: &TestAgent, about: &str, text: &str) -> String {
    let payload =
        format!("---\naid: \"{about}\"\nname: \"a\"\ntype: \"agent\"\nversion: \"1.0.0\"\n---\n\n{text}\n");
    let fingerprint = Certificate::from_pem(&agent.cert).unwrap().fingerprint().to_owned();
    let (timestamp, signature) = (test.world.clock.now_seconds(), agent.sign(&payload));
    format!(
        "{payload}<!-- AUN-SIGNATURE\ncert_fingerprint: {fingerprint}\ntimestamp: {timestamp}\nsignature: {signature}\n-->"
    )
}

async fn put(test: &TestWorld, aid: &str, content: &str, condition: Value) -> Result<Value, RpcError> {
    let mut params = json!({ "aid": aid, "content": content });
    params.as_object_mut().unwrap().extend(condition.as_object().cloned().unwrap_or_default());
    test.call_as(Caller::Operator, "agent.put_agent_md", params).await
}

/// The status that an error has over HTTP.
fn status(error: &RpcError) -> u16 {
    error.data("kind").and_then(Value::as_str).and_then(Code::http_status).unwrap_or_default()
}

#[tokio::test]
async fn what_was_published_is_read_back_byte_for_byte() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let content = signed(&test, &alice, &alice.aid, "# Grüße 你好");
    let published = put(&test, &alice.aid, &content, json!({ "if_none_match": "*" })).await.unwrap();
    let got = test.inside("agent.get_agent_md", json!({ "aid": alice.aid, "multi": true })).await;
    assert_eq!((&got["content"], &got["etag"]), (&json!(content), &published["etag"]));
    assert_eq!(test.inside("agent.get_agent_md", json!({ "aid": "nobody.aid.pub" })).await["found"], false);
}

#[tokio::test]
async fn of_two_concurrent_changes_the_second_is_refused() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let version = |text: &str| signed(&test, &alice, &alice.aid, text);
    let first = put(&test, &alice.aid, &version("one"), json!({ "if_none_match": "*" })).await.unwrap();
    let create = put(&test, &alice.aid, &version("two"), json!({ "if_none_match": "*" })).await.unwrap_err();
    assert_eq!(status(&create), 412);
    let second = put(&test, &alice.aid, &version("two"), json!({ "if_match": first["etag"] })).await.unwrap();
    let late =
        put(&test, &alice.aid, &version("three"), json!({ "if_match": first["etag"] })).await.unwrap_err();
    assert_eq!(status(&late), 412);
    assert_eq!(
        test.inside("agent.get_agent_md", json!({ "aid": alice.aid, "multi": true })).await["etag"],
        second["etag"]
    );
    put(&test, &alice.aid, &version("four"), json!({})).await.expect("older clients set no condition");
}

#[tokio::test]
async fn a_document_whose_signature_does_not_verify_is_refused() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    let good = signed(&test, &alice, &alice.aid, "text");
    let cases = [
        (good.replace("text", "tex2"), 400),
        (signed(&test, &carol, &alice.aid, "text"), 400),
        (signed(&test, &carol, &carol.aid, "text"), 403),
        (good.replace("version: \"1.0.0\"", "version: one two"), 400),
        (good.replace("version:", "tags: [!!str x]\nversion:"), 400),
        (format!("{good}\0"), 400),
        (signed(&test, &alice, &alice.aid, "password: hunter2222"), 422),
        ("x".repeat(5000), 413),
    ];
    for (content, expected) in cases {
        let error = put(&test, &alice.aid, &content, json!({})).await.unwrap_err();
        assert_eq!(status(&error), expected, "{error}");
    }
    assert_eq!(test.inside("agent.get_agent_md", json!({ "aid": alice.aid })).await["found"], false);
}

#[tokio::test]
async fn a_signed_document_is_replaced_by_a_signed_one_only() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let unsigned = |text: &str| format!("---\naid: {}\nname: a\ntype: human\n---\n\n{text}\n", alice.aid);
    put(&test, &alice.aid, &unsigned("one"), json!({})).await.expect("older clients sign nothing");
    put(&test, &alice.aid, &unsigned("two"), json!({})).await.expect("and change it");
    let signed_one = signed(&test, &alice, &alice.aid, "three");
    put(&test, &alice.aid, &signed_one, json!({})).await.unwrap();
    let refused = put(&test, &alice.aid, &unsigned("four"), json!({})).await.unwrap_err();
    assert_eq!((status(&refused), refused.code()), (400, -32003), "{refused}");
    let got = test.inside("agent.get_agent_md", json!({ "aid": alice.aid, "multi": true })).await;
    assert_eq!(got["content"], signed_one, "nothing was changed");
    test.inside("agent.delete_agent_md", json!({ "aid": alice.aid })).await;
    put(&test, &alice.aid, &unsigned("five"), json!({})).await.expect("there is none any more");
}

#[tokio::test]
async fn a_signature_counts_only_from_when_its_certificate_could_sign() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let early = signed(&test, &alice, &alice.aid, "text");
    let serial = Certificate::from_pem(&alice.cert).unwrap().serial().to_owned();
    test.world.clock.advance_ms(DAY_MS);
    test.inside("ca.renew_cert", json!({ "aid": alice.aid, "old_serial": serial })).await;
    put(&test, &alice.aid, &early, json!({})).await.expect("signed before the certificate was replaced");
    test.world.clock.advance_ms(1000);
    let late = signed(&test, &alice, &alice.aid, "text");
    assert_eq!(status(&put(&test, &alice.aid, &late, json!({})).await.unwrap_err()), 400);
    test.inside("ca.revoke_cert", json!({ "aid": alice.aid })).await;
    assert_eq!(status(&put(&test, &alice.aid, &early, json!({})).await.unwrap_err()), 400);
}

#[tokio::test]
async fn the_name_in_a_document_may_be_written_in_any_case() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let content = signed(&test, &alice, &alice.aid.to_uppercase(), "text");
    let published = put(&test, &alice.aid, &content, json!({})).await.unwrap();
    assert_eq!(published["aid"], alice.aid);
}

#[tokio::test]
async fn a_document_with_a_secret_is_refused_with_a_word_of_its_own() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let content = signed(&test, &alice, &alice.aid, "-----BEGIN EC PRIVATE KEY-----");
    let error = put(&test, &alice.aid, &content, json!({})).await.unwrap_err();
    assert_eq!((status(&error), error.data("kind")), (422, Some(&json!("secret_detected"))));
    assert!(error.to_string().starts_with("line 8 has what looks like a private key"), "{error}");
}

#[tokio::test]
async fn a_version_that_not_every_client_reads_is_stored_with_a_warning() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let document = |version: &str| {
        format!("---\naid: {}\nname: a\ntype: agent\nversion: {version}\n---\n# a\n", alice.aid)
    };
    for version in ["1.10", "v1.0.0", "1.0.0-rc1", "2026-11-01"] {
        let published = put(&test, &alice.aid, &document(version), json!({})).await.unwrap();
        let [warning] = published["warnings"].as_array().unwrap().as_slice() else { panic!("{published}") };
        assert_eq!(warning["path"], "/version");
        let message = warning["message"].as_str().unwrap();
        assert!(message.contains(&format!("{version:?}")) && message.contains("fastaun 0.5.25"), "{message}");
        let got = test.inside("agent.get_agent_md", json!({ "aid": alice.aid, "multi": true })).await;
        assert_eq!(got["content"], document(version), "as it was written");
    }
    let published = put(&test, &alice.aid, &document("1.10.0"), json!({})).await.unwrap();
    assert!(published.get("warnings").is_none(), "{published}");
}

#[tokio::test]
async fn the_same_document_again_is_no_change() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let content = signed(&test, &alice, &alice.aid, "text");
    let first = put(&test, &alice.aid, &content, json!({})).await.unwrap();
    let told = || test.events.lock().iter().filter(|event| event.method == "agent.changed").count();
    let (before, head) = (told(), test.inside("agent.changes", json!({ "after": 0 })).await["head"].clone());
    test.world.clock.advance_ms(DAY_MS);
    assert_eq!(put(&test, &alice.aid, &content, json!({ "if_match": "*" })).await.unwrap(), first);
    assert_eq!((told(), &test.inside("agent.changes", json!({ "after": 0 })).await["head"]), (before, &head));
    let refused = put(&test, &alice.aid, &content, json!({ "if_none_match": "*" })).await.unwrap_err();
    assert_eq!(status(&refused), 412);
}

#[tokio::test]
async fn a_condition_may_name_several_versions_or_any() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let version = |text: &str| signed(&test, &alice, &alice.aid, text);
    let any = json!({ "if_match": "*" });
    assert_eq!(status(&put(&test, &alice.aid, &version("one"), any.clone()).await.unwrap_err()), 412);
    let first = put(&test, &alice.aid, &version("one"), json!({})).await.unwrap();
    put(&test, &alice.aid, &version("two"), any).await.unwrap();
    let late = json!({ "if_match": first["etag"] });
    assert_eq!(status(&put(&test, &alice.aid, &version("three"), late.clone()).await.unwrap_err()), 412);
    let second = test.inside("agent.get_agent_md", json!({ "aid": alice.aid, "multi": true })).await;
    let several = format!("{}, {}", first["etag"].as_str().unwrap(), second["etag"].as_str().unwrap());
    put(&test, &alice.aid, &version("three"), json!({ "if_match": several })).await.unwrap();
}
