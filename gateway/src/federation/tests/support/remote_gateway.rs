//! The gateway of the other domain: real TLS and WebSocket, and its answers are up to the test.

use super::test_ca::TestCa;
use super::two_domains::{LONG, THEIRS};
use crate::federation::Federation;
use crate::federation::wire::hello::{HelloParams, LinkLimits, Welcome};
use certs::{Curve, Key};
use futures_util::{SinkExt as _, StreamExt as _};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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

type HttpAnswers = Box<dyn Fn(&str) -> Option<(u16, String)> + Send>;
type WelcomeEdit = Box<dyn Fn(&mut Welcome) + Send>;

pub struct RemoteGateway {
    pub ca: Arc<TestCa>,
    pub fed: Arc<Federation>,
    /// The status and body for an HTTP path; `None` leaves the request unanswered.
    pub http: Mutex<HttpAnswers>,
    /// The limits in the welcome.
    pub limits: Mutex<LinkLimits>,
    /// Changes the welcome before it is sent.
    pub welcome: Mutex<WelcomeEdit>,
    /// The TLS certificate it uses.
    pub tls: Mutex<TlsAcceptor>,
    /// TCP connections, and those of them that asked for a WebSocket.
    pub connections: AtomicUsize,
    pub upgrades: AtomicUsize,
    links: mpsc::UnboundedSender<AcceptedLink>,
}

/// A link of ours, as the other gateway has it.
pub struct AcceptedLink {
    socket: WebSocketStream<TlsStream<TcpStream>>,
}

impl RemoteGateway {
    pub fn new(
        ca: Arc<TestCa>,
        fed: Arc<Federation>,
        links: mpsc::UnboundedSender<AcceptedLink>,
    ) -> Arc<RemoteGateway> {
        Arc::new(RemoteGateway {
            tls: Mutex::new(acceptor(&ca)),
            ca,
            fed,
            http: Mutex::new(Box::new(good_http)),
            limits: Mutex::default(),
            welcome: Mutex::new(Box::new(|_| ())),
            connections: AtomicUsize::new(0),
            upgrades: AtomicUsize::new(0),
            links,
        })
    }

    pub async fn serve(self: Arc<Self>, listener: TcpListener, tasks: TaskTracker) {
        while let Ok((stream, _)) = listener.accept().await {
            let (remote, acceptor) = (self.clone(), self.tls.lock().clone());
            remote.connections.fetch_add(1, Ordering::SeqCst);
            tasks.spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    let _ = timeout(LONG * 3, remote.answer_http(stream)).await;
                }
            });
        }
    }

    async fn answer_http(&self, mut stream: TlsStream<TcpStream>) -> Option<()> {
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
            return self
                .accept_hello(WebSocketStream::from_raw_socket(stream, Role::Server, None).await)
                .await;
        }
        let path = head.split(' ').nth(1).unwrap_or_default();
        let answer = (self.http.lock())(path);
        let Some((status, body)) = answer else {
            // Stays silent until the other side closes.
            let _ = stream.read_u8().await;
            return None;
        };
        let text = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(text.as_bytes()).await.ok()?;
        stream.shutdown().await.ok()
    }

    async fn accept_hello(&self, socket: WebSocketStream<TlsStream<TcpStream>>) -> Option<()> {
        let mut link = AcceptedLink { socket };
        link.send(json!({ "jsonrpc": "2.0", "method": "challenge", "params": { "nonce": "n-1" } })).await;
        let request = link.next().await?;
        let hello: HelloParams = serde_json::from_value(request["params"].clone()).unwrap();
        let now = self.fed.clock.now_ms();
        let peer = match hello.check(&self.fed.trust, THEIRS, "n-1", now) {
            Ok(peer) => peer,
            Err(error) => {
                link.send(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
                return None;
            }
        };
        let (limits, session) = (*self.limits.lock(), "fed_1".to_owned());
        let mut welcome = Welcome::new(&self.fed.identity, &hello, &peer, session, &[], limits, now);
        (self.welcome.lock())(&mut welcome);
        link.send(json!({ "jsonrpc": "2.0", "id": request["id"], "result": welcome })).await;
        self.links.send(link).ok()
    }
}

impl AcceptedLink {
    pub async fn send(&mut self, frame: Value) {
        self.send_text(&frame.to_string()).await;
    }

    pub async fn send_text(&mut self, text: &str) {
        let _ = self.socket.send(Message::text(text)).await;
    }

    /// The next frame; `None` if the link ended.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            match timeout(LONG, self.socket.next()).await.expect("nothing came")? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Waits for a ping, and sends the pong.
    pub async fn ping(&mut self) {
        loop {
            match timeout(LONG, self.socket.next()).await.expect("nothing came") {
                Some(Ok(Message::Ping(_))) => break,
                Some(Ok(_)) => {}
                other => panic!("{other:?} instead of a ping"),
            }
        }
        // The pong is written with the next flush.
        self.socket.flush().await.unwrap();
    }

    /// Answers a frame as a gateway should: the result of each relay is its id.
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
        self.send(json!({ "jsonrpc": "2.0", "id": frame["id"], "result": result })).await;
    }
}

/// The HTTP answers of a domain that works.
pub fn good_http(path: &str) -> Option<(u16, String)> {
    Some(match path {
        "/.well-known/aun-gateway" => {
            (200, json!({ "gateways": [{ "url": format!("wss://gateway.{THEIRS}:20001/aun") }] }).to_string())
        }
        // Without a status and without a list the certificate counts as good.
        _ => (404, String::new()),
    })
}

/// TLS with a certificate of this authority for the names of the other domain.
pub fn acceptor(ca: &TestCa) -> TlsAcceptor {
    let key = Key::generate(Curve::P256);
    let leaf =
        ca.leaf(&format!("gateway.{THEIRS}"), &key.public(), &[THEIRS.to_owned(), format!("*.{THEIRS}")]);
    let chain = [&leaf, ca.pki.issuer.certificate(), ca.pki.registry.certificate()];
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
