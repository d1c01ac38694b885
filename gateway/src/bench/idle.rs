//! What a connection costs in memory while nothing happens on it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tokio::task::JoinSet;

use super::Plan;
use super::client::{Member, Socket, Transport, enrol};
use super::process::{Build, Scratch, Server};
use super::report::{Goal, Line, Row};
use super::rounds::{Series, alternate};

/// "long connections per (aid, device) across slots: 10", "devices per aid with long connections: 10".
const PER_DEVICE: usize = 10;
const PER_AGENT: usize = 10 * PER_DEVICE;

/// Open while the first reading is taken, so that the threads, tables and caches of the process do not count.
const FIRST: usize = 100;

/// Handshakes under way at once.
const SIDE_BY_SIDE: usize = 64;

/// After the last connection: what was needed only to open it has been given back.
const SETTLE: Duration = Duration::from_secs(2);

/// Memory repeats itself; more rounds than this tell nothing new.
const ENOUGH: usize = 3;

/// Who the connections belong to.
enum Side<'a> {
    Ours(&'a [Member]),
    Raw,
}

/// A build, and agents that are registered in the folder it runs on.
pub(super) struct IdleAgents {
    build: Build,
    scratch: Scratch,
    members: Arc<[Member]>,
    count: usize,
}

pub(super) async fn measure(plan: &Plan, transport: Transport) -> anyhow::Result<Row> {
    let (title, count) = (title(plan, transport), plan.idle_connections);
    eprintln!("{title} …");
    let agents = IdleAgents::register(plan, &Build::this()?).await?;
    let pairs = alternate(
        rounds(plan),
        async || agents.kib_each(transport).await,
        async || kib_each(Server::raw().await?, Side::Raw, transport, count).await,
    )
    .await?;
    let (ours, raw) = pairs.into_iter().unzip();
    Ok(Row { title, lines: vec![Line::new("KiB each", Series { ours, raw }).goal(Some(goal(transport)))] })
}

pub(super) fn title(plan: &Plan, transport: Transport) -> String {
    format!("memory per idle connection, {}, {} connections", transport.name(), plan.idle_connections)
}

pub(super) fn rounds(plan: &Plan) -> usize {
    plan.rounds.min(ENOUGH)
}

impl IdleAgents {
    pub(super) async fn register(plan: &Plan, build: &Build) -> anyhow::Result<Self> {
        let (scratch, count) = (Scratch::new("idle")?, plan.idle_connections);
        let first = Server::aund(build, &scratch, None).await?;
        let members = enrol(first.target(Transport::Plain), (count + FIRST).div_ceil(PER_AGENT)).await?;
        first.stop().await?;
        Ok(Self { build: build.clone(), scratch, members, count })
    }

    /// Each reading is of a fresh process: one that has served before holds memory it would reuse.
    /// Tokens outlive the process that issued them.
    pub(super) async fn kib_each(&self, transport: Transport) -> anyhow::Result<f64> {
        let server = Server::aund(&self.build, &self.scratch, None).await?;
        kib_each(server, Side::Ours(&self.members), transport, self.count).await
    }
}

async fn kib_each(server: Server, side: Side<'_>, transport: Transport, count: usize) -> anyhow::Result<f64> {
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
    server: &Server,
    side: &Side<'_>,
    transport: Transport,
    numbers: std::ops::Range<usize>,
) -> anyhow::Result<()> {
    let target = server.target(transport);
    let open = async |number: usize| match side {
        Side::Ours(members) => {
            let (device, slot) = (number % PER_AGENT / PER_DEVICE, number % PER_DEVICE);
            Socket::connect(target, &members[number / PER_AGENT].token, device, slot).await
        }
        Side::Raw => {
            let mut socket = target.dial().await?;
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
