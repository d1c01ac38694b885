//! `message.query_online`: who has a long connection now.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::message::{ask, refusal, until_online};
use crate::support::agent::ConnectedAgent;
use crate::support::{TestServer, until};

/// How soon others know who came and who left.
const SOON: Duration = Duration::from_secs(1);

async fn online(asker: &ConnectedAgent, aids: &[&str]) -> Value {
    ask(asker, "message.query_online", json!({ "aids": aids })).await["online"].clone()
}

#[tokio::test]
async fn every_agent_that_is_asked_for_has_an_entry() {
    let server = TestServer::shared().await;
    let (alice, bob) = crate::message::two(&server).await;
    let away = server.register("away1").await;
    until_online(&alice, bob.aid(), true).await;
    let asked =
        [alice.aid(), bob.aid(), away.aid.as_str(), "nobody.agents.localhost", "far1.elsewhere.example"];
    let expected = json!({
        (asked[0]): true, (asked[1]): true, (asked[2]): false, (asked[3]): false, (asked[4]): false,
    });
    assert_eq!(online(&alice, &asked).await, expected);
    assert_eq!(online(&alice, &[]).await, json!({}));
    assert_eq!(online(&alice, &["No Name!", ""]).await, json!({ "No Name!": false, "": false }));
    assert_eq!(online(&alice, &[bob.aid(), bob.aid()]).await, json!({ (bob.aid()): true }));
}

#[tokio::test]
async fn an_agent_is_online_from_its_welcome_on_and_no_longer_once_it_has_left() {
    let server = TestServer::start().await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    let (mut arrivals, mut departures) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let session = server.connect(&bob, |_| ()).await;
        let welcomed = Instant::now();
        server.at_least_sessions(2).await;
        assert_eq!(online(&alice, &[&bob.aid]).await[&bob.aid], true);
        arrivals.push(welcomed.elapsed());
        session.close().await;
        let closed = Instant::now();
        until("bob is offline", || async {
            (online(&alice, &[&bob.aid]).await[&bob.aid] == false).then_some(())
        })
        .await;
        departures.push(closed.elapsed());
    }
    // A crowded machine may be slow now and then, but not each time.
    for took in [arrivals, departures] {
        assert!(took.iter().any(|took| *took < SOON), "everybody knows within {SOON:?}: {took:?}");
    }
}

#[tokio::test]
async fn an_agent_is_online_while_one_of_its_long_connections_is() {
    let server = TestServer::start().await;
    let (alice, bob) = crate::message::two(&server).await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    bob.close().await;
    server.at_most_sessions(2).await;
    assert_eq!(online(&alice, &[bob.aid()]).await[bob.aid()], true);
    phone.close().await;
    server.at_most_sessions(1).await;
    assert_eq!(online(&alice, &[bob.aid()]).await[bob.aid()], false);
}

#[tokio::test]
async fn short_connections_make_nobody_online() {
    let server = TestServer::start().await;
    let alice = server.agent("alice").await;
    let bob = server.register("bobb").await;
    let brief = server.connect(&bob, |hello| hello["options"] = json!({ "kind": "short" })).await;
    server.at_least_sessions(1).await;
    assert_eq!(online(&alice, &[&bob.aid]).await[&bob.aid], false);
    assert_eq!(online(&brief, &[alice.aid()]).await[alice.aid()], true, "but they may ask");
}

#[tokio::test]
async fn a_hundred_can_be_asked_for_and_not_one_more() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let names: Vec<String> = (0..101).map(|n| format!("agent{n:03}.agents.localhost")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(online(&alice, &names[..100]).await.as_object().unwrap().len(), 100);
    for params in [json!({ "aids": names }), json!({}), json!({ "aids": names[0] }), json!({ "aids": [7] })] {
        assert_eq!(refusal(&alice, "message.query_online", params).await["code"], -32602);
    }
}
