//! Listeners: TCP, TLS, how many sockets at once, and whether a socket becomes a WebSocket or stays HTTP.

mod new_socket;
mod proxied;
mod timed_writes;
pub mod tls;

use crate::admission::{SocketLimit, SocketPermit};
use crate::gateway::GatewayState;
use crate::http_body::UnreadBody;
use crate::incoming::IncomingFrames;
use crate::shared_limits::HandshakeSlot;
use crate::{http, session};
use anyhow::Context as _;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use kernel::http::{refusal, with_header};
use kernel::{BytesOwner, EvictionSignal, RpcError, codes};
use new_socket::NewSocket;
use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use timed_writes::TimedWrites;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

/// Small, because most connections are idle: the library's own defaults would cost 128 KiB each.
const READ_BUFFER: usize = 4 << 10;
const WRITE_BUFFER: usize = 16 << 10;
/// Waiting connections the kernel keeps for us.
const BACKLOG: i32 = 4096;

/// Binds an address. A shared port is one that other processes may bind, too.
pub fn bind(address: SocketAddr, shared: bool) -> anyhow::Result<TcpListener> {
    let bind = || -> std::io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(shared)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        TcpListener::from_std(socket.into())
    };
    bind().with_context(|| format!("cannot listen on {address}"))
}

/// Accepts until the server drains.
pub async fn accept(gateway: Arc<GatewayState>, listener: TcpListener, tls: Option<TlsAcceptor>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = gateway.stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, address)) => {
                if gateway.admission.limits.handshakes_are_full(address.ip()) {
                    // The sockets that have come before this one look first whether something was received.
                    yield_now().await;
                }
                admit(&gateway, stream, address, tls.clone());
            }
            Err(error) => {
                // Out of file descriptors, mostly. New connections stay in the kernel's queue meanwhile.
                tracing::warn!("a connection could not be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

fn admit(gateway: &Arc<GatewayState>, stream: TcpStream, address: SocketAddr, tls: Option<TlsAcceptor>) {
    let (address, limits) = (address.ip(), &gateway.admission.limits);
    let signal = Arc::<EvictionSignal>::default();
    let deadline = Instant::now() + Duration::from_millis(gateway.config.limits.handshake_timeout_ms);
    let _ = stream.set_nodelay(true);
    let socket = NewSocket { gateway: gateway.clone(), stream, tls, signal, deadline };
    let refused = |limit| gateway.metrics.refused(reason(limit));
    if gateway.config.is_proxy(address) {
        match limits.admit_balancer(address, &socket.signal) {
            Ok((permit, handshake)) => {
                gateway.tracker.spawn(socket.serve_proxied(address, permit, handshake));
            }
            Err(limit) => refused(limit),
        }
        return;
    }
    match limits.admit(address, &socket.signal) {
        Ok(admitted) => {
            gateway.tracker.spawn(socket.serve_client(address, admitted));
        }
        Err(limit) => refused(limit),
    }
}

fn reason(limit: SocketLimit) -> &'static str {
    match limit {
        SocketLimit::Sockets => "sockets",
        SocketLimit::Address => "sockets_per_address",
        SocketLimit::Rate => "connects_per_second",
    }
}

/// One accepted socket, until it becomes a session.
struct AcceptedSocket {
    gateway: Arc<GatewayState>,
    address: IpAddr,
    permit: Mutex<Option<SocketPermit>>,
    /// Given back with the first whole request.
    handshake: Mutex<Option<HandshakeSlot>>,
    /// Says that the socket has to be closed, because others need what it holds.
    signal: Arc<EvictionSignal>,
}

async fn serve<S>(accepted: Arc<AcceptedSocket>, stream: S, head_limit: Duration)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stop = accepted.gateway.stop.clone();
    let stuck = Duration::from_millis(accepted.gateway.config.limits.write_timeout_ms);
    let stream = TimedWrites::new(stream, stuck);
    let service = service_fn(move |request| answer::<S>(accepted.clone(), request));
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_limit).max_buf_size(16 << 10);
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service).with_upgrades());
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("an HTTP connection ended early: {error}");
    }
}

async fn answer<S>(accepted: Arc<AcceptedSocket>, request: Request<Incoming>) -> Result<Response, Infallible>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    accepted.handshake.lock().take();
    if matches!(request.uri().path(), "/aun" | "/ws") {
        return Ok(upgrade::<S>(&accepted, request));
    }
    let answer = http::answer(&accepted.gateway, accepted.address, request).await;
    let owner = BytesOwner::of_address(accepted.address);
    Ok(answer.map(|body| UnreadBody::count(body, &accepted.gateway.unread_budget, owner, &accepted.signal)))
}

/// Answers the WebSocket handshake and hands the socket to a session.
fn upgrade<S>(accepted: &AcceptedSocket, mut request: Request<Incoming>) -> Response
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let gateway = accepted.gateway.clone();
    let header =
        |name: hyper::header::HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    let says = |value: Option<&str>, word: &str| {
        value.is_some_and(|value| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
    };
    if request.method() != Method::GET {
        let error = RpcError::new(codes::METHOD_NOT_ALLOWED, "only GET is allowed");
        return with_header(http::plain_failure(&error), ALLOW, "GET");
    }
    let wants = says(header(UPGRADE), "websocket") && says(header(CONNECTION), "upgrade");
    let (Some(key), true) = (header(SEC_WEBSOCKET_KEY), wants) else {
        let refused =
            refused(StatusCode::UPGRADE_REQUIRED, "upgrade_required", "this path is for WebSockets");
        return with_header(refused, UPGRADE, "websocket");
    };
    if header(SEC_WEBSOCKET_VERSION) != Some("13") {
        let sentence = "only WebSocket version 13 is supported";
        let refused = refused(StatusCode::UPGRADE_REQUIRED, "websocket_version", sentence);
        return with_header(refused, SEC_WEBSOCKET_VERSION, "13");
    }
    if gateway.stop.is_cancelled() {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the server is stopping");
    }
    let accept = derive_accept_key(key.as_bytes());
    let (permit, address) = (accepted.permit.lock().take(), accepted.address);
    let upgrading = hyper::upgrade::on(&mut request);
    accepted.gateway.tracker.spawn(async move {
        // Boxed one after the other, so that a session does not keep the memory of its upgrade.
        if let Some(socket) = Box::pin(upgraded::<S>(&gateway, upgrading, address)).await {
            Box::pin(session::run(gateway, socket, address)).await;
        }
        drop(permit);
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = [(UPGRADE, "websocket"), (CONNECTION, "Upgrade"), (SEC_WEBSOCKET_ACCEPT, &*accept)];
    headers.into_iter().fold(response, |response, (name, value)| with_header(response, name, value))
}

async fn upgraded<S>(
    gateway: &GatewayState,
    upgrading: OnUpgrade,
    address: IpAddr,
) -> Option<WebSocketStream<IncomingFrames<S>>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limit = Duration::from_millis(gateway.config.limits.handshake_timeout_ms);
    let upgraded: Upgraded = tokio::time::timeout(limit, upgrading).await.ok()?.ok()?;
    let parts = upgraded.downcast::<TokioIo<TimedWrites<S>>>().ok()?;
    let limits = &gateway.config.limits;
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_write_buffer_size(limits.outbox_bytes + (4 << 20))
        .max_message_size(Some(limits.frame_bytes))
        .max_frame_size(Some(limits.frame_bytes));
    let stream = parts.io.into_inner().into_inner();
    // Copied, because the buffer behind it is hyper's and twice as large as ours.
    let early = Bytes::copy_from_slice(&parts.read_buf);
    let most = limits.preauth_frame_bytes.min(limits.frame_bytes);
    let owner = BytesOwner::of_address(address);
    let stream = IncomingFrames::new(stream, early, most, owner, gateway.frame_budget.clone());
    Some(WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await)
}

fn refused(status: StatusCode, word: &str, sentence: &str) -> Response {
    http::plain_failure(&refusal(status, word, sentence))
}
