//! The gateway of the other domain restarts while agents write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::named;
use crate::support::agent::ConnectedAgent;
use crate::support::domain::DomainPair;
use crate::support::until;

/// So many messages have arrived before the gateway is killed, and so many more after it is back.
const MESSAGES: usize = 20;

/// The ids of everything in the inbox of this device, in its order.
async fn inbox(agent: &ConnectedAgent) -> Vec<String> {
    let (mut ids, mut after) = (Vec::new(), 0);
    loop {
        let page = agent.call("message.pull", &json!({ "after_seq": after, "limit": 200 })).await;
        let rows = page["messages"].as_array().expect("a page has messages");
        let id = |row: &serde_json::Value| row["message_id"].as_str().expect("a row has an id").to_owned();
        ids.extend(rows.iter().map(id));
        match rows.last().filter(|_| page["has_more"] == true) {
            Some(last) => after = last["seq"].as_i64().expect("a row has a seq"),
            None => return ids,
        }
    }
}

async fn until_arrived(agent: &ConnectedAgent, many: usize) {
    until("messages arrive", || async { (inbox(agent).await.len() >= many).then_some(()) }).await;
}

#[tokio::test]
async fn while_the_other_gateway_restarts_our_agents_stay_and_nothing_acknowledged_is_lost() {
    let mut pair = DomainPair::with("limits.calls_per_second = 100000", "").await;
    let (alice, carol) = (pair.near.agent("alice").await, pair.far.agent("carol").await);
    let alice = Arc::new(alice);
    let stop = Arc::new(AtomicBool::new(false));
    let (writer, stopped, to) = (alice.clone(), stop.clone(), carol.aid().to_owned());
    let load = async move {
        let (mut acknowledged, mut n) = (Vec::new(), 0);
        while !stopped.load(Ordering::Relaxed) {
            let id = format!("m-{n}");
            if writer.try_call("message.send", &named(&to, &id, &id)).await.is_ok() {
                acknowledged.push(id);
            }
            n += 1;
        }
        acknowledged
    };
    let test = async {
        until_arrived(&carol, MESSAGES).await;
        let before = inbox(&carol).await.len();
        pair.far.kill();
        pair.far.start_again();
        let carol = pair.far.reconnect(&carol).await;
        until_arrived(&carol, before + MESSAGES).await;
        stop.store(true, Ordering::Relaxed);
        carol
    };
    let (acknowledged, carol) = tokio::join!(load, test);
    assert!(alice.is_open().await, "our own agent's connection was never touched");
    assert!(acknowledged.len() > MESSAGES, "messages were acknowledged before and after");

    // Each was sent after the one before it was answered, so all are there by now, in this order.
    let ids = inbox(&carol).await;
    let mut once = ids.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "nothing came twice");
    let arrived: Vec<&String> = ids.iter().filter(|id| acknowledged.contains(id)).collect();
    assert_eq!(
        arrived,
        acknowledged.iter().collect::<Vec<_>>(),
        "what was acknowledged is there, in its order"
    );
}
