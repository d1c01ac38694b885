//! The only file that knows everything: it builds the world, opens the services, stands the gateway, and takes it all down.

mod banner;
mod data;
mod drain;
mod housekeeping;

pub use data::{is_initialised, lock_data};

use crate::config::{self, Config, Listen};
use crate::federation::Federation;
use crate::gateway::Gateway;
use crate::mesh::{self, Pass, Wiring};
use crate::signals::Signals;
use crate::telemetry::{self, Metrics};
use crate::{admin, events, listen, readiness, status, tls};
use anyhow::{Context as _, bail};
use banner::Banner;
use drain::Running;
use housekeeping::housekeeping;
use services::kernel::{RedisBus, World};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Runs the server, or the parts of it that this process has, until it is told to stop and has drained.
pub async fn serve(config: Config) -> anyhow::Result<()> {
    telemetry::init(&config.log)?;
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let _lock = lock_data(&config.data)?;

    let world = world(&config).await?;
    let metrics = Arc::new(Metrics::of(&world.stores));
    running(&config).into_iter().for_each(|part| metrics.runs(part));
    let wiring = wire(&config, &world, &metrics)?;
    // Heard from before we say that we are ready: whoever reads the banner may send a signal at once.
    let mut signals = Signals::new()?;
    tokio::select! {
        met = readiness::authority(&config, &world.mesh) => met?,
        () = signals.wait() => return Ok(()),
    }
    open_services(&world, |service| config.runs(service)).await?;
    let mut banner = Banner::new(&config.issuer);
    let calls = answer_inside(&config, &world, &metrics, &wiring, &mut banner)?;
    // It already answers other processes, so also a stop in between has to be an orderly one.
    let stays = tokio::select! {
        () = readiness::everybody(&world.mesh) => true,
        () = signals.wait() => false,
    };
    let data = config.data.clone();
    let limit = Duration::from_millis(config.limits.drain_timeout_ms);
    let gateway = match stays && config.runs("gateway") {
        true => Some(open_gateway(config, &world, metrics, &mut banner).await?),
        false => None,
    };
    if stays {
        banner.print();
        signals.wait().await;
    }
    Running { gateway, calls, world, wiring }.stop(limit, &mut signals).await;
    admin::remove(&data);
    Ok(())
}

/// What the services may ask of the outside, as the settings have it.
async fn world(config: &Config) -> anyhow::Result<World> {
    let mut world = World::local(&config.issuer, &config.data, config.store_url()?);
    world.keys = config.keys.clone().unwrap_or(world.keys);
    let keep = config.federation.retention_seconds;
    world.peer_retention = (keep > 0).then(|| Duration::from_secs(keep));
    if let Some(settings) = config.redis() {
        let redis = RedisBus::open(settings, &world.clock).await.context("bus.url")?;
        (world.bus, world.presence) = (redis.bus(), redis.presence());
    }
    Ok(world)
}

/// Dials whatever lives in other processes.
fn wire(config: &Config, world: &World, metrics: &Arc<Metrics>) -> anyhow::Result<Arc<Wiring>> {
    if config.is_split() {
        let named = Pass::read(&config.mesh)?.parts();
        if let Some(part) = running(config).into_iter().find(|part| !named.contains(part)) {
            let named = if named.is_empty() { "nothing".to_owned() } else { named.join(" and ") };
            bail!("mesh.cert speaks for {named}, and {part} is to run here: nobody would believe it");
        }
    }
    let wiring = Arc::new(Wiring {
        settings: config.mesh.clone(),
        mesh: world.mesh.clone(),
        metrics: metrics.clone(),
        clock: world.clock.clone(),
        ids: world.ids.clone(),
        tracker: TaskTracker::new(),
        stop: CancellationToken::new(),
    });
    for namespace in config::parts() {
        if let Some(service) = config.services.get(namespace) {
            mesh::dial(&wiring, namespace, service.remote.as_slice());
        }
    }
    Ok(wiring)
}

fn running(config: &Config) -> Vec<&'static str> {
    config::parts().filter(|part| config.runs(part)).collect()
}

/// Opens the services this process runs and puts them on the mesh; their work is spawned on the tracker.
pub async fn open_services(world: &World, wanted: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    for namespace in services::NAMESPACES.iter().filter(|namespace| wanted(namespace)) {
        let module = services::open(namespace, world)
            .await
            .with_context(|| format!("the {namespace} service cannot open"))?;
        world.mesh.add_local(module.namespace, module.methods);
        if let Some(work) = module.work {
            world.tracker.spawn(work);
        }
    }
    Ok(())
}

/// Answers the other processes and the operator, until the world stops.
fn answer_inside(
    config: &Config,
    world: &World,
    metrics: &Arc<Metrics>,
    wiring: &Arc<Wiring>,
    banner: &mut Banner,
) -> anyhow::Result<TaskTracker> {
    let calls = TaskTracker::new();
    if let Some(address) = config.mesh.listen {
        let listener = listen::bind(address, false)?;
        banner.line("mesh", format!("wss://{}", listener.local_addr()?));
        banner.line("parts", running(config).join(", "));
        calls.spawn(mesh::accept(wiring.clone(), listener, calls.clone(), world.stop.clone()));
    }
    if let Some(address) = config.status.listen {
        let listener = listen::bind(address, false)?;
        banner.line("status", format!("http://{}", listener.local_addr()?));
        calls.spawn(status::answer(listener, world.clone(), metrics.clone()));
    }
    admin::listen(world, metrics, &calls, &config.data)?;
    Ok(calls)
}

/// Stands the gateway: listeners, events, sessions.
async fn open_gateway(
    config: Config,
    world: &World,
    metrics: Arc<Metrics>,
    banner: &mut Banner,
) -> anyhow::Result<Arc<Gateway>> {
    let tls = tls::acceptor(&config, world).await?;
    let mut bound = Vec::new();
    for at in &config.listen {
        let listener = listen::bind(at.address, config.share_port)?;
        bound.push((Listen { address: listener.local_addr()?, tls: at.tls }, listener));
    }
    let addresses: Vec<Listen> = bound.iter().map(|(at, _)| *at).collect();
    let public_url = config.gateway_url(&addresses);
    let federation = match config.federation.enabled {
        true => Some(Federation::open(&config, world, &metrics).await.context("federation")?),
        false => None,
    };
    let gateway = Gateway::new(config, public_url, world, metrics);
    if let Some(federation) = federation {
        world.mesh.add_local("gateway", federation.methods());
        world.mesh.set_forwarder(federation.clone());
        gateway.federate(federation);
    }
    events::listen(&gateway, &world.bus);
    for (at, listener) in bound {
        let tls = at.tls.then(|| tls.clone());
        gateway.tracker.spawn(listen::accept(gateway.clone(), listener, tls));
    }
    gateway.tracker.spawn(housekeeping(gateway.clone()));
    banner.gateway(&gateway, &addresses);
    Ok(gateway)
}
