//! Peers that are broken or hostile when we dial them: our agents are told, and nothing else happens.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::fake_peer_server::{FakePeerServer, Fault};
use super::named;
use crate::support::TestServer;
use crate::support::agent::ConnectedAgent;
use crate::support::domain::TestDomain;

/// A real domain that trusts and finds a fake one.
async fn beside(fault: Fault) -> (TestServer, ConnectedAgent, FakePeerServer) {
    let fake = FakePeerServer::start("fake", fault).await;
    let domain = TestDomain::new("near");
    let mut near = domain.prepared(&format!("{}{}", domain.resolve(), fake.domain.resolve()));
    near.start_again();
    near.knows_its_gateway().await;
    near.trusts_root(fake.root().pem(), &fake.domain.issuer).await;
    let alice = near.agent("alice").await;
    (near, alice, fake)
}

async fn refused(fault: Fault) -> Value {
    let (near, alice, fake) = beside(fault).await;
    let error = alice.call_error("message.send", &named("carol.fake.test", "m-1", "hello")).await;
    assert_eq!(error["data"]["target_issuer"], "fake.test", "{error}");
    assert_eq!(fake.relays.load(Ordering::Relaxed), 0, "nothing was sent to it");
    let online =
        alice.call("message.query_online", &json!({ "aids": ["carol.fake.test", alice.aid()] })).await;
    assert_eq!(online["online"], json!({ "carol.fake.test": false, (alice.aid()): true }), "{online}");
    assert!(alice.is_open().await, "our own agent does not notice");
    drop(near);
    error
}

#[tokio::test]
async fn a_well_known_that_leads_elsewhere_or_nowhere_is_not_followed() {
    for fault in [Fault::Elsewhere, Fault::Redirects, Fault::Endless, Fault::Nonsense] {
        let error = refused(fault).await;
        assert_eq!(
            (&error["code"], &error["data"]["phase"]),
            (&json!(-32010), &json!("discover")),
            "{fault:?} {error}"
        );
    }
}

#[tokio::test]
async fn a_peer_that_cannot_answer_hello_gets_nothing() {
    for fault in [Fault::Mute, Fault::Forged, Fault::Imposter] {
        let error = refused(fault).await;
        assert_eq!(
            (&error["code"], &error["data"]["phase"]),
            (&json!(-32010), &json!("hello")),
            "{fault:?} {error}"
        );
    }
}

#[tokio::test]
async fn a_fake_peer_without_a_fault_is_accepted() {
    let (_near, alice, fake) = beside(Fault::None).await;
    let sent = alice.call("message.send", &named("carol.fake.test", "m-1", "hello")).await;
    assert_eq!((&sent["seq"], &sent["target_issuer"]), (&json!(1), &json!("fake.test")), "{sent}");
    assert_eq!(fake.relays.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_peer_that_never_answers_costs_its_caller_a_timeout_and_nobody_else_anything() {
    let (near, alice, fake) = beside(Fault::Silent).await;
    let dave = near.agent("dave").await;
    let message = named("carol.fake.test", "m-1", "hello");
    let waiting = alice.call_error("message.send", &message);
    let local = async {
        dave.call("message.send", &named(alice.aid(), "m-2", "meanwhile")).await;
    };
    let (error, ()) = tokio::join!(waiting, local);
    assert_eq!(error["code"], -32011, "{error}");
    assert_eq!(
        (&error["data"]["effect"], &error["data"]["retryable"]),
        (&json!("unknown"), &json!(true)),
        "{error}"
    );
    assert!(fake.relays.load(Ordering::Relaxed) >= 1);
    assert!(alice.is_open().await);
}

#[tokio::test]
async fn answers_nobody_asked_for_are_nobody_s_answers() {
    for fault in [Fault::Twice, Fault::UnaskedAnswers] {
        let (_near, alice, _fake) = beside(fault).await;
        for n in 1..=5 {
            let id = format!("m-{n}");
            // A peer that does so may lose its link for it, but nobody ever gets an answer that is not theirs.
            match alice.try_call("message.send", &named("carol.fake.test", &id, "hello")).await {
                Ok(sent) => assert!(sent["message_id"] == id && sent["seq"] != 666, "{fault:?} {sent}"),
                // It was on its way when the link ended, or came in the pause after that.
                Err(error) => {
                    let lost = error["code"] == -32011 && error["data"]["reason"] == "link_lost";
                    assert!(lost || error["code"] == -32010, "{fault:?} {error}");
                }
            }
        }
        assert!(alice.is_open().await, "our own agent does not notice");
    }
}

#[tokio::test]
async fn a_malformed_answer_is_an_error_and_never_a_success() {
    for fault in [Fault::Swapped, Fault::Garbage] {
        let (_near, alice, _fake) = beside(fault).await;
        let error = alice.call_error("message.send", &named("carol.fake.test", "m-1", "hello")).await;
        assert_eq!(
            (&error["code"], &error["data"]["reason"]),
            (&json!(-32012), &json!("bad_answer")),
            "{fault:?} {error}"
        );
    }
}
