//! A client against a gateway that misbehaves on command: it loses connections, repeats events, leaves some out and floods.

mod fake_gateway;

use std::time::Duration;

use client::{Client, Error};
use fake_gateway::FakeGateway;
use serde_json::json;
use tokio::time::timeout;

/// How long anything may take on a machine that is busy.
const WAIT: Duration = Duration::from_secs(20);

async fn connected(gateway: &FakeGateway) -> (Client, tempfile::TempDir) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let builder =
        Client::builder("alice.agents.localhost").gateway(gateway.url()).home(home.path()).device("laptop");
    builder.register().await.expect("the gateway registers everybody");
    (builder.connect().await.expect("the gateway connects everybody"), home)
}

#[tokio::test]
async fn each_message_comes_once_although_events_are_repeated_and_left_out() {
    let gateway = FakeGateway::start().await;
    let (client, _home) = connected(&gateway).await;
    gateway.store(1);
    let mut messages = client.messages();
    let mut next = async || timeout(WAIT, messages.next()).await.expect("a message").expect("a client").seq();
    assert_eq!(next().await, Some(1), "what was there before");

    for (stored, published) in [(2, 2), (3, 2), (4, 4), (4, 1), (5, 5), (7, 7)] {
        gateway.store(stored);
        gateway.publish(published);
    }
    for seq in 2..=7 {
        assert_eq!(next().await, Some(seq));
    }
    gateway.store(9);
    gateway.drop_connection();
    for seq in 8..=9 {
        assert_eq!(next().await, Some(seq), "what was stored while the client was away");
    }
    messages.acknowledge().await.expect("what was handed out can be acknowledged");
    assert_eq!(gateway.acknowledged(), 9);
}

#[tokio::test]
async fn a_reader_that_falls_behind_costs_the_connection_and_the_client_comes_back() {
    let gateway = FakeGateway::start().await;
    let (client, _home) = connected(&gateway).await;
    let (mut events, mut messages) = (client.events(), client.messages());
    gateway.store(1);
    gateway.flood(10_001);
    gateway.connections(2).await;
    let missed = timeout(WAIT, events.next()).await.expect("a word about it");
    assert!(matches!(missed, Err(Error::TooManyEvents)), "{missed:?}");

    gateway.store(2);
    gateway.publish(2);
    let event = timeout(WAIT, events.next()).await.expect("an event").expect("the client lives");
    assert_eq!(event.params["seq"], 2, "events go on");
    for seq in 1..=2 {
        let message = timeout(WAIT, messages.next()).await.expect("a message").expect("the client lives");
        assert_eq!(message.seq(), Some(seq), "no message was lost");
    }
}

#[tokio::test]
async fn a_call_waits_for_the_next_connection_and_a_call_under_way_fails() {
    let gateway = FakeGateway::start().await;
    let (client, _home) = connected(&gateway).await;
    let mut events = client.events();
    let nothing = json!({});
    let (lost, ()) = tokio::join!(client.call("test.silence", &nothing), async {
        gateway.called("test.silence").await;
        gateway.drop_connection();
    });
    assert!(lost.as_ref().is_err_and(Error::is_disconnect), "nobody knows whether it took effect: {lost:?}");
    let waited = timeout(WAIT, client.call("meta.ping", &nothing)).await.expect("an answer");
    assert_eq!(waited.expect("it waited for the connection")["pong"], true);
    gateway.publish(1);
    assert!(timeout(WAIT, events.next()).await.expect("an event").is_ok());
}
