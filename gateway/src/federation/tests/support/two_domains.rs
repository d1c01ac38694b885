//! Two domains in one test: ours, which dials, and another one whose gateway the test controls.

use super::remote_gateway::{AcceptedLink, RemoteGateway};
use super::test_ca::TestCa;
use super::test_methods;
use crate::admission::Admission;
use crate::config::Config;
use crate::federation::Federation;
use crate::federation::outbound::{PeerPool, RelayOutcome};
use crate::federation::wire::relay::{Relay, RelayCaller, RelayKind};
use crate::telemetry::Metrics;
use kernel::{Clock, Mesh, RpcError, World};
use proto_schemas::requests::gateway::ListedPeer;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

pub const OURS: &str = "ours.example";
pub const THEIRS: &str = "theirs.example";
/// The agent of ours that calls.
pub const ASKER: &str = "alice.ours.example";
/// Long enough for a machine that is busy with something else.
pub const LONG: Duration = Duration::from_secs(20);

/// Our domain, and the gateway of the other one. The clock of both stands still until the test moves it.
pub struct TwoDomains {
    pub fed: Arc<Federation>,
    pub our_ca: Arc<TestCa>,
    pub remote: Arc<RemoteGateway>,
    links: tokio::sync::Mutex<mpsc::UnboundedReceiver<AcceptedLink>>,
    _tasks: tokio_util::sync::DropGuard,
    _data: tempfile::TempDir,
}

async fn federation(ca: &Arc<TestCa>, config: Config, clock: &Clock, data: &Path) -> Arc<Federation> {
    let mut world = World::local(&config.issuer, data, "sqlite:".parse().unwrap());
    world.clock = clock.clone();
    world.mesh = Arc::new(Mesh::default());
    world.mesh.add_local("ca", ca.methods());
    let admission = Arc::new(Admission::new(&config, &world));
    let metrics = Arc::new(Metrics::new());
    let mut federation = Federation::open(&config, &world, &metrics, &admission).await.unwrap();
    Arc::get_mut(&mut federation).expect("nobody else has it yet").rules.find_method =
        test_methods::find_method;
    federation
}

impl TwoDomains {
    pub async fn new() -> TwoDomains {
        TwoDomains::with(|_| ()).await
    }

    pub async fn with(change: impl FnOnce(&mut Config)) -> TwoDomains {
        let data = tempfile::tempdir().unwrap();
        let (our_ca, their_ca) = (TestCa::new(OURS), TestCa::new(THEIRS));
        let both = [&our_ca, &their_ca].map(|ca| ca.pki.root.certificate().pem().to_owned());
        *our_ca.trusted.lock() = both.to_vec();
        *their_ca.trusted.lock() = both.to_vec();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let mut config = Config { issuer: OURS.to_owned(), ..Config::default() };
        config.federation.public_roots = false;
        config.federation.resolve.insert(THEIRS.to_owned(), at.to_string());
        change(&mut config);
        let theirs = Config { issuer: THEIRS.to_owned(), ..Config::default() };
        let clock = Clock::manual(Clock::System.now_ms());
        let fed = federation(&our_ca, config, &clock, &data.path().join("ours")).await;
        let their_fed = federation(&their_ca, theirs, &clock, &data.path().join("theirs")).await;
        let (sender, links) = mpsc::unbounded_channel();
        let remote = RemoteGateway::new(their_ca, their_fed, sender);
        let stop = tokio_util::sync::CancellationToken::new();
        let tasks = TaskTracker::new();
        let serve = remote.clone().serve(listener, tasks.clone());
        tasks.spawn(stop.clone().run_until_cancelled_owned(serve));
        TwoDomains { fed, our_ca, remote, links: links.into(), _tasks: stop.drop_guard(), _data: data }
    }

    pub fn peers(&self) -> &PeerPool {
        &self.fed.peers
    }

    /// Begins a relay of `message.send` without a message id, which must not be sent twice.
    pub fn send(&self, relay_id: &str) -> tokio::task::JoinHandle<Result<Value, RpcError>> {
        self.relay(relay("send", relay_id, json!({ "to": "bobb.theirs.example" })), LONG)
    }

    pub fn relay(
        &self,
        relay: Relay<'_>,
        within: Duration,
    ) -> tokio::task::JoinHandle<Result<Value, RpcError>> {
        let begun = self.fed.peers.begin(&self.fed, THEIRS, ASKER, relay.text().unwrap(), within);
        self.fed.tracker.spawn(async move {
            let outcome = begun?.await?;
            Ok(serde_json::from_str(outcome.get()).unwrap())
        })
    }

    pub async fn relay_to(&self, issuer: &str, relay: Relay<'_>) -> RelayOutcome {
        self.fed.peers.begin(&self.fed, issuer, ASKER, relay.text().unwrap(), LONG)?.await
    }

    /// Waits until the state of a peer is like this.
    pub async fn until(&self, like: impl Fn(&ListedPeer) -> bool) {
        let reached = async {
            while !self.fed.peers.list().iter().any(&like) {
                tokio::task::yield_now().await;
            }
        };
        timeout(LONG, reached).await.unwrap_or_else(|_| panic!("{:?}", self.fed.peers.list()));
    }

    /// The next link of ours that the other gateway has accepted.
    pub async fn accepted_link(&self) -> AcceptedLink {
        timeout(LONG, async { self.links.lock().await.recv().await }).await.unwrap().unwrap()
    }
}

pub fn relay(method: &str, relay_id: &str, params: Value) -> Relay<'static> {
    let aid = format!("alice.{OURS}").into();
    Relay {
        relay_id: relay_id.to_owned().into(),
        kind: RelayKind::Rpc,
        namespace: "message".into(),
        method: method.to_owned().into(),
        caller: Some(RelayCaller { kind: "aid".into(), aid, device_id: "".into(), slot_id: "".into() }),
        // Leaked: it has to outlive the relay.
        params: Some(Box::leak(to_raw_value(&params).unwrap())),
        event: None,
        event_id: None,
        targets: None,
        payload: None,
        hop: 1,
        depth: 0,
        deadline_ms: None,
        trace: None,
    }
}

/// The ids of the relays in a frame.
pub fn ids(frame: &Value) -> Vec<String> {
    let id = |relay: &Value| relay["relay_id"].as_str().unwrap_or_default().to_owned();
    match frame["params"]["items"].as_array() {
        Some(items) => items.iter().map(id).collect(),
        None => vec![id(&frame["params"])],
    }
}
