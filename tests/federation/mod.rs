//! Two domains: what crosses between them, what does not, and what a hostile peer cannot do.

mod broken_peers;
mod envelopes;
pub mod fake_peer;
pub mod fake_peer_server;
pub mod fake_status;
mod hello;
mod messages;
mod outbox;
mod relay;
mod restart;
mod trust;

use serde_json::{Value, json};

use crate::support::agent::ConnectedAgent;

/// The parameters of `message.send` for a few words, under an id of the sender's own.
pub fn named(to: &str, id: &str, words: &str) -> Value {
    json!({ "to": to, "message_id": id, "payload": { "type": "text", "text": words } })
}

async fn say(from: &ConnectedAgent, to: &str, words: &str) -> Value {
    from.call("message.send", &json!({ "to": to, "payload": { "type": "text", "text": words } })).await
}

/// What is in the inbox of this device, in its order.
pub async fn words(agent: &ConnectedAgent) -> Vec<String> {
    let page = agent.call("message.pull", &json!({ "after_seq": 0, "limit": 200 })).await;
    let rows = page["messages"].as_array().expect("a page has messages");
    rows.iter().map(|row| row["payload"]["text"].as_str().unwrap_or("?").to_owned()).collect()
}

/// The next event of this name; others that come before it are not what the test is about.
async fn next(agent: &ConnectedAgent, event: &str) -> Value {
    loop {
        let frame = agent.next_event().await;
        if frame["method"] == event {
            return frame["params"].clone();
        }
    }
}
