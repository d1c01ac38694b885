//! Quotas and evictions over two gateways on one Redis.

use super::eviction::{self, SessionView};
use super::{CloseReason, Connection, ConnectionKind, OpenSession, OutboxBudget, OutboxItem, Sessions};
use crate::admission::GatewayLimits;
use crate::config::Config;
use kernel::{
    Aid, AnnouncedSession, Audience, CallingAgent, Clock, Delivery, DeviceId, Generation, Ids, Mode,
    Presence, PresentSession, RedisBus, RedisSettings, RpcError, SlotId,
};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// The Redis that `tests/run` starts and names, or else one of the test's own.
struct TestRedis {
    url: String,
    process: Option<Child>,
}

impl TestRedis {
    #[expect(clippy::disallowed_methods, reason = "tests are configured by their environment")]
    fn start() -> TestRedis {
        if let Ok(url) = std::env::var("AUND_TEST_REDIS_URL") {
            return TestRedis { url, process: None };
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port.to_string()])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        TestRedis { url: format!("redis://127.0.0.1:{port}"), process: Some(process) }
    }
}

impl Drop for TestRedis {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

struct GatewayInstance {
    sessions: Arc<Sessions>,
    presence: Presence,
    limits: GatewayLimits,
}

/// Two gateways of one domain.
async fn gateways(server: &TestRedis) -> [GatewayInstance; 2] {
    let issuer = format!("{}.test", u64::from_be_bytes(Ids::default().bytes()));
    [gateway(server, &issuer).await, gateway(server, &issuer).await]
}

async fn gateway(server: &TestRedis, issuer: &str) -> GatewayInstance {
    let settings = RedisSettings::new(&server.url, issuer, true);
    let presence = RedisBus::open(settings, &Clock::System).await.unwrap().presence();
    let budget = OutboxBudget::new(1 << 20, 1 << 20, Arc::default());
    let sessions = Arc::new(Sessions::new(presence.clone(), budget, 1));
    let settling = sessions.clone();
    presence.on_arrival_elsewhere(move |aid| settling.settle(aid));
    let limits = GatewayLimits::new(&Config::default().limits);
    GatewayInstance { sessions, presence, limits }
}

impl GatewayInstance {
    fn open(
        &self,
        id: u64,
        device: &str,
        slot: &str,
        kind: ConnectionKind,
    ) -> Result<Arc<Connection>, RpcError> {
        self.open_as(id, device, slot, kind, Delivery::default())
    }

    fn open_as(
        &self,
        id: u64,
        device: &str,
        slot: &str,
        kind: ConnectionKind,
        delivery: Delivery,
    ) -> Result<Arc<Connection>, RpcError> {
        let address = [127, 0, 0, 1].into();
        let connection = self.sessions.add(id, address);
        let session = CallingAgent {
            aid: alice(),
            device: DeviceId::parse(device).unwrap(),
            slot: SlotId::parse(slot).unwrap(),
            connection: id,
            address,
            connected_at_ms: 1_794_701_761_000,
            network: None,
            generation: Generation::default(),
            trace: None,
        };
        let open = OpenSession {
            session,
            kind,
            delivery,
            extra_info: Some(to_raw_value(&json!({ "i_am": id })).unwrap()),
            capabilities: Some(to_raw_value(&json!({ "reads": id })).unwrap()),
            since_ms: 0,
            instead_of: Vec::new(),
            _subscription: None,
            limit: self.limits.agent(&alice()),
            signer: Default::default(),
            tokens_revoked_at: None,
        };
        self.sessions.open(&connection, open)?;
        Ok(connection)
    }

    fn here(&self) -> Vec<u64> {
        self.sessions.of_agent(&alice()).iter().map(|connection| connection.id).collect()
    }
}

fn alice() -> Aid {
    Aid::parse("alice.aid.pub").unwrap()
}

fn close_reason(connection: &Connection) -> Option<(CloseReason, Value)> {
    match connection.outbox.pop()? {
        OutboxItem::CloseReason(close_reason) => {
            let event = close_reason.event.as_ref().map(|event| serde_json::from_str(event).unwrap());
            Some((close_reason, event.unwrap_or_default()))
        }
        OutboxItem::Frame(frame) => panic!("nothing but a close reason was expected: {frame}"),
        OutboxItem::Frames(frames) => panic!("nothing but a close reason was expected: {frames:?}"),
    }
}

/// A gateway alone, whose outboxes have these limits.
fn gateway_with(budget: OutboxBudget) -> GatewayInstance {
    let presence = Presence::local();
    let sessions = Arc::new(Sessions::new(presence.clone(), budget, 1));
    GatewayInstance { sessions, presence, limits: GatewayLimits::new(&Config::default().limits) }
}

fn is_closed(connection: &Connection) -> bool {
    loop {
        match connection.outbox.pop() {
            None => return false,
            Some(OutboxItem::CloseReason(reason)) => return reason.code == 1013,
            Some(_) => {}
        }
    }
}

fn frame(bytes: usize) -> Utf8Bytes {
    "x".repeat(bytes).into()
}

#[tokio::test]
async fn an_agent_that_holds_too_much_loses_its_fullest_connections_and_no_other() {
    let mut budget = OutboxBudget::new(500, 1 << 20, Arc::default());
    budget.per_agent = 1_000;
    let gateway = gateway_with(budget);
    let open = |id, slot| gateway.open(id, "phone", slot, ConnectionKind::Long).unwrap();
    let (small, middle, large, newest) = (open(1, "a"), open(2, "b"), open(3, "c"), open(4, "d"));
    for (connection, bytes) in [(&small, 100), (&middle, 390), (&large, 480)] {
        connection.outbox.push(frame(bytes));
    }
    assert_eq!(gateway.sessions.outbox_bytes(), 970);
    newest.outbox.push(frame(50));
    assert_eq!(gateway.sessions.outbox_bytes(), 540, "the fullest one is enough");
    assert!(is_closed(&large));
    assert!(![&small, &middle, &newest].into_iter().any(|connection| is_closed(connection)));
}

#[tokio::test]
async fn a_connection_that_was_evicted_is_counted_with_its_agent_until_it_is_closed() {
    let mut budget = OutboxBudget::new(900, 1 << 20, Arc::default());
    budget.per_agent = 1_000;
    let gateway = gateway_with(budget);
    let old = gateway.open(1, "phone", "a", ConnectionKind::Long).unwrap();
    old.outbox.push(frame(800));
    let new = gateway.open(2, "phone", "a", ConnectionKind::Long).unwrap();
    new.outbox.push(frame(300));
    assert_eq!(gateway.sessions.outbox_bytes(), 300, "what the evicted one did not read is dropped");
    let (closed, _) = close_reason(&old).unwrap();
    assert_eq!(closed.code, 4009, "the first close reason counts");
    assert!(!is_closed(&new));
}

#[tokio::test]
async fn when_all_outboxes_are_full_the_largest_holder_goes_and_not_whoever_is_written_to() {
    let gateway = gateway_with(OutboxBudget::new(500, 1_000, Arc::default()));
    let attacker: Vec<_> = (1..=9u64)
        .map(|id| gateway.open(id, "phone", &format!("s{id}"), ConnectionKind::Long).unwrap())
        .collect();
    let others: Vec<_> = (11..=14).map(|id| gateway.sessions.add(id, [127, 0, 0, 1].into())).collect();
    others[0].outbox.push(frame(150));
    attacker.iter().for_each(|connection| connection.outbox.push(frame(90)));
    assert_eq!(gateway.sessions.outbox_bytes(), 960);
    others[1].outbox.push(frame(60));
    assert_eq!(
        gateway.sessions.outbox_bytes(),
        210,
        "each of its connections holds less than one of the others"
    );
    assert!(attacker.iter().all(|connection| is_closed(connection)));
    assert!(!others.iter().any(|connection| is_closed(connection)));
}

#[tokio::test]
async fn an_event_is_for_the_long_connections_of_its_audience() {
    let gateway = gateway_with(OutboxBudget::new(1 << 20, 1 << 20, Arc::default()));
    for (id, device, slot) in
        [(1, "", ""), (2, "phone", "app"), (3, "phone", "other"), (4, "laptop", "app/web")]
    {
        gateway.open(id, device, slot, ConnectionKind::Long).unwrap();
    }
    gateway.open(5, "tablet", "app", ConnectionKind::Short(None)).unwrap();
    let aid = alice();
    let (device, slot) = (|text| DeviceId::parse(text).unwrap(), |text| SlotId::parse(text).unwrap());
    let but = |on, of| Audience::OtherInstances { aid: aid.clone(), device: device(on), slot: slot(of) };
    let instance = Audience::Instance { aid: aid.clone(), device: None, slot: Some(slot("app")) };
    for (to, expected) in [
        (Audience::Agent(aid.clone()), vec![1, 2, 3, 4]),
        (Audience::Others { aid: aid.clone(), connection: 2 }, vec![1, 3, 4]),
        (Audience::Connection { aid: aid.clone(), connection: 2 }, vec![2]),
        (instance, vec![2, 4]),
        (but("phone", "app"), vec![1, 3, 4]),
        (but("phone", "app cli"), vec![1, 3, 4]),
        (but("laptop", "app"), vec![1, 2, 3]),
        (but("", ""), vec![2, 3, 4]),
        (but("watch", "app"), vec![1, 2, 3, 4]),
        (Audience::Gateways, vec![]),
    ] {
        let mut told: Vec<u64> = gateway.sessions.audience(&to).iter().map(|one| one.id).collect();
        told.sort_unstable();
        assert_eq!(told, expected, "{to:?}");
    }
}

async fn until<T>(what: &str, mut get: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(got) = get() {
            return got;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{what}: not within 30 s");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn knows(gateway: &GatewayInstance, elsewhere: usize) {
    until("the other gateway's connections", || {
        (gateway.presence.elsewhere(&alice()).len() == elsewhere).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_evicted_by_its_successor_on_another_gateway() {
    let server = TestRedis::start();
    let [first, second] = gateways(&server).await;
    let old = first.open(1, "phone", "app", ConnectionKind::Long).unwrap();
    let other_slot = first.open(2, "phone", "other", ConnectionKind::Long).unwrap();
    knows(&second, 2).await;
    second.open(3, "phone", "app/2", ConnectionKind::Long).unwrap();
    let (closed, event) = until("a close reason", || close_reason(&old)).await;
    assert_eq!((closed.code, closed.reason.as_str()), (4009, "replaced_by_new_connection"));
    let by = &event["params"]["detail"]["evicted_by"];
    assert_eq!(*by, json!({ "device_id": "phone", "slot_id": "app/2", "extra_info": { "i_am": 3 } }));
    let detail = &event["params"]["detail"];
    assert_eq!(
        (&detail["self_extra_info"], &detail["new_extra_info"]),
        (&json!({ "i_am": 1 }), &by["extra_info"])
    );
    assert!(close_reason(&other_slot).is_none());
    assert_eq!((first.here(), second.here()), (vec![2], vec![3]));
    let sessions =
        || second.presence.sessions(&alice()).iter().map(|session| session.connection).collect::<Vec<_>>();
    until("two sessions", || (sessions() == [2, 3]).then_some(())).await;
    let everywhere = second.sessions.everywhere(&alice());
    let known: Vec<(u64, Value)> = everywhere
        .iter()
        .map(|known| (known.session.connection, json!(known.capabilities.as_ref().unwrap())))
        .collect();
    assert_eq!(known, [(2, json!({ "reads": 2 })), (3, json!({ "reads": 3 }))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_hold_over_gateways() {
    let server = TestRedis::start();
    let [first, second] = gateways(&server).await;
    let oldest = first.open(1, "phone", "s0", ConnectionKind::Long).unwrap();
    for id in 2..=6 {
        first.open(id, "phone", &format!("s{id}"), ConnectionKind::Long).unwrap();
    }
    knows(&second, 6).await;
    for id in 7..=11 {
        second.open(id, "phone", &format!("s{id}"), ConnectionKind::Long).unwrap();
    }
    let (closed, event) = until("the oldest is evicted", || close_reason(&oldest)).await;
    assert_eq!(closed.code, 4015);
    let detail = &event["params"]["detail"];
    assert_eq!(
        (&detail["quota_kind"], &detail["limit"]),
        (&json!("aid_device_slot_quota_exceeded"), &json!(10))
    );
    assert_eq!(detail["evicted_by"]["extra_info"], json!({ "i_am": 11 }));
    assert_eq!((first.here().len(), second.here().len()), (5, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_is_evicted_from_every_gateway_and_nobody_else_for_it() {
    let server = TestRedis::start();
    for newcomers in [0, 1] {
        let gateways = gateways(&server).await;
        let oldest = gateways[0].open(1, "d1", "a", ConnectionKind::Long).unwrap();
        for id in 2..=5 {
            gateways[0].open(id, &format!("d{id}"), "a", ConnectionKind::Long).unwrap();
        }
        knows(&gateways[1], 5).await;
        for id in 6..=10 {
            gateways[1].open(id, &format!("d{id}"), "a", ConnectionKind::Long).unwrap();
        }
        let second_slot = gateways[1].open(11, "d1", "b", ConnectionKind::Long).unwrap();
        knows(&gateways[0], 6).await;
        gateways[newcomers].open(12, "d12", "a", ConnectionKind::Long).unwrap();
        for connection in [oldest, second_slot] {
            let (closed, event) = until("a close reason", || close_reason(&connection)).await;
            let detail = &event["params"]["detail"];
            assert_eq!((closed.code, &detail["quota_kind"]), (4015, &json!("aid_devices_quota_exceeded")));
            assert_eq!(detail["evicted_by"]["extra_info"], json!({ "i_am": 12 }));
        }
        let mut left = [gateways[0].here(), gateways[1].here()].concat();
        left.sort_unstable();
        assert_eq!(left, [2, 3, 4, 5, 6, 7, 8, 9, 10, 12]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn short_connections_and_delivery_modes_count_over_gateways() {
    let server = TestRedis::start();
    let [first, second] = gateways(&server).await;
    for id in 1..=4 {
        first.open(id, "phone", "app", ConnectionKind::Short(None)).unwrap();
    }
    knows(&second, 4).await;
    for id in 5..=10 {
        second.open(id, "phone", "app", ConnectionKind::Short(None)).unwrap();
    }
    knows(&first, 6).await;
    for gateway in [&first, &second] {
        let refused = gateway.open(99, "phone", "app", ConnectionKind::Short(None)).err().unwrap();
        assert!(refused.to_string().contains("short_connection_capacity_exceeded"), "{refused}");
    }
    assert!(!second.presence.is_online(&alice()));
    let queue = Delivery { mode: Mode::Queue, ..Delivery::default() };
    let short = second.open_as(11, "tablet", "", ConnectionKind::Short(None), queue.clone());
    assert!(short.is_ok(), "short connections have nothing to agree on");
    first.open(12, "laptop", "", ConnectionKind::Long).unwrap();
    knows(&second, 5).await;
    let refused = second.open_as(13, "tablet", "", ConnectionKind::Long, queue).err().unwrap();
    assert!(refused.to_string().contains("delivery_mode_conflict"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_that_opened_too_many_at_the_same_moment_agree_on_who_is_evicted() {
    let server = TestRedis::start();
    for round in 0..5 {
        let [first, second] = gateways(&server).await;
        // Neither gateway waits until the other knows of it.
        for id in 0..10 {
            first.open(100 + id, &format!("a{id}"), "", ConnectionKind::Long).unwrap();
            second.open(200 + id, &format!("b{id}"), "", ConnectionKind::Long).unwrap();
            first.open(300 + id, "phone", &format!("s{id}"), ConnectionKind::Short(None)).unwrap();
        }
        let settled = || {
            let long = |gateway: &GatewayInstance| {
                gateway.sessions.of_agent(&alice()).iter().filter(|connection| connection.is_long()).count()
            };
            let seen: Vec<Vec<PresentSession>> =
                [&first, &second].map(|gateway| gateway.presence.sessions(&alice()).to_vec()).into();
            (long(&first) + long(&second) == 10 && seen[0] == seen[1] && seen[0].len() == 10)
                .then(|| seen[0].clone())
        };
        let sessions = until("ten devices stay", settled).await;
        let mut devices: Vec<&str> = sessions.iter().map(|session| session.device.as_str()).collect();
        devices.dedup();
        assert_eq!(devices.len(), 10, "round {round}: {devices:?}");
        assert_eq!(first.here().iter().filter(|id| **id >= 300).count(), 10, "short ones stay");
    }
}

proptest::proptest! {
    /// Whatever was opened at the same time: once those that have to end are gone, no other has to.
    #[test]
    fn what_is_settled_stays_settled(
        announced in proptest::collection::vec(
            (0u8..13, 0u8..13, proptest::bool::ANY, 0i64..20, proptest::collection::vec(0u8..60, 0..3)), 0..60)
    ) {
        let one = |(id, (device, slot, long, since_ms, instead_of)): (usize, &(u8, u8, bool, i64, Vec<u8>))| AnnouncedSession {
            session: PresentSession {
                connection: id as u64,
                device: DeviceId::parse(&format!("d{device}")).unwrap(),
                slot: SlotId::parse(&format!("s{slot}")).unwrap(),
                address: [127, 0, 0, 1].into(),
                delivery: Delivery::default(),
            },
            long: *long,
            since_ms: *since_ms,
            extra_info: None,
            capabilities: None,
            instead_of: instead_of.iter().map(|id| u64::from(*id)).filter(|other| *other != id as u64).collect(),
        };
        let announced: Vec<AnnouncedSession> = announced.iter().enumerate().map(one).collect();
        let mut views: Vec<SessionView<'_>> = announced.iter().map(SessionView::from).collect();
        views.sort_unstable_by_key(|view| (view.since_ms, view.id));
        let gone: Vec<u64> = eviction::settle(&views).iter().map(|leaving| leaving.session.id).collect();
        views.retain(|view| !gone.contains(&view.id));
        proptest::prop_assert!(eviction::settle(&views).is_empty());
    }
}
