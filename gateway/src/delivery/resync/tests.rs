//! Which services are asked on a resync, for whom, and how often.

use super::{resync_agent, resync_missed};
use crate::admission::GatewayLimits;
use crate::config::Config;
use crate::connection::{Connection, ConnectionKind, OpenSession, OutboxBudget, Sessions};
use crate::delivery::EventDelivery;
use kernel::{
    Aid, Caller, CallingAgent, Delivery, DeviceId, Generation, Methods, Rpc, RpcError, SlotId, World, codes,
};
use parking_lot::Mutex;
use proto_schemas::requests::{auth, ca, message};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::task::TaskTracker;

/// The services that are asked. What they answer is set before: an error, whether there is an active certificate, or when the tokens were
/// revoked.
#[derive(Default)]
struct AskedServices {
    certs: Mutex<Vec<Result<bool, RpcError>>>,
    wakes: Mutex<Vec<RpcError>>,
    woken: Mutex<Vec<String>>,
    connections: Mutex<Vec<u64>>,
    revoked_at: Option<i64>,
}

impl AskedServices {
    async fn get_cert(self: Arc<Self>, _: Caller, _: ca::GetCert) -> Result<ca::KnownCertificate, RpcError> {
        if !self.certs.lock().pop().unwrap_or(Ok(true))? {
            return Ok(ca::KnownCertificate::default());
        }
        Ok(ca::KnownCertificate {
            found: true,
            cert: Some(String::new()),
            lifecycle_state: Some("active_signing".to_owned()),
            fingerprint: Some(String::new()),
            serial: Some(String::new()),
            not_before: Some(0),
            not_after: Some(0),
            ..ca::KnownCertificate::default()
        })
    }

    async fn wake(
        self: Arc<Self>,
        _: Caller,
        params: message::SessionResync,
    ) -> Result<message::SessionResyncResult, RpcError> {
        self.woken.lock().push(params.device_id.as_str().to_owned());
        self.connections.lock().push(params.connection.unwrap_or_default());
        self.wakes.lock().pop().map_or(Ok(message::SessionResyncResult { published: true }), Err)
    }

    async fn tokens_revoked_at(
        self: Arc<Self>,
        _: Caller,
        _: auth::TokensRevokedAt,
    ) -> Result<auth::LastRevocation, RpcError> {
        Ok(auth::LastRevocation { revoked_at: self.revoked_at })
    }

    fn methods(self: &Arc<Self>) -> [(&'static str, Methods); 3] {
        let ca = Rpc::new(self.clone()).method(AskedServices::get_cert);
        let message = Rpc::new(self.clone()).method(AskedServices::wake);
        let auth = Rpc::new(self.clone()).method(AskedServices::tokens_revoked_at);
        [("ca", ca.into()), ("message", message.into()), ("auth", auth.into())]
    }
}

fn alice() -> Aid {
    Aid::parse("alice.agents.localhost").unwrap()
}

fn delivery(services: &Arc<AskedServices>) -> EventDelivery {
    let config = Config::default();
    let world = World::local(&config.issuer, Path::new("unused"), config.store_url().unwrap());
    for (namespace, methods) in services.methods() {
        world.mesh.add_local(namespace, methods);
    }
    let budget = OutboxBudget::new(1 << 20, 1 << 20, Arc::default());
    let sessions = Arc::new(Sessions::new(world.presence.clone(), budget, 1));
    EventDelivery::new(&world, sessions, Arc::default(), TaskTracker::new())
}

fn open(delivery: &EventDelivery, device: &str, slot: &str, kind: ConnectionKind) -> Arc<Connection> {
    open_as(delivery, device, slot, kind, Generation::default())
}

fn open_as(
    delivery: &EventDelivery,
    device: &str,
    slot: &str,
    kind: ConnectionKind,
    generation: Generation,
) -> Arc<Connection> {
    let address = [127, 0, 0, 1].into();
    let connection = delivery.sessions.connect(address);
    let session = CallingAgent {
        aid: alice(),
        device: DeviceId::parse(device).unwrap(),
        slot: SlotId::parse(slot).unwrap(),
        connection: connection.id,
        address,
        connected_at_ms: 1,
        network: None,
        generation,
        trace: None,
    };
    let open = OpenSession {
        session,
        kind,
        delivery: Delivery::default(),
        extra_info: None,
        capabilities: None,
        since_ms: 0,
        instead_of: Vec::new(),
        _subscription: None,
        limit: GatewayLimits::new(&Config::default().limits).agent(&alice()),
        signer: Default::default(),
        tokens_revoked_at: None,
    };
    delivery.sessions.open(&connection, open).unwrap();
    connection
}

fn down() -> RpcError {
    RpcError::new(codes::UNAVAILABLE, "down")
}

#[tokio::test]
async fn every_device_is_notified_once() {
    let services = Arc::new(AskedServices::default());
    let delivery = delivery(&services);
    for (device, slot) in [("phone", "a"), ("phone", "b"), ("laptop", "a")] {
        open(&delivery, device, slot, ConnectionKind::Long);
    }
    open(&delivery, "tablet", "a", ConnectionKind::Short(None));
    assert!(resync_agent(&delivery, &alice()).await);
    let mut woken = services.woken.lock().clone();
    woken.sort_unstable();
    assert_eq!(woken, ["laptop", "phone"], "short connections get no events");
}

#[tokio::test]
async fn connections_of_the_second_generation_are_named() {
    let services = Arc::new(AskedServices::default());
    let delivery = delivery(&services);
    open(&delivery, "phone", "a", ConnectionKind::Long);
    let second = open_as(&delivery, "phone", "b", ConnectionKind::Long, Generation::Second);
    open(&delivery, "laptop", "a", ConnectionKind::Long);
    open_as(&delivery, "laptop", "b", ConnectionKind::Short(None), Generation::Second);
    assert!(resync_agent(&delivery, &alice()).await);
    let named = services.connections.lock().clone();
    let told = services.woken.lock().iter().cloned().zip(named).collect::<BTreeMap<String, u64>>();
    let expected = [("laptop".to_owned(), 0), ("phone".to_owned(), second.id)];
    assert_eq!((services.woken.lock().len(), told), (2, BTreeMap::from(expected)));
}

#[tokio::test]
async fn no_service_is_asked_for_an_agent_that_left() {
    let services =
        Arc::new(AskedServices { certs: Mutex::new(vec![Err(down())]), ..AskedServices::default() });
    assert!(resync_agent(&delivery(&services), &alice()).await);
    assert_eq!(services.certs.lock().len(), 1, "ca was not asked");
}

#[tokio::test]
async fn sessions_with_a_revoked_certificate_are_closed() {
    let services = Arc::new(AskedServices { certs: Mutex::new(vec![Ok(false)]), ..AskedServices::default() });
    let delivery = delivery(&services);
    let connections = [
        open(&delivery, "phone", "a", ConnectionKind::Long),
        open(&delivery, "phone", "a", ConnectionKind::Short(None)),
    ];
    assert!(resync_agent(&delivery, &alice()).await);
    assert!(connections.iter().all(|connection| connection.outbox.is_waiting()), "both are closed");
    assert_eq!(services.woken.lock().len(), 0, "they are not notified");
}

#[tokio::test]
async fn sessions_whose_tokens_were_revoked_meanwhile_are_closed() {
    let services = Arc::new(AskedServices { revoked_at: Some(7), ..AskedServices::default() });
    let delivery = delivery(&services);
    let connection = open(&delivery, "phone", "a", ConnectionKind::Long);
    assert!(resync_agent(&delivery, &alice()).await);
    assert!(connection.outbox.is_waiting(), "it is closed");
}

#[tokio::test]
async fn a_service_that_is_down_is_asked_again_and_one_that_refuses_is_not() {
    let stopping = RpcError::new(codes::SERVICE_STOPPING, "stopping");
    let broken = || RpcError::new(codes::METHOD_NOT_FOUND, "no such method");
    for (certs, wakes, settled) in [
        (vec![Err(down())], vec![], false),
        (vec![], vec![down()], false),
        (vec![], vec![stopping], false),
        (vec![], vec![broken()], true),
        (vec![Err(broken())], vec![], true),
    ] {
        let case = format!("{certs:?} {wakes:?}");
        let services = Arc::new(AskedServices {
            certs: Mutex::new(certs),
            wakes: Mutex::new(wakes),
            ..AskedServices::default()
        });
        let delivery = delivery(&services);
        open(&delivery, "phone", "a", ConnectionKind::Long);
        assert_eq!(resync_agent(&delivery, &alice()).await, settled, "{case}");
    }
}

#[tokio::test]
async fn no_agent_is_forgotten_while_a_service_is_down() {
    let services =
        Arc::new(AskedServices { certs: Mutex::new(vec![Err(down())]), ..AskedServices::default() });
    let delivery = delivery(&services);
    open(&delivery, "phone", "a", ConnectionKind::Long);
    delivery.resync.missed([alice(), alice()]);
    let began = Instant::now();
    let resynced = async {
        while services.woken.lock().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(20), "it was not tried again");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = resync_missed(&delivery) => unreachable!("it never ends by itself"),
        () = resynced => {}
    }
    assert_eq!(*services.woken.lock(), ["phone"]);
    assert!(delivery.resync.take().is_empty());
}
