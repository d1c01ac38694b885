//! `message.*` over the wire: messages from one agent to another, never lost and never doubled.

mod accounts;
mod delivery;
mod encryption;
mod first_server;
mod idempotency;
mod model;
mod reading;
mod restart;
mod store_down;
mod tool_calls;

use serde_json::{Value, json};

use crate::support::agent::ConnectedAgent;
use crate::support::socket::agrees;
use crate::support::{TestServer, split, until};

/// Many messages from few agents. An agent of ours that has nothing to read meanwhile answers no pings either.
pub(crate) const BUSY: &str = "limits.calls_per_second = 1000000\nlimits.ping_interval_ms = 600000";

/// The parameters of `message.send` for a few words.
fn message(to: &str, words: &str) -> Value {
    json!({ "to": to, "payload": { "type": "text", "text": words } })
}

/// The same with an id of the sender's own.
fn named(to: &str, id: &str, words: &str) -> Value {
    json!({ "to": to, "message_id": id, "payload": { "type": "text", "text": words } })
}

/// Calls, and checks the result against its schema.
async fn ask(agent: &ConnectedAgent, method: &str, params: Value) -> Value {
    let result = agent.call(method, &params).await;
    let schema = proto_schemas::find(method).expect("the method has a schema");
    if let Err(flaw) = jsonschema::validate(&proto_schemas::standalone(&schema.doc()["result"]), &result) {
        panic!("the result of {method} breaks its schema: {flaw} in {result}");
    }
    result
}

async fn send(from: &ConnectedAgent, params: Value) -> Value {
    ask(from, "message.send", params).await
}

/// Sends a few words and gives the answer.
async fn say(from: &ConnectedAgent, to: &ConnectedAgent, words: &str) -> Value {
    send(from, message(to.aid(), words)).await
}

/// Waits until the service of messages knows that somebody is connected, or is no longer.
async fn until_online(asker: &ConnectedAgent, aid: &str, online: bool) {
    until("the service of messages knows who is here", || async {
        let answer = ask(asker, "message.query_online", json!({ "aids": [aid] })).await;
        (answer["online"][aid] == online).then_some(())
    })
    .await;
}

async fn refusal(from: &ConnectedAgent, method: &str, params: Value) -> Value {
    let error = from.call_error(method, &params).await;
    assert!(error["data"]["retryable"].is_boolean(), "every error says whether to try again: {error}");
    error
}

/// Everything in the inbox of this device that `message.pull` shows.
async fn pull(agent: &ConnectedAgent) -> Value {
    ask(agent, "message.pull", json!({ "after_seq": 0, "limit": 200 })).await
}

/// Everything in the inbox of this device that `message.v2.pull` shows on its first page.
async fn v2_pull(agent: &ConnectedAgent) -> Value {
    ask(agent, "message.v2.pull", json!({ "after_seq": 0, "limit": 50 })).await
}

fn rows(page: &Value) -> &Vec<Value> {
    page["messages"].as_array().unwrap_or_else(|| panic!("a page has messages: {page}"))
}

fn seqs(page: &Value) -> Vec<i64> {
    rows(page)
        .iter()
        .map(|row| row["seq"].as_i64().unwrap_or_else(|| panic!("a row has a seq: {row}")))
        .collect()
}

/// What the rows of a page say, whichever method showed them.
fn words(page: &Value) -> Vec<String> {
    let said = |row: &Value| {
        let payload = row.get("legacy_v1").map_or(&row["payload"], |legacy| &legacy["payload"]);
        payload["text"].as_str().unwrap_or_else(|| panic!("a row has words: {row}")).to_owned()
    };
    rows(page).iter().map(said).collect()
}

fn ids(page: &Value) -> Vec<String> {
    rows(page).iter().map(|row| row["message_id"].as_str().expect("a row has an id").to_owned()).collect()
}

/// The next event, which must have this name and keep to its schema; gives its parameters.
async fn next(agent: &ConnectedAgent, event: &str) -> Value {
    let frame = agent.next_event().await;
    assert_eq!(frame["method"], event, "{frame}");
    agrees(event, &frame["params"]);
    frame["params"].clone()
}

async fn received(agent: &ConnectedAgent) -> Value {
    next(agent, "event/message.received").await
}

/// Where the server is many processes, a message that was sent before its reader came may still be on its way to it.
fn may_be_late(frame: &Value) -> bool {
    split() && frame["method"] == "event/message.received"
}

/// Events up to a message that `from` sends now: whatever was to come before it has come.
async fn events_until_now(from: &ConnectedAgent, by: &ConnectedAgent) -> Vec<Value> {
    let mark = crate::support::agent::random_hex(8);
    from.call("message.send", &message(by.aid(), &mark)).await;
    let mut events = Vec::new();
    loop {
        let event = by.next_event().await;
        if event["params"]["payload"]["text"] == mark {
            return events;
        }
        events.push(event);
    }
}

/// Two agents that are connected.
async fn two(server: &TestServer) -> (ConnectedAgent, ConnectedAgent) {
    (server.agent("alice").await, server.agent("bobb").await)
}

/// So many messages, each with its number as text.
fn numbered(to: &str, many: usize) -> Vec<Value> {
    (1..=many).map(|n| message(to, &n.to_string())).collect()
}

/// Sends them all at once; every one must be accepted.
async fn flood(from: &ConnectedAgent, messages: &[Value]) -> Vec<Value> {
    let outcomes = from.call_many("message.send", messages).await;
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|error| panic!("refused: {error}"))).collect()
}
