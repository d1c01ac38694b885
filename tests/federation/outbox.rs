//! Where the domain's policy says so, a message to a domain that is down waits, and is delivered once.

use serde_json::{Value, json};

use super::{named, words};
use crate::support::agent::ConnectedAgent;
use crate::support::domain::DomainPair;
use crate::support::{printed, until};

const KEEP: &str = "message.peer_retention_seconds = 3600\nlimits.calls_per_second = 100000";

async fn all_of(agent: &ConnectedAgent) -> Vec<String> {
    let (mut seen, mut after) = (Vec::new(), 0);
    loop {
        let page = agent.call("message.pull", &json!({ "after_seq": after, "limit": 200 })).await;
        let rows = page["messages"].as_array().expect("a page has messages");
        let Some(last) = rows.last() else { return seen };
        after = last["seq"].as_i64().expect("a row has a seq");
        seen.extend(rows.iter().map(|row| row["payload"]["text"].as_str().unwrap_or("?").to_owned()));
    }
}

fn messages(to: &str, numbers: std::ops::Range<usize>) -> Vec<Value> {
    numbers.map(|n| named(to, &format!("m-{n}"), &n.to_string())).collect()
}

#[tokio::test]
async fn what_was_kept_for_a_domain_is_delivered_in_order_and_once() {
    let mut pair = DomainPair::with(KEEP, "").await;
    let (alice, carol) = (pair.near.agent("alice").await, pair.far.agent("carol").await);
    let sent = alice.call("message.send", &named(carol.aid(), "m-0", "0")).await;
    assert_ne!(sent["status"], "queued", "a domain that is there gets it at once: {sent}");
    pair.far.kill();

    // Whatever was on its way when the link broke may have arrived: its sender is told so, and sends it again.
    let first = named(carol.aid(), "m-1", "1");
    let kept = || async {
        alice.try_call("message.send", &first).await.ok().filter(|sent| sent["status"] == "queued")
    };
    let kept = until("a message is kept", kept).await;
    assert_eq!((&kept["cross_domain"], &kept["target_issuer"]), (&json!(true), &json!("far.test")), "{kept}");
    for outcome in alice.call_many("message.send", &messages(carol.aid(), 2..60)).await {
        let kept = outcome.unwrap_or_else(|error| panic!("refused: {error}"));
        assert_eq!(kept["status"], "queued", "the reply says which of the two happened: {kept}");
    }
    let again = alice.call("message.send", &named(carol.aid(), "m-1", "1")).await;
    assert_eq!(again["message_id"], "m-1", "sending again is fine: {again}");

    let shown = pair.near.aund_on_gateway(&["peers"]).await;
    let shown = printed(&shown.stdout);
    let line = shown.lines().find(|line| line.starts_with("far.test")).unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(line.split_whitespace().nth(4), Some("59"), "the operator sees what is kept: {shown}");

    // The sending server dies with everything it holds in memory.
    pair.near.kill();
    pair.near.start_again();
    let alice = pair.near.reconnect(&alice).await;
    pair.far.start_again();
    let carol = pair.far.reconnect(&carol).await;
    let expected: Vec<String> = (0..60).map(|n| n.to_string()).collect();
    let there = || async { (all_of(&carol).await.len() >= expected.len()).then_some(()) };
    until("everything arrives", there).await;
    alice.call("message.send", &named(carol.aid(), "m-60", "60")).await;
    let last = || async { all_of(&carol).await.contains(&"60".to_owned()).then_some(()) };
    until("what comes later arrives, too", last).await;
    assert_eq!(all_of(&carol).await[..60], expected[..], "in order, each once");
    assert_eq!(all_of(&carol).await.len(), 61);
}

#[tokio::test]
async fn a_kept_message_that_is_refused_over_there_holds_up_nobody() {
    let mut pair = DomainPair::with(KEEP, "").await;
    let (alice, carol) = (pair.near.agent("alice").await, pair.far.agent("carol").await);
    pair.far.kill();
    for (to, id, said) in
        [(format!("nobody1.{}", pair.far.issuer), "m-1", "lost"), (carol.aid().to_owned(), "m-2", "found")]
    {
        let message = named(&to, id, said);
        let kept = || async { alice.try_call("message.send", &message).await.ok() };
        assert_eq!(until("a message is kept", kept).await["status"], "queued");
    }
    pair.far.start_again();
    let carol = pair.far.reconnect(&carol).await;
    let there = || async { (words(&carol).await == ["found"]).then_some(()) };
    until("the message behind the bad one arrives", there).await;
}
