//! Envelopes that are not well made are refused, each with its code, and leave nothing behind.

use serde_json::{Value, json};

use crate::message::{events_until_now, refusal, send, two, v2_pull};
use crate::support::agent::ConnectedAgent;
use crate::support::envelope::{TestRecipient, digest_of, envelope, put_key, row, row_for, sealed};
use crate::support::{TestServer, now_ms};

const RECIPIENT: i64 = -33050;
const FORM: i64 = -33051;
const AAD: i64 = -33053;
const DEVICE: i64 = -33011;

async fn is_refused(from: &ConnectedAgent, params: Value, code: i64, why: &str) {
    let error = refusal(from, "message.send", params).await;
    assert_eq!(error["code"], code, "{why}: {error}");
    assert_eq!(error["data"]["retryable"], false, "{why}: {error}");
}

/// A well made envelope with one change.
fn spoilt(from: &ConnectedAgent, to: &ConnectedAgent, change: impl FnOnce(&mut Value)) -> Value {
    let mut params = sealed(from, to.aid(), "m-1");
    change(&mut params);
    params
}

fn with_rows(from: &ConnectedAgent, to: &ConnectedAgent, rows: &[TestRecipient]) -> Value {
    json!({ "to": to.aid(), "payload": envelope(from, to.aid(), "m-1", rows) })
}

/// Whatever was refused used no seq and no id: the same id is still free.
async fn nothing_happened(alice: &ConnectedAgent, bob: &ConnectedAgent) {
    assert_eq!(events_until_now(alice, bob).await, Vec::<Value>::new());
    assert_eq!(v2_pull(bob).await["count"], 1, "only the mark");
    let sent = send(alice, sealed(alice, bob.aid(), "m-1")).await;
    assert_eq!((&sent["status"], &sent["seq"]), (&json!("delivered"), &json!(2)));
}

#[tokio::test]
async fn rows_must_fit_their_digest_and_stand_in_order() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    put_key(&bob).await;
    put_key(&phone).await;
    let [laptop, phone] = ["laptop", "phone"].map(|device| row_for(bob.aid(), device, "peer"));
    let other = digest_of(&[row(bob.aid(), "peer")]);
    for (why, params) in [
        (
            "another digest",
            spoilt(&alice, &bob, |params| params["payload"]["recipients_digest"] = json!(other)),
        ),
        ("no digest", spoilt(&alice, &bob, |params| params["payload"]["recipients_digest"] = Value::Null)),
        (
            "a digest that is none",
            spoilt(&alice, &bob, |params| params["payload"]["recipients_digest"] = json!("xyz")),
        ),
        ("unsorted", with_rows(&alice, &bob, &[phone.clone(), laptop.clone()])),
        ("doubled", with_rows(&alice, &bob, &[laptop.clone(), laptop.clone()])),
        (
            "doubled with another key",
            with_rows(&alice, &bob, &[laptop, row_for(bob.aid(), "laptop", "peer")]),
        ),
        ("rows that are no list", spoilt(&alice, &bob, |params| params["payload"]["recipients"] = json!({}))),
        ("no rows member", spoilt(&alice, &bob, |params| params["payload"]["recipients"] = Value::Null)),
        (
            "a row that is too short",
            spoilt(&alice, &bob, |params| {
                params["payload"]["recipients"][0].as_array_mut().unwrap().pop();
            }),
        ),
        (
            "a row of numbers",
            spoilt(&alice, &bob, |params| {
                params["payload"]["recipients"][0] = json!([1, 2, 3, 4, 5, 6, 7, 8])
            }),
        ),
        (
            "a key that is not base64",
            spoilt(&alice, &bob, |params| params["payload"]["recipients"][0][7] = json!("!!")),
        ),
    ] {
        is_refused(&alice, params, FORM, why).await;
    }
    nothing_happened(&alice, &bob).await;
}

#[tokio::test]
async fn what_an_envelope_is_bound_to_must_be_the_connection_and_the_call() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    put_key(&bob).await;
    for (member, value) in [
        ("from", json!(bob.aid())),
        ("from_device", json!("phone")),
        ("to", json!(alice.aid())),
        ("message_id", json!("m-2")),
    ] {
        let params = spoilt(&alice, &bob, |params| params["payload"]["aad"][member] = value.clone());
        is_refused(&alice, params, AAD, &format!("{member} {value}")).await;
    }
    for (member, value) in [("from", Value::Null), ("from_device", Value::Null), ("to", json!(7))] {
        let params = spoilt(&alice, &bob, |params| params["payload"]["aad"][member] = value.clone());
        is_refused(&alice, params, FORM, &format!("{member} {value} is no name at all")).await;
    }
    let params = spoilt(&alice, &bob, |params| params["message_id"] = json!("m-2"));
    is_refused(&alice, params, AAD, "another id at the top").await;
    nothing_happened(&alice, &bob).await;
}

#[tokio::test]
async fn keys_are_wrapped_for_the_recipient_and_the_sender_and_nobody_else() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let carol = server.agent("carol").await;
    for agent in [&alice, &bob, &carol] {
        put_key(agent).await;
    }
    for (why, rows) in [
        ("nobody at all", vec![]),
        ("another agent", vec![row(bob.aid(), "peer"), row(carol.aid(), "peer")]),
        ("another agent alone", vec![row(carol.aid(), "peer")]),
        ("the sender as a recipient", vec![row(alice.aid(), "peer"), row(bob.aid(), "peer")]),
        ("the recipient as a sender", vec![row(bob.aid(), "self_sync")]),
        ("another agent's copy", vec![row(bob.aid(), "peer"), row(carol.aid(), "self_sync")]),
        ("an unknown role", vec![row(bob.aid(), "spectator")]),
    ] {
        is_refused(&alice, with_rows(&alice, &bob, &rows), RECIPIENT, why).await;
    }
    nothing_happened(&alice, &bob).await;
    assert_eq!(v2_pull(&carol).await["count"], 0);
}

#[tokio::test]
async fn a_device_nobody_has_is_refused_even_beside_one_that_exists() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    put_key(&bob).await;
    for rows in [
        vec![row_for(bob.aid(), "tablet", "peer")],
        vec![row_for(bob.aid(), "laptop", "peer"), row_for(bob.aid(), "tablet", "peer")],
    ] {
        is_refused(&alice, with_rows(&alice, &bob, &rows), DEVICE, "a tablet").await;
    }
    nothing_happened(&alice, &bob).await;
}

#[tokio::test]
async fn a_recipient_without_keys_cannot_be_written_to_in_secret() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    is_refused(&alice, sealed(&alice, bob.aid(), "m-1"), DEVICE, "no device has a key").await;
    assert_eq!(events_until_now(&alice, &bob).await, Vec::<Value>::new());
}

#[tokio::test]
async fn an_envelope_of_another_time_is_refused() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    put_key(&bob).await;
    for days in [-3, 3] {
        let t_send = now_ms() + days * 86_400_000;
        let params = spoilt(&alice, &bob, |params| params["payload"]["t_send"] = json!(t_send));
        is_refused(&alice, params, FORM, &format!("{days} days from now")).await;
    }
    nothing_happened(&alice, &bob).await;
}

#[tokio::test]
async fn what_the_server_cannot_check_it_does_not_refuse() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    put_key(&bob).await;
    for (n, change) in [
        json!({ "sender_signature": "not even base64!" }),
        json!({ "sender_cert_fingerprint": "sha256:ffffffffffffffff" }),
        json!({ "sender_session_pk": "" }),
        json!({ "t_supplement": null, "t_server": null }),
        json!({ "unknown": { "kept": [1, 2, 3] }, "need_render": false }),
        json!({ "protected_headers": { "x": 1, "_auth": { "tag": "t" } }, "context": { "type": "run" } }),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("m-{n}");
        let mut params = sealed(&alice, bob.aid(), &id);
        params["payload"].as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let sent = send(&alice, params.clone()).await;
        assert_eq!(sent["status"], "delivered", "{change}");
        let page = v2_pull(&bob).await;
        let opened = crate::support::envelope::opened(&crate::message::rows(&page)[n]["envelope_json"]);
        for name in change.as_object().unwrap().keys() {
            assert_eq!(opened[name], params["payload"][name], "{name}");
        }
    }
}
