//! `meta.ping` through authenticated sessions, against the raw echo of the same frame.

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::agent::{BenchSocket, Transport, register_agents};
use crate::process::{BenchFolder, BenchServer, Build};
use crate::report::{Goal, Measurement, ReportedFigure};
use crate::rounds::{RoundLoad, Sample, SampleSeries, alternate};
use crate::{Plan, load};

/// Sessions share a few agents, as several devices of one agent would.
const SESSIONS_PER_AGENT: usize = 4;

/// Before the first round each side runs this long without being measured.
const WARM_UP: Duration = Duration::from_millis(500);

/// What is measured: the transport, and the calls in flight on each connection.
pub(crate) const LOADS: [(Transport, usize); 4] =
    [(Transport::Plain, 1), (Transport::Plain, 16), (Transport::Tls, 1), (Transport::Tls, 16)];

/// What the servers are asked, and how much at once.
#[derive(Clone, Copy)]
pub(crate) struct CallSpec {
    pub(crate) transport: Transport,
    pub(crate) connections: usize,
    /// Calls in flight on each connection.
    pub(crate) depth: usize,
    pub(crate) request: fn(usize) -> Utf8Bytes,
}

/// A server, and the connections that load it.
pub(crate) struct CallLoad {
    server: BenchServer,
    sockets: Vec<BenchSocket>,
    load: CallSpec,
    _folder: Option<BenchFolder>,
}

pub(crate) async fn measure(plan: &Plan, transport: Transport, depth: usize) -> anyhow::Result<Measurement> {
    let title = title(plan, transport, depth);
    eprintln!("{title} …");
    let load = CallSpec::ping(plan, transport, depth);
    let mut ours = CallLoad::aund(&Build::this()?, load).await?;
    let mut raw = CallLoad::raw(BenchServer::raw().await?, load).await?;
    let pairs =
        alternate(plan.rounds, async || ours.round(plan.span).await, async || raw.round(plan.span).await)
            .await?;
    Ok(row(title, &pairs, goal(transport, depth)))
}

pub(crate) fn title(plan: &Plan, transport: Transport, depth: usize) -> String {
    format!("meta.ping, {}, {} connections, {depth} in flight", transport.name(), plan.connections)
}

impl CallSpec {
    pub(crate) fn ping(plan: &Plan, transport: Transport, depth: usize) -> Self {
        Self { transport, connections: plan.connections, depth, request: load::ping }
    }
}

impl CallLoad {
    /// Authenticated sessions on a server of one process.
    pub(crate) async fn aund(build: &Build, load: CallSpec) -> anyhow::Result<Self> {
        let folder = BenchFolder::new("ping")?;
        let server = BenchServer::aund(build, &folder, None).await?;
        Self::sessions(server, folder, load).await
    }

    /// Authenticated sessions on a server that runs already.
    pub(crate) async fn sessions(
        server: BenchServer,
        folder: BenchFolder,
        load: CallSpec,
    ) -> anyhow::Result<Self> {
        let agents = load.connections.div_ceil(SESSIONS_PER_AGENT);
        let agents = register_agents(server.endpoint(Transport::Plain), agents).await?;
        let endpoint = server.endpoint(load.transport);
        let connect = |number: usize| {
            let agent = &agents[number / SESSIONS_PER_AGENT];
            BenchSocket::connect(endpoint, &agent.token, 0, number % SESSIONS_PER_AGENT)
        };
        let sockets =
            stream::iter(0..load.connections).map(connect).buffer_unordered(8).try_collect().await?;
        Self { server, sockets, load, _folder: Some(folder) }.warm().await
    }

    /// Connections to an echo, which answers any method like a ping.
    pub(crate) async fn raw(server: BenchServer, load: CallSpec) -> anyhow::Result<Self> {
        let endpoint = server.endpoint(load.transport);
        let dialled = stream::iter(0..load.connections).map(|_| endpoint.dial()).buffer_unordered(8);
        let sockets = dialled.try_collect().await?;
        Self { server, sockets, load, _folder: None }.warm().await
    }

    async fn warm(mut self) -> anyhow::Result<Self> {
        self.round(WARM_UP).await?;
        Ok(self)
    }
}

impl RoundLoad for CallLoad {
    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        let meter = self.server.meter()?;
        let sockets = std::mem::take(&mut self.sockets);
        let (back, latencies) = load::call(sockets, self.load.depth, span, self.load.request).await?;
        self.sockets = back;
        meter.stop(&latencies)
    }
}

fn row(title: String, pairs: &[(Sample, Sample)], goal: Option<Goal>) -> Measurement {
    let p99_goal = Goal::RatioAtMost { now: None, later: 1.25 };
    Measurement {
        title,
        lines: vec![
            ReportedFigure::new(
                "per server-CPU-second",
                SampleSeries::of(pairs, |sample| sample.per_cpu_second),
            )
            .goal(goal),
            ReportedFigure::new("per second", SampleSeries::of(pairs, |sample| sample.per_second)),
            ReportedFigure::new("p50, µs", SampleSeries::of(pairs, |sample| sample.p50_us)),
            ReportedFigure::new("p99, µs", SampleSeries::of(pairs, |sample| sample.p99_us))
                .goal(Some(p99_goal)),
            ReportedFigure::new("resident, KiB", SampleSeries::of(pairs, |sample| sample.resident_kib)),
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
