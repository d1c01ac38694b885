//! What is stored for a while shares budgets: a flood costs its sender what it sent, and nobody else.

use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::agent::{ConnectedAgent, text};

/// Many calls of few agents, and the smallest budgets.
const SMALL_BUDGETS: &str = "limits.calls_per_second = 1000000\nlimits.ping_interval_ms = 600000\n\
                             message.queue_bytes = 2097152\nmessage.queue_total_bytes = 2097152\n\
                             message.ttl_total_bytes = 2097152\nmessage.thought_total_bytes = 2097152";
const BUSY: &str = "limits.calls_per_second = 1000000\nlimits.ping_interval_ms = 600000";
/// So many messages of this size are more than twice a budget.
const FLOOD: usize = 80;
const PAD_BYTES: usize = 60_000;
/// The default of `message.queue_messages`, and what an inbox holds of messages with a ttl.
const MOST_WAITING: usize = 200;

/// The two kinds of messages that are stored for a while.
fn kinds() -> [(&'static str, Value); 2] {
    [("delivery_mode", json!("queue")), ("ttl", json!(600))]
}

fn message(to: &ConnectedAgent, words: &str, pad: usize, (name, value): &(&str, Value)) -> Value {
    let payload = json!({ "type": "text", "text": words, "pad": "x".repeat(pad) });
    json!({ "to": to.aid(), "payload": payload, *name: value })
}

async fn pull(agent: &ConnectedAgent, after_seq: i64) -> (Vec<String>, Value) {
    let page = agent.call("message.pull", &json!({ "after_seq": after_seq, "limit": MOST_WAITING })).await;
    let rows = page["messages"].as_array().expect("a page has messages");
    (rows.iter().map(|row| text(&row["payload"]["text"])).collect(), page)
}

async fn think(from: &ConnectedAgent, to: &ConnectedAgent, about: usize, pad: usize) {
    let context = json!({ "type": "run", "id": format!("run-{about}") });
    let params = json!({ "to": to.aid(), "context": context, "payload": { "pad": "x".repeat(pad) } });
    from.call("message.thought.put", &params).await;
}

async fn knows_thought(of: &ConnectedAgent, reader: &ConnectedAgent, about: usize) -> bool {
    let context = json!({ "type": "run", "id": format!("run-{about}") });
    let asked = json!({ "sender_aid": of.aid(), "context": context });
    reader.call("message.thought.get", &asked).await["found"] == true
}

/// All messages of a kind shared their memory, and the oldest of all went first: accounts that sent each other more than fits made
/// the acknowledged messages of two others disappear before they were read.
#[tokio::test]
async fn a_flood_between_others_leaves_the_messages_of_two_agents() {
    let server = TestServer::with_two("message", SMALL_BUDGETS).await;
    let (alice, bob) = (server.agent("alice").await, server.agent("bobby").await);
    let others = [server.agent("mallory").await, server.agent("marvin").await];
    for kind in &kinds() {
        alice.call("message.send", &message(&bob, kind.0, 10, kind)).await;
    }
    think(&alice, &bob, 0, 10).await;

    for number in 0..FLOOD {
        let (from, to) = (&others[number % 2], &others[(number + 1) % 2]);
        for kind in &kinds() {
            from.call("message.send", &message(to, "flood", PAD_BYTES, kind)).await;
        }
        think(from, to, number, PAD_BYTES).await;
    }
    let (left, _) = pull(&bob, 0).await;
    assert_eq!(left, ["delivery_mode", "ttl"], "what alice sent to bob");
    assert!(knows_thought(&alice, &bob, 0).await, "what alice thinks for bob");
    assert!(!knows_thought(&others[0], &others[1], 0).await, "whoever sent most loses its oldest");
    assert!(
        knows_thought(&others[(FLOOD - 1) % 2], &others[FLOOD % 2], FLOOD - 1).await,
        "and not its newest"
    );
}

/// Two hundred messages wait for one agent, and the oldest went for the newest: one sender decided that nobody else's are read.
#[tokio::test]
async fn a_flood_to_one_agent_leaves_what_another_sent_it() {
    let server = TestServer::with_two("message", BUSY).await;
    let (alice, bob) = (server.agent("alice").await, server.agent("bobby").await);
    let mallory = server.agent("mallory").await;
    let mut after = 0;
    for (kind, dropped) in kinds().iter().zip(["ephemeral_dropped_count", "volatile_dropped_count"]) {
        alice.call("message.send", &message(&bob, kind.0, 10, kind)).await;
        for _ in 0..20 {
            send_fifty(&mallory, &message(&bob, "flood", 10, kind)).await;
        }
        let (left, page) = pull(&bob, after).await;
        let found = left.iter().filter(|words| *words == kind.0).count();
        assert_eq!((found, left.len()), (1, MOST_WAITING), "what alice sent with {}", kind.0);
        assert_eq!(page[dropped], 1001 - MOST_WAITING);
        after = page["latest_seq"].as_i64().expect("a seq");
    }
}

async fn send_fifty(from: &ConnectedAgent, params: &Value) {
    let call = |id: usize| json!({ "jsonrpc": "2.0", "id": id, "method": "message.send", "params": params });
    from.send(&json!((0..50).map(call).collect::<Vec<_>>()).to_string()).await;
    let answers = from.next().await;
    let refused = answers.as_array().expect("a batch").iter().find(|answer| answer["result"].is_null());
    assert_eq!(refused, None, "every message is accepted");
}
