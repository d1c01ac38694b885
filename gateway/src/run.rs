//! The only file that knows everything: it builds the world, opens the rooms, stands the door, and takes it all down.

use crate::config::{self, Config, Listen};
use crate::door::Door;
use crate::federation::Federation;
use crate::mesh::{self, Pass, Wiring};
use crate::session::{Goodbye, Link};
use crate::telemetry::{self, Metrics};
use crate::{admin, events, listen, meet, status, tls};
use anyhow::{Context as _, bail};
use services::kernel::{Redis, World, files};
use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Runs the server, or the parts of it that this process has, until it is told to stop and has drained.
pub async fn serve(config: Config) -> anyhow::Result<()> {
    telemetry::init(&config.log)?;
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let _lock = lock_data(&config.data)?;

    let mut world = World::local(&config.issuer, &config.data, config.store_url()?);
    world.keys = config.keys.clone().unwrap_or(world.keys);
    let keep = config.federation.keep_seconds;
    world.keep_abroad = (keep > 0).then(|| Duration::from_secs(keep));
    if let Some(settings) = config.redis() {
        let redis = Redis::open(settings, &world.clock).await.context("bus.url")?;
        (world.bus, world.presence) = (redis.bus(), redis.presence());
    }
    let metrics = Arc::new(Metrics::of(&world.stores));
    running(&config).into_iter().for_each(|part| metrics.runs(part));
    let wiring = wire(&config, &world, &metrics)?;
    // Heard from before we say that we are ready: whoever reads the banner may send a signal at once.
    let mut signals = Signals::new()?;
    tokio::select! {
        met = meet::authority(&config, &world.mesh) => met?,
        () = signals.wait() => return Ok(()),
    }
    open_rooms(&world, |room| config.runs(room)).await?;
    let calls = TaskTracker::new();
    let mut text = format!("aund {} is ready\n  issuer    {}\n", env!("CARGO_PKG_VERSION"), config.issuer);
    if let Some(address) = config.mesh.listen {
        let listener = listen::bind(address, false)?;
        text += &format!("  mesh      wss://{}\n", listener.local_addr()?);
        text += &format!("  parts     {}\n", running(&config).join(", "));
        calls.spawn(mesh::accept(wiring.clone(), listener, calls.clone(), world.stop.clone()));
    }
    if let Some(address) = config.status.listen {
        let listener = listen::bind(address, false)?;
        text += &format!("  status    http://{}\n", listener.local_addr()?);
        calls.spawn(status::answer(listener, world.clone(), metrics.clone()));
    }
    admin::listen(&world, &metrics, &calls, &config.data)?;
    // It already answers other processes, so also a stop in between has to be an orderly one.
    let stays = tokio::select! {
        () = meet::everybody(&world.mesh) => true,
        () = signals.wait() => false,
    };
    let data = config.data.clone();
    let limit = Duration::from_millis(config.limits.drain_timeout_ms);
    let door = match stays && config.runs("gateway") {
        true => Some(open_door(config, &world, metrics, &mut text).await?),
        false => None,
    };
    if stays {
        print(&text);
        signals.wait().await;
    }
    tracing::info!("stopping: no new connections, finishing what is under way");
    world.stop.cancel();
    let leaving = drain(door, &world, calls, &wiring);
    tokio::select! {
        done = tokio::time::timeout(limit, leaving) => match done {
            Ok(()) => tracing::info!("stopped"),
            Err(_) => tracing::warn!("stopped with calls unanswered: they took longer than {limit:?}"),
        },
        () = signals.wait() => {
            tracing::warn!("told to stop twice: leaving at once");
            std::process::exit(1);
        }
    }
    admin::remove(&data);
    Ok(())
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

/// Stands the door: listeners, events, sessions.
async fn open_door(
    config: Config,
    world: &World,
    metrics: Arc<Metrics>,
    text: &mut String,
) -> anyhow::Result<Arc<Door>> {
    let tls = tls::acceptor(&config, world).await?;
    let mut bound = Vec::new();
    for at in &config.listen {
        let listener = listen::bind(at.address, config.share_port)?;
        bound.push((Listen { address: listener.local_addr()?, tls: at.tls }, listener));
    }
    let addresses: Vec<Listen> = bound.iter().map(|(at, _)| *at).collect();
    let public_url = config.public_url.clone().unwrap_or_else(|| public_url(&config.issuer, &addresses));
    let federation = match config.federation.enabled {
        true => Some(Federation::open(&config, world, &metrics).await.context("federation")?),
        false => None,
    };
    let door = Door::new(config, public_url, world, metrics);
    if let Some(federation) = federation {
        world.mesh.add_local("gateway", federation.methods());
        world.mesh.open_border(federation.clone());
        door.federate(federation);
    }
    events::listen(&door, &world.bus);
    for (at, listener) in bound {
        let tls = at.tls.then(|| tls.clone());
        door.tracker.spawn(listen::accept(door.clone(), listener, tls));
    }
    door.tracker.spawn(housekeeping(door.clone()));
    describe(&door, &addresses, text);
    Ok(door)
}

/// One server per data folder. The lock is the kernel's and goes with the process, however it ends.
pub fn lock_data(data: &Path) -> anyhow::Result<File> {
    files::make_folder(data).with_context(|| format!("the data folder {} cannot be made", data.display()))?;
    let file = data.join("aund.lock");
    let lock = File::create(&file).with_context(|| format!("{} cannot be written", file.display()))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => bail!("another aund is using the data folder {}", data.display()),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("{} cannot be locked", file.display()))
        }
    }
}

/// Opens the rooms this process runs and puts them on the mesh; their work is spawned on the tracker.
pub async fn open_rooms(world: &World, wanted: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    for namespace in services::NAMESPACES.iter().filter(|namespace| wanted(namespace)) {
        let module = services::open(namespace, world)
            .await
            .with_context(|| format!("the {namespace} room cannot open"))?;
        world.mesh.add_local(module.namespace, module.methods);
        if let Some(work) = module.work {
            world.tracker.spawn(work);
        }
    }
    Ok(())
}

/// Clients keep this URL for ever: the gateway's name, and the port where TLS is spoken.
fn public_url(issuer: &str, addresses: &[Listen]) -> String {
    let secure = addresses.iter().find(|at| at.tls);
    let (scheme, standard) = if secure.is_some() { ("wss", 443) } else { ("ws", 80) };
    let port = secure.or(addresses.first()).map_or(standard, |at| at.address.port());
    let port = if port == standard { String::new() } else { format!(":{port}") };
    format!("{scheme}://gateway.{issuer}{port}/aun")
}

/// What somebody who has just started the server wants to know.
fn describe(door: &Door, addresses: &[Listen], text: &mut String) {
    let config = &door.config;
    let root = config.data.join("pki/root.crt");
    *text += &format!("  gateway   {}\n", door.public_url);
    for Listen { address, .. } in addresses.iter().filter(|at| !at.tls) {
        *text += &format!("  plain     ws://{address}/aun\n");
    }
    if !config.runs("ca") {
        return;
    }
    *text += &format!("  root      {}\n", root.display());
    let secure = addresses.iter().find(|at| at.tls);
    let Some(Listen { address: SocketAddr::V4(address), .. }) = secure else { return };
    let gateway = format!("gateway.{}:{}", config.issuer, address.port());
    *text += "\nTry next\n";
    *text += "  aund demo\n";
    *text += &format!(
        "  curl --cacert {} --resolve {gateway}:{} https://{gateway}/capabilities\n",
        root.display(),
        address.ip()
    );
    *text += &format!("  aund doctor --data {}\n", config.data.display());
    *text += &format!("  an SDK with root_ca_path={}\n", root.display());
}

fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

async fn housekeeping(door: Arc<Door>) {
    let mut every = tokio::time::interval(Duration::from_secs(10));
    let mut changes = door.mesh.changes();
    let mut losses = door.mesh.losses("message");
    loop {
        tokio::select! {
            _ = every.tick() => {
                door.limits.forget_quiet();
                if let Some(federation) = door.federation() {
                    federation.forget_quiet();
                }
                door.order.keep(|aid| !door.registry.of_agent(aid).is_empty());
            }
            _ = changes.changed() => {}
            () = door.stop.cancelled() => return,
        }
        events::refresh_capabilities(&door);
        // Whoever is killed between his commit and his bell leaves a letter that nobody was told of.
        let lost = door.mesh.losses("message");
        if std::mem::replace(&mut losses, lost) != lost {
            door.gap.missed(door.registry.agents());
        }
    }
}

/// The signals that ask a server to stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Each session leaves when its calls are answered, then the links from other processes do; then nobody can call the
/// rooms any more, and they close their stores; the links to other processes go last, because rooms use them.
async fn drain(door: Option<Arc<Door>>, world: &World, calls: TaskTracker, wiring: &Wiring) {
    let federation = door.as_ref().and_then(|door| door.federation().cloned());
    if let Some(door) = door {
        send_away(&door, Duration::from_millis(door.config.drain_window_ms())).await;
        door.tracker.close();
        door.tracker.wait().await;
    }
    calls.close();
    calls.wait().await;
    for namespace in world.mesh.namespaces() {
        world.mesh.remove(namespace);
    }
    world.tracker.close();
    world.tracker.wait().await;
    if let Some(federation) = federation {
        federation.stop.cancel();
        federation.tracker.close();
        federation.tracker.wait().await;
    }
    world.bus.close().await;
    wiring.stop.cancel();
    wiring.tracker.close();
    wiring.tracker.wait().await;
}

/// Sends everybody away, a share at a time over the window, so that the other gateways do not get all of them at once.
/// Whoever waits for its turn is served as ever. Clients come back by themselves after a 1012, which is why they get no
/// disconnect event.
async fn send_away(door: &Door, window: Duration) {
    let began = Instant::now();
    let everybody = door.registry.all().len();
    loop {
        let links = door.registry.all();
        if links.is_empty() {
            return;
        }
        let passed = began.elapsed().as_secs_f64() / window.as_secs_f64().max(f64::MIN_POSITIVE);
        let may_stay = (everybody as f64 * (1.0 - passed).max(0.0)) as usize;
        for link in links.iter().skip(may_stay) {
            link.leaves.store(true, Ordering::Relaxed);
        }
        let ready = |link: &&Arc<Link>| {
            link.leaves.load(Ordering::Relaxed) && link.in_flight.load(Ordering::Relaxed) == 0
        };
        for link in links.iter().filter(ready) {
            link.outbox.close(Goodbye::plain(1012, "the server restarts"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether the data folder was ever used by a server.
pub fn is_initialised(data: &Path) -> bool {
    fs::exists(data.join("pki/ca/issuer.crt")).unwrap_or(false)
}
