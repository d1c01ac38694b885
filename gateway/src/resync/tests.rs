//! Who is looked after, by whom, and how often.

use super::{agent, look_after};
use crate::config::Config;
use crate::gateway::Gateway;
use crate::session::{Bound, Kind, Link};
use crate::telemetry::Metrics;
use parking_lot::Mutex;
use serde_json::{Value, json};
use services::kernel::{
    Aid, Caller, Delivery, DeviceId, Generation, Methods, Rpc, RpcError, Session, SlotId, World, codes,
};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The two services that are asked. What they answer is said before: a refusal, or whether the authority vouches.
#[derive(Default)]
struct Services {
    vouches: Mutex<Vec<Result<bool, RpcError>>>,
    wakes: Mutex<Vec<RpcError>>,
    woken: Mutex<Vec<String>>,
}

impl Services {
    async fn get_cert(self: Arc<Self>, _: Caller, _: Value) -> Result<Value, RpcError> {
        Ok(json!({ "found": self.vouches.lock().pop().unwrap_or(Ok(true))? }))
    }

    async fn wake(self: Arc<Self>, _: Caller, params: Value) -> Result<Value, RpcError> {
        self.woken.lock().push(params["device_id"].as_str().unwrap_or_default().to_owned());
        self.wakes.lock().pop().map_or(Ok(json!({})), Err)
    }

    fn methods(self: &Arc<Self>) -> [(&'static str, Methods); 2] {
        let ca = Rpc::new(self.clone()).method("ca.get_cert", Services::get_cert);
        let message = Rpc::new(self.clone()).method("message.wake", Services::wake);
        [("ca", ca.into()), ("message", message.into())]
    }
}

fn alice() -> Aid {
    Aid::parse("alice.agents.localhost").unwrap()
}

fn gateway(services: &Arc<Services>) -> Arc<Gateway> {
    let config = Config::default();
    let world = World::local(&config.issuer, Path::new("unused"), config.store_url().unwrap());
    for (namespace, methods) in services.methods() {
        world.mesh.add_local(namespace, methods);
    }
    Gateway::new(config, "wss://gateway.agents.localhost/aun".into(), &world, Arc::<Metrics>::default())
}

fn enter(gateway: &Gateway, device: &str, slot: &str, kind: Kind) -> Arc<Link> {
    let address = [127, 0, 0, 1].into();
    let link = gateway.new_link(address);
    let session = Session {
        aid: alice(),
        device: DeviceId::parse(device).unwrap(),
        slot: SlotId::parse(slot).unwrap(),
        connection: link.id,
        address,
        connected_at_ms: 1,
        generation: Generation::default(),
        trace: None,
    };
    let bound = Bound {
        session,
        kind,
        delivery: Delivery::default(),
        extra_info: None,
        since_ms: 0,
        instead_of: Vec::new(),
        _subscription: None,
        limit: gateway.limits.agent(&alice()),
        signer: Default::default(),
    };
    gateway.registry.enter(&link, bound).unwrap();
    link
}

fn away() -> RpcError {
    RpcError::new(codes::UNAVAILABLE, "away")
}

#[tokio::test]
async fn every_device_is_rung_for_once() {
    let services = Arc::new(Services::default());
    let gateway = gateway(&services);
    for (device, slot) in [("phone", "a"), ("phone", "b"), ("laptop", "a")] {
        enter(&gateway, device, slot, Kind::Long);
    }
    enter(&gateway, "tablet", "a", Kind::Short(None));
    assert!(agent(&gateway, &alice()).await);
    let mut woken = services.woken.lock().clone();
    woken.sort_unstable();
    assert_eq!(woken, ["laptop", "phone"], "short connections hear no bells");
}

#[tokio::test]
async fn who_is_not_here_is_nobodys_business() {
    let services = Arc::new(Services { vouches: Mutex::new(vec![Err(away())]), ..Services::default() });
    assert!(agent(&gateway(&services), &alice()).await);
    assert_eq!(services.vouches.lock().len(), 1, "the authority was not asked");
}

#[tokio::test]
async fn whoever_was_revoked_meanwhile_has_to_go() {
    let services = Arc::new(Services { vouches: Mutex::new(vec![Ok(false)]), ..Services::default() });
    let gateway = gateway(&services);
    let links = [enter(&gateway, "phone", "a", Kind::Long), enter(&gateway, "phone", "a", Kind::Short(None))];
    assert!(agent(&gateway, &alice()).await);
    assert!(links.iter().all(|link| link.outbox.is_waiting()), "both are told to go");
    assert_eq!(services.woken.lock().len(), 0, "nobody rings for them");
}

#[tokio::test]
async fn a_service_that_is_away_is_asked_again_and_one_that_refuses_is_not() {
    let stopping = RpcError::new(codes::SERVICE_STOPPING, "stopping");
    let broken = || RpcError::new(codes::METHOD_NOT_FOUND, "no such method");
    for (vouches, wakes, settled) in [
        (vec![Err(away())], vec![], false),
        (vec![], vec![away()], false),
        (vec![], vec![stopping], false),
        (vec![], vec![broken()], true),
        (vec![Err(broken())], vec![], true),
    ] {
        let told = format!("{vouches:?} {wakes:?}");
        let services = Arc::new(Services {
            vouches: Mutex::new(vouches),
            wakes: Mutex::new(wakes),
            ..Services::default()
        });
        let gateway = gateway(&services);
        enter(&gateway, "phone", "a", Kind::Long);
        assert_eq!(agent(&gateway, &alice()).await, settled, "{told}");
    }
}

#[tokio::test]
async fn nobody_is_forgotten_while_a_service_is_away() {
    let services = Arc::new(Services { vouches: Mutex::new(vec![Err(away())]), ..Services::default() });
    let gateway = gateway(&services);
    enter(&gateway, "phone", "a", Kind::Long);
    gateway.resync.missed([alice(), alice()]);
    let began = Instant::now();
    let looked_after = async {
        while services.woken.lock().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(20), "nobody came back to it");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = look_after(&gateway) => unreachable!("it never ends by itself"),
        () = looked_after => {}
    }
    assert_eq!(*services.woken.lock(), ["phone"]);
    assert!(gateway.resync.take().is_empty());
}
