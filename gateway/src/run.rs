//! The only module that knows everything: it builds the world, opens the services and the gateway, and stops them.

mod banner;
mod data;
mod drain;
mod free_space;
mod housekeeping;
mod readiness;
mod store_probes;

pub use data::{is_initialised, lock_data};

use crate::admin::{self, AskedProcess};
use crate::admission::Admission;
use crate::config::{Config, ListenAddress};
use crate::federation::Federation;
use crate::gateway::GatewayState;
use crate::health::HealthSources;
use crate::http::status;
use crate::listen::{self, tls};
use crate::mesh::{self, MeshContext, MeshIdentity};
use crate::signals::Signals;
use crate::telemetry::{self, Metrics};
use anyhow::{Context as _, bail};
use banner::Banner;
use drain::RunningServer;
use housekeeping::housekeeping;
use kernel::{Accounts, Bus, ConfiguredService, CpuPool, OwnGateway, RedisBus, World};
use proto_schemas::requests::ca::TrustChanged;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Runs the server, or the services of it that this process has, until a signal stops it and it has drained.
///
/// Boxed, so that all of it is compiled with this crate: the body of an async function is compiled where it is polled.
pub fn serve(config: Config) -> Pin<Box<dyn Future<Output = anyhow::Result<()>>>> {
    Box::pin(serve_until_stopped(config))
}

async fn serve_until_stopped(config: Config) -> anyhow::Result<()> {
    telemetry::init(&config.log)?;
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    // With huge pages each buffer of which one byte was used would cost two megabytes.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let _lock = lock_data(&config.data)?;

    let world = world(&config).await?;
    let metrics = Arc::new(Metrics::of(&world));
    running(&config).into_iter().for_each(|service| metrics.runs(service));
    world.tracker.spawn(telemetry::watch_lag(metrics.runtime_lag.clone(), world.stop.clone()));
    let mesh_context = wire(&config, &world, &metrics)?;
    // Installed before the banner is printed: whoever reads it may send a signal at once.
    let mut signals = Signals::new()?;
    tokio::select! {
        ready = readiness::ca(&config, &world.mesh) => ready?,
        () = signals.wait() => return Ok(()),
    }
    // Its store may not answer for a while. Nobody was answered yet, so a stop has nothing to drain.
    tokio::select! {
        opened = open_services(&world, &config.available, |service| config.runs(service)) => opened?,
        () = signals.wait() => return Ok(()),
    }
    store_probes::watch(&world);
    free_space::watch(&world, config.store_limits()).await;
    let mut banner = Banner::new(&config.issuer);
    let calls = answer_internal(&config, &world, &metrics, &mesh_context, &mut banner)?;
    // It already answers other processes, so a stop in between has to drain as well.
    let runs = tokio::select! {
        () = readiness::others(&world.mesh) => true,
        () = signals.wait() => false,
    };
    let health = HealthSources::new(&world, config.runs("gateway")).for_operator();
    let admission = Arc::new(Admission::new(&config, &world));
    let (data, services) = (config.data.clone(), running(&config));
    let limit = Duration::from_millis(config.limits.drain_timeout_ms);
    let gateway = match runs && config.runs("gateway") {
        true => Some(open_gateway(config, &world, metrics.clone(), &admission, &mut banner).await?),
        false => None,
    };
    if runs {
        // The last one, because whoever watches over this process asks it on this socket whether it can be used.
        let asked = AskedProcess { world: world.clone(), metrics, health, admission, services };
        admin::listen(asked, &calls, &data)?;
        banner.print();
        signals.wait().await;
    }
    RunningServer { gateway, calls, world, mesh_context }.stop(limit, &mut signals).await;
    admin::remove(&data);
    Ok(())
}

/// What the services are given, as the configuration has it.
async fn world(config: &Config) -> anyhow::Result<World> {
    let mut world = World::local(&config.issuer, &config.data, config.store_url()?);
    world.keys = config.keys.clone().unwrap_or(world.keys);
    world.pki_url = config.pki_url();
    world.cpu = Arc::new(CpuPool::new(config.limits.cpu()));
    if let Some(settings) = config.redis() {
        let redis = RedisBus::open(settings, &world.clock).await.context("bus.url")?;
        (world.bus, world.presence) = (redis.bus(), redis.presence());
    }
    world.accounts = Accounts::new(config.accounts, &world.bus);
    Ok(world)
}

/// Dials the services that run in other processes.
fn wire(config: &Config, world: &World, metrics: &Arc<Metrics>) -> anyhow::Result<Arc<MeshContext>> {
    if config.is_split() {
        let named = MeshIdentity::read(&config.mesh)?.services();
        if let Some(service) = running(config).into_iter().find(|service| !named.contains(service)) {
            let named = if named.is_empty() { "nothing".to_owned() } else { named.join(" and ") };
            bail!("mesh.cert is for {named}, and {service} runs here: other processes would refuse it");
        }
    }
    let mesh_context = Arc::new(MeshContext {
        settings: config.mesh.clone(),
        mesh: world.mesh.clone(),
        metrics: metrics.clone(),
        clock: world.clock.clone(),
        tracker: TaskTracker::new(),
        stop: CancellationToken::new(),
    });
    for name in config.service_names() {
        if let Some(service) = config.services.get(name) {
            mesh::dial(&mesh_context, name, service.remote.as_slice());
        }
    }
    Ok(mesh_context)
}

fn running(config: &Config) -> Vec<&'static str> {
    config.service_names().filter(|service| config.runs(service)).collect()
}

/// Opens the services this process runs and puts them on the mesh; their tasks are spawned on the tracker.
pub async fn open_services(
    world: &World,
    available: &[ConfiguredService],
    wanted: impl Fn(&str) -> bool,
) -> anyhow::Result<()> {
    for service in available.iter().filter(|service| wanted(service.name)) {
        let opened = service.open(world).await;
        world.add(opened.with_context(|| format!("the {} service cannot open", service.name))?);
    }
    Ok(())
}

/// Answers the other processes, until the server stops.
fn answer_internal(
    config: &Config,
    world: &World,
    metrics: &Arc<Metrics>,
    mesh_context: &Arc<MeshContext>,
    banner: &mut Banner,
) -> anyhow::Result<TaskTracker> {
    let calls = TaskTracker::new();
    if let Some(address) = config.mesh.listen {
        let listener = listen::bind(address, false)?;
        banner.line("mesh", format!("wss://{}", listener.local_addr()?));
        banner.line("services", running(config).join(", "));
        calls.spawn(mesh::accept(mesh_context.clone(), listener, calls.clone(), world.stop.clone()));
    }
    if let Some(address) = config.status.listen {
        let listener = listen::bind(address, false)?;
        banner.line("status", format!("http://{}", listener.local_addr()?));
        let health = HealthSources::new(world, config.runs("gateway")).for_operator();
        calls.spawn(status::answer(listener, world.clone(), metrics.clone(), health));
    }
    Ok(calls)
}

/// Opens the gateway: listeners, sessions, events.
async fn open_gateway(
    config: Config,
    world: &World,
    metrics: Arc<Metrics>,
    admission: &Arc<Admission>,
    banner: &mut Banner,
) -> anyhow::Result<Arc<GatewayState>> {
    let tls = tls::acceptor(&config, world).await?;
    let mut bound = Vec::new();
    for at in &config.listen {
        let listener = listen::bind(at.address, config.share_port)?;
        bound.push((ListenAddress { address: listener.local_addr()?, tls: at.tls }, listener));
    }
    let addresses: Vec<ListenAddress> = bound.iter().map(|(at, _)| *at).collect();
    if let Some(own) = own_gateway(&config, world, &addresses) {
        // A process has one gateway.
        let _ = world.own_gateway.set(own);
    }
    let public_url = config.gateway_url(&addresses);
    let is_enabled = config.federation.enabled;
    // Services in other processes do not know this setting. They are refused with it, and need not wait for a gateway.
    let federation = match is_enabled || config.is_split() {
        true => Some(Federation::open(&config, world, &metrics, admission).await.context("federation")?),
        false => None,
    };
    let refusing = federation.clone().filter(|_| !is_enabled);
    let federation = federation.filter(|_| is_enabled);
    let gateway = GatewayState::new(config, public_url, world, metrics, admission.clone(), federation);
    if let Some(refusing) = refusing {
        refusing.show_sessions(&gateway.sessions);
        world.mesh.add_local("gateway", refusing.methods());
    }
    if let Some(federation) = &gateway.federation {
        world.mesh.add_local("gateway", federation.methods());
        world.mesh.set_forwarder(federation.clone());
        follow_trust(&world.bus, federation, &gateway.tracker);
        gateway.tracker.spawn(federation.clone().watch_revocations(gateway.stop.clone()));
    }
    gateway.sessions.listen();
    gateway.delivery.listen();
    for (at, listener) in bound {
        let tls = at.tls.then(|| tls.clone());
        gateway.tracker.spawn(listen::accept(gateway.clone(), listener, tls));
    }
    gateway.tracker.spawn(housekeeping(gateway.clone()));
    banner.gateway(&gateway, &addresses);
    Ok(gateway)
}

/// How others on this machine reach a gateway that listens at these addresses.
fn own_gateway(config: &Config, world: &World, addresses: &[ListenAddress]) -> Option<OwnGateway> {
    let at = addresses.iter().find(|at| at.tls).or(addresses.first())?;
    let mut address = at.address;
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let scheme = if at.tls { "https" } else { "http" };
    let has_own_certificate = at.tls && config.tls.cert.is_none();
    let root = world.keys.join("pki/root.crt");
    let root = std::path::absolute(&root).unwrap_or(root);
    Some(OwnGateway {
        url: format!("{scheme}://gateway.{}:{}", config.issuer, address.port()),
        address,
        root: has_own_certificate.then_some(root),
    })
}

/// Has federation read the list of trusted roots again each time that it changed. That takes a call, which a listener must
/// not wait for.
fn follow_trust(bus: &Bus, federation: &Arc<Federation>, tracker: &TaskTracker) {
    let (weak, tracker) = (Arc::downgrade(federation), tracker.clone());
    bus.listen(move |event| {
        if event.as_signal::<TrustChanged>().is_none() {
            return;
        }
        if let Some(federation) = weak.upgrade() {
            tracker.spawn(async move { federation.trust_changed().await });
        }
    });
}
