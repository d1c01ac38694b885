//! Two domains: what crosses between them, what does not, and what a hostile neighbour cannot do.

mod envelopes;
mod fake;
mod hello;
mod messages;
mod misfortune;
mod neighbour;
mod outbox;
mod relay;
mod restart;
mod trust;

use serde_json::{Value, json};

use crate::world::agent::Agent;

/// The parameters of `message.send` for a few words, under an id of the sender's own.
fn named(to: &str, id: &str, words: &str) -> Value {
    json!({ "to": to, "message_id": id, "payload": { "type": "text", "text": words } })
}

async fn say(from: &Agent, to: &str, words: &str) -> Value {
    from.call("message.send", &json!({ "to": to, "payload": { "type": "text", "text": words } })).await
}

/// What is in the inbox of this device, in its order.
async fn words(agent: &Agent) -> Vec<String> {
    let page = agent.call("message.pull", &json!({ "after_seq": 0, "limit": 200 })).await;
    let rows = page["messages"].as_array().expect("a page has messages");
    rows.iter().map(|row| row["payload"]["text"].as_str().unwrap_or("?").to_owned()).collect()
}

/// The next event of this name; others that come before it are not what the test is about.
async fn next(agent: &Agent, event: &str) -> Value {
    loop {
        let frame = agent.next_event().await;
        if frame["method"] == event {
            return frame["params"].clone();
        }
    }
}
