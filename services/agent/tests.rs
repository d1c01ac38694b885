//! Publishing: signatures, and concurrent changes.

use crate::kernel::http::HOST_AGENT;
use crate::kernel::{Caller, RpcError};
use crate::testing::{DAY_MS, TestAgent, TestWorld};
use axum::http::Request;
use certs::Certificate;
use serde_json::{Value, json};

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
    test.call_as(Caller::service("gateway"), "agent.put_agent_md", params).await
}

fn status(error: &RpcError) -> u64 {
    error.data("http_status").and_then(Value::as_u64).unwrap_or_default()
}

#[tokio::test]
async fn what_was_published_is_read_back_byte_for_byte() {
    let test = TestWorld::open().await;
    let alice = test.register("alice").await;
    let content = signed(&test, &alice, &alice.aid, "# Grüße 你好");
    let published = put(&test, &alice.aid, &content, json!({ "if_none_match": "*" })).await.unwrap();
    let got = test.inside("agent.get_agent_md", json!({ "aid": alice.aid, "multi": true })).await;
    assert_eq!((&got["content"], &got["etag"]), (&json!(content), &published["etag"]));
    assert_eq!(test.inside("agent.get_agent_md", json!({ "aid": "nobody.aid.pub" })).await["found"], false);
}

#[tokio::test]
async fn of_two_concurrent_changes_the_second_is_refused() {
    let test = TestWorld::open().await;
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
    let test = TestWorld::open().await;
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    let good = signed(&test, &alice, &alice.aid, "text");
    let cases = [
        (good.replace("text", "tex2"), 422),
        (signed(&test, &carol, &alice.aid, "text"), 422),
        (signed(&test, &carol, &carol.aid, "text"), 403),
        (good.replace("version: \"1.0.0\"", "version: one"), 422),
        ("x".repeat(5000), 413),
    ];
    for (content, expected) in cases {
        let error = put(&test, &alice.aid, &content, json!({})).await.unwrap_err();
        assert_eq!(status(&error), expected, "{error}");
    }
    assert_eq!(test.inside("agent.get_agent_md", json!({ "aid": alice.aid })).await["found"], false);
}

#[tokio::test]
async fn a_signature_counts_only_from_when_its_certificate_could_sign() {
    let test = TestWorld::open().await;
    let alice = test.register("alice").await;
    let early = signed(&test, &alice, &alice.aid, "text");
    let serial = Certificate::from_pem(&alice.cert).unwrap().serial().to_owned();
    test.world.clock.advance_ms(DAY_MS);
    test.inside("ca.renew_cert", json!({ "aid": alice.aid, "old_serial": serial })).await;
    put(&test, &alice.aid, &early, json!({})).await.expect("signed before the certificate was replaced");
    test.world.clock.advance_ms(1000);
    let late = signed(&test, &alice, &alice.aid, "text");
    assert_eq!(status(&put(&test, &alice.aid, &late, json!({})).await.unwrap_err()), 422);
    test.inside("ca.revoke_cert", json!({ "aid": alice.aid })).await;
    assert_eq!(status(&put(&test, &alice.aid, &early, json!({})).await.unwrap_err()), 422);
}

#[tokio::test]
async fn over_http_everybody_reads_and_the_agent_itself_writes() {
    let test = TestWorld::open().await;
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    let content = signed(&test, &alice, &alice.aid, "text");
    let request = |method: &str, host: &str| {
        Request::builder().method(method).uri("/agent.md").header(HOST_AGENT, host)
    };
    let put =
        async |caller: Caller| test.http_with("agent", &caller, request("PUT", &alice.aid), &content).await;
    let refused = put(Caller::Unauthenticated).await;
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, "Bearer"));
    assert_eq!(put(carol.by_token()).await.status, 403);
    let published = put(alice.by_token()).await;
    assert_eq!(
        (published.status, published.header("etag")),
        (200, published.json()["etag"].as_str().unwrap())
    );

    let nobody = &Caller::Unauthenticated;
    let multi = || request("GET", &alice.aid).header("x-aun-signature-format", "multi-v1");
    let read = test.http("agent", nobody, multi()).await;
    assert_eq!((read.status, read.text()), (200, &*content));
    assert_eq!(read.header("content-type"), "text/markdown; charset=utf-8");
    let again = test.http("agent", nobody, multi().header("if-none-match", read.header("etag"))).await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(test.http("agent", nobody, request("GET", &carol.aid)).await.status, 404);
    let gateway = Request::builder().uri("/agent.md");
    assert_eq!(test.http("agent", nobody, gateway).await.status, 404, "no agent's host");
    let other = test.http("agent", nobody, request("DELETE", &alice.aid)).await;
    assert_eq!((other.status, other.header("allow")), (405, "GET,HEAD,PUT"));
}
