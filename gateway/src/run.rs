//! The only file that knows everything: it builds the world, opens the rooms, stands the door, and takes it all down.

use crate::config::{Config, Listen};
use crate::door::Door;
use crate::session::{Goodbye, Link};
use crate::{admin, events, listen, telemetry, tls};
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

/// Runs the server until it is told to stop, and then until it has drained.
pub async fn serve(config: Config) -> anyhow::Result<()> {
    telemetry::init(&config.log)?;
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let _lock = lock_data(&config.data)?;

    let mut world = World::local(&config.issuer, &config.data, config.store_url()?);
    if let Some(settings) = config.redis() {
        let redis = Redis::open(settings, &world.clock).await.context("bus.url")?;
        (world.bus, world.presence) = (redis.bus(), redis.presence());
    }
    open_rooms(&world, |room| config.runs(room)).await?;
    let tls = tls::acceptor(&config, &world).await?;
    let mut bound = Vec::new();
    for at in &config.listen {
        let listener = listen::bind(*at)?;
        bound.push((Listen { address: listener.local_addr()?, tls: at.tls }, listener));
    }
    let addresses: Vec<Listen> = bound.iter().map(|(at, _)| *at).collect();
    let public_url = config.public_url.clone().unwrap_or_else(|| public_url(&config.issuer, &addresses));
    let door = Door::new(config, public_url, &world);
    events::listen(&door, &world.bus);
    admin::listen(&door, &world.data)?;
    for (at, listener) in bound {
        let tls = at.tls.then(|| tls.clone());
        door.tracker.spawn(listen::accept(door.clone(), listener, tls));
    }
    door.tracker.spawn(housekeeping(door.clone()));
    // Heard from before we say that we are ready: whoever reads the banner may send a signal at once.
    let mut signals = Signals::new()?;
    banner(&door, &addresses);

    signals.wait().await;
    tracing::info!("stopping: no new connections, finishing what is under way");
    drain(&door, &world, signals).await;
    admin::remove(&door.config.data);
    Ok(())
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

fn banner(door: &Door, addresses: &[Listen]) {
    let config = &door.config;
    let root = config.data.join("pki/root.crt");
    let mut text = format!("aund {} is ready\n  issuer    {}\n", env!("CARGO_PKG_VERSION"), config.issuer);
    text += &format!("  gateway   {}\n", door.public_url);
    for Listen { address, .. } in addresses.iter().filter(|at| !at.tls) {
        text += &format!("  plain     ws://{address}/aun\n");
    }
    text += &format!("  root      {}\n", root.display());
    if let Some(Listen { address, .. }) = addresses.iter().find(|at| at.tls) {
        let SocketAddr::V4(address) = address else { return print(&text) };
        let gateway = format!("gateway.{}:{}", config.issuer, address.port());
        text += "\nTry next\n";
        text += "  aund demo\n";
        text += &format!(
            "  curl --cacert {} --resolve {gateway}:{} https://{gateway}/capabilities\n",
            root.display(),
            address.ip()
        );
        text += &format!("  aund doctor --data {}\n", config.data.display());
        text += &format!("  an SDK with root_ca_path={}\n", root.display());
    }
    print(&text);
}

fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

async fn housekeeping(door: Arc<Door>) {
    let mut every = tokio::time::interval(Duration::from_secs(10));
    while door.stop.run_until_cancelled(every.tick()).await.is_some() {
        door.limits.forget_quiet();
        events::refresh_capabilities(&door);
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

/// No new sockets; each session leaves when its turn has come and its calls are answered; whoever takes too long is cut.
/// Clients come back by themselves after a 1012, which is why they get no disconnect event.
async fn drain(door: &Arc<Door>, world: &World, mut signals: Signals) {
    let limit = Duration::from_millis(door.config.limits.drain_timeout_ms);
    door.stop.cancel();
    let graceful = async {
        send_away(door, Duration::from_millis(door.config.drain_window_ms())).await;
        // HTTP requests finish too; then nobody can call the rooms any more, and they close their stores.
        door.tracker.close();
        door.tracker.wait().await;
        for namespace in world.mesh.namespaces() {
            world.mesh.remove(namespace);
        }
        world.tracker.close();
        world.tracker.wait().await;
        world.bus.close().await;
    };
    let again = async {
        signals.wait().await;
        tracing::warn!("told to stop twice: leaving at once");
        std::process::exit(1);
    };
    tokio::select! {
        done = tokio::time::timeout(limit, graceful) => match done {
            Ok(()) => tracing::info!("stopped"),
            Err(_) => tracing::warn!("stopped with calls unanswered: they took longer than {limit:?}"),
        },
        () = again => {}
    }
}

/// Sends everybody away, a share at a time over the window, so that the other gateways do not get all of them at once.
/// Whoever waits for its turn is served as ever.
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
