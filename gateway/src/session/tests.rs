//! The rules of who may stay, over two gateways on one Redis.

use super::outbox::Item;
use super::registry::{Bound, Kind, Link, Registry};
use super::rules::{self, Place};
use super::{Budget, CloseReason, Outbox};
use crate::config::Config;
use crate::limits::Limits;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use services::kernel::{
    Aid, AnnouncedSession, Bus, Clock, Delivery, DeviceId, Generation, Ids, Mode, Presence, PresentSession,
    RedisBus, RedisSettings, RpcError, Session, SlotId,
};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The Redis that `tests/run` starts and names, or else one of the test's own.
struct Server {
    url: String,
    process: Option<Child>,
}

impl Server {
    #[expect(clippy::disallowed_methods, reason = "tests are configured by their environment")]
    fn start() -> Server {
        if let Ok(url) = std::env::var("AUND_TEST_REDIS_URL") {
            return Server { url, process: None };
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
        Server { url: format!("redis://127.0.0.1:{port}"), process: Some(process) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

struct Gateway {
    registry: Arc<Registry>,
    presence: Presence,
    limits: Limits,
    budget: Arc<Budget>,
}

/// Two gateways of one domain.
async fn gateways(server: &Server) -> [Gateway; 2] {
    let issuer = format!("{}.test", u64::from_be_bytes(Ids::default().bytes()));
    [gateway(server, &issuer).await, gateway(server, &issuer).await]
}

async fn gateway(server: &Server, issuer: &str) -> Gateway {
    let settings = RedisSettings::new(&server.url, issuer, true);
    let presence = RedisBus::open(settings, &Clock::System).await.unwrap().presence();
    let registry = Arc::new(Registry::new(presence.clone()));
    let settling = registry.clone();
    presence.on_arrival_elsewhere(move |aid| settling.settle(aid));
    let budget = Arc::new(Budget::new(1 << 20, 1 << 20, Arc::default()));
    Gateway { registry, presence, limits: Limits::new(&Config::default().limits, &Bus::local()), budget }
}

impl Gateway {
    fn enter(&self, id: u64, device: &str, slot: &str, kind: Kind) -> Result<Arc<Link>, RpcError> {
        self.enter_as(id, device, slot, kind, Delivery::default())
    }

    fn enter_as(
        &self,
        id: u64,
        device: &str,
        slot: &str,
        kind: Kind,
        delivery: Delivery,
    ) -> Result<Arc<Link>, RpcError> {
        let address = [127, 0, 0, 1].into();
        let link = Arc::new(Link::new(id, address, Outbox::new(self.budget.clone())));
        self.registry.add(&link);
        let session = Session {
            aid: alice(),
            device: DeviceId::parse(device).unwrap(),
            slot: SlotId::parse(slot).unwrap(),
            connection: id,
            address,
            connected_at_ms: 1_794_701_761_000,
            generation: Generation::default(),
            trace: None,
        };
        let bound = Bound {
            session,
            kind,
            delivery,
            extra_info: Some(to_raw_value(&json!({ "i_am": id })).unwrap()),
            since_ms: 0,
            instead_of: Vec::new(),
            _subscription: None,
            limit: self.limits.agent(&alice()),
            signer: Default::default(),
        };
        self.registry.enter(&link, bound)?;
        Ok(link)
    }

    fn here(&self) -> Vec<u64> {
        self.registry.of_agent(&alice()).iter().map(|link| link.id).collect()
    }
}

fn alice() -> Aid {
    Aid::parse("alice.aid.pub").unwrap()
}

fn close_reason(link: &Link) -> Option<(CloseReason, Value)> {
    match link.outbox.pop()? {
        Item::CloseReason(close_reason) => {
            let event = close_reason.event.as_ref().map(|event| serde_json::from_str(event).unwrap());
            Some((close_reason, event.unwrap_or_default()))
        }
        Item::Frame(frame) => panic!("nothing but a close reason was expected: {frame}"),
        Item::Frames(frames) => panic!("nothing but a close reason was expected: {frames:?}"),
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

async fn knows(gateway: &Gateway, elsewhere: usize) {
    until("the other gateway's connections", || {
        (gateway.presence.elsewhere(&alice()).len() == elsewhere).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_makes_service_for_its_successor_on_another_gateway() {
    let server = Server::start();
    let [first, second] = gateways(&server).await;
    let old = first.enter(1, "phone", "app", Kind::Long).unwrap();
    let aside = first.enter(2, "phone", "other", Kind::Long).unwrap();
    knows(&second, 2).await;
    second.enter(3, "phone", "app/2", Kind::Long).unwrap();
    let (bye, event) = until("a close reason", || close_reason(&old)).await;
    assert_eq!((bye.code, bye.reason.as_str()), (4009, "replaced_by_new_connection"));
    let by = &event["params"]["detail"]["evicted_by"];
    assert_eq!(*by, json!({ "device_id": "phone", "slot_id": "app/2", "extra_info": { "i_am": 3 } }));
    assert!(close_reason(&aside).is_none());
    assert_eq!((first.here(), second.here()), (vec![2], vec![3]));
    let sessions =
        || second.presence.sessions(&alice()).iter().map(|session| session.connection).collect::<Vec<_>>();
    until("two sessions", || (sessions() == [2, 3]).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_hold_over_gateways() {
    let server = Server::start();
    let [first, second] = gateways(&server).await;
    let oldest = first.enter(1, "phone", "s0", Kind::Long).unwrap();
    for id in 2..=6 {
        first.enter(id, "phone", &format!("s{id}"), Kind::Long).unwrap();
    }
    knows(&second, 6).await;
    for id in 7..=11 {
        second.enter(id, "phone", &format!("s{id}"), Kind::Long).unwrap();
    }
    let (bye, event) = until("the oldest goes", || close_reason(&oldest)).await;
    assert_eq!(bye.code, 4015);
    let detail = &event["params"]["detail"];
    assert_eq!(
        (&detail["quota_kind"], &detail["limit"]),
        (&json!("aid_device_slot_quota_exceeded"), &json!(10))
    );
    assert_eq!(detail["evicted_by"]["extra_info"], json!({ "i_am": 11 }));
    assert_eq!((first.here().len(), second.here().len()), (5, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_has_to_go_goes_from_every_gateway_and_nobody_goes_for_it() {
    let server = Server::start();
    for newcomers in [0, 1] {
        let gateways = gateways(&server).await;
        let oldest = gateways[0].enter(1, "d1", "a", Kind::Long).unwrap();
        for id in 2..=5 {
            gateways[0].enter(id, &format!("d{id}"), "a", Kind::Long).unwrap();
        }
        knows(&gateways[1], 5).await;
        for id in 6..=10 {
            gateways[1].enter(id, &format!("d{id}"), "a", Kind::Long).unwrap();
        }
        let second_slot = gateways[1].enter(11, "d1", "b", Kind::Long).unwrap();
        knows(&gateways[0], 6).await;
        gateways[newcomers].enter(12, "d12", "a", Kind::Long).unwrap();
        for link in [oldest, second_slot] {
            let (bye, event) = until("a close reason", || close_reason(&link)).await;
            let detail = &event["params"]["detail"];
            assert_eq!((bye.code, &detail["quota_kind"]), (4015, &json!("aid_devices_quota_exceeded")));
            assert_eq!(detail["evicted_by"]["extra_info"], json!({ "i_am": 12 }));
        }
        let mut left = [gateways[0].here(), gateways[1].here()].concat();
        left.sort_unstable();
        assert_eq!(left, [2, 3, 4, 5, 6, 7, 8, 9, 10, 12]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn short_connections_and_delivery_modes_count_over_gateways() {
    let server = Server::start();
    let [first, second] = gateways(&server).await;
    for id in 1..=4 {
        first.enter(id, "phone", "app", Kind::Short(None)).unwrap();
    }
    knows(&second, 4).await;
    for id in 5..=10 {
        second.enter(id, "phone", "app", Kind::Short(None)).unwrap();
    }
    knows(&first, 6).await;
    for gateway in [&first, &second] {
        let refused = gateway.enter(99, "phone", "app", Kind::Short(None)).err().unwrap();
        assert!(refused.to_string().contains("short_connection_capacity_exceeded"), "{refused}");
    }
    assert!(!second.presence.is_online(&alice()));
    let queue = Delivery { mode: Mode::Queue, ..Delivery::default() };
    let refused = second.enter_as(11, "tablet", "", Kind::Long, queue).err().unwrap();
    assert!(refused.to_string().contains("delivery_mode_conflict"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_that_let_too_many_in_at_the_same_moment_agree_on_who_goes() {
    let server = Server::start();
    for round in 0..5 {
        let [first, second] = gateways(&server).await;
        // Nobody waits for the other to hear of it.
        for id in 0..10 {
            first.enter(100 + id, &format!("a{id}"), "", Kind::Long).unwrap();
            second.enter(200 + id, &format!("b{id}"), "", Kind::Long).unwrap();
            first.enter(300 + id, "phone", &format!("s{id}"), Kind::Short(None)).unwrap();
        }
        let settled = || {
            let long = |gateway: &Gateway| {
                gateway.registry.of_agent(&alice()).iter().filter(|link| link.is_long()).count()
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
    /// Whatever came together: once those who have to go are gone, nobody else has to.
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
            instead_of: instead_of.iter().map(|id| u64::from(*id)).filter(|other| *other != id as u64).collect(),
        };
        let announced: Vec<AnnouncedSession> = announced.iter().enumerate().map(one).collect();
        let mut places: Vec<Place<'_>> = announced.iter().map(Place::from).collect();
        places.sort_unstable_by_key(|place| (place.since_ms, place.id));
        let gone: Vec<u64> = rules::settle(&places).iter().map(|leaving| leaving.place.id).collect();
        places.retain(|place| !gone.contains(&place.id));
        proptest::prop_assert!(rules::settle(&places).is_empty());
    }
}
