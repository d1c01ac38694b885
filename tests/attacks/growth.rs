//! What one agent makes the server keep, or read, does not grow without end.

use std::collections::BTreeSet;
use std::fs;

use certs::{Certificate, Curve, Key};
use serde_json::{Value, json};

use crate::support::agent::{ConnectedAgent, TestIdentity, public_key, text};
use crate::support::envelope::put_key;
use crate::support::{TestServer, until};

/// Many calls of few agents.
const BUSY: &str =
    "limits.calls_per_second = 1000000\nlimits.logins_per_minute = 1000000\nlimits.ping_interval_ms = 600000";
/// The default of `message.devices_per_agent`.
const DEVICES: usize = 64;
/// The default of `ca.certificates_per_day`.
const CERTIFICATES: usize = 32;

fn named(to: &str, id: &str, words: &str) -> Value {
    json!({ "to": to, "message_id": id, "payload": { "type": "text", "text": words } })
}

/// The devices that a message to this agent is encrypted for.
async fn devices(asker: &ConnectedAgent, of: &ConnectedAgent) -> BTreeSet<String> {
    let answer = asker.call("message.v2.bootstrap", &json!({ "peer_aid": of.aid() })).await;
    let devices = answer["peer_devices"].as_array().expect("a list").iter();
    devices.map(|device| text(&device["device_id"])).collect()
}

async fn pull(agent: &ConnectedAgent, after: i64) -> Vec<Value> {
    let page = agent.call("message.pull", &json!({ "after_seq": after, "limit": 200 })).await;
    page["messages"].as_array().expect("a page has messages").clone()
}

/// An agent that connects with ever new device ids had an inbox for each of them for ever: every message to it was stored for
/// all of them, and every new device read and counted all the others.
#[tokio::test]
async fn an_agent_with_ever_new_devices_has_a_limited_number_of_them() {
    let server = TestServer::with(BUSY).await;
    let (mallory, bob) = (server.agent("mallory").await, server.agent("bobb").await);
    let first = server.connect_device(&mallory, "first", "s").await;
    put_key(&first).await;
    bob.call("message.send", &named(mallory.aid(), "m-1", "before")).await;
    let known = pull(&first, 0).await[0]["seq"].as_i64().expect("a seq");
    first.close().await;
    put_key(&mallory).await;

    let mut number = 0;
    for _ in 0..12 {
        // Fewer than may be connected at once.
        let mut connected = Vec::new();
        for _ in 0..6 {
            let device = server.connect_device(&mallory, &format!("device-{number}"), "s").await;
            put_key(&device).await;
            connected.push(device);
            number += 1;
        }
        for device in connected {
            device.close().await;
        }
        server.at_most_sessions(2).await;
    }
    let left = devices(&bob, &mallory).await;
    assert!(left.len() <= DEVICES, "{} devices of {} are left", left.len(), number + 2);
    assert!(left.contains(mallory.device()), "one that is connected stays");
    assert!(!left.contains("first"), "the one that was not seen for longest is gone");
    assert!(left.contains(&format!("device-{}", number - 1)), "the newest is there");

    // One that was removed comes back as a new one, and reads what is sent from then on after the seq it knows.
    let first = server.connect_device(&mallory, "first", "s").await;
    bob.call("message.send", &named(mallory.aid(), "m-2", "after")).await;
    let page = pull(&first, known).await;
    assert_eq!(page.len(), 1, "{page:?}");
    assert_eq!(page[0]["payload"]["text"], "after");
    assert!(page[0]["seq"].as_i64().expect("a seq") > known);
}

/// One half of a login, and then what its nonce is signed for.
async fn renew(server: &TestServer, who: &TestIdentity) -> String {
    let begun = server.ask("auth.aid_login1", &who.login1()).await.expect("the first half of a login");
    let nonce = text(&begun["nonce"]);
    let params = json!({
        "aid": who.aid, "request_id": begun["request_id"], "nonce": nonce, "signature": who.sign(&nonce),
    });
    let renewed = server.ask("auth.renew_cert", &params).await.expect("a renewal is answered");
    text(&renewed["cert"])
}

/// Every certificate is kept for good. Renewing in a loop made a row each time.
#[tokio::test]
async fn an_agent_that_renews_all_day_gets_a_limited_number_of_certificates() {
    let server = TestServer::shared().await;
    let mut mallory = server.register("mallory").await;
    let mut serials = BTreeSet::from([mallory.certificate().serial().to_owned()]);
    for _ in 0..CERTIFICATES + 4 {
        mallory.cert = renew(&server, &mallory).await;
        let renewed = Certificate::from_pem(&mallory.cert).expect("a certificate");
        assert_eq!(renewed.public_key().fingerprint(), mallory.key.public().fingerprint());
        serials.insert(renewed.serial().to_owned());
    }
    assert!(serials.len() <= CERTIFICATES, "{} certificates", serials.len());
    let session = server.connect(&mallory, |_| ()).await;
    session.call("meta.ping", &json!({})).await;

    let begun = server.ask("auth.aid_login1", &mallory.login1()).await.expect("the first half of a login");
    let (nonce, key) = (text(&begun["nonce"]), public_key(&Key::generate(Curve::P256)));
    let params = json!({
        "aid": mallory.aid, "request_id": begun["request_id"], "nonce": nonce, "new_public_key": key,
        "signature": mallory.sign(&format!("{nonce}{key}")),
    });
    let error = server.ask_error("auth.rekey", &params).await;
    assert_eq!(
        (&error["code"], &error["data"]["scope"]),
        (&json!(-32029), &json!("ca.certificates_per_day"))
    );
    assert!(error["data"]["retry_after_ms"].as_i64().is_some_and(|ms| ms > 0), "{error}");
    server.register("carol").await;
}

/// What the processes of a server have used of the processors, in ticks of the system.
fn cpu_ticks(server: &TestServer) -> u64 {
    let config = server.config();
    let folder = config.parent().expect("a folder").to_str().expect("a plain path").to_owned();
    let mut ticks = 0;
    for entry in fs::read_dir("/proc").expect("the system tells").flatten() {
        let Ok(command) = fs::read(entry.path().join("cmdline")) else { continue };
        if !String::from_utf8_lossy(&command).contains(&folder) {
            continue;
        }
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // After the name, which may hold anything, come the state and ten numbers, and then the time used by it and for it.
        let Some((_, numbers)) = stat.rsplit_once(')') else { continue };
        let numbers = numbers.split_whitespace().skip(11).take(2);
        ticks += numbers.filter_map(|number| number.parse::<u64>().ok()).sum::<u64>();
    }
    ticks
}

/// For each id of a recall that did not exist, two hundred whole messages were read from each inbox of whoever asked.
#[tokio::test]
async fn recalling_messages_that_do_not_exist_costs_less_than_reading_the_inbox() {
    let server = TestServer::with(BUSY).await;
    // Not connected while they are sent: it would have to read them.
    let (mallory, bob) = (server.register("mallory").await, server.agent("bobb").await);
    let words = "x".repeat(250_000);
    let ids: Vec<String> = (0..40).map(|n| format!("m-{n}")).collect();
    for id in &ids {
        bob.call("message.send", &named(&mallory.aid, id, &words)).await;
    }
    let mallory = server.connect(&mallory, |_| ()).await;
    let unindexed = "aund_store_unindexed_bytes{service=\"message\"}";
    until("messages are indexed", || async { (server.metric(unindexed).await == 0.0).then_some(()) }).await;

    let before = cpu_ticks(&server);
    let mut after = 0;
    while let Some(last) = pull(&mallory, after).await.last() {
        after = last["seq"].as_i64().expect("a seq");
    }
    let reading = cpu_ticks(&server) - before;

    let unknown: Vec<String> = (0..99).map(|n| format!("unknown-{n}")).collect();
    let mut asked = unknown.clone();
    asked.push(ids[7].clone());
    let before = cpu_ticks(&server);
    let answer = mallory.call("message.recall", &json!({ "message_ids": asked })).await;
    let recalling = cpu_ticks(&server) - before;

    let errors = answer["errors"].as_array().expect("none was recalled");
    let reason =
        |id: &String| errors.iter().find(|error| error["message_id"] == **id).map(|error| &error["error"]);
    assert!(unknown.iter().all(|id| reason(id) == Some(&json!("not_found"))), "{answer}");
    assert_eq!(reason(&ids[7]), Some(&json!("not_sender")));
    assert!(
        recalling <= reading.max(10) * 3,
        "a recall used {recalling} ticks, and reading everything {reading}"
    );
}

/// Sends messages of the same size until one is refused: how many were stored, and why no more.
async fn fill(from: &ConnectedAgent, to: &str, bytes: usize, most: usize) -> (usize, Value) {
    let words = "x".repeat(bytes);
    for number in 0..most {
        let id = format!("fill-{number}");
        if let Err(error) = from.try_call("message.send", &named(to, &id, &words)).await {
            return (number, error);
        }
    }
    (most, Value::Null)
}

/// Anybody could have the server store as much as the disk holds, and fill the inbox of anybody else.
#[tokio::test]
async fn what_an_agent_stores_is_limited_and_a_full_inbox_is_closed_to_those_who_filled_it() {
    const MIB: usize = 1 << 20;
    let limits = format!("message.sender_bytes = {}\nmessage.inbox_bytes = {}", 4 * MIB, 6 * MIB);
    let server = TestServer::with(&format!("{BUSY}\n{limits}")).await;
    let (mallory, other) = (server.agent("mallory").await, server.agent("other").await);
    // Not connected while she is written to: she would have to read.
    let (bob, carol) = (server.agent("bobb").await, server.register("carol").await);

    let (stored, error) = fill(&mallory, &carol.aid, 100_000, 100).await;
    assert!((30..=42).contains(&stored), "{stored} messages of 100 kB in 4 MiB");
    assert_eq!((&error["code"], &error["data"]["scope"]), (&json!(-32029), &json!("message.sender_bytes")));
    let again = named(&carol.aid, "fill-3", &"x".repeat(100_000));
    let again = mallory.call("message.send", &again).await;
    assert_eq!(again["status"], "duplicate", "what was stored before is answered as that");

    let (more, error) = fill(&other, &carol.aid, 100_000, 100).await;
    assert!(stored + more <= 63, "{stored} and {more} messages of 100 kB in 6 MiB");
    assert_eq!((&error["code"], &error["data"]["scope"]), (&json!(-32029), &json!("message.inbox_bytes")));
    bob.call("message.send", &named(&carol.aid, "b-1", "bob has filled nothing")).await;
    bob.call("message.send", &named(other.aid(), "b-2", "and other inboxes are not full")).await;
    let refused = bob.call_error("message.send", &named(&carol.aid, "b-3", &"x".repeat(100_000))).await;
    assert_eq!(refused["data"]["scope"], "message.inbox_bytes");
    let carol = server.connect(&carol, |_| ()).await;
    assert_eq!(pull(&carol, 0).await[0]["message_id"], "fill-0", "nothing that was stored is lost");
}
