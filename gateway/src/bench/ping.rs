//! `meta.ping` through authenticated sessions, against the raw echo of the same frame.

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::client::{Socket, Transport, enrol};
use super::process::{Scratch, Server};
use super::report::{Goal, Line, Row};
use super::rounds::{Sample, Series, alternate};
use super::{Plan, load};

/// Sessions share a few agents, as several devices of one agent would.
const SESSIONS_PER_AGENT: usize = 4;

/// Before the first round each side runs this long without being measured.
const WARM_UP: Duration = Duration::from_millis(500);

pub(super) async fn measure(plan: &Plan, transport: Transport, depth: usize) -> anyhow::Result<Row> {
    let title =
        format!("meta.ping, {}, {} connections, {depth} in flight", transport.name(), plan.connections);
    eprintln!("{title} …");
    let scratch = Scratch::new("ping")?;
    let server = Server::ours(&scratch).await?;
    let pairs = against_raw(plan, &server, transport, plan.connections, depth, load::ping).await?;
    Ok(row(title, &pairs, goal(transport, depth)))
}

/// The same calls to a server and to the raw echo, in turn. The echo takes any method for a ping.
pub(super) async fn against_raw(
    plan: &Plan,
    server: &Server,
    transport: Transport,
    connections: usize,
    depth: usize,
    request: fn(usize) -> Utf8Bytes,
) -> anyhow::Result<Vec<(Sample, Sample)>> {
    let baseline = Server::raw().await?;
    let mut sessions = sessions(server, transport, connections).await?;
    let mut sockets = sockets(&baseline, transport, connections).await?;
    round(server, &mut sessions, depth, WARM_UP, request).await?;
    round(&baseline, &mut sockets, depth, WARM_UP, request).await?;
    alternate(
        plan.rounds,
        async || round(server, &mut sessions, depth, plan.span, request).await,
        async || round(&baseline, &mut sockets, depth, plan.span, request).await,
    )
    .await
}

async fn round(
    server: &Server,
    sockets: &mut Vec<Socket>,
    depth: usize,
    span: Duration,
    request: fn(usize) -> Utf8Bytes,
) -> anyhow::Result<Sample> {
    let meter = server.meter()?;
    let (back, latencies) = load::call(std::mem::take(sockets), depth, span, request).await?;
    *sockets = back;
    meter.stop(&latencies)
}

async fn sessions(server: &Server, transport: Transport, count: usize) -> anyhow::Result<Vec<Socket>> {
    let members = enrol(server.target(Transport::Plain), count.div_ceil(SESSIONS_PER_AGENT)).await?;
    let target = server.target(transport);
    let connect = |number: usize| {
        let member = &members[number / SESSIONS_PER_AGENT];
        Socket::connect(target, &member.token, 0, number % SESSIONS_PER_AGENT)
    };
    stream::iter(0..count).map(connect).buffer_unordered(8).try_collect().await
}

async fn sockets(server: &Server, transport: Transport, count: usize) -> anyhow::Result<Vec<Socket>> {
    let target = server.target(transport);
    stream::iter(0..count).map(|_| target.dial()).buffer_unordered(8).try_collect().await
}

fn row(title: String, pairs: &[(Sample, Sample)], goal: Option<Goal>) -> Row {
    let p99_goal = Goal::RatioAtMost { now: None, later: 1.25 };
    Row {
        title,
        lines: vec![
            Line::new("per server-CPU-second", Series::of(pairs, |sample| sample.per_cpu_second)).goal(goal),
            Line::new("per second", Series::of(pairs, |sample| sample.per_second)),
            Line::new("p50, µs", Series::of(pairs, |sample| sample.p50_us)),
            Line::new("p99, µs", Series::of(pairs, |sample| sample.p99_us)).goal(Some(p99_goal)),
            Line::new("resident, KiB", Series::of(pairs, |sample| sample.resident_kib)),
        ],
    }
}

/// The goals are for plain sockets; TLS adds the same to both sides and is printed for itself.
fn goal(transport: Transport, depth: usize) -> Option<Goal> {
    match (transport, depth) {
        (Transport::Plain, 1) => Some(Goal::RatioAtLeast { now: Some(0.80), later: 0.90 }),
        (Transport::Plain, 16) => Some(Goal::RatioAtLeast { now: Some(0.50), later: 0.65 }),
        _ => None,
    }
}
