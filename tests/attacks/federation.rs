//! An agent that names domains without end, domains that lead into our own network, and gateways that send too much or are revoked.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use certs::dev::Pki;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::federation::fake_peer::FakePeer;
use crate::support::agent::{ConnectedAgent, random_hex};
use crate::support::domain::{DomainPair, TestDomain};
use crate::support::{now, printed, split, until};

/// More than the other domains that a server may have queues for.
const NAMED: usize = 600;
/// Of the domains that were never reached, all agents together may have so many dialled at the same time.
const NEW_DIALS: usize = 16;

/// Every name under it leads to a listener that accepts connections and never says anything.
struct SilentDomain {
    domain: TestDomain,
    /// What each connection began with: the name that was dialled is in there.
    began: Arc<Mutex<Vec<String>>>,
    /// The most connections that were open at the same time.
    most: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl SilentDomain {
    async fn start() -> SilentDomain {
        let domain = TestDomain::new("silent");
        let listener = TcpListener::bind(SocketAddr::from((domain.address, 20001))).await.expect("a port");
        let (began, most) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicUsize>::default());
        let mut serving = JoinSet::new();
        serving.spawn(accept_all(listener, began.clone(), most.clone()));
        SilentDomain { domain, began, most, _serving: serving }
    }

    /// Waits until somebody has dialled this name.
    async fn was_dialled(&self, name: &str) {
        let dialled = || async {
            self.began.lock().expect("no test panicked").iter().any(|text| text.contains(name)).then_some(())
        };
        until("the name is dialled", dialled).await;
    }
}

async fn accept_all(listener: TcpListener, began: Arc<Mutex<Vec<String>>>, most: Arc<AtomicUsize>) {
    let (open, mut connections) = (Arc::<AtomicUsize>::default(), JoinSet::new());
    while let Ok((stream, _)) = listener.accept().await {
        most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let (began, open) = (began.clone(), open.clone());
        connections.spawn(async move {
            read_to_end(stream, &began).await;
            open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

async fn read_to_end(mut stream: TcpStream, began: &Mutex<Vec<String>>) {
    let mut bytes = vec![0; 4096];
    let Ok(read @ 1..) = stream.read(&mut bytes).await else { return };
    began.lock().expect("no test panicked").push(String::from_utf8_lossy(&bytes[..read]).into_owned());
    while let Ok(1..) = stream.read(&mut bytes).await {}
}

/// A notification to an agent of this domain; nobody is told what becomes of it.
async fn notify(from: &ConnectedAgent, issuer: &str) {
    let target = json!({ "type": "aid", "aid": format!("victim.{issuer}") });
    let deliver = json!({ "method": "event/app.knock", "params": {} });
    from.notify("notification/route", &json!({ "target": target, "deliver": deliver })).await;
}

fn text_message(to: &str) -> Value {
    json!({ "to": to, "message_id": random_hex(8), "payload": { "type": "text", "text": "hello" } })
}

#[tokio::test]
async fn an_agent_that_names_domains_without_end_keeps_nobody_from_a_known_one() {
    let silent = SilentDomain::start().await;
    let pair = DomainPair::with(&silent.domain.resolve(), "").await;
    // Only domains that a root is trusted for are connected to.
    let pki = Pki::new("silent.test", now());
    pair.near.trusts_root(pki.root.certificate().pem(), "*.silent.test").await;
    let (mallory, alice) = (pair.near.agent("mallory").await, pair.near.agent("alice").await);
    let carol = pair.far.agent("carol").await;

    for n in 0..NAMED {
        notify(&mallory, &format!("n{n}.silent.test")).await;
    }
    // Its frames are handled in their order, so all of them have been.
    assert!(mallory.is_open().await);
    silent.was_dialled("silent.test").await;

    // A domain that we have to dial first.
    let sent = alice.try_call("message.send", &text_message(carol.aid())).await;
    assert!(sent.is_ok(), "the known domain is dialled meanwhile: {sent:?}");
    // And one that nobody has reached, for an agent that named no other.
    notify(&alice, "alice-asked.silent.test").await;
    silent.was_dialled("alice-asked.silent.test").await;
    let most = silent.most.load(Ordering::SeqCst);
    assert!(most <= NEW_DIALS * pair.near.gateways(), "{most} of {NAMED} domains were dialled at once");
}

#[tokio::test]
async fn a_domain_that_leads_into_our_own_network_looks_like_one_that_leads_nowhere() {
    let pair = DomainPair::start().await;
    let mallory = pair.near.agent("mallory").await;
    let told = async |issuer: &str| {
        let mut error = mallory.call_error("message.send", &text_message(&format!("victim.{issuer}"))).await;
        let data = error["data"].as_object_mut().expect("it says what a program can use");
        // How long to wait is up to chance.
        data.remove("retry_after_ms");
        error.to_string().replace(issuer, "DOMAIN")
    };
    // Longer than a label may be, so no resolver has to be asked.
    let nowhere = told(&format!("{}.test", "n".repeat(70))).await;
    assert!(nowhere.contains("-32010"), "{nowhere}");
    for issuer in ["localhost", "127.1", "2130706433", "0x7f000001"] {
        assert_eq!(told(issuer).await, nowhere, "{issuer}");
    }
    // The operator is told.
    let output = pair.near.aund_on_gateway(&["peers", "test", "localhost"]).await;
    assert!(printed(&output.stdout).contains("private network"), "{}", printed(&output.stdout));
}

/// An event of an agent of this domain, for these agents.
fn event(who: &FakePeer, to: &[&str], bytes: usize) -> Value {
    let notify = json!({ "from_aid": format!("alice.{}", who.issuer) });
    json!({
        "relay_id": random_hex(16), "kind": "event", "event": "app.knock", "event_id": random_hex(8), "hop": 1, "depth": 0,
        "targets": { "aids": to }, "payload": { "text": "x".repeat(bytes), "_notify": notify },
    })
}

#[tokio::test]
async fn an_event_of_a_peer_is_small_and_held_once_for_all_who_do_not_read() {
    const READERS: usize = 8;
    const EVENTS: usize = 110;
    let pair = DomainPair::with("limits.outbox_bytes = 16777216\n", "").await;
    let who = FakePeer::of(&pair.far);
    let link = who.link(&pair.near).await;
    let mut slow = Vec::new();
    for n in 0..READERS {
        let agent = pair.near.agent(&format!("slow{n}")).await;
        slow.push(pair.near.connect_narrow(&agent, "narrow").await);
        agent.close().await;
    }
    let aids: Vec<&str> = slow.iter().map(|agent| agent.aid()).collect();

    let large = link.try_call("federation.relay", &event(&who, &aids, 1 << 20)).await;
    let error = large.expect_err("an event is at most 64 KiB");
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32012), &json!("oversize")), "{error}");

    // Once for what the first one costs, and then for the harm.
    link.call("federation.relay", &event(&who, &aids, 60_000)).await;
    let before = pair.near.memory();
    let events: Vec<Value> = (0..EVENTS).map(|_| event(&who, &aids, 60_000)).collect();
    let accepted = link.call_many("federation.relay", &events).await;
    assert!(accepted.iter().all(Result::is_ok), "they are as large as events may be");
    let grown = pair.near.memory().saturating_sub(before);
    // Between the processes of a server an event travels once for each recipient.
    if !split() {
        let (all, once) = (READERS * EVENTS * 60_000, EVENTS * 60_000);
        assert!(grown < all as u64 / 3, "{grown} bytes for {once} bytes that {READERS} agents do not read");
    }
    // Nothing of it was dropped: whoever's outbox is full is closed.
    let quick = pair.near.agent("quick").await;
    let online = quick.call("message.query_online", &json!({ "aids": aids })).await;
    assert!(aids.iter().all(|aid| online["online"][*aid] == true), "{online}");
}

#[tokio::test]
async fn a_link_of_a_gateway_that_was_revoked_is_closed() {
    let pair = DomainPair::with("federation.revocation_check_seconds = 1\n", "").await;
    let (alice, carol) = (pair.near.agent("alice").await, pair.far.agent("carol").await);
    let who = FakePeer::of(&pair.far);
    let link = who.link(&pair.near).await;
    alice.call("message.send", &text_message(carol.aid())).await;

    let output = pair.far.aund(&["certs", "revoke", who.cert.serial(), "--reason", "keyCompromise"]).await;
    assert!(output.status.success(), "{}", printed(&output.stderr));
    assert_eq!(link.closed().await.code, 4001);
    // Where that domain has several gateways, our own link may be to another one of them.
    if !split() {
        let refused = || async {
            let error = alice.try_call("message.send", &text_message(carol.aid())).await.err()?;
            (error["data"]["reason"] == "certificate_revoked").then_some(())
        };
        until("our own link to it ends, too", refused).await;
    }
}
