//! The load: many connections that each keep a number of calls in flight, or that connect and disconnect.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::agent::{BenchEndpoint, BenchSocket, LoggedInAgent};
use super::rounds::Latencies;

/// What a worker does over and over in a connect round.
#[derive(Clone)]
pub(super) enum ConnectKind {
    /// TCP and the WebSocket upgrade: what any server must do.
    Accept,
    /// The same, the challenge, and `auth.connect` with a token.
    Token(Arc<[LoggedInAgent]>),
    /// `auth.aid_login1`, `auth.aid_login2` and `auth.connect`, each on its own socket.
    Login(Arc<[LoggedInAgent]>),
}

#[derive(Deserialize)]
struct CallAnswer<'a> {
    id: &'a str,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

/// The connections of a round: each gives its socket back, and how long its calls took.
pub(super) type LoadTasks = JoinSet<anyhow::Result<(BenchSocket, Latencies)>>;

/// Keeps `depth` calls in flight on each socket for `span`, and gives the sockets back. A call is written once and sent
/// again and again.
pub(super) async fn call(
    sockets: Vec<BenchSocket>,
    depth: usize,
    span: Duration,
    request: fn(usize) -> Utf8Bytes,
) -> anyhow::Result<(Vec<BenchSocket>, Latencies)> {
    let until = Instant::now() + span;
    let mut tasks = LoadTasks::new();
    for socket in sockets {
        let calls: Vec<Utf8Bytes> = (0..depth).map(request).collect();
        tasks.spawn(call_while(socket, depth, move |now| now < until, move |number| calls[number].clone()));
    }
    gather(tasks).await
}

/// Waits for all connections of a round.
pub(super) async fn gather(mut tasks: LoadTasks) -> anyhow::Result<(Vec<BenchSocket>, Latencies)> {
    let (mut sockets, mut total) = (Vec::with_capacity(tasks.len()), Latencies::new()?);
    while let Some(done) = tasks.join_next().await {
        let (socket, latencies) = done.context("a connection of the load generator panicked")??;
        total.add(&latencies)?;
        sockets.push(socket);
    }
    Ok((sockets, total))
}

/// Has `workers` connect this way, over and over, for `span`.
pub(super) async fn run(
    endpoint: &BenchEndpoint,
    kind: &ConnectKind,
    workers: usize,
    span: Duration,
) -> anyhow::Result<Latencies> {
    let until = Instant::now() + span;
    let mut tasks = JoinSet::new();
    for worker in 0..workers {
        tasks.spawn(run_until(endpoint.clone(), kind.clone(), worker, workers, until));
    }

    let mut total = Latencies::new()?;
    while let Some(done) = tasks.join_next().await {
        total.add(&done.context("a worker of the load generator panicked")??)?;
    }
    Ok(total)
}

/// Keeps `depth` calls in flight on a socket while there is `more` to do, and waits until all of them are answered.
///
/// `more` is asked with the time of each answer whether another call should take its place.
/// `request` writes a call with the id it is given, as `ping` does.
pub(super) async fn call_while(
    mut socket: BenchSocket,
    depth: usize,
    mut more: impl FnMut(Instant) -> bool,
    mut request: impl FnMut(usize) -> Utf8Bytes,
) -> anyhow::Result<(BenchSocket, Latencies)> {
    let mut latencies = Latencies::new()?;
    for number in 0..depth {
        socket.0.feed(Message::Text(request(number))).await?;
    }
    socket.0.flush().await?;

    let mut sent = vec![Instant::now(); depth];
    let mut in_flight = depth;
    while in_flight > 0 {
        // One flush per batch of ready answers, as a careful client does.
        let mut next = Some(socket.0.next().await.context("the server closed the socket")??);
        let now = Instant::now();
        while let Some(message) = next {
            if let Some(number) = answered(&message)? {
                let since = sent.get_mut(number).context("the server answered a call that was not made")?;
                latencies.record(now - *since);
                if more(now) {
                    *since = now;
                    socket.0.feed(Message::Text(request(number))).await?;
                } else {
                    in_flight -= 1;
                }
            }
            next = socket.0.next().now_or_never().flatten().transpose()?;
        }
        socket.0.flush().await?;
    }
    Ok((socket, latencies))
}

/// A ping as an SDK writes it; the id tells which of the requests in flight an answer belongs to.
pub(super) fn ping(number: usize) -> Utf8Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":"rpc-{number:016x}","method":"meta.ping","params":{{}}}}"#).into()
}

/// Which call a frame answers; nothing if it is not text.
pub(super) fn answered(message: &Message) -> anyhow::Result<Option<usize>> {
    let text = match message {
        Message::Text(text) => text,
        Message::Close(frame) => bail!("the server closed the connection: {frame:?}"),
        _ => return Ok(None),
    };
    let answer: CallAnswer<'_> =
        serde_json::from_str(text).with_context(|| format!("not an answer: {text}"))?;
    if answer.result.is_none() {
        bail!("a call was answered with {text}");
    }
    let number = answer.id.strip_prefix("rpc-").and_then(|hex| usize::from_str_radix(hex, 16).ok());
    Ok(Some(number.with_context(|| format!("an answer with an unknown id: {text}"))?))
}

/// Each worker has agents of its own, so that no session evicts another's.
async fn run_until(
    endpoint: BenchEndpoint,
    kind: ConnectKind,
    worker: usize,
    workers: usize,
    until: Instant,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::new()?;
    let mut turn = worker;
    while Instant::now() < until {
        let started = Instant::now();
        let socket = match &kind {
            ConnectKind::Accept => endpoint.dial().await?,
            ConnectKind::Token(agents) => {
                let agent = &agents[turn % agents.len()];
                BenchSocket::connect(&endpoint, &agent.token, 0, 0).await?
            }
            ConnectKind::Login(agents) => {
                let token = agents[turn % agents.len()].identity.login(&endpoint).await?;
                BenchSocket::connect(&endpoint, &token, 0, 0).await?
            }
        };
        latencies.record(started.elapsed());
        drop(socket); // Resets the connection.
        turn += workers;
    }
    Ok(latencies)
}
