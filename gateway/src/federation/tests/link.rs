//! After hello: order, batches, answers, and what happens when the link breaks.

use super::support::two_domains::{ASKER, LONG, THEIRS, TwoDomains, ids, relay};
use crate::federation::wire::hello::LinkLimits;
use crate::federation::wire::relay::{Relay, RelayKind};
use kernel::RpcError;
use proto_schemas::requests::gateway::OutboundState;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The code and the reason, which programs depend on.
pub fn code_and_reason(error: &RpcError) -> (i32, &str) {
    (error.code(), error.data("reason").and_then(Value::as_str).unwrap_or_default())
}

#[tokio::test]
async fn a_call_is_relayed_and_its_answer_returned() {
    let domains = TwoDomains::new().await;
    let call = domains.send("r1");
    let mut link = domains.accepted_link().await;
    let frame = link.next().await.unwrap();
    assert_eq!(frame["method"], "federation.relay");
    assert_eq!(frame["params"]["caller"]["aid"], "alice.ours.example");
    assert_eq!(frame["params"]["hop"], 1);
    let left = frame["params"]["deadline_ms"].as_u64().unwrap();
    assert!(left > 0 && left <= u64::try_from(LONG.as_millis()).unwrap(), "{left}");
    link.answer(&frame).await;
    assert_eq!(call.await.unwrap().unwrap(), "r1");
    let [peer] = &domains.peers().list()[..] else { panic!("one peer") };
    assert_eq!((peer.outbound, peer.relayed, peer.waiting, peer.in_flight), (OutboundState::Up, 1, 0, 0));
    assert_eq!(peer.waiting_bytes, 0, "a relay that has ended is not counted");
    assert_eq!(peer.url.as_deref(), Some("wss://gateway.theirs.example:20001/aun"));
}

#[tokio::test]
async fn concurrent_calls_share_one_link_and_keep_their_order() {
    let domains = TwoDomains::new().await;
    let calls: Vec<_> = (0..500).map(|n| domains.send(&format!("r{n}"))).collect();
    let mut link = domains.accepted_link().await;
    let mut seen = Vec::new();
    while seen.len() < 500 {
        let frame = link.next().await.unwrap();
        let ids = ids(&frame);
        assert!(ids.len() <= 200, "{} in one batch", ids.len());
        seen.extend(ids);
        link.answer(&frame).await;
    }
    assert_eq!(seen, (0..500).map(|n| format!("r{n}")).collect::<Vec<_>>());
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap().unwrap(), format!("r{n}"));
    }
    assert_eq!(domains.remote.upgrades.load(Ordering::SeqCst), 1, "one dial for all of them");
}

#[tokio::test]
async fn no_more_is_in_flight_than_the_other_gateway_accepts() {
    let domains = TwoDomains::new().await;
    *domains.remote.limits.lock() =
        LinkLimits { max_batch_items: 3, max_inflight: 5, max_frame_bytes: 4096, ..LinkLimits::default() };
    let calls: Vec<_> = (0..12).map(|n| domains.send(&format!("r{n}"))).collect();
    let large = relay("send", "large", json!({ "text": "x".repeat(5000) }));
    let large = domains.relay(large, LONG);
    let mut link = domains.accepted_link().await;
    let (mut open, mut seen) = (Vec::new(), 0);
    while seen < 12 {
        while open.iter().map(|frame| ids(frame).len()).sum::<usize>() < 5 && seen < 12 {
            let frame = link.next().await.unwrap();
            seen += ids(&frame).len();
            assert!(ids(&frame).len() <= 3);
            open.push(frame);
        }
        assert!(open.iter().map(|frame| ids(frame).len()).sum::<usize>() <= 5);
        let first: Value = open.remove(0);
        link.answer(&first).await;
    }
    for frame in &open {
        link.answer(frame).await;
    }
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(code_and_reason(&large.await.unwrap().unwrap_err()), (-32012, "oversize"));
}

#[tokio::test]
async fn an_error_of_the_method_and_a_refusal_of_the_gateway_differ() {
    let domains = TwoDomains::new().await;
    *domains.remote.limits.lock() = LinkLimits { max_batch_items: 1, ..LinkLimits::default() };
    let (method, gateway) = (domains.send("method"), domains.send("gateway"));
    let mut link = domains.accepted_link().await;
    for _ in 0..2 {
        let frame = link.next().await.unwrap();
        let error = json!({ "code": -32004, "message": "no", "data": { "reason": "mine" } });
        let answer = match frame["params"]["relay_id"] == "method" {
            true => {
                json!({ "id": frame["id"], "result": { "relay_id": "method", "ok": false, "error": error } })
            }
            false => json!({ "id": frame["id"], "error": error }),
        };
        link.send(answer).await;
    }
    let error = method.await.unwrap().unwrap_err();
    assert_eq!((code_and_reason(&error), error.to_string().as_str()), ((-32004, "mine"), "no"));
    assert_eq!(error.data("federated"), Some(&json!(true)));
    assert_eq!(error.data("target_issuer"), Some(&json!(THEIRS)));
    let error = gateway.await.unwrap().unwrap_err();
    assert_eq!(code_and_reason(&error), (-32012, "mine"));
    assert_eq!(error.data("remote"), Some(&json!({ "code": -32004, "message": "no" })));
}

#[tokio::test]
async fn a_call_times_out_and_its_late_answer_is_ignored() {
    let domains = TwoDomains::new().await;
    let warm = domains.send("warm");
    let mut link = domains.accepted_link().await;
    let frame = link.next().await.unwrap();
    link.answer(&frame).await;
    warm.await.unwrap().unwrap();

    let slow = domains.relay(relay("send", "slow", json!({})), Duration::from_millis(300));
    let late = link.next().await.unwrap();
    let error = slow.await.unwrap().unwrap_err();
    assert_eq!(code_and_reason(&error), (-32011, "relay_timeout"));
    assert_eq!(error.data("effect"), Some(&json!("unknown")));
    assert_eq!(error.data("relay_id"), Some(&json!("slow")));
    assert_eq!(error.data("retryable"), Some(&json!(true)));
    link.answer(&late).await;
    let next = domains.send("next");
    let frame = link.next().await.unwrap();
    link.answer(&frame).await;
    assert_eq!(next.await.unwrap().unwrap(), "next");
}

#[tokio::test]
async fn only_idempotent_calls_are_sent_again_over_a_new_link() {
    let domains = TwoDomains::new().await;
    let warm = domains.send("warm");
    let mut link = domains.accepted_link().await;
    let frame = link.next().await.unwrap();
    link.answer(&frame).await;
    warm.await.unwrap().unwrap();

    let once = domains.send("once");
    let named = domains.relay(relay("send", "named", json!({ "message_id": "m-1" })), LONG);
    let reads = domains.relay(relay("query_online", "reads", json!({ "aids": [] })), LONG);
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.extend(ids(&link.next().await.unwrap()));
    }
    drop(link);
    let error = once.await.unwrap().unwrap_err();
    assert_eq!(code_and_reason(&error), (-32011, "link_lost"));
    assert_eq!(error.data("effect"), Some(&json!("unknown")));
    let mut link = domains.accepted_link().await;
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let frame = link.next().await.unwrap();
        seen.extend(ids(&frame));
        link.answer(&frame).await;
    }
    assert_eq!(seen, ["named", "reads"], "in their order");
    assert_eq!(named.await.unwrap().unwrap(), "named");
    assert_eq!(reads.await.unwrap().unwrap(), "reads");
}

#[tokio::test]
async fn no_call_is_sent_a_third_time() {
    let domains = TwoDomains::new().await;
    let call = domains.relay(relay("send", "r1", json!({ "message_id": "m-1" })), LONG);
    let mut link = domains.accepted_link().await;
    assert_eq!(ids(&link.next().await.unwrap()), ["r1"]);
    drop(link);
    let mut link = domains.accepted_link().await;
    assert_eq!(ids(&link.next().await.unwrap()), ["r1"]);
    drop(link);
    assert_eq!(code_and_reason(&call.await.unwrap().unwrap_err()), (-32011, "link_lost"));
}

#[tokio::test]
async fn a_malformed_answer_ends_the_link() {
    let domains = TwoDomains::new().await;
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
        let call = domains.send("r1");
        let mut link = domains.accepted_link().await;
        let frame = link.next().await.unwrap();
        link.send_text(&answer(&frame)).await;
        let error = call.await.unwrap().unwrap_err();
        // Only a frame with the id of this call ends it; otherwise the call ends with the link.
        let expected = if matches!(n, 3 | 4) { (-32012, "bad_answer") } else { (-32011, "link_lost") };
        assert_eq!(code_and_reason(&error), expected, "{n}");
        assert!(link.next().await.is_none(), "{n}: the link ended");
        domains.until(|peer| matches!(peer.outbound, OutboundState::Idle | OutboundState::Down)).await;
        domains.peers().mark_reachable(THEIRS);
    }
}

#[tokio::test]
async fn a_second_answer_to_a_frame_ends_the_link() {
    let domains = TwoDomains::new().await;
    let call = domains.send("r1");
    let mut link = domains.accepted_link().await;
    let frame = link.next().await.unwrap();
    link.answer(&frame).await;
    assert_eq!(call.await.unwrap().unwrap(), "r1");
    link.answer(&frame).await;
    assert!(link.next().await.is_none());
}

#[tokio::test]
async fn an_event_is_sent_without_waiting_for_an_outcome() {
    let domains = TwoDomains::new().await;
    let event = Relay {
        kind: RelayKind::Event,
        event: Some("message.ack".to_owned()),
        event_id: Some("e-1".to_owned()),
        ..relay("", "r1", json!({}))
    };
    assert!(domains.peers().send_event(&domains.fed, THEIRS, ASKER, &event));
    let mut link = domains.accepted_link().await;
    let frame = link.next().await.unwrap();
    assert_eq!((&frame["params"]["kind"], &frame["params"]["event_id"]), (&json!("event"), &json!("e-1")));
}

#[tokio::test]
async fn a_queued_call_that_is_dropped_is_not_sent() {
    let domains = TwoDomains::new().await;
    *domains.remote.limits.lock() = LinkLimits { max_inflight: 1, ..LinkLimits::default() };
    let first = domains.send("first");
    let mut link = domains.accepted_link().await;
    let frame = link.next().await.unwrap();
    let (gone, last) = (domains.send("gone"), domains.send("last"));
    gone.abort();
    let _ = gone.await;
    link.answer(&frame).await;
    let frame = link.next().await.unwrap();
    assert_eq!(ids(&frame), ["last"]);
    link.answer(&frame).await;
    first.await.unwrap().unwrap();
    last.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_link_closes_when_the_server_stops_and_all_calls_are_answered() {
    let domains = TwoDomains::new().await;
    let call = domains.send("r1");
    let mut link = domains.accepted_link().await;
    let frame = link.next().await.unwrap();
    domains.fed.stop.cancel();
    link.answer(&frame).await;
    assert_eq!(call.await.unwrap().unwrap(), "r1");
    assert!(link.next().await.is_none());
    domains.fed.tracker.close();
    tokio::time::timeout(LONG, domains.fed.tracker.wait()).await.unwrap();
}

#[tokio::test]
async fn removing_a_root_closes_the_links_it_made_trusted() {
    let domains = TwoDomains::new().await;
    let call = domains.send("r1");
    let mut link = domains.accepted_link().await;
    let frame = link.next().await.unwrap();
    link.answer(&frame).await;
    call.await.unwrap().unwrap();
    domains.our_ca.trusted.lock().pop();
    domains.fed.trust.refresh().await.unwrap();
    assert!(link.next().await.is_none());
}
