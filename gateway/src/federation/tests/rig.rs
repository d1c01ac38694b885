//! Two domains in one test: ours, which dials, and another one whose gateway does what the test says.

use super::ca::Ca;
use crate::config::Config;
use crate::federation::hello::{HelloParams, Limits, Welcome};
use crate::federation::job::Outcome;
use crate::federation::peer_state::PeerState;
use crate::federation::wire::{Caller as Who, Kind, Relay};
use crate::federation::{Federation, Peers};
use crate::telemetry::Metrics;
use certs::dev::Pki;
use certs::{Curve, Key};
use futures_util::{SinkExt as _, StreamExt as _};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use services::kernel::{Mesh, RpcError, World};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::task::TaskTracker;

pub const OURS: &str = "ours.example";
pub const THEIRS: &str = "theirs.example";
/// Long enough for a machine that is busy with something else.
pub const LONG: Duration = Duration::from_secs(20);

/// Our domain, and what the other one is made of.
pub struct Rig {
    pub fed: Arc<Federation>,
    pub our_ca: Arc<Ca>,
    pub there: Arc<There>,
    links: tokio::sync::Mutex<mpsc::UnboundedReceiver<Guest>>,
    _tasks: tokio_util::sync::DropGuard,
    _data: tempfile::TempDir,
}

type Http = Box<dyn Fn(&str) -> Option<(u16, String)> + Send>;
type Change = Box<dyn Fn(&mut Welcome) + Send>;

/// The other domain.
pub struct There {
    pub ca: Arc<Ca>,
    pub fed: Arc<Federation>,
    /// The HTTP answer to a question, by its path: status and body. Nothing: the socket stays silent.
    pub http: Mutex<Http>,
    /// What is told in the welcome.
    pub limits: Mutex<Limits>,
    /// Changes the welcome before it is sent.
    pub welcome: Mutex<Change>,
    /// How TLS is spoken.
    pub tls: Mutex<TlsAcceptor>,
    /// TCP connections, and those of them that asked for a WebSocket.
    pub visits: AtomicUsize,
    pub upgrades: AtomicUsize,
    links: mpsc::UnboundedSender<Guest>,
}

/// A link of ours, as their gateway has it.
pub struct Guest {
    socket: WebSocketStream<TlsStream<TcpStream>>,
}

async fn federation(domain: &str, ca: &Arc<Ca>, config: Config, data: &std::path::Path) -> Arc<Federation> {
    let mut world = World::local(domain, data, "sqlite:".parse().unwrap());
    world.mesh = Arc::new(Mesh::default());
    world.mesh.add_local("ca", ca.methods());
    Federation::open(&config, &world, &Arc::new(Metrics::new())).await.unwrap()
}

impl Rig {
    pub async fn new() -> Rig {
        Rig::with(|_| ()).await
    }

    pub async fn with(change: impl FnOnce(&mut Config)) -> Rig {
        let data = tempfile::tempdir().unwrap();
        let (our_ca, their_ca) = (Ca::new(OURS), Ca::new(THEIRS));
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
        let fed = federation(OURS, &our_ca, config, &data.path().join("ours")).await;
        let their_fed = federation(THEIRS, &their_ca, theirs, &data.path().join("theirs")).await;
        let (sender, links) = mpsc::unbounded_channel();
        let there = Arc::new(There {
            tls: Mutex::new(acceptor(&their_ca)),
            ca: their_ca,
            fed: their_fed,
            http: Mutex::new(Box::new(good_http)),
            limits: Mutex::default(),
            welcome: Mutex::new(Box::new(|_| ())),
            visits: AtomicUsize::new(0),
            upgrades: AtomicUsize::new(0),
            links: sender,
        });
        let stop = tokio_util::sync::CancellationToken::new();
        let tasks = TaskTracker::new();
        let serve = there.clone().serve(listener, tasks.clone());
        tasks.spawn(stop.clone().run_until_cancelled_owned(serve));
        Rig { fed, our_ca, there, links: links.into(), _tasks: stop.drop_guard(), _data: data }
    }

    pub fn peers(&self) -> &Peers {
        &self.fed.peers
    }

    /// Begins a relay of `message.send` without an id, which must not be sent twice.
    pub fn send(&self, relay_id: &str) -> tokio::task::JoinHandle<Result<Value, RpcError>> {
        self.relay(relay("send", relay_id, json!({ "to": "bobb.theirs.example" })), LONG)
    }

    pub fn relay(
        &self,
        relay: Relay<'_>,
        within: Duration,
    ) -> tokio::task::JoinHandle<Result<Value, RpcError>> {
        let begun = self.fed.peers.begin(&self.fed, THEIRS, relay.text().unwrap(), within);
        self.fed.tracker.spawn(async move {
            let outcome = begun?.await?;
            Ok(serde_json::from_str(outcome.get()).unwrap())
        })
    }

    pub async fn relay_to(&self, issuer: &str, relay: Relay<'_>) -> Outcome {
        self.fed.peers.begin(&self.fed, issuer, relay.text().unwrap(), LONG)?.await
    }

    /// Waits until our line to the other domain looks like this.
    pub async fn until(&self, like: impl Fn(&PeerState) -> bool) {
        let look = async {
            while !self.fed.peers.list().iter().any(&like) {
                tokio::task::yield_now().await;
            }
        };
        timeout(LONG, look).await.unwrap_or_else(|_| panic!("{:?}", self.fed.peers.list()));
    }

    /// The next link of ours that their gateway has greeted.
    pub async fn link(&self) -> Guest {
        timeout(LONG, async { self.links.lock().await.recv().await }).await.unwrap().unwrap()
    }
}

pub fn relay(method: &str, relay_id: &str, params: Value) -> Relay<'static> {
    let aid = format!("alice.{OURS}").into();
    Relay {
        relay_id: relay_id.to_owned().into(),
        kind: Kind::Rpc,
        namespace: "message".into(),
        method: method.to_owned().into(),
        caller: Some(Who { kind: "aid".into(), aid, device_id: "".into(), slot_id: "".into() }),
        // It lives as long as the test.
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

/// What a sound domain says.
pub fn good_http(path: &str) -> Option<(u16, String)> {
    Some(match path {
        "/.well-known/aun-gateway" => {
            (200, json!({ "gateways": [{ "url": format!("wss://gateway.{THEIRS}:20001/aun") }] }).to_string())
        }
        path if path.starts_with("/pki/ocsp/") => (200, json!({ "status": "good" }).to_string()),
        _ => (404, String::new()),
    })
}

/// Speaks TLS with a certificate of this authority for the names of the other domain.
pub fn acceptor(ca: &Ca) -> TlsAcceptor {
    let key = Key::generate(Curve::P256);
    let leaf =
        ca.leaf(&format!("gateway.{THEIRS}"), &key.public(), &[THEIRS.to_owned(), format!("*.{THEIRS}")]);
    tls_acceptor(&leaf, &key, &ca.pki)
}

fn tls_acceptor(leaf: &certs::Certificate, key: &Key, pki: &Pki) -> TlsAcceptor {
    let chain = [leaf, pki.issuer.certificate(), pki.registry.certificate()];
    let chain = chain.map(|certificate| CertificateDer::from(certificate.der().to_vec())).to_vec();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::Pkcs8(key.pkcs8_der().to_vec().into()))
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

impl There {
    async fn serve(self: Arc<Self>, listener: TcpListener, tasks: TaskTracker) {
        while let Ok((stream, _)) = listener.accept().await {
            let (there, acceptor) = (self.clone(), self.tls.lock().clone());
            there.visits.fetch_add(1, Ordering::SeqCst);
            tasks.spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    let _ = timeout(LONG * 3, there.answer(stream)).await;
                }
            });
        }
    }

    async fn answer(&self, mut stream: TlsStream<TcpStream>) -> Option<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        let header = |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            lines
                .into_iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.to_owned())
        };
        if let Some(key) = header("sec-websocket-key") {
            self.upgrades.fetch_add(1, Ordering::SeqCst);
            let accept = derive_accept_key(key.as_bytes());
            let answer = format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Accept: {accept}\r\n\r\n"
            );
            stream.write_all(answer.as_bytes()).await.ok()?;
            return self.greet(WebSocketStream::from_raw_socket(stream, Role::Server, None).await).await;
        }
        let path = head.split(' ').nth(1).unwrap_or_default();
        let answer = (self.http.lock())(path);
        let Some((status, body)) = answer else {
            // Says nothing for as long as somebody waits.
            let _ = stream.read_u8().await;
            return None;
        };
        let text = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(text.as_bytes()).await.ok()?;
        stream.shutdown().await.ok()
    }

    async fn greet(&self, socket: WebSocketStream<TlsStream<TcpStream>>) -> Option<()> {
        let mut guest = Guest { socket };
        guest.say(json!({ "jsonrpc": "2.0", "method": "challenge", "params": { "nonce": "n-1" } })).await;
        let ask = guest.next().await?;
        let hello: HelloParams = serde_json::from_value(ask["params"].clone()).unwrap();
        let now = self.fed.clock.now_ms();
        let peer = match hello.check(&self.fed.trust, THEIRS, "n-1", now) {
            Ok(peer) => peer,
            Err(error) => {
                guest.say(json!({ "jsonrpc": "2.0", "id": ask["id"], "error": error })).await;
                return None;
            }
        };
        let (limits, session) = (*self.limits.lock(), "fed_1".to_owned());
        let mut welcome = Welcome::new(&self.fed.card, &hello, &peer, session, &[], limits, now);
        (self.welcome.lock())(&mut welcome);
        guest.say(json!({ "jsonrpc": "2.0", "id": ask["id"], "result": welcome })).await;
        self.links.send(guest).ok()
    }
}

impl Guest {
    pub async fn say(&mut self, frame: Value) {
        self.say_text(&frame.to_string()).await;
    }

    pub async fn say_text(&mut self, text: &str) {
        let _ = self.socket.send(Message::text(text)).await;
    }

    /// The next frame; nothing if the link ended.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            match timeout(LONG, self.socket.next()).await.expect("nothing came")? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Answers a frame as a sound gateway does: each relay with its own id.
    pub async fn answer(&mut self, frame: &Value) {
        let done =
            |relay: &Value| json!({ "relay_id": relay["relay_id"], "ok": true, "result": relay["relay_id"] });
        let params = &frame["params"];
        let result = match params["items"].as_array() {
            Some(items) => {
                let results: Vec<Value> = items.iter().map(done).collect();
                json!({ "batch_id": params["batch_id"], "results": results })
            }
            None => done(params),
        };
        self.say(json!({ "jsonrpc": "2.0", "id": frame["id"], "result": result })).await;
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
