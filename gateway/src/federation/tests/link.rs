//! After hello: order, batches, answers, and what happens when the link breaks.

use super::rig::{LONG, Rig, THEIRS, ids, relay};
use crate::federation::hello::Limits;
use crate::federation::peer_state::Outbound;
use crate::federation::wire::{Kind, Relay};
use serde_json::{Value, json};
use services::kernel::RpcError;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A code and a reason, which is what programs look at.
pub fn told(error: &RpcError) -> (i32, &str) {
    (error.code(), error.data("reason").and_then(Value::as_str).unwrap_or_default())
}

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
    let [peer] = &rig.peers().list()[..] else { panic!("one peer") };
    assert_eq!((peer.outbound, peer.relayed, peer.waiting, peer.in_flight), (Outbound::Up, 1, 0, 0));
    assert_eq!(peer.waiting_bytes, 0, "what has ended weighs nothing");
    assert_eq!(peer.url.as_deref(), Some("wss://gateway.theirs.example:20001/aun"));
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

#[tokio::test]
async fn no_more_is_under_way_than_the_other_side_takes() {
    let rig = Rig::new().await;
    *rig.there.limits.lock() =
        Limits { max_batch_items: 3, max_inflight: 5, max_frame_bytes: 4096, ..Limits::default() };
    let calls: Vec<_> = (0..12).map(|n| rig.send(&format!("r{n}"))).collect();
    let large = relay("send", "large", json!({ "text": "x".repeat(5000) }));
    let large = rig.relay(large, LONG);
    let mut there = rig.link().await;
    let (mut open, mut seen) = (Vec::new(), 0);
    while seen < 12 {
        while open.iter().map(|frame| ids(frame).len()).sum::<usize>() < 5 && seen < 12 {
            let frame = there.next().await.unwrap();
            seen += ids(&frame).len();
            assert!(ids(&frame).len() <= 3);
            open.push(frame);
        }
        assert!(open.iter().map(|frame| ids(frame).len()).sum::<usize>() <= 5);
        let first: Value = open.remove(0);
        there.answer(&first).await;
    }
    for frame in &open {
        there.answer(frame).await;
    }
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(told(&large.await.unwrap().unwrap_err()), (-32012, "oversize"));
}

#[tokio::test]
async fn errors_of_the_method_and_refusals_of_the_gateway_are_told_apart() {
    let rig = Rig::new().await;
    *rig.there.limits.lock() = Limits { max_batch_items: 1, ..Limits::default() };
    let (method, gateway) = (rig.send("method"), rig.send("gateway"));
    let mut there = rig.link().await;
    for _ in 0..2 {
        let frame = there.next().await.unwrap();
        let error = json!({ "code": -32004, "message": "no", "data": { "reason": "mine" } });
        let answer = match frame["params"]["relay_id"] == "method" {
            true => {
                json!({ "id": frame["id"], "result": { "relay_id": "method", "ok": false, "error": error } })
            }
            false => json!({ "id": frame["id"], "error": error }),
        };
        there.say(answer).await;
    }
    let error = method.await.unwrap().unwrap_err();
    assert_eq!((told(&error), error.to_string().as_str()), ((-32004, "mine"), "no"));
    assert_eq!(error.data("federated"), Some(&json!(true)));
    assert_eq!(error.data("target_issuer"), Some(&json!(THEIRS)));
    let error = gateway.await.unwrap().unwrap_err();
    assert_eq!(told(&error), (-32012, "mine"));
    assert_eq!(error.data("remote"), Some(&json!({ "code": -32004, "message": "no" })));
}

#[tokio::test]
async fn whoever_waits_too_long_is_told_and_a_late_answer_harms_nobody() {
    let rig = Rig::new().await;
    let warm = rig.send("warm");
    let mut there = rig.link().await;
    let frame = there.next().await.unwrap();
    there.answer(&frame).await;
    warm.await.unwrap().unwrap();

    let slow = rig.relay(relay("send", "slow", json!({})), Duration::from_millis(300));
    let late = there.next().await.unwrap();
    let error = slow.await.unwrap().unwrap_err();
    assert_eq!(told(&error), (-32011, "relay_timeout"));
    assert_eq!(error.data("effect"), Some(&json!("unknown")));
    assert_eq!(error.data("relay_id"), Some(&json!("slow")));
    assert_eq!(error.data("retryable"), Some(&json!(true)));
    there.answer(&late).await;
    let next = rig.send("next");
    let frame = there.next().await.unwrap();
    there.answer(&frame).await;
    assert_eq!(next.await.unwrap().unwrap(), "next");
}

#[tokio::test]
async fn what_is_safe_twice_is_sent_again_over_a_new_link_and_nothing_else() {
    let rig = Rig::new().await;
    let warm = rig.send("warm");
    let mut there = rig.link().await;
    let frame = there.next().await.unwrap();
    there.answer(&frame).await;
    warm.await.unwrap().unwrap();

    let once = rig.send("once");
    let named = rig.relay(relay("send", "named", json!({ "message_id": "m-1" })), LONG);
    let reads = rig.relay(relay("query_online", "reads", json!({ "aids": [] })), LONG);
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.extend(ids(&there.next().await.unwrap()));
    }
    drop(there);
    let error = once.await.unwrap().unwrap_err();
    assert_eq!(told(&error), (-32011, "link_lost"));
    assert_eq!(error.data("effect"), Some(&json!("unknown")));
    let mut there = rig.link().await;
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let frame = there.next().await.unwrap();
        seen.extend(ids(&frame));
        there.answer(&frame).await;
    }
    assert_eq!(seen, ["named", "reads"], "in their order");
    assert_eq!(named.await.unwrap().unwrap(), "named");
    assert_eq!(reads.await.unwrap().unwrap(), "reads");
}

#[tokio::test]
async fn nothing_is_sent_a_third_time() {
    let rig = Rig::new().await;
    let call = rig.relay(relay("send", "r1", json!({ "message_id": "m-1" })), LONG);
    let mut there = rig.link().await;
    assert_eq!(ids(&there.next().await.unwrap()), ["r1"]);
    drop(there);
    let mut there = rig.link().await;
    assert_eq!(ids(&there.next().await.unwrap()), ["r1"]);
    drop(there);
    assert_eq!(told(&call.await.unwrap().unwrap_err()), (-32011, "link_lost"));
}

#[tokio::test]
async fn an_answer_that_is_none_ends_the_link() {
    let rig = Rig::new().await;
    let hostile: [fn(&Value) -> String; 7] = [
        |_| "garbage".to_owned(),
        |_| json!({ "id": 999, "result": {} }).to_string(),
        |_| json!({ "id": "1", "result": {} }).to_string(),
        |frame| json!({ "id": frame["id"], "result": { "relay_id": "other", "ok": true } }).to_string(),
        |frame| json!({ "id": frame["id"], "result": { "relay_id": "r1" } }).to_string(),
        |frame| json!({ "id": frame["id"], "method": "message.send", "params": {} }).to_string(),
        |_| json!({ "id": null, "error": { "code": -32700, "message": "?" } }).to_string(),
    ];
    for (n, answer) in hostile.into_iter().enumerate() {
        let call = rig.send("r1");
        let mut there = rig.link().await;
        let frame = there.next().await.unwrap();
        there.say_text(&answer(&frame)).await;
        let error = call.await.unwrap().unwrap_err();
        // Only what claims to be the answer to this call says something about it.
        let expected = if matches!(n, 3 | 4) { (-32012, "bad_answer") } else { (-32011, "link_lost") };
        assert_eq!(told(&error), expected, "{n}");
        assert!(there.next().await.is_none(), "{n}: the link is over");
        rig.until(|peer| matches!(peer.outbound, Outbound::Idle | Outbound::Down)).await;
        rig.peers().is_there(THEIRS);
    }
}

#[tokio::test]
async fn an_answer_that_comes_twice_ends_the_link() {
    let rig = Rig::new().await;
    let call = rig.send("r1");
    let mut there = rig.link().await;
    let frame = there.next().await.unwrap();
    there.answer(&frame).await;
    assert_eq!(call.await.unwrap().unwrap(), "r1");
    there.answer(&frame).await;
    assert!(there.next().await.is_none());
}

#[tokio::test]
async fn nobody_waits_for_an_event() {
    let rig = Rig::new().await;
    let event = Relay {
        kind: Kind::Event,
        event: Some("message.ack".to_owned()),
        event_id: Some("e-1".to_owned()),
        ..relay("", "r1", json!({}))
    };
    assert!(rig.peers().post(&rig.fed, THEIRS, &event));
    let mut there = rig.link().await;
    let frame = there.next().await.unwrap();
    assert_eq!((&frame["params"]["kind"], &frame["params"]["event_id"]), (&json!("event"), &json!("e-1")));
}

#[tokio::test]
async fn whoever_leaves_takes_its_call_along_while_it_waits() {
    let rig = Rig::new().await;
    *rig.there.limits.lock() = Limits { max_inflight: 1, ..Limits::default() };
    let first = rig.send("first");
    let mut there = rig.link().await;
    let frame = there.next().await.unwrap();
    let (gone, last) = (rig.send("gone"), rig.send("last"));
    gone.abort();
    let _ = gone.await;
    there.answer(&frame).await;
    let frame = there.next().await.unwrap();
    assert_eq!(ids(&frame), ["last"]);
    there.answer(&frame).await;
    first.await.unwrap().unwrap();
    last.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_link_ends_with_the_server_once_everybody_is_answered() {
    let rig = Rig::new().await;
    let call = rig.send("r1");
    let mut there = rig.link().await;
    let frame = there.next().await.unwrap();
    rig.fed.stop.cancel();
    there.answer(&frame).await;
    assert_eq!(call.await.unwrap().unwrap(), "r1");
    assert!(there.next().await.is_none());
    rig.fed.tracker.close();
    tokio::time::timeout(LONG, rig.fed.tracker.wait()).await.unwrap();
}

#[tokio::test]
async fn a_root_that_is_taken_away_takes_its_links_along() {
    let rig = Rig::new().await;
    let call = rig.send("r1");
    let mut there = rig.link().await;
    let frame = there.next().await.unwrap();
    there.answer(&frame).await;
    call.await.unwrap().unwrap();
    rig.our_ca.trusted.lock().pop();
    rig.fed.trust.refresh().await.unwrap();
    assert!(there.next().await.is_none());
}
