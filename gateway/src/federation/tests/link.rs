//! After hello: order, batches, answers, and what happens when the link breaks.

use super::rig::{Guest, LONG, Rig, THEIRS, ids, relay};
use crate::federation::hello::Limits;
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[tokio::test]
async fn a_call_goes_over_and_its_answer_comes_back() {
    let rig = Rig::new().await;
    let call = rig.send("r1");
    let mut there = rig.link().await;
    let frame = there.next().await.unwrap();
    assert_eq!(frame["method"], "federation.relay");
    assert_eq!(frame["params"]["caller"]["aid"], "alice.ours.example");
    assert_eq!(frame["params"]["hop"], 1);
    let left = frame["params"]["deadline_ms"].as_u64().unwrap();
    assert!(left > 0 && left <= u64::try_from(LONG.as_millis()).unwrap(), "{left}");
    there.answer(&frame).await;
    assert_eq!(call.await.unwrap().unwrap(), "r1");
}

#[tokio::test]
async fn those_who_call_together_share_one_link_and_their_order() {
    let rig = Rig::new().await;
    let calls: Vec<_> = (0..500).map(|n| rig.send(&format!("r{n}"))).collect();
    let mut there = rig.link().await;
    let mut seen = Vec::new();
    while seen.len() < 500 {
        let frame = there.next().await.unwrap();
        let ids = ids(&frame);
        assert!(ids.len() <= 200, "{} in one batch", ids.len());
        seen.extend(ids);
        there.answer(&frame).await;
    }
    assert_eq!(seen, (0..500).map(|n| format!("r{n}")).collect::<Vec<_>>());
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap().unwrap(), format!("r{n}"));
    }
    assert_eq!(rig.there.upgrades.load(Ordering::SeqCst), 1, "one dial for all of them");
}
