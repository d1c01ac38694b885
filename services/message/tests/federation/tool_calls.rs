//! Tool calls to agents of another domain: the domain of the sender counts them, before they are sent.

use super::outbox::{reconnect, unreachable_peer, worker};
use super::send::split;
use super::*;
use crate::tests::tool_calls::wait_after;
use futures_util::future::join_all;

fn tool_call(to: &str, id: &str) -> Value {
    json!({
        "to": to, "message_id": id, "payload": { "text": id }, "msg_subtype": "artifact_tool_call",
        "content_type": "artifact",
    })
}

impl Domain {
    async fn call_tool(&self, alice: &TestAgent, to: &str, id: &str) -> Result<Value, RpcError> {
        self.call((alice, "a"), "message.send", tool_call(to, id)).await
    }

    /// So many tool calls, all of which are accepted.
    async fn call_tools(&self, alice: &TestAgent, to: &str, name: &str, many: usize) {
        for n in 0..many {
            let sent = self.call_tool(alice, to, &format!("{name}{n}")).await.unwrap();
            assert!(sent["status"] == "sent" || sent["status"] == "queued", "{name}{n}: {sent}");
        }
    }
}

#[tokio::test]
async fn the_senders_domain_limits_and_the_receiving_one_does_not() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    here.call_tools(&alice, &dave.aid, "m", 60).await;
    assert_eq!(wait_after(here.call_tool(&alice, &dave.aid, "more").await), 60_000);
    assert_eq!(here.gateway.methods_asked().len(), 60, "what is refused does not cross");

    for row in there.rows((&dave, "d")).await {
        assert_eq!(
            (&row["msg_subtype"], &row["content_type"]),
            (&json!("artifact_tool_call"), &json!("artifact"))
        );
    }
    let params = |n: usize| tool_call(&dave.aid, &format!("n{n}"));
    for n in 0..61 {
        there.call_as(foreign("erin.aid.com", "e"), "message.send", params(n)).await.unwrap();
    }
    there.call_tools(&dave, &alice.aid, "back", 60).await;
    here.world.clock.advance_ms(60_000);
    assert_eq!(here.call_tool(&alice, &dave.aid, "more").await.unwrap()["status"], "sent");
}

#[tokio::test]
async fn what_the_other_domain_refuses_or_has_already_is_not_counted() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    here.call_tool(&alice, &dave.aid, "known").await.unwrap();
    here.world.clock.advance_ms(60_000);
    for n in 0..3 {
        let refused = here.call_tool(&alice, "nobody.aid.net", &format!("refused{n}")).await;
        assert_eq!(code(refused), codes::NOT_FOUND.code);
        assert_eq!(here.call_tool(&alice, &dave.aid, "known").await.unwrap()["status"], "duplicate");
    }
    let peer = here.gateway.peer.lock().take();
    let unreachable = here.call_tool(&alice, &dave.aid, "unreachable").await;
    assert_eq!(code(unreachable), codes::FEDERATION_UNREACHABLE.code);
    *here.gateway.peer.lock() = peer;

    here.call_tools(&alice, &dave.aid, "m", 60).await;
    assert_eq!(wait_after(here.call_tool(&alice, &dave.aid, "more").await), 60_000);
    assert_eq!(
        here.call_tool(&alice, &dave.aid, "m7").await.unwrap()["status"],
        "duplicate",
        "also when it is full"
    );
}

#[tokio::test]
async fn what_may_have_arrived_counts_and_counts_once() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    *here.gateway.loses_answers.lock() = true;
    for n in 0..60 {
        let lost = here.call_tool(&alice, &dave.aid, &format!("m{n}")).await;
        assert_eq!(code(lost), codes::FEDERATION_TIMEOUT.code);
    }
    *here.gateway.loses_answers.lock() = false;
    assert_eq!(wait_after(here.call_tool(&alice, &dave.aid, "more").await), 60_000);
    assert_eq!(here.call_tool(&alice, &dave.aid, "m7").await.unwrap()["status"], "duplicate");
    assert_eq!(there.rows((&dave, "d")).await.len(), 60);
}

#[tokio::test]
async fn a_tool_call_keeps_its_position_among_other_messages() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    let send = async |n: usize| {
        let mut params = tool_call(&dave.aid, &n.to_string());
        if !n.is_multiple_of(3) {
            params["msg_subtype"] = json!("artifact_response");
        }
        here.call((&alice, "a"), "message.send", params).await.unwrap();
    };
    join_all((0..20).map(send)).await;
    let expected: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    assert_eq!(texts(&there.rows((&dave, "d")).await), expected);
}

#[tokio::test]
async fn what_waits_for_its_domain_is_counted_when_it_is_accepted() {
    let (here, there, alice, dave) = unreachable_peer().await;
    here.call_tools(&alice, &dave.aid, "m", 60).await;
    assert_eq!(wait_after(here.call_tool(&alice, &dave.aid, "more").await), 60_000);
    here.world.clock.advance_ms(60_000);
    reconnect(&here, &there);
    worker(&here).await.deliver_to("aid.net").await;
    let rows = there.rows((&dave, "d")).await;
    assert_eq!(rows.len(), 60);
    assert!(rows.iter().all(|row| row["msg_subtype"] == "artifact_tool_call"), "{rows:?}");
    here.call_tools(&alice, &dave.aid, "n", 60).await;
    assert_eq!(wait_after(here.call_tool(&alice, &dave.aid, "more").await), 60_000);
}

#[tokio::test]
async fn the_senders_own_copies_are_no_further_calls() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    here.join(&alice, "tablet").await;
    let encrypted = |id: &str| {
        let mut params = split(&dave.aid, id);
        params["msg_subtype"] = json!("artifact_tool_call");
        params
    };
    for n in 0..60 {
        here.call((&alice, "a"), "message.send", encrypted(&format!("m{n}"))).await.unwrap();
    }
    assert_eq!(wait_after(here.call((&alice, "a"), "message.send", encrypted("more")).await), 60_000);
    for (domain, who) in [(&here, (&alice, "tablet")), (&there, (&dave, "d"))] {
        let rows = domain.rows(who).await;
        assert_eq!(rows.len(), 60);
        assert!(rows.iter().all(|row| row["msg_subtype"] == "artifact_tool_call"), "{rows:?}");
    }
}
