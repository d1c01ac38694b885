//! Tool calls travel as messages with two members more, and an agent may send sixty of them a minute.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::message::{named, next, pull, received, rows, say, send, seqs, two, v2_pull};
use crate::support::TestServer;
use crate::support::agent::ConnectedAgent;
use crate::support::domain::DomainPair;
use crate::support::envelope::{put_key, sealed};
use crate::support::http::TestResponse;

const MEMBERS: [(&str, &str); 2] = [("msg_subtype", "artifact_tool_call"), ("content_type", "artifact")];

fn marked(mut params: Value) -> Value {
    for (name, value) in MEMBERS {
        params[name] = json!(value);
    }
    params
}

fn tool_call(to: &str, id: &str) -> Value {
    marked(named(to, id, id))
}

/// So many at once, all of which are accepted.
async fn call_tools(from: &ConnectedAgent, to: &str, name: &str, many: usize) {
    let calls: Vec<Value> = (0..many).map(|n| tool_call(to, &format!("{name}-{n}"))).collect();
    for outcome in from.call_many("message.send", &calls).await {
        outcome.unwrap_or_else(|error| panic!("refused: {error}"));
    }
}

fn is_marked(row: &Value) -> bool {
    MEMBERS.iter().all(|(name, value)| row[name] == *value)
}

/// Checks the answer to a tool call that came too soon.
fn is_limit(error: &Value) {
    assert_eq!(error["code"], -32029, "{error}");
    for (name, value) in [
        ("http_status", json!(429)),
        ("limit", json!(60)),
        ("window_ms", json!(60_000)),
        ("scope", json!("agent.tool_call")),
        ("kind", json!("rate_limited")),
        ("retryable", json!(true)),
    ] {
        assert_eq!(error["data"][name], value, "{name} in {error}");
    }
    let wait = error["data"]["retry_after_ms"].as_i64();
    assert!(wait.is_some_and(|wait| (1..=60_000).contains(&wait)), "{error}");
}

async fn post(server: &TestServer, from: &ConnectedAgent, params: &Value) -> TestResponse {
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "message.send", "params": params });
    let request = server.http("POST", "/rpc").header("Content-Type", "application/json");
    request.bearer(&from.tokens.access).body(call.to_string()).send().await
}

#[tokio::test]
async fn the_sixty_first_is_refused_and_everything_else_goes_on() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    call_tools(&alice, bob.aid(), "m", 60).await;
    is_limit(&alice.call_error("message.send", &tool_call(bob.aid(), "more")).await);
    let disguised = json!({
        "to": bob.aid(),
        "payload": { "type": "artifact", "artifact": { "subtype": "tool_call", "call_id": "c-1" } },
    });
    is_limit(&alice.call_error("message.send", &disguised).await);

    let again = send(&alice, tool_call(bob.aid(), "m-7")).await;
    assert_eq!(again["status"], "duplicate");
    assert_eq!(say(&alice, &bob, "and on").await["seq"], 61);
    let mut response = tool_call(bob.aid(), "response");
    response["msg_subtype"] = json!("artifact_response");
    assert_eq!(send(&alice, response).await["seq"], 62);
    call_tools(&bob, alice.aid(), "b", 60).await;
    assert_eq!(seqs(&pull(&bob).await), (1..=62).collect::<Vec<_>>());
}

#[tokio::test]
async fn over_http_it_is_429_with_the_time_to_wait() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    call_tools(&alice, bob.aid(), "m", 59).await;
    let last = post(&server, &alice, &tool_call(bob.aid(), "last")).await;
    assert_eq!((last.status, last.header("retry-after")), (200, None), "{}", last.text());

    let refused = post(&server, &alice, &tool_call(bob.aid(), "more")).await;
    assert_eq!(refused.status, 429);
    let answer = refused.json();
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)));
    is_limit(&answer["error"]);
    let wait = answer["error"]["data"]["retry_after_ms"].as_u64().expect("a number");
    assert_eq!(refused.header("retry-after"), Some(wait.div_ceil(1000).to_string().as_str()));
    let plain = post(&server, &alice, &named(bob.aid(), "plain", "and on")).await;
    assert_eq!((plain.status, &plain.json()["error"]), (200, &Value::Null));
}

/// Where the server is several processes, these are connections to several gateways and messages through two services.
#[tokio::test]
async fn calls_of_one_agent_are_counted_together_wherever_they_come_from() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let mut connections = vec![];
    for device in ["one", "two", "three", "four"] {
        connections.push(server.connect_device(&alice, device, "default").await);
    }
    let calls = connections.iter().enumerate().map(|(nth, connection)| {
        let calls: Vec<Value> = (0..30).map(|n| tool_call(bob.aid(), &format!("m-{nth}-{n}"))).collect();
        async move { connection.call_many("message.send", &calls).await }
    });
    let outcomes: Vec<Result<Value, Value>> = join_all(calls).await.concat();
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 60);
    outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).for_each(is_limit);
    assert_eq!(post(&server, &alice, &tool_call(bob.aid(), "more")).await.status, 429);
    assert_eq!(seqs(&pull(&bob).await), (1..=60).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_encrypted_call_counts_by_its_headers_and_its_members_reach_the_notification() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    put_key(&bob).await;
    send(&alice, marked(sealed(&alice, bob.aid(), "marked"))).await;
    let event = next(&bob, "event/peer.v2.message_received").await;
    let page = v2_pull(&bob).await;
    assert!(is_marked(&event) && is_marked(&rows(&page)[0]), "{event} {page}");
    let mut volatile = marked(sealed(&alice, bob.aid(), "volatile"));
    volatile["ttl"] = json!(60);
    send(&alice, volatile).await;
    let event = next(&bob, "event/peer.v2.message_received").await;
    assert!(is_marked(&event) && is_marked(&event["inline_message"]), "{event}");

    // As an SDK sends it: what is beside the payload says nothing.
    let by_headers = |id: &str| {
        let mut params = sealed(&alice, bob.aid(), id);
        params["payload"]["protected_headers"] = json!({ "msg_subtype": "artifact_tool_call", "_auth": {} });
        params
    };
    for n in 0..58 {
        send(&alice, by_headers(&format!("m-{n}"))).await;
        let event = next(&bob, "event/peer.v2.message_received").await;
        assert!(event.get("msg_subtype").is_none(), "what the sender did not write is not added: {event}");
    }
    is_limit(&alice.call_error("message.send", &by_headers("more")).await);
    assert_eq!(send(&alice, sealed(&alice, bob.aid(), "other")).await["status"], "delivered");
}

#[tokio::test]
async fn a_call_counts_wherever_a_device_would_look_for_its_mark() {
    let server = TestServer::shared().await;
    let bob = server.agent("bobb").await;
    let mark = || json!({ "msg_subtype": "artifact_tool_call" });
    for (name, headers) in [("plain", "headers"), ("protected", "protected_headers")] {
        for in_payload in [false, true] {
            let alice = server.agent(&format!("{name}-{in_payload}")).await;
            let call = |id: usize| {
                let mut params = named(bob.aid(), &format!("call-{id}"), "call");
                let place = if in_payload { &mut params["payload"] } else { &mut params };
                place[headers] = mark();
                params
            };
            let calls: Vec<Value> = (0..150).map(call).collect();
            let outcomes = alice.call_many("message.send", &calls).await;
            let refused: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
            assert_eq!(outcomes.len() - refused.len(), 60, "{headers}, in the payload: {in_payload}");
            refused.into_iter().for_each(is_limit);
        }
    }
}

#[tokio::test]
async fn the_domain_of_the_sender_counts_what_goes_to_another_domain() {
    let pair = DomainPair::shared().await;
    let (alice, carol) = (pair.near.agent("alice").await, pair.far.agent("carol").await);
    call_tools(&alice, carol.aid(), "m", 60).await;
    is_limit(&alice.call_error("message.send", &tool_call(carol.aid(), "more")).await);
    for _ in 0..60 {
        let event = received(&carol).await;
        assert!(is_marked(&event), "{event}");
    }
    let page = pull(&carol).await;
    assert_eq!(rows(&page).iter().filter(|row| is_marked(row)).count(), 60);
    assert_eq!(send(&alice, named(carol.aid(), "plain", "and on")).await["seq"], 61);
}
