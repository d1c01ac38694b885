//! `aund bench --shape split`: what it costs that a service runs in another process.
//!
//! The CPU time of all processes of a server is taken together. The baseline of a routed call is the same raw echo as
//! always, and beside it the echo behind a raw gateway, because nothing that is routed can be cheaper than that; the baseline
//! of a message is the whole server on the same PostgreSQL.

use std::time::Instant;

use anyhow::Context as _;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::Plan;
use super::agent::{BenchSocket, ISSUER, Transport, register_agents};
use super::gateway::ping::{CallLoad, CallSpec};
use super::message;
use super::process::{BenchFolder, BenchServer, Build};
use super::report::{Goal, Measurement, Report, ReportedFigure};
use super::rounds::{RoundLoad as _, Sample, SampleSeries, alternate};
use super::split_setup::SplitSetup;

/// How many clients reconnect at once, and how many sessions an agent has.
const SIDE_BY_SIDE: usize = 64;
const SESSIONS_PER_AGENT: usize = 10;

pub(super) async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let redis = plan.redis.as_deref().context("--shape split needs --redis URL")?;
    for (connections, depth) in loads(plan) {
        routed(plan, redis, connections, depth, report).await?;
    }
    match &plan.postgres {
        Some(url) => message::split(plan, url, redis, report).await?,
        None => report.note("messages", "left out: they need --postgres URL".to_owned()),
    }
    report.add(reconnected(plan, redis).await?);
    Ok(())
}

type SampleFigure = (&'static str, fn(&Sample) -> f64);

const FIGURES: [SampleFigure; 4] = [
    ("per server-CPU-second", |sample| sample.per_cpu_second),
    ("per second", |sample| sample.per_second),
    ("p50, µs", |sample| sample.p50_us),
    ("p99, µs", |sample| sample.p99_us),
];

/// A call that the message service answers without its store.
fn query_online(number: usize) -> Utf8Bytes {
    let params = format!(r#"{{"aids":["bench-00000.{ISSUER}"]}}"#);
    format!(
        r#"{{"jsonrpc":"2.0","id":"rpc-{number:016x}","method":"message.query_online","params":{params}}}"#
    )
    .into()
}

/// Connections, and calls in flight on each.
pub(super) fn loads(plan: &Plan) -> [(usize, usize); 3] {
    [(plan.connections, 1), (plan.connections, 16), (1, 1)]
}

pub(super) fn title(connections: usize, depth: usize) -> String {
    format!("message.query_online in another process, {connections} connections, {depth} in flight")
}

pub(super) fn routed_load(connections: usize, depth: usize) -> CallSpec {
    CallSpec { transport: Transport::Plain, connections, depth, request: query_online }
}

/// A server of several processes, and sessions at its gateway.
pub(super) async fn start(build: &Build, redis: &str, load: CallSpec) -> anyhow::Result<CallLoad> {
    let folder = BenchFolder::new("routed")?;
    let server = SplitSetup::prepare(build, &folder, redis, None).await?.start().await?;
    CallLoad::sessions(server, folder, load).await
}

async fn routed(
    plan: &Plan,
    redis: &str,
    connections: usize,
    depth: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let title = title(connections, depth);
    eprintln!("{title} …");
    let load = routed_load(connections, depth);
    let mut ours = start(&Build::this()?, redis, load).await?;
    let mut raw = CallLoad::raw(BenchServer::raw().await?, load).await?;
    let (mut bare_commits, mut bare) =
        (CallLoad::raw(BenchServer::raw_through().await?, load).await?, Vec::new());
    let both = async || {
        bare.push(bare_commits.round(plan.span).await?);
        raw.round(plan.span).await
    };
    let pairs = alternate(plan.rounds, async || ours.round(plan.span).await, both).await?;

    let cpu = match (connections, depth) {
        (1, _) => None,
        (_, 1) => Some(Goal::RatioAtLeast { now: Some(0.45), later: 0.55 }),
        _ => Some(Goal::RatioAtLeast { now: Some(0.30), later: 0.40 }),
    };
    let p50 = (connections == 1).then_some(Goal::RatioAtMost { now: Some(1.8), later: 1.6 });
    let line = |(unit, figure): SampleFigure| ReportedFigure::new(unit, SampleSeries::of(&pairs, figure));
    let [per_cpu, per_second, middle, slow] = FIGURES.map(line);
    report.add(Measurement { title, lines: vec![per_cpu.goal(cpu), per_second, middle.goal(p50), slow] });

    let echoed: Vec<Sample> = pairs.into_iter().map(|(_, raw)| raw).collect();
    let line =
        |(unit, figure): SampleFigure| ReportedFigure::new(unit, SampleSeries::pair(&bare, &echoed, figure));
    let title =
        "the least of it: the raw echo behind a raw gateway; raw: the same echo without the gateway".into();
    report.add(Measurement { title, lines: FIGURES.map(line).into() });
    Ok(())
}

/// All sessions are on one gateway; it is killed; all reconnect to the other.
async fn reconnected(plan: &Plan, redis: &str) -> anyhow::Result<Measurement> {
    let count = plan.idle_connections;
    let title = format!("{count} sessions of a killed gateway reconnect to another, {SIDE_BY_SIDE} at once");
    eprintln!("{title} …");
    let folder = BenchFolder::new("reconnect")?;
    let ground = SplitSetup::prepare(&Build::this()?, &folder, redis, None).await?;
    let first = ground.start().await?;
    let endpoint = first.endpoint(Transport::Plain).clone();
    let agents = register_agents(&endpoint, count.div_ceil(SESSIONS_PER_AGENT)).await?;
    let connect = |number: usize| {
        let agent = &agents[number / SESSIONS_PER_AGENT];
        BenchSocket::connect(&endpoint, &agent.token, 0, number % SESSIONS_PER_AGENT)
    };
    let sessions: Vec<BenchSocket> =
        stream::iter(0..count).map(connect).buffer_unordered(SIDE_BY_SIDE).try_collect().await?;
    let ports = (first.endpoint(Transport::Tls).port(), endpoint.port());
    let second = ground.second_gateway(ports.0, ports.1).await?;

    let services = first.kill_gateway().await?;
    drop(sessions);
    let second = second.beside(services);
    let (meter, began) = (second.meter()?, Instant::now());
    let back: Vec<BenchSocket> =
        stream::iter(0..count).map(connect).buffer_unordered(SIDE_BY_SIDE).try_collect().await?;
    let seconds = began.elapsed().as_secs_f64();
    let cpu_us = meter.cpu_seconds()? * 1e6 / back.len() as f64;
    let alone = |figure: f64| SampleSeries { ours: vec![figure], raw: Vec::new() };
    Ok(Measurement {
        title,
        lines: vec![
            ReportedFigure::new("seconds until all are up", alone(seconds)),
            ReportedFigure::new("CPU of all processes each, µs", alone(cpu_us)),
            ReportedFigure::new("resident at the end, KiB", alone(second.resident_kib()?)),
        ],
    })
}
