//! The way to another domain: its gateway is found, reached over TLS, and both prove whose they are.

use super::fetch;
use super::hello::{HelloParams, Limits, Welcome};
use super::trouble::{Failure, Phase, read_error};
use super::well_known::Place;
use super::{Federation, Peer};
use certs::Certificate;
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

/// How much of a call's time the way may take.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The list of roots is a service away. Where it does not come, the last one counts.
const TRUST_PATIENCE: Duration = Duration::from_secs(1);
/// The largest frame taken from a gateway, and the largest ever sent to one.
pub const FRAME_BYTES: usize = 16 << 20;
/// What may wait inside the socket: everything that can be under way on one link, and a frame.
const WRITE_BYTES: usize = 64 << 20;
/// A link that lasts longer proves itself anew.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

pub type Socket = WebSocketStream<TlsStream<TcpStream>>;

/// A gateway that has proved whose it is.
pub struct Linked {
    pub socket: Socket,
    pub place: Place,
    pub peer: Peer,
    pub chain: Vec<String>,
    /// The roots it was judged by.
    pub roots: Arc<[Certificate]>,
    pub limits: Limits,
    pub until: Instant,
}

/// Finds the gateway of a domain and links to it, or says how far it got.
pub async fn dial(fed: &Federation, issuer: &str) -> Result<Linked, Failure> {
    let deadline = Instant::now() + PATIENCE;
    // The operator may have added a root since: without it the peer would look like a stranger.
    let _ = timeout(TRUST_PATIENCE, fed.trust.refresh()).await;
    let places = timeout_at(deadline, fed.peers.discovery.find(fed, issuer))
        .await
        .unwrap_or_else(|_| Err(format!("{issuer} did not say in time where its gateway is")))
        .map_err(|sentence| Failure::new(Phase::Discover, "discovery_failed", sentence))?;
    let mut failure = Failure::new(Phase::Discover, "discovery_failed", "it names no gateway");
    for place in places {
        match link(fed, issuer, place, deadline).await {
            Ok(linked) => return Ok(linked),
            Err(other) => failure = other,
        }
    }
    fed.peers.discovery.doubt(issuer);
    Err(failure)
}

/// One gateway, from its address to its proof.
async fn link(fed: &Federation, issuer: &str, place: Place, deadline: Instant) -> Result<Linked, Failure> {
    let socket = connect(fed, issuer, &place, deadline).await?;
    greet(fed, issuer, place, socket, deadline).await
}

/// A WebSocket over TLS, on which nobody has said anything yet.
pub async fn connect(
    fed: &Federation,
    issuer: &str,
    place: &Place,
    deadline: Instant,
) -> Result<Socket, Failure> {
    let failed = |sentence: String| Failure::new(Phase::Connect, "connect_failed", sentence);
    let open = async {
        let stream = fetch::open(fed, issuer, &place.host, place.port)
            .await
            .map_err(|absent| failed(absent.to_string()))?;
        let request = place.to_string().into_client_request().map_err(|error| failed(error.to_string()))?;
        let upgraded =
            tokio_tungstenite::client_async_with_config(request, stream, Some(socket_config())).await;
        let (socket, _) =
            upgraded.map_err(|error| failed(format!("{place} speaks no WebSocket: {error}")))?;
        Ok(socket)
    };
    let late =
        |_| Failure::new(Phase::Connect, "connect_timeout", format!("{place} did not let us in in time"));
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

/// Both sides prove whose they are, and the other one's certificate is still its domain's word.
pub async fn greet(
    fed: &Federation,
    issuer: &str,
    place: Place,
    mut socket: Socket,
    deadline: Instant,
) -> Result<Linked, Failure> {
    let late =
        |_| Failure::new(Phase::Hello, "hello_timeout", "its gateway did not answer our hello in time");
    let roots = fed.trust.roots();
    let (hello, welcome) =
        timeout_at(deadline, say_hello(fed, issuer, &mut socket)).await.map_err(late)??;
    let now = fed.clock.now_ms();
    let peer = welcome.check(&fed.trust, &fed.card, &hello, now).map_err(|error| {
        Failure::new(Phase::Hello, "hello_invalid", format!("its gateway did not prove itself: {error}"))
    })?;
    let revoked = fed.peers.revocation.is_revoked(fed, issuer, &place, &peer.certificate);
    if timeout_at(deadline, revoked).await.map_err(late)? {
        let sentence = "the certificate of its gateway is revoked";
        return Err(Failure::new(Phase::Hello, "certificate_revoked", sentence));
    }
    let ends = peer.certificate.not_after().min(fed.card.identity.certificate().not_after());
    let left = Duration::from_millis(u64::try_from(ends * 1000 - now).unwrap_or(0));
    Ok(Linked {
        until: Instant::now() + left.min(LONGEST),
        limits: welcome.limits,
        chain: welcome.chain,
        socket,
        place,
        peer,
        roots,
    })
}

#[derive(Deserialize)]
struct Frame<'a> {
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
    socket: &mut Socket,
) -> Result<(HelloParams, Welcome), Failure> {
    let failed = |reason, sentence: String| Failure::new(Phase::Hello, reason, sentence);
    let odd = || failed("hello_invalid", "its gateway does not speak our language".to_owned());
    let text = next_text(socket).await?;
    let challenge: Frame<'_> = serde_json::from_str(&text).map_err(|_| odd())?;
    let nonce =
        challenge.params.and_then(nonce_of).filter(|_| challenge.method.as_deref() == Some("challenge"));
    let nonce = nonce.ok_or_else(odd)?;
    let now = fed.clock.now_ms();
    let hello = HelloParams::new(&fed.card, fed.issuer(), issuer, &nonce, fed.ids.secret(), now);
    let ask = json!({ "jsonrpc": "2.0", "id": 1, "method": "federation.hello", "params": hello });
    socket.send(Message::text(ask.to_string())).await.map_err(|error| broken(&error))?;
    let text = next_text(socket).await?;
    let answer: Frame<'_> = serde_json::from_str(&text).map_err(|_| odd())?;
    if let Some(error) = answer.error.and_then(read_error) {
        return Err(failed("hello_refused", format!("its gateway refused our hello: {error}")));
    }
    let ours = answer.id.is_some_and(|id| id.get() == "1");
    let welcome = answer.result.filter(|_| ours).and_then(|result| serde_json::from_str(result.get()).ok());
    Ok((hello, welcome.ok_or_else(odd)?))
}

fn nonce_of(params: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Challenge {
        nonce: String,
    }
    serde_json::from_str(params.get()).ok().map(|challenge: Challenge| challenge.nonce)
}

async fn next_text(socket: &mut Socket) -> Result<String, Failure> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Err(error)) => return Err(broken(&error)),
            Some(Ok(_)) | None => {
                let sentence = "its gateway hung up before it had proved itself";
                return Err(Failure::new(Phase::Hello, "hello_refused", sentence));
            }
        }
    }
}

fn broken(error: &tokio_tungstenite::tungstenite::Error) -> Failure {
    Failure::new(Phase::Hello, "connect_failed", format!("the wire broke: {error}"))
}
