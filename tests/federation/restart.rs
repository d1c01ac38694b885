//! The gateway of the other domain restarts while agents write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::named;
use crate::support::domain::DomainPair;
use crate::support::until;

/// Far more than a server that is busy with other tests needs to come back.
const MESSAGES: usize = 20;

#[tokio::test]
async fn while_the_other_gateway_restarts_our_agents_stay_and_delivery_resumes() {
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
        pair.far.kill();
        pair.far.start_again();
        let carol = pair.far.reconnect(&carol).await;
        let enough = || async { (super::words(&carol).await.len() >= MESSAGES).then_some(()) };
        until("messages arrive again", enough).await;
        stop.store(true, Ordering::Relaxed);
        carol
    };
    let (acknowledged, carol) = tokio::join!(load, test);
    assert!(alice.is_open().await, "our own agent's connection was never touched");

    let page = carol.call("message.pull", &serde_json::json!({ "after_seq": 0, "limit": 200 })).await;
    let ids: Vec<&str> =
        page["messages"].as_array().unwrap().iter().filter_map(|row| row["message_id"].as_str()).collect();
    let mut once = ids.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "nothing came twice");
    if page["has_more"] != true {
        for id in acknowledged {
            assert!(ids.contains(&id.as_str()), "{id} was acknowledged and is not there");
        }
    }
}
