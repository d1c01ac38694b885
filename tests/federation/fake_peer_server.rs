//! The gateway of a domain that only the test runs, for others to dial: it answers what the test wants, under a root
//! they trust.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::dev::Pki;
use certs::{Certificate, Curve, Key, Urls, canonical_json};
use futures_util::{SinkExt, StreamExt};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::fake_peer::{DAY, FakePeer};
use super::fake_status::FakeStatus;
use crate::support::agent::random_hex;
use crate::support::domain::TestDomain;
use crate::support::{now, now_ms};

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None,
    /// Its well-known names the gateway of somebody else.
    Elsewhere,
    /// Its well-known redirects to another domain.
    Redirects,
    /// Its well-known has no end.
    Endless,
    /// Its well-known is no JSON.
    Nonsense,
    /// Nobody greets on its socket.
    Mute,
    /// It answers hello with the signature of another key.
    Forged,
    /// It answers hello as another domain.
    Imposter,
    /// It reads relays and never answers.
    Silent,
    /// It answers everything twice.
    Twice,
    /// It answers calls nobody made before it answers the real one.
    UnaskedAnswers,
    /// Its answers carry the id of another relay.
    Swapped,
    /// Its answers are no answers.
    Garbage,
    /// It says this about the certificate of its gateway.
    Status(FakeStatus),
}

/// The gateway of such a domain, for as long as the test holds it.
pub struct FakePeerServer {
    pub domain: TestDomain,
    pub pki: Arc<Pki>,
    /// How many relays came.
    pub relays: Arc<AtomicUsize>,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for FakePeerServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl FakePeerServer {
    pub async fn start(name: &str, fault: Fault) -> FakePeerServer {
        let domain = TestDomain::new(name);
        let pki = Pki::new(&domain.issuer, now() - DAY);
        FakePeerServer::under(domain, pki, fault).await
    }

    /// The gateway of a domain under authorities that the test has chosen.
    pub async fn under(domain: TestDomain, pki: Pki, fault: Fault) -> FakePeerServer {
        let (pki, relays) = (Arc::new(pki), Arc::new(AtomicUsize::new(0)));
        let listener = TcpListener::bind(SocketAddr::from((domain.address, 20001))).await.expect("a port");
        let acceptor = acceptor(&pki, &domain.issuer);
        let server = Arc::new(FakePeerState {
            who: FakePeer::under(&pki, &domain.issuer),
            other: FakePeer::under(&Pki::new("third.test", now() - DAY), "third.test"),
            pki: pki.clone(),
            fault,
            relays: relays.clone(),
        });
        #[expect(clippy::disallowed_methods, reason = "the task ends with the test, which holds it")]
        let serving = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, server) = (acceptor.clone(), server.clone());
                connections.spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = server.answer_connection(stream).await;
                    }
                });
            }
        });
        FakePeerServer { domain, pki, relays, serving }
    }

    pub fn root(&self) -> &Certificate {
        self.pki.root.certificate()
    }
}

struct FakePeerState {
    who: FakePeer,
    other: FakePeer,
    pki: Arc<Pki>,
    fault: Fault,
    relays: Arc<AtomicUsize>,
}

type FakePeerStream = TlsStream<TcpStream>;

impl FakePeerState {
    async fn answer_connection(&self, mut stream: FakePeerStream) -> std::io::Result<()> {
        let head = head(&mut stream).await?;
        let key = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("sec-websocket-key").then(|| value.trim().to_owned())
        });
        match key {
            Some(key) => {
                let accept = derive_accept_key(key.as_bytes());
                let answer = format!(
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
                );
                stream.write_all(answer.as_bytes()).await?;
                self.talk(WebSocketStream::from_raw_socket(stream, Role::Server, None).await).await;
                Ok(())
            }
            None if head.starts_with("GET /.well-known/aun-gateway") => self.well_known(&mut stream).await,
            None => {
                let path = head.split(' ').nth(1).unwrap_or_default();
                let body = match self.fault {
                    Fault::Status(status) => status.answer(&self.pki, path),
                    _ => None,
                };
                let answer = match body {
                    Some(body) => {
                        format!("200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
                    }
                    None => "404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(),
                };
                stream.write_all(format!("HTTP/1.1 {answer}").as_bytes()).await
            }
        }
    }

    async fn well_known(&self, stream: &mut FakePeerStream) -> std::io::Result<()> {
        let host = if self.fault == Fault::Elsewhere { "third.test" } else { self.who.issuer.as_str() };
        let url = format!("wss://gateway.{host}:20001/aun");
        let body = match self.fault {
            Fault::Nonsense => "<html>hello</html>".to_owned(),
            _ => json!({ "gateways": [{ "url": url, "priority": 1 }] }).to_string(),
        };
        let head = match self.fault {
            Fault::Redirects => {
                "HTTP/1.1 302 Found\r\nLocation: https://third.test/.well-known/aun-gateway\r\n".to_owned()
            }
            Fault::Endless => {
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
                    .to_owned()
            }
            _ => format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
                body.len()
            ),
        };
        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).await?;
        if self.fault == Fault::Endless {
            loop {
                stream.write_all(format!("1000\r\n{}\r\n", " ".repeat(0x1000)).as_bytes()).await?;
                stream.flush().await?;
            }
        }
        stream.write_all(body.as_bytes()).await?;
        stream.shutdown().await
    }

    async fn talk(&self, mut socket: WebSocketStream<FakePeerStream>) {
        let nonce = random_hex(16);
        if self.fault == Fault::Mute {
            while let Some(Ok(_)) = socket.next().await {}
            return;
        }
        let challenge = json!({ "jsonrpc": "2.0", "method": "challenge", "params": { "nonce": nonce, "server_time": now_ms() } });
        let _ = socket.send(Message::text(challenge.to_string())).await;
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else { continue };
            let frame: Value = serde_json::from_str(&text).unwrap_or_default();
            for answer in self.answers(&frame, &nonce) {
                let _ = socket.send(Message::text(answer)).await;
            }
        }
    }

    fn answers(&self, frame: &Value, nonce: &str) -> Vec<String> {
        let answer =
            |id: &Value, result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
        let (id, params) = (&frame["id"], &frame["params"]);
        let result = match frame["method"].as_str() {
            Some("federation.hello") => return vec![answer(id, self.welcome(params, nonce))],
            Some("federation.relay") => self.relayed(params),
            Some("federation.relay_batch") => {
                let items = params["items"].as_array().into_iter().flatten();
                json!({ "batch_id": params["batch_id"], "results": items.map(|item| self.relayed(item)).collect::<Vec<_>>() })
            }
            _ => return vec![answer(id, json!({}))],
        };
        let good = answer(id, result);
        match self.fault {
            Fault::Silent => Vec::new(),
            Fault::Twice => vec![good.clone(), good],
            Fault::UnaskedAnswers => {
                let unasked = |id: Value| {
                    answer(&id, json!({ "relay_id": "nobody", "ok": true, "result": { "seq": 666 } }))
                };
                vec![unasked(json!("nobody")), unasked(json!(u64::MAX)), unasked(Value::Null), good]
            }
            Fault::Garbage => vec![answer(id, json!([1, "what"]))],
            _ => vec![good],
        }
    }

    fn relayed(&self, relay: &Value) -> Value {
        let n = self.relays.fetch_add(1, Ordering::Relaxed) + 1;
        let id = if self.fault == Fault::Swapped { json!("another") } else { relay["relay_id"].clone() };
        let result = json!({ "message_id": relay["params"]["message_id"], "seq": n, "timestamp": now_ms(), "status": "sent" });
        json!({ "relay_id": id, "ok": true, "result": result })
    }

    fn welcome(&self, hello: &Value, nonce: &str) -> Value {
        let who = if self.fault == Fault::Imposter { &self.other } else { &self.who };
        let fingerprint = |cert: &Certificate| cert.fingerprint().trim_start_matches("sha256:").to_owned();
        let peer = hello["cert"].as_str().and_then(|pem| Certificate::from_pem(pem).ok());
        let (session, timestamp) = (format!("fed_{}", random_hex(13)), now_ms());
        let aid = format!("gateway.{}", who.issuer);
        let signed = json!({
            "cert_fp": fingerprint(&who.cert), "client_nonce": hello["client_nonce"], "from_issuer": hello["from_issuer"],
            "gateway_aid": aid, "peer_cert_fp": peer.as_ref().map(fingerprint), "server_nonce": nonce,
            "session_id": session, "timestamp": timestamp, "to_issuer": hello["to_issuer"], "version": "1.0",
        });
        let text = [b"AUN-FED-WELCOME-v1\n".as_slice(), &canonical_json(&signed)].concat();
        let key = if self.fault == Fault::Forged { &self.other.key } else { &who.key };
        json!({
            "status": "ok", "version": "1.0", "issuer": who.issuer, "gateway_aid": aid, "cert": who.cert.pem(),
            "chain": who.chain, "session_id": session, "timestamp": timestamp, "client_nonce": hello["client_nonce"],
            "namespaces": ["message"], "signature": STANDARD.encode(key.sign(&text)),
            "limits": { "max_frame_bytes": 1 << 20, "max_batch_items": 200, "max_inflight": 512, "relay_timeout_ms": 25000 },
        })
    }
}

async fn head(stream: &mut FakePeerStream) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn acceptor(pki: &Pki, issuer: &str) -> TlsAcceptor {
    let key = Key::generate(Curve::P256);
    let urls = Urls {
        ca_issuers: format!("http://{issuer}/ca/cert"),
        ocsp: format!("http://{issuer}/pki/ocsp"),
        crl: format!("http://{issuer}/pki/issuer.crl"),
    };
    let names = [issuer.to_owned(), format!("*.{issuer}")];
    let leaf = pki
        .issuer
        .issue_service(
            &format!("gateway.{issuer}"),
            &key.public(),
            &names,
            &[],
            &urls,
            now() - DAY,
            now() + DAY,
        )
        .expect("a certificate for TLS");
    let chain = [&leaf, pki.issuer.certificate(), pki.registry.certificate()];
    let chain = chain.map(|certificate| CertificateDer::from(certificate.der().to_vec())).to_vec();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.pkcs8_der().to_vec()));
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring speaks TLS")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a key that fits");
    TlsAcceptor::from(Arc::new(config))
}
