//! What a connection costs in memory while nothing happens on it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tokio::task::JoinSet;

use crate::Plan;
use crate::agent::{BenchSocket, LoggedInAgent, Transport, register_agents};
use crate::process::{BenchFolder, BenchServer, Build};
use crate::report::{Goal, Measurement, ReportedFigure};
use crate::rounds::{SampleSeries, alternate};

/// "long connections per (aid, device) across slots: 10", "devices per aid with long connections: 10".
const PER_DEVICE: usize = 10;
const PER_AGENT: usize = 10 * PER_DEVICE;

/// Open during the first reading, so that the threads, tables and caches of the process do not count.
const FIRST: usize = 100;

/// Handshakes under way at once.
const SIDE_BY_SIDE: usize = 64;

/// After the last connection: what was needed only to open it has been given back.
const SETTLE: Duration = Duration::from_secs(2);

/// Memory repeats itself; more rounds than this tell nothing new.
const ENOUGH: usize = 3;

/// The side that is measured.
enum IdleSide<'a> {
    Ours(&'a [LoggedInAgent]),
    Raw,
}

/// A build, and agents that are registered in the folder it runs on.
pub(crate) struct IdleAgents {
    build: Build,
    folder: BenchFolder,
    agents: Arc<[LoggedInAgent]>,
    count: usize,
}

pub(crate) async fn measure(plan: &Plan, transport: Transport) -> anyhow::Result<Measurement> {
    let (title, count) = (title(plan, transport), plan.idle_connections);
    eprintln!("{title} …");
    let agents = IdleAgents::register(plan, &Build::this()?).await?;
    let pairs = alternate(
        rounds(plan),
        async || agents.kib_each(transport).await,
        async || kib_each(BenchServer::raw().await?, IdleSide::Raw, transport, count).await,
    )
    .await?;
    let (ours, raw) = pairs.into_iter().unzip();
    Ok(Measurement {
        title,
        lines: vec![ReportedFigure::new("KiB each", SampleSeries { ours, raw }).goal(Some(goal(transport)))],
    })
}

pub(crate) fn title(plan: &Plan, transport: Transport) -> String {
    format!("memory per idle connection, {}, {} connections", transport.name(), plan.idle_connections)
}

pub(crate) fn rounds(plan: &Plan) -> usize {
    plan.rounds.min(ENOUGH)
}

impl IdleAgents {
    pub(crate) async fn register(plan: &Plan, build: &Build) -> anyhow::Result<Self> {
        let (folder, count) = (BenchFolder::new("idle")?, plan.idle_connections);
        let first = BenchServer::aund(build, &folder, None).await?;
        let agents =
            register_agents(first.endpoint(Transport::Plain), (count + FIRST).div_ceil(PER_AGENT)).await?;
        first.stop().await?;
        Ok(Self { build: build.clone(), folder, agents, count })
    }

    /// Each reading is of a fresh process: one that has served before holds memory it would reuse.
    /// Tokens outlive the process that issued them.
    pub(crate) async fn kib_each(&self, transport: Transport) -> anyhow::Result<f64> {
        let server = BenchServer::aund(&self.build, &self.folder, None).await?;
        kib_each(server, IdleSide::Ours(&self.agents), transport, self.count).await
    }
}

async fn kib_each(
    server: BenchServer,
    side: IdleSide<'_>,
    transport: Transport,
    count: usize,
) -> anyhow::Result<f64> {
    let mut held = JoinSet::new();
    hold(&mut held, &server, &side, transport, 0..FIRST).await?;
    let before = server.resident_kib()?;
    hold(&mut held, &server, &side, transport, FIRST..FIRST + count).await?;
    let after = server.resident_kib()?;

    if held.try_join_next().is_some() {
        bail!("the server closed idle connections");
    }
    server.stop().await?;
    Ok((after - before) / count as f64)
}

/// Opens connections and has each wait for the end. Each has served one request, so its buffers have been used.
async fn hold(
    held: &mut JoinSet<()>,
    server: &BenchServer,
    side: &IdleSide<'_>,
    transport: Transport,
    numbers: std::ops::Range<usize>,
) -> anyhow::Result<()> {
    let endpoint = server.endpoint(transport);
    let open = async |number: usize| match side {
        IdleSide::Ours(agents) => {
            let (device, slot) = (number % PER_AGENT / PER_DEVICE, number % PER_DEVICE);
            BenchSocket::connect(endpoint, &agents[number / PER_AGENT].token, device, slot).await
        }
        IdleSide::Raw => {
            let mut socket = endpoint.dial().await?;
            socket.call("meta.ping", json!({})).await?;
            Ok(socket)
        }
    };
    let mut opening = stream::iter(numbers).map(open).buffer_unordered(SIDE_BY_SIDE);
    while let Some(socket) = opening.next().await {
        held.spawn(socket?.stay());
    }
    tokio::time::sleep(SETTLE).await;
    Ok(())
}

fn goal(transport: Transport) -> Goal {
    match transport {
        Transport::Plain => Goal::RatioAtMost { now: Some(1.5), later: 1.3 },
        Transport::Tls => Goal::AtMost(32.0),
    }
}
