//! The raw baseline: a JSON echo over tokio-tungstenite, and nothing else.
//!
//! It parses each request for its id, answers as `meta.ping` does, and flushes once per batch of ready frames.
//! That is the least a JSON-RPC server on this stack can do, so it is what the gateway is compared with. With
//! `--through` it is the least that a second process behind a gateway can cost.

mod http;
mod relay;

use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context as _;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message, Utf8Bytes};
use tokio_util::task::TaskTracker;

use super::RawArgs;
use super::agent::{BenchEndpoint, BenchSocket, READ_BUFFER, Transport};
use super::tls;
use relay::RelayRouter;

#[derive(Deserialize)]
struct EchoRequest<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[expect(
        dead_code,
        reason = "parsed because any server must, though the echo has one answer for every method"
    )]
    method: &'a str,
}

/// What the baseline does with a frame.
#[derive(Clone)]
enum RawMode {
    /// It is answered.
    Echo,
    /// It is sent to the socket of its recipient; see `relay.rs`.
    Relay(Arc<RelayRouter>),
    /// It is forwarded to another process, whose answer is sent back.
    Through(BenchEndpoint),
}

/// Listens with and without TLS, and prints where in the lines of the real server's banner.
pub(super) async fn serve(args: RawArgs) -> anyhow::Result<()> {
    if let Some(file) = &args.http {
        let listener = http::listener().await?;
        let port = listener.local_addr()?.port();
        let mut stdout = std::io::stdout();
        // The bench reads the lines of the real server's banner, and here nothing is asked over TLS.
        writeln!(stdout, "  gateway   wss://127.0.0.1:{port}/aun\n  plain     ws://127.0.0.1:{port}/aun")?;
        stdout.flush()?;
        std::thread::spawn(exit_with_the_parent);
        return http::serve(listener, file).await;
    }
    let plain = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("the baseline could not listen")?;
    let secure =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("the baseline could not listen")?;
    let acceptor = TlsAcceptor::from(tls::server()?);
    let mut stdout = std::io::stdout();
    writeln!(stdout, "  gateway   wss://127.0.0.1:{}/aun", secure.local_addr()?.port())?;
    writeln!(stdout, "  plain     ws://127.0.0.1:{}/aun", plain.local_addr()?.port())?;
    stdout.flush()?;
    std::thread::spawn(exit_with_the_parent);

    let tasks = TaskTracker::new();
    let mode = RawMode::of(args)?;
    loop {
        tokio::select! {
            accepted = plain.accept() => {
                let stream = ready(accepted)?;
                tasks.spawn(upgrade(stream, mode.clone()));
            }
            accepted = secure.accept() => {
                let (stream, acceptor, mode) = (ready(accepted)?, acceptor.clone(), mode.clone());
                tasks.spawn(async move {
                    // A client that closes in the middle of a handshake is ignored.
                    if let Ok(stream) = acceptor.accept(stream).await {
                        upgrade(stream, mode).await;
                    }
                });
            }
        }
    }
}

impl RawMode {
    fn of(args: RawArgs) -> anyhow::Result<Self> {
        Ok(match args.through {
            Some(url) => RawMode::Through(BenchEndpoint::new(&url, Transport::Plain)?),
            None if args.relay => RawMode::Relay(Arc::default()),
            None => RawMode::Echo,
        })
    }
}

/// Reads standard input, which the bench holds open and which ends with it even if it was killed.
pub(crate) fn exit_with_the_parent() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(0);
}

fn ready(accepted: std::io::Result<(TcpStream, std::net::SocketAddr)>) -> anyhow::Result<TcpStream> {
    let (stream, _) = accepted.context("the baseline could not accept")?;
    // Fails only for a socket that is already reset; the upgrade will notice.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

async fn upgrade<S: AsyncRead + AsyncWrite + Unpin>(stream: S, mode: RawMode) {
    let config = WebSocketConfig::default().read_buffer_size(READ_BUFFER);
    let Ok(mut socket) = tokio_tungstenite::accept_async_with_config(stream, Some(config)).await else {
        return;
    };
    match mode {
        RawMode::Echo => echo(socket).await,
        RawMode::Relay(router) => router.serve(socket).await,
        RawMode::Through(endpoint) => {
            let Ok(BenchSocket(mut behind)) = endpoint.dial().await else { return };
            while tokio::select! {
                frame = socket.next() => pass(frame, &mut socket, &mut behind, checked).await,
                frame = behind.next() => pass(frame, &mut behind, &mut socket, Some).await,
            }
            .is_some()
            {}
        }
    }
}

async fn echo<S: AsyncRead + AsyncWrite + Unpin>(mut socket: WebSocketStream<S>) {
    while let Some(Ok(first)) = socket.next().await {
        let mut next = Some(first);
        while let Some(message) = next {
            let Message::Text(text) = message else { return };
            let Some(answer) = answer(&text) else { return };
            if socket.feed(Message::Text(answer)).await.is_err() {
                return;
            }
            next = match socket.next().now_or_never() {
                None => None,
                Some(Some(Ok(message))) => Some(message),
                Some(_) => return,
            };
        }
        if socket.flush().await.is_err() {
            return;
        }
    }
}

/// Forwards what is ready on one socket to the other, and flushes once.
async fn pass<S, T>(
    first: Option<Result<Message, WebSocketError>>,
    from: &mut WebSocketStream<S>,
    to: &mut WebSocketStream<T>,
    check: fn(Utf8Bytes) -> Option<Utf8Bytes>,
) -> Option<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut next = Some(first);
    while let Some(message) = next {
        let Some(Ok(Message::Text(text))) = message else { return None };
        to.feed(Message::Text(check(text)?)).await.ok()?;
        next = from.next().now_or_never();
    }
    to.flush().await.ok()
}

/// A process that forwards a request must know its method.
fn checked(text: Utf8Bytes) -> Option<Utf8Bytes> {
    serde_json::from_str::<EchoRequest<'_>>(&text).is_ok().then_some(text)
}

/// The timestamp does not move: reading a clock is the gateway's cost, not the baseline's.
fn answer(text: &str) -> Option<Utf8Bytes> {
    let request: EchoRequest<'_> = serde_json::from_str(text).ok()?;
    let id = request.id.get();
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"pong":true,"timestamp":1700000000}}}}"#).into())
}
