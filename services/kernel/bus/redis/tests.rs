//! The bus and presence of several processes on a real Redis, which is lost, flushed and started again.

use super::RedisBus;
use crate::redis::command;
use crate::{
    Aid, AnnouncedSession, Audience, Clock, Delivery, DeviceId, Event, Ids, Presence, PresentSession,
    RedisSettings, SlotId,
};
use parking_lot::Mutex;
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const MINUTE: Duration = Duration::from_secs(60);
const PORT: u16 = 26_379;

/// A Redis of the test's own, on an address of loopback that no other test uses: its port is free there, also after a restart.
struct RedisServer {
    address: Ipv4Addr,
    folder: TempDir,
    process: Child,
}

impl RedisServer {
    fn start() -> RedisServer {
        let [a, b, c] = Ids::default().bytes();
        let address = Ipv4Addr::new(127, a | 1, b, c.clamp(1, 254));
        let folder = tempfile::tempdir().unwrap();
        RedisServer { address, process: RedisServer::run(address, &folder), folder }
    }

    fn run(address: Ipv4Addr, folder: &TempDir) -> Child {
        let process = Command::new("redis-server")
            .args(["--save", "", "--appendonly", "no", "--port", &PORT.to_string()])
            .args(["--bind", &address.to_string()])
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let began = Instant::now();
        while std::net::TcpStream::connect((address, PORT)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        process
    }

    fn url(&self) -> String {
        format!("redis://{}:{PORT}", self.address)
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn start_again(&mut self) {
        self.process = RedisServer::run(self.address, &self.folder);
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The Redis that `tests/run` starts and names, or else one of the test's own; domains keep the tests apart.
#[expect(clippy::disallowed_methods, reason = "tests are configured by their environment")]
fn shared() -> (Option<RedisServer>, String) {
    match std::env::var("AUND_TEST_REDIS_URL") {
        Ok(url) => (None, url),
        Err(_) => {
            let server = RedisServer::start();
            let url = server.url();
            (Some(server), url)
        }
    }
}

fn issuer() -> String {
    format!("{}.test", hex::encode(Ids::default().bytes::<6>()))
}

/// One process of a domain.
struct BusProcess {
    redis: RedisBus,
    presence: Presence,
    received: Arc<Mutex<Vec<Event>>>,
    missed: Arc<Mutex<BTreeSet<Aid>>>,
}

async fn process(settings: RedisSettings) -> BusProcess {
    let redis = RedisBus::open(settings, &Clock::System).await.unwrap();
    let (received, missed) = (Arc::<Mutex<Vec<Event>>>::default(), Arc::<Mutex<BTreeSet<Aid>>>::default());
    let (receives, misses) = (received.clone(), missed.clone());
    redis.bus().listen(move |event| receives.lock().push(event.clone()));
    redis.bus().on_resync(move |aids| misses.lock().extend(aids));
    BusProcess { presence: redis.presence(), redis, received, missed }
}

impl BusProcess {
    fn publish(&self, to: &Aid, n: usize) {
        self.redis.bus().publish(&Event::new(Audience::Agent(to.clone()), "event/test", &json!({ "n": n })));
    }

    fn numbers(&self) -> Vec<u64> {
        let number = |event: &Event| {
            serde_json::from_str::<serde_json::Value>(event.params.get()).unwrap()["n"].as_u64().unwrap()
        };
        self.received.lock().iter().map(number).collect()
    }

    fn connections(&self, aid: &Aid) -> Vec<u64> {
        self.presence.sessions(aid).iter().map(|session| session.connection).collect()
    }
}

fn aid(name: &str) -> Aid {
    Aid::parse(&format!("{name}.aid.pub")).unwrap()
}

fn announced(connection: u64, long: bool) -> AnnouncedSession {
    let session = PresentSession {
        connection,
        device: DeviceId::default(),
        slot: SlotId::default(),
        address: [127, 0, 0, 1].into(),
        delivery: Delivery::default(),
    };
    AnnouncedSession {
        session,
        long,
        since_ms: connection as i64,
        extra_info: None,
        capabilities: None,
        instead_of: Vec::new(),
    }
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}: not within 30 s");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn settings(url: &str, issuer: &str, gateway: bool) -> RedisSettings {
    RedisSettings::new(url, issuer, gateway)
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_an_agent_arrive_in_order_and_as_they_were_written() {
    let (_server, url) = shared();
    // `false` is what a server of version 6 gets.
    for sharded in [None, Some(true), Some(false)] {
        let issuer = issuer();
        let service = process(RedisSettings { sharded, ..settings(&url, &issuer, false) }).await;
        let gateway = process(RedisSettings { sharded, ..settings(&url, &issuer, true) }).await;
        let (alice, bobb) = (aid("alice"), aid("bobb"));
        let _subscriptions =
            (gateway.redis.bus().subscribe(&alice).await, gateway.redis.bus().subscribe(&bobb).await);
        for number in 0..3000 {
            service.publish(if number % 3 == 0 { &bobb } else { &alice }, number);
        }
        until("3000 events", || gateway.received.lock().len() >= 3000).await;
        let received = gateway.received.lock().clone();
        for to in [&alice, &bobb] {
            let of_agent = received.iter().zip(gateway.numbers());
            let numbers: Vec<u64> = of_agent
                .filter(|(event, _)| event.to == Audience::Agent(to.clone()))
                .map(|(_, n)| n)
                .collect();
            assert!(numbers.is_sorted() && numbers.len() >= 1000, "{sharded:?} {to}: {}", numbers.len());
        }
        let odd = RawValue::from_string("{ \"z\" : 1.0,\"a\":\"\\u00e9\", \"n\": 7 }".to_owned()).unwrap();
        let to = Audience::Instance { aid: alice, device: None, slot: Some(SlotId::parse("a b").unwrap()) };
        service.redis.bus().publish(&Event::with_params(to.clone(), "event/odd", odd.clone()));
        until("the odd one", || gateway.received.lock().len() > 3000).await;
        let last = gateway.received.lock().pop().unwrap();
        assert_eq!((last.to, last.params.get(), last.method.as_str()), (to, odd.get(), "event/odd"));
        let (device, slot) = (DeviceId::parse("phone").unwrap(), SlotId::parse("a b").unwrap());
        let to = Audience::OtherInstances { aid: bobb, device, slot };
        service.redis.bus().publish(&Event::new(to.clone(), "event/odd", &json!({})));
        until("another odd one", || gateway.received.lock().len() > 3000).await;
        assert_eq!(gateway.received.lock().pop().unwrap().to, to);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_subscribed_misses_no_event() {
    let (_server, url) = shared();
    let issuer = issuer();
    let service = process(settings(&url, &issuer, false)).await;
    let gateway = process(settings(&url, &issuer, true)).await;
    let mut subscriptions = Vec::new();
    for number in 0..300 {
        let agent = aid(&format!("agent-{number}"));
        // Subscribed, dropped and subscribed again: the unsubscribing must not undo the last.
        drop(gateway.redis.bus().subscribe(&agent).await);
        subscriptions.push(gateway.redis.bus().subscribe(&agent).await);
        service.publish(&agent, number);
    }
    until("one event each", || gateway.received.lock().len() >= 300).await;
    assert_eq!(gateway.numbers(), (0..300).collect::<Vec<_>>());

    // With the last subscription the channels are unsubscribed from.
    drop(subscriptions);
    until("no channel is wanted", || gateway.redis.0.subscriptions.agents().is_empty()).await;
    let subscription = gateway.redis.bus().subscribe(&aid("last")).await;
    service.publish(&aid("agent-1"), 1);
    service.publish(&aid("last"), 1000);
    until("the last", || gateway.numbers().last() == Some(&1000)).await;
    assert_eq!(gateway.received.lock().len(), 301);
    drop(subscription);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_gets_its_own_events_once_and_every_process_gets_those_for_gateways() {
    let (_server, url) = shared();
    let issuer = issuer();
    let gateways =
        [process(settings(&url, &issuer, true)).await, process(settings(&url, &issuer, true)).await];
    let alice = aid("alice");
    let _subscriptions =
        [gateways[0].redis.bus().subscribe(&alice).await, gateways[1].redis.bus().subscribe(&alice).await];
    let service = process(settings(&url, &issuer, false)).await;
    gateways[0].publish(&alice, 1);
    gateways[0].redis.bus().publish(&Event::new(Audience::Gateways, "ca.cert_revoked", &json!({ "n": 2 })));
    gateways[1].publish(&alice, 3);
    for gateway in &gateways {
        until("three events", || gateway.received.lock().len() >= 3).await;
        let received: BTreeSet<u64> = gateway.numbers().into_iter().collect();
        assert_eq!(received, BTreeSet::from([1, 2, 3]));
        assert_eq!(gateway.received.lock().len(), 3);
    }
    until("the service's event", || !service.received.lock().is_empty()).await;
    assert_eq!(service.numbers(), [2], "and nothing of what is for agents");
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_knows_who_is_connected_to_which_gateway() {
    let (_server, url) = shared();
    let issuer = issuer();
    let first = process(settings(&url, &issuer, true)).await;
    let second = process(settings(&url, &issuer, true)).await;
    let service = process(settings(&url, &issuer, false)).await;
    let alice = aid("alice");
    first.presence.admit(&alice, announced(1, true));
    second.presence.admit(&alice, announced(2, true));
    second.presence.admit(&alice, announced(3, false));
    for process in [&first, &second, &service] {
        until("both sessions", || process.connections(&alice) == [1, 2]).await;
    }
    until("the short one", || first.presence.elsewhere(&alice).len() == 2).await;
    assert_eq!(second.presence.elsewhere(&alice).len(), 1);

    // A process that starts later has read it before it is asked.
    let late = process(settings(&url, &issuer, false)).await;
    assert_eq!(late.connections(&alice), [1, 2]);

    first.presence.leave(&alice, 1);
    first.presence.leave(&alice, 1);
    until("one session", || service.connections(&alice) == [2]).await;
    second.redis.close().await;
    until("alice is offline", || !service.presence.is_online(&alice)).await;
    until("alice is offline", || !late.presence.is_online(&alice)).await;
    // Their own lists are exact at once.
    assert!(!first.presence.sessions(&alice).iter().any(|session| session.connection == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_sessions_is_written_again_after_a_flush() {
    let server = RedisServer::start();
    let issuer = issuer();
    let gateway = process(settings(&server.url(), &issuer, true)).await;
    let service = process(settings(&server.url(), &issuer, false)).await;
    let alice = aid("alice");
    let _subscription = gateway.redis.bus().subscribe(&alice).await;
    gateway.presence.admit(&alice, announced(1, true));
    until("alice is online", || service.presence.is_online(&alice)).await;

    let connection = service.redis.0.redis.connection.after(0).await;
    connection.ask::<()>(&redis::cmd("FLUSHALL")).await.unwrap();
    assert!(service.presence.is_online(&alice), "a flush takes nobody offline");
    service.publish(&alice, 1);
    until("events go on", || gateway.numbers() == [1]).await;
    let list = service.redis.0.redis.keys.sessions(&gateway.redis.0.redis.keys.process);
    let began = Instant::now();
    while !connection.ask::<bool>(&command("EXISTS", &list)).await.unwrap() {
        assert!(began.elapsed() < Duration::from_secs(30), "the list is not written again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let late = process(settings(&server.url(), &issuer, false)).await;
    until("a new process knows alice", || late.presence.is_online(&alice)).await;
    assert!(service.presence.is_online(&alice));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_redis_was_away_everything_is_resynced() {
    let mut server = RedisServer::start();
    let issuer = issuer();
    let gateway = process(settings(&server.url(), &issuer, true)).await;
    let service = process(settings(&server.url(), &issuer, false)).await;
    let (alice, bobb, carol) = (aid("alice"), aid("bobb"), aid("carol"));
    let _subscription = gateway.redis.bus().subscribe(&alice).await;
    gateway.presence.admit(&alice, announced(1, true));
    gateway.presence.admit(&bobb, announced(2, true));
    until("both are online", || service.presence.is_online(&alice) && service.presence.is_online(&bobb))
        .await;

    server.kill();
    until("it is noticed", || !gateway.redis.stats().up && !service.redis.stats().up).await;
    assert!(service.presence.is_online(&alice), "unknown is not offline");
    // Logins go on, and this process knows of them at once.
    let _late = gateway.redis.bus().subscribe(&carol).await;
    gateway.presence.admit(&carol, announced(3, true));
    gateway.presence.announced().await;
    gateway.presence.leave(&bobb, 2);
    assert!(gateway.presence.is_online(&carol) && !gateway.presence.is_online(&bobb));
    gateway.missed.lock().clear();

    server.start_again();
    let both = BTreeSet::from([alice.clone(), carol.clone()]);
    until("the resync", || *gateway.missed.lock() == both).await;
    until("presence is right", || service.presence.is_online(&carol) && !service.presence.is_online(&bobb))
        .await;
    assert!(service.presence.is_online(&alice));
    until("the service is back", || service.redis.stats().up).await;
    service.publish(&carol, 7);
    until("events go on", || gateway.numbers().contains(&7)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connections_of_a_gateway_that_died_are_removed() {
    let (_server, url) = shared();
    let issuer = issuer();
    let service = process(settings(&url, &issuer, false)).await;
    let (alice, bobb) = (aid("alice"), aid("bobb"));
    let other = process(settings(&url, &issuer, true)).await;
    other.presence.admit(&bobb, announced(9, true));
    // A runtime of its own, so that it ends as a killed process does: without an announcement.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let of_killed = settings(&url, &issuer, true);
    let killed = runtime.spawn(async move {
        let gateway = process(of_killed).await;
        gateway.presence.admit(&aid("alice"), announced(1, true));
        gateway.presence.announced().await;
        gateway
    });
    let gateway = killed.await.unwrap();
    until("alice is online", || service.presence.is_online(&alice)).await;
    runtime.shutdown_background();
    until("alice is offline", || !service.presence.is_online(&alice)).await;
    until("also for gateways", || other.presence.elsewhere(&alice).is_empty()).await;
    assert!(service.presence.is_online(&bobb), "another gateway's stays");

    // Its list outlives it. A process that starts now does not believe it.
    let connection = service.redis.0.redis.connection.after(0).await;
    let keys = &gateway.redis.0.redis.keys;
    connection.ask::<()>(command("SADD", &keys.gateways).arg(&keys.process)).await.unwrap();
    assert!(connection.ask::<bool>(&command("EXISTS", &keys.sessions(&keys.process))).await.unwrap());
    let late = process(settings(&url, &issuer, false)).await;
    assert!(!late.presence.is_online(&alice) && late.presence.is_online(&bobb));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_published_is_bounded_dropped_and_resynced() {
    let mut server = RedisServer::start();
    let issuer = issuer();
    let gateway = process(settings(&server.url(), &issuer, true)).await;
    let most = 64 << 10;
    let service =
        process(RedisSettings { queue_bytes: most, ..settings(&server.url(), &issuer, false) }).await;
    let alice = aid("alice");
    let _subscription = gateway.redis.bus().subscribe(&alice).await;
    server.kill();
    until("it is noticed", || !service.redis.stats().up).await;
    for number in 0..10_000 {
        service.publish(&alice, number);
        assert!(service.redis.stats().queue_bytes <= most);
    }
    let stats = service.redis.stats();
    assert!(stats.dropped > 5000 && stats.queue_bytes > most / 2, "{stats:?}");
    server.start_again();
    until("the queue is empty", || service.redis.stats().queue_bytes == 0).await;
    until("a resync for alice", || gateway.missed.lock().contains(&alice)).await;
    until("both are subscribed", || service.redis.stats().up && gateway.redis.stats().up).await;

    // The same without any lost connection: only the publisher knows that something is missing.
    gateway.missed.lock().clear();
    for number in 0..10_000 {
        service.publish(&alice, number);
    }
    until("another resync for alice", || {
        service.publish(&alice, 1);
        gateway.missed.lock().contains(&alice)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_holds_over_processes_and_without_redis_each_has_its_own() {
    let mut server = RedisServer::start();
    let issuer = issuer();
    let gateways = [
        process(settings(&server.url(), &issuer, true)).await,
        process(settings(&server.url(), &issuer, true)).await,
    ];
    for attempt in 0..4 {
        gateways[attempt % 2].redis.bus().count("login:alice", 4, MINUTE).await.unwrap();
    }
    for gateway in &gateways {
        let wait = gateway.redis.bus().count("login:alice", 4, MINUTE).await.unwrap_err();
        assert!(wait > Duration::ZERO && wait <= Duration::from_secs(15), "{wait:?}");
        gateway.redis.bus().count("login:bobb", 4, MINUTE).await.unwrap();
    }
    server.kill();
    until("it is noticed", || !gateways[0].redis.stats().up).await;
    gateways[0].redis.bus().count("login:alice", 4, MINUTE).await.unwrap();
}

#[tokio::test]
async fn a_wrong_url_is_refused_without_repeating_its_password() {
    let error = settings("redis:/secret@", "aid.pub", true).check().unwrap_err().to_string();
    assert!(error.contains("not the URL of a Redis"), "{error}");
    let error = settings("http://me:secret@host", "aid.pub", true).check().unwrap_err().to_string();
    assert!(!error.contains("secret"), "{error}");
}
