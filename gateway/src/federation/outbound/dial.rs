//! Dialling another domain: its gateway is discovered and connected over TLS, and both prove which domain they are of.

use super::open_links::OpenLink;
use crate::federation::discovery::PeerGatewayUrl;
use crate::federation::discovery::fetch;
use crate::federation::errors::{DialPhase, LinkFailure, read_error};
use crate::federation::trust::{PeerGateway, PeerRoot};
use crate::federation::wire::hello::{HelloParams, LinkLimits, Welcome};
use crate::federation::{Federation, resolve};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// How long a dial may take, of the time of the call that waits for it.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// The list of trusted roots is asked of the `ca` service. Without an answer in time the last list counts.
const TRUST_TIMEOUT: Duration = Duration::from_secs(1);
/// The largest frame that is accepted from a gateway, or sent to one.
pub const FRAME_BYTES: usize = 16 << 20;
/// What may wait inside the socket: everything that can be in flight on one link, and a frame.
const WRITE_BYTES: usize = 64 << 20;
/// A link that has lasted this long is replaced: both gateways prove anew which domain they are of.
const LINK_LIFETIME: Duration = Duration::from_secs(24 * 3600);

pub type PeerSocket = WebSocketStream<TlsStream<TcpStream>>;

/// A socket to a gateway that has proved which domain it is of.
pub struct DialledLink {
    pub socket: PeerSocket,
    pub url: PeerGatewayUrl,
    pub peer: PeerGateway,
    pub chain: Vec<String>,
    /// The roots it was checked with.
    pub roots: Arc<[PeerRoot]>,
    pub limits: LinkLimits,
    /// When the link has to be replaced.
    pub until: Instant,
    /// Whether the certificate of the gateway was revoked since.
    pub open: Arc<OpenLink>,
}

/// Discovers the gateways of a domain and links to the first that works; the error says how far the last attempt went.
pub async fn dial(fed: &Federation, issuer: &str) -> Result<DialledLink, LinkFailure> {
    let deadline = Instant::now() + DIAL_TIMEOUT;
    // The operator may have added a root since; without it the peer would not be trusted.
    let _ = timeout(TRUST_TIMEOUT, fed.trust.refresh()).await;
    check_trust(fed, issuer, deadline).await?;
    let urls = timeout_at(deadline, fed.peers.discovery.find(fed, issuer))
        .await
        .unwrap_or_else(|_| Err(format!("the discovery of the gateway of {issuer} timed out")));
    let urls = match urls {
        Ok(urls) => urls,
        Err(sentence) => return Err(undiscovered(fed, issuer, sentence, deadline).await),
    };
    let mut failure =
        LinkFailure::new(DialPhase::Discover, "discovery_failed", "its well-known document names no gateway");
    for url in urls {
        match dial_url(fed, issuer, url, deadline).await {
            Ok(dialled) => return Ok(dialled),
            Err(other) => failure = other,
        }
    }
    fed.peers.discovery.expire(issuer);
    Err(failure)
}

/// Without a root that is trusted for it, no gateway can prove that it is of this domain: it is not connected to. A name that
/// leads nowhere is told apart, because it is probably misspelled.
pub async fn check_trust(fed: &Federation, issuer: &str, deadline: Instant) -> Result<(), LinkFailure> {
    if !fed.trust.roots_for(issuer).is_empty() {
        return Ok(());
    }
    let untrusted = LinkFailure::untrusted(issuer);
    Err(unknown(fed, issuer, deadline).await.unwrap_or(untrusted))
}

/// Why a domain was not discovered.
async fn undiscovered(fed: &Federation, issuer: &str, sentence: String, deadline: Instant) -> LinkFailure {
    let failure = LinkFailure::new(DialPhase::Discover, "discovery_failed", sentence);
    unknown(fed, issuer, deadline).await.unwrap_or(failure)
}

/// The failure where the name of a domain leads nowhere, as far as that is known in time.
async fn unknown(fed: &Federation, issuer: &str, deadline: Instant) -> Option<LinkFailure> {
    let asked = timeout_at(deadline, resolve::leads_nowhere(&fed.config.federation, issuer)).await;
    let sentence = format!("{}; is the name of the domain right?", resolve::NOWHERE);
    asked.unwrap_or(false).then(|| LinkFailure::new(DialPhase::Discover, "domain_unknown", sentence))
}

/// One gateway, from its address to its welcome.
async fn dial_url(
    fed: &Federation,
    issuer: &str,
    url: PeerGatewayUrl,
    deadline: Instant,
) -> Result<DialledLink, LinkFailure> {
    let socket = connect(fed, issuer, &url, deadline).await?;
    authenticate(fed, issuer, url, socket, deadline).await
}

/// A WebSocket over TLS, before the hello.
pub async fn connect(
    fed: &Federation,
    issuer: &str,
    url: &PeerGatewayUrl,
    deadline: Instant,
) -> Result<PeerSocket, LinkFailure> {
    let failed = |sentence: String| LinkFailure::new(DialPhase::Connect, "connect_failed", sentence);
    let open = async {
        let stream =
            fetch::open(fed, issuer, &url.host, url.port).await.map_err(|error| failed(error.to_string()))?;
        let request = url.to_string().into_client_request().map_err(|error| failed(error.to_string()))?;
        let upgraded =
            tokio_tungstenite::client_async_with_config(request, stream, Some(socket_config())).await;
        let (socket, _) =
            upgraded.map_err(|error| failed(format!("{url} did not accept a WebSocket: {error}")))?;
        Ok(socket)
    };
    let late =
        |_| LinkFailure::new(DialPhase::Connect, "connect_timeout", format!("connecting to {url} timed out"));
    timeout_at(deadline, open).await.map_err(late)?
}

fn socket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(64 << 10)
        .write_buffer_size(64 << 10)
        .max_write_buffer_size(WRITE_BYTES)
        .max_message_size(Some(FRAME_BYTES))
        .max_frame_size(Some(FRAME_BYTES))
}

/// Both gateways prove which domain they are of, and the other's certificate is not revoked.
pub async fn authenticate(
    fed: &Federation,
    issuer: &str,
    url: PeerGatewayUrl,
    mut socket: PeerSocket,
    deadline: Instant,
) -> Result<DialledLink, LinkFailure> {
    let late = |_| {
        LinkFailure::new(DialPhase::Hello, "hello_timeout", "its gateway did not finish the hello in time")
    };
    let roots = fed.trust.roots();
    let (hello, welcome) =
        timeout_at(deadline, say_hello(fed, issuer, &mut socket)).await.map_err(late)??;
    let now = fed.clock.now_ms();
    let peer = welcome.check(&fed.trust, &fed.identity, &hello, now).map_err(|error| {
        LinkFailure::new(
            DialPhase::Hello,
            "hello_invalid",
            format!("its gateway did not prove its domain: {error}"),
        )
    })?;
    let checked = fed.peers.revocation.check(fed, &url, &peer);
    timeout_at(deadline, checked).await.map_err(late)?.map_err(|refusal| {
        let sentence = format!("the certificate of its gateway {refusal}");
        LinkFailure::new(DialPhase::Hello, refusal.dial_reason(), sentence)
    })?;
    timeout_at(deadline, fed.trust.pin(&peer)).await.map_err(late)?.map_err(|error| {
        LinkFailure::new(DialPhase::Hello, "hello_invalid", format!("its gateway is not accepted: {error}"))
    })?;
    let not_after = peer.certificate.not_after().min(fed.identity.leaf.certificate().not_after());
    let left = Duration::from_millis(u64::try_from(not_after * 1000 - now).unwrap_or(0));
    Ok(DialledLink {
        until: Instant::now() + left.min(LINK_LIFETIME),
        open: Arc::new(OpenLink::new(&peer)),
        limits: welcome.limits,
        chain: welcome.chain,
        socket,
        url,
        peer,
        roots,
    })
}

#[derive(Deserialize)]
struct HelloFrame<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

async fn say_hello(
    fed: &Federation,
    issuer: &str,
    socket: &mut PeerSocket,
) -> Result<(HelloParams, Welcome), LinkFailure> {
    let failed = |reason, sentence: String| LinkFailure::new(DialPhase::Hello, reason, sentence);
    let malformed =
        || failed("hello_invalid", "its gateway sent a malformed frame before its welcome".to_owned());
    let text = next_text(socket).await?;
    let challenge: HelloFrame<'_> = serde_json::from_str(&text).map_err(|_| malformed())?;
    let nonce =
        challenge.params.and_then(nonce_of).filter(|_| challenge.method.as_deref() == Some("challenge"));
    let nonce = nonce.ok_or_else(malformed)?;
    let now = fed.clock.now_ms();
    let hello = HelloParams::new(&fed.identity, fed.issuer(), issuer, &nonce, fed.ids.secret(), now);
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "federation.hello", "params": hello });
    socket.send(Message::text(request.to_string())).await.map_err(|error| broken(&error))?;
    let text = next_text(socket).await?;
    let answer: HelloFrame<'_> = serde_json::from_str(&text).map_err(|_| malformed())?;
    if let Some(error) = answer.error.and_then(read_error) {
        return Err(LinkFailure::hello_refused(fed.issuer(), &error));
    }
    let ours = answer.id.is_some_and(|id| id.get() == "1");
    let welcome = answer.result.filter(|_| ours).and_then(|result| serde_json::from_str(result.get()).ok());
    Ok((hello, welcome.ok_or_else(malformed)?))
}

fn nonce_of(params: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct ChallengeParams {
        nonce: String,
    }
    serde_json::from_str(params.get()).ok().map(|challenge: ChallengeParams| challenge.nonce)
}

async fn next_text(socket: &mut PeerSocket) -> Result<String, LinkFailure> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Err(error)) => return Err(broken(&error)),
            // It may be stopping; a gateway that refuses says so.
            Some(Ok(_)) | None => {
                let sentence = "its gateway closed the connection before its welcome";
                return Err(LinkFailure::new(DialPhase::Hello, "connect_failed", sentence));
            }
        }
    }
}

fn broken(error: &tokio_tungstenite::tungstenite::Error) -> LinkFailure {
    LinkFailure::new(DialPhase::Hello, "connect_failed", format!("the connection broke: {error}"))
}
