//! The agent's side: dial, answer the challenge, register, log in, connect, call. Agents are registered with the crate `client`; what is
//! measured writes its frames by itself.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use certs::{Curve, Key};
use client::{Aid, ByteStream, ClientConnection, auth};
use futures_util::{SinkExt as _, StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::tls;

/// The domain of the agents that the bench registers.
pub(super) const ISSUER: &str = "agents.localhost";

/// The read buffer of a connection, at both ends; with tungstenite's default of 128 KiB nothing else would show in memory.
pub(super) const READ_BUFFER: usize = 4 * 1024;

/// How long any single step of an agent may take before the bench gives up.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// How many agents register or log in at once.
const SIDE_BY_SIDE: usize = 32;

/// "`client_time` is for audit only" (auth.aid_login2), so any time will do.
const CLIENT_TIME: &str = "1700000000.0";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Plain,
    Tls,
}

/// Where a server listens, and whether with TLS.
#[derive(Clone)]
pub(super) struct BenchEndpoint {
    url: String,
    host: String,
    address: SocketAddr,
    tls: Option<TlsConnector>,
}

/// An upgraded WebSocket.
pub(super) struct BenchSocket(pub(super) WebSocketStream<Box<dyn ByteStream>>);

/// A registered agent.
pub(super) struct BenchAgent {
    pub(super) aid: String,
    key: Key,
    cert: String,
}

/// An agent with a token, which is all that a connect needs.
pub(super) struct LoggedInAgent {
    pub(super) identity: BenchAgent,
    pub(super) token: String,
}

/// Registers `count` agents and logs each of them in.
pub(super) async fn register_agents(
    endpoint: &BenchEndpoint,
    count: usize,
) -> anyhow::Result<Arc<[LoggedInAgent]>> {
    register_agents_under(endpoint, ISSUER, count).await
}

/// The same under another domain.
pub(super) async fn register_agents_under(
    endpoint: &BenchEndpoint,
    issuer: &str,
    count: usize,
) -> anyhow::Result<Arc<[LoggedInAgent]>> {
    let agents: Vec<LoggedInAgent> = stream::iter(0..count)
        .map(|number| async move {
            let set_up = LoggedInAgent::register(endpoint, issuer, number);
            tokio::time::timeout(STEP_TIMEOUT, set_up).await.context("an agent was not registered in time")?
        })
        .buffered(SIDE_BY_SIDE)
        .try_collect()
        .await?;
    Ok(agents.into())
}

impl Transport {
    pub(super) fn name(self) -> &'static str {
        match self {
            Transport::Plain => "plain",
            Transport::Tls => "TLS",
        }
    }
}

impl BenchEndpoint {
    /// From the URL of a banner. Whatever host it names, the server is our child and on loopback.
    pub(super) fn new(url: &str, transport: Transport) -> anyhow::Result<Self> {
        let authority = url.split('/').nth(2).with_context(|| format!("{url} has no host"))?;
        let (host, port) = authority.rsplit_once(':').with_context(|| format!("{url} has no port"))?;
        let port: u16 = port.parse().with_context(|| format!("{url} has no port"))?;
        let tls = match transport {
            Transport::Plain => None,
            Transport::Tls => Some(TlsConnector::from(tls::client()?)),
        };
        Ok(Self { url: url.into(), host: host.into(), address: (Ipv4Addr::LOCALHOST, port).into(), tls })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// TCP, TLS if the endpoint has it, and the WebSocket upgrade.
    pub(super) async fn dial(&self) -> anyhow::Result<BenchSocket> {
        tokio::time::timeout(STEP_TIMEOUT, self.upgrade())
            .await
            .context("the server did not accept in time")?
    }

    pub(super) async fn stream(&self) -> anyhow::Result<Box<dyn ByteStream>> {
        let stream = source()?.connect(self.address).await.context("the server refused a connection")?;
        Ok(match &self.tls {
            None => Box::new(stream),
            Some(tls) => Box::new(tls.connect(self.host.clone().try_into()?, stream).await?),
        })
    }

    async fn upgrade(&self) -> anyhow::Result<BenchSocket> {
        let stream = self.stream().await?;
        let config = WebSocketConfig::default().read_buffer_size(READ_BUFFER);
        let upgraded = tokio_tungstenite::client_async_with_config(&self.url, stream, Some(config)).await;
        let (socket, _) = upgraded.context("the server refused the WebSocket upgrade")?;
        Ok(BenchSocket(socket))
    }

    /// Dials the real server and reads its challenge.
    async fn challenge(&self) -> anyhow::Result<(BenchSocket, String)> {
        let mut socket = self.dial().await?;
        let first: Value = serde_json::from_str(&socket.text().await?)?;
        let nonce = text(&first["params"], "nonce").context("the first frame is not a challenge")?;
        Ok((socket, nonce))
    }

    /// Makes one call before login, on a socket of its own, as the SDKs do.
    async fn call_once(&self, method: &str, params: Value) -> anyhow::Result<Value> {
        let (mut socket, _) = self.challenge().await?;
        socket.call(method, params).await
    }
}

impl LoggedInAgent {
    /// A fresh key with a certificate and a token, all on one connection: nobody measures this.
    async fn register(endpoint: &BenchEndpoint, issuer: &str, number: usize) -> anyhow::Result<Self> {
        let (aid, key) = (Aid::parse(&format!("bench-{number:05}.{issuer}"))?, Key::generate(Curve::P256));
        let connection = ClientConnection::over(endpoint.stream().await?, &endpoint.url).await?;
        let cert = auth::create_aid(&connection, &aid, &key).await?;
        let tokens = auth::log_in(&connection, &aid, &key, &cert).await?;
        connection.close().await;
        let identity = BenchAgent { aid: aid.to_string(), key, cert };
        Ok(Self { identity, token: tokens.access_token })
    }
}

impl BenchAgent {
    /// Both steps of a login, and the access token they give. It is measured, so it writes its frames by itself.
    pub(super) async fn login(&self, endpoint: &BenchEndpoint) -> anyhow::Result<String> {
        let params = json!({ "aid": self.aid, "cert": self.cert, "client_nonce": "veiB514erPRNMcFX" });
        let first = endpoint.call_once("auth.aid_login1", params).await?;

        let (request_id, nonce) = (text(&first, "request_id")?, text(&first, "nonce")?);
        let signature = BASE64_STANDARD.encode(self.key.sign(format!("{nonce}:{CLIENT_TIME}").as_bytes()));
        let params = json!({ "aid": self.aid, "request_id": request_id, "nonce": nonce,
            "client_time": CLIENT_TIME, "signature": signature });
        let second = endpoint.call_once("auth.aid_login2", params).await?;
        text(&second, "access_token")
    }
}

impl BenchSocket {
    /// Opens a session: dial, challenge, `auth.connect` with a token. It sends what the public SDK sends.
    pub(super) async fn connect(
        endpoint: &BenchEndpoint,
        token: &str,
        device: usize,
        slot: usize,
    ) -> anyhow::Result<Self> {
        let (mut socket, nonce) = endpoint.challenge().await?;
        let params = json!({
            "nonce": nonce,
            "auth": { "method": "kite_token", "token": token },
            "protocol": { "min": "1.0", "max": "1.0" },
            "device": { "id": format!("device-{device}"), "type": "sdk" },
            "client": { "slot_id": format!("slot-{slot}"), "sdk_lang": "rust", "sdk_version": "0.5.25" },
            "delivery_mode": { "mode": "fanout", "routing": "", "affinity_ttl_ms": 0 },
            "capabilities": { "e2ee": true, "group_e2ee": true, "supported_p2p_e2ee": ["e2ee_v2"],
                "supported_group_e2ee": ["group_e2ee_v2"], "inline_realtime_payload_v1": true,
                "p2p_peer_pull_v1": true, "agent_md_validation_v1": true },
        });
        let connected = socket.call("auth.connect", params).await?;
        if connected["status"] != "ok" {
            bail!("auth.connect was answered with {connected}");
        }
        Ok(socket)
    }

    pub(super) async fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        let id = format!("pre-{method}");
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.0.send(Message::text(request.to_string())).await?;
        loop {
            let mut answer: Value = serde_json::from_str(&self.text().await?)?;
            if answer["id"] != id {
                continue; // An event, which is not needed.
            }
            if let Some(error) = answer.get("error") {
                bail!("{method} was answered with {error}");
            }
            return Ok(answer["result"].take());
        }
    }

    /// Reads, so that pings are answered, until the server ends the connection.
    pub(super) async fn stay(mut self) {
        while let Some(Ok(_)) = self.0.next().await {}
    }

    async fn text(&mut self) -> anyhow::Result<String> {
        loop {
            let message = tokio::time::timeout(STEP_TIMEOUT, self.0.next())
                .await
                .context("the server did not answer in time")?;
            match message.context("the server closed the socket")?? {
                Message::Text(text) => return Ok(text.as_str().into()),
                Message::Close(frame) => bail!("the server closed the connection: {frame:?}"),
                _ => continue,
            }
        }
    }
}

/// A socket from one of many loopback addresses, which is closed by a reset and so leaves no TIME_WAIT behind.
/// Otherwise a minute of connects would use up the ports of the machine.
fn source() -> anyhow::Result<TcpSocket> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const ADDRESSES: u32 = 19;
    let last = 2 + NEXT.fetch_add(1, Ordering::Relaxed) % ADDRESSES;
    let socket = TcpSocket::new_v4()?;
    socket.set_zero_linger()?;
    socket.set_nodelay(true)?;
    socket
        .bind((Ipv4Addr::new(127, 0, 0, last as u8), 0).into())
        .context("no free port for the load generator")?;
    Ok(socket)
}

fn text(object: &Value, field: &str) -> anyhow::Result<String> {
    Ok(object[field].as_str().with_context(|| format!("the answer has no {field}: {object}"))?.to_owned())
}
