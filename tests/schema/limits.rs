//! `limit`, wherever a schema has it: below 1 it is refused in one way, and `message.*` takes the nearest allowed one, as SDKs expect.

use proto_schemas::{Access, Method};
use serde_json::{Value, json};

use super::{HIGH_LIMITS, publish, register, send};
use crate::support::TestServer;

fn with_limit() -> impl Iterator<Item = &'static Method> {
    proto_schemas::methods().iter().filter(|method| !method.doc()["params"]["properties"]["limit"].is_null())
}

/// An example that succeeds, with another limit; one that has a limit, if there is one.
fn example(method: &Method, limit: &Value) -> Value {
    let doc = method.doc();
    let examples = doc["examples"].as_array().expect("a method has examples").iter();
    let succeeds = examples.filter(|one| one.get("error").is_none());
    let chosen = succeeds.max_by_key(|one| !one["params"]["limit"].is_null());
    let mut example = chosen.expect("an example succeeds").clone();
    example["params"]["limit"] = limit.clone();
    example
}

#[tokio::test]
async fn a_limit_below_one_is_refused_in_one_way_and_message_takes_the_nearest() {
    let server = TestServer::with(HIGH_LIMITS).await;
    let peer = server.agent("peer-of-all").await;
    publish(&server, &peer).await;
    register(&peer).await;
    let mut flaws = Vec::new();
    assert!(
        with_limit().filter(|method| method.access.is_for_agents()).count() >= 8,
        "the schemas were read"
    );
    for method in with_limit().filter(|method| method.access.is_for_agents()) {
        for limit in [json!(0), json!(-1), json!(i64::from(i32::MIN))] {
            let outcome = send(&server, method, &example(method, &limit), &peer).await;
            let as_expected = match &outcome {
                Ok(_) => method.namespace.name == "message",
                Err(error) => method.namespace.name != "message" && is_refusal(method, error),
            };
            if !as_expected {
                flaws.push(format!("{} with limit {limit}: {outcome:?}", method.name));
            }
        }
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
}

/// A question to the directory that is not one has a code of its own.
fn is_refusal(method: &Method, error: &Value) -> bool {
    let codes: &[i64] = if method.namespace.name == "search" { &[-32602, -32162] } else { &[-32602] };
    let sentence = error["message"].as_str().unwrap_or_default();
    codes.contains(&error["code"].as_i64().unwrap_or_default())
        && error["data"]["retryable"] == false
        && sentence.contains("limit must be at least 1")
}

#[test]
fn every_method_that_services_call_has_an_example_of_a_limit_that_is_refused() {
    for method in with_limit().filter(|method| method.access == Access::Internal) {
        let doc = method.doc();
        let mut examples = doc["examples"].as_array().expect("a method has examples").iter();
        let refused = examples.any(|one| one["params"]["limit"] == 0 && one["error"] == "INVALID_PARAMS");
        assert!(refused, "{}", method.name);
    }
}

#[test]
fn schemas_say_that_a_limit_is_at_least_one_where_it_is_refused() {
    for method in with_limit().filter(|method| !["message", "search"].contains(&method.namespace.name)) {
        assert_eq!(method.doc()["params"]["properties"]["limit"]["minimum"], 1, "{}", method.name);
    }
}
