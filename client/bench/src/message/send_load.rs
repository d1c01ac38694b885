//! A load of `message.send`: agents that keep a number of sends in flight on a few connections, and their recipients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use super::super::Plan;
use super::super::agent::{BenchSocket, LoggedInAgent, Transport, register_agents};
use super::super::load::{self, LoadTasks};
use super::super::process::{BenchFolder, BenchServer, Build};
use super::super::rounds::{RoundLoad, Sample};
use super::payload::SendRequests;

/// Connections that send. The depth is shared among them.
pub(super) const SENDERS: usize = 4;

/// Recipients that are online.
const RECEIVERS: usize = 4;

/// How long events may take to arrive after the last answer.
const EVENTS_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends in flight to agents that are online, and to agents that are not.
pub(in super::super) const ONLINE_DEPTH: usize = 64;
pub(in super::super) const OFFLINE_DEPTH: usize = 256;

/// A real server, with agents that send to others.
pub(in super::super) struct SendLoad {
    server: BenchServer,
    senders: Vec<BenchSocket>,
    depth: usize,
    to: Arc<[String]>,
    rounds: u64,
    receivers: Option<Receivers>,
    /// The server of the recipients, if it is another one.
    there: Option<BenchServer>,
    _folders: Vec<BenchFolder>,
}

/// Long connections that read their events and count them.
struct Receivers {
    seen: Arc<AtomicU64>,
    expected: u64,
    _readers: JoinSet<()>,
}

pub(in super::super) fn online_title() -> String {
    format!("message.send, {ONLINE_DEPTH} in flight on {SENDERS} connections, receivers online")
}

pub(in super::super) fn offline_title(plan: &Plan) -> String {
    let recipients = plan.recipients;
    format!("message.send, {OFFLINE_DEPTH} in flight on {SENDERS} connections, {recipients} recipients")
}

impl SendLoad {
    /// To a few agents that are online and read their events.
    pub(in super::super) async fn online(
        build: &Build,
        depth: usize,
        store: Option<&str>,
    ) -> anyhow::Result<Self> {
        let folder = BenchFolder::new("send")?;
        let server = BenchServer::aund(build, &folder, store).await?;
        let agents = register_agents(server.endpoint(Transport::Plain), SENDERS + RECEIVERS).await?;
        let receivers = Receivers::start(&server, &agents[SENDERS..]).await?;
        Self::new(folder, server, &agents, depth, Some(receivers)).await
    }

    /// To many agents that have connected once, so that each has a device and its inbox.
    pub(in super::super) async fn offline(
        build: &Build,
        depth: usize,
        recipients: usize,
        store: Option<&str>,
    ) -> anyhow::Result<Self> {
        let folder = BenchFolder::new("depth")?;
        let server = BenchServer::aund(build, &folder, store).await?;
        Self::to_offline(folder, server, depth, recipients).await
    }

    /// The same on a server that runs already.
    pub(super) async fn to_offline(
        folder: BenchFolder,
        server: BenchServer,
        depth: usize,
        recipients: usize,
    ) -> anyhow::Result<Self> {
        let endpoint = server.endpoint(Transport::Plain);
        let agents = register_agents(endpoint, SENDERS + recipients).await?;
        let connect_once = |agent: &LoggedInAgent| {
            let token = agent.token.clone();
            async move { BenchSocket::connect(endpoint, &token, 0, 0).await.map(drop) }
        };
        let connects: Vec<_> = agents[SENDERS..].iter().map(connect_once).collect();
        stream::iter(connects).buffer_unordered(32).try_collect::<()>().await?;
        Self::new(folder, server, &agents, depth, None).await
    }

    /// From agents on one server to agents that are online on another.
    pub(super) async fn to_another_domain(
        folders: Vec<BenchFolder>,
        server: BenchServer,
        there: BenchServer,
        senders: &[LoggedInAgent],
        receivers: &[LoggedInAgent],
        depth: usize,
    ) -> anyhow::Result<Self> {
        let reading = Receivers::start(&there, receivers).await?;
        let to = receivers.iter().map(|agent| agent.identity.aid.clone()).collect();
        let mut sockets = Vec::with_capacity(senders.len());
        for agent in senders {
            sockets.push(BenchSocket::connect(server.endpoint(Transport::Plain), &agent.token, 0, 0).await?);
        }
        Ok(Self {
            server,
            senders: sockets,
            depth,
            to,
            rounds: 0,
            receivers: Some(reading),
            there: Some(there),
            _folders: folders,
        })
    }

    async fn new(
        folder: BenchFolder,
        server: BenchServer,
        agents: &[LoggedInAgent],
        depth: usize,
        receivers: Option<Receivers>,
    ) -> anyhow::Result<Self> {
        let mut senders = Vec::with_capacity(SENDERS);
        for agent in &agents[..SENDERS] {
            senders.push(BenchSocket::connect(server.endpoint(Transport::Plain), &agent.token, 0, 0).await?);
        }
        let to = agents[SENDERS..].iter().map(|agent| agent.identity.aid.clone()).collect();
        Ok(Self { server, senders, depth, to, rounds: 0, receivers, there: None, _folders: vec![folder] })
    }
}

impl RoundLoad for SendLoad {
    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        self.rounds += 1;
        let (meter, until) = (self.server.meter_with(self.there.as_ref())?, Instant::now() + span);
        let mut tasks = LoadTasks::new();
        for (number, socket) in self.senders.drain(..).enumerate() {
            let seed = self.rounds * SENDERS as u64 + number as u64;
            let mut messages = SendRequests::new(self.to.clone(), seed);
            let each = self.depth / SENDERS;
            let write = move |number| messages.request(number);
            tasks.spawn(load::call_while(socket, each, move |now| now < until, write));
        }
        let (back, latencies) = load::gather(tasks).await?;
        self.senders = back;
        let sample = meter.stop(&latencies)?;

        if let Some(receivers) = &mut self.receivers {
            receivers.expect(latencies.count()).await?;
        }
        Ok(sample)
    }
}

impl Receivers {
    async fn start(server: &BenchServer, agents: &[LoggedInAgent]) -> anyhow::Result<Self> {
        let (seen, mut readers) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
        for agent in agents {
            let socket = BenchSocket::connect(server.endpoint(Transport::Plain), &agent.token, 0, 0).await?;
            readers.spawn(read(socket, seen.clone()));
        }
        Ok(Self { seen, expected: 0, _readers: readers })
    }

    /// Every message that was answered in the round must arrive, and only once.
    async fn expect(&mut self, more: u64) -> anyhow::Result<()> {
        self.expected += more;
        let all = async {
            while self.seen.load(Ordering::Relaxed) < self.expected {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let waited = tokio::time::timeout(EVENTS_TIMEOUT, all).await;
        let seen = self.seen.load(Ordering::Relaxed);
        waited
            .ok()
            .filter(|()| seen == self.expected)
            .with_context(|| format!("{} messages were answered and {seen} events arrived", self.expected))
    }
}

async fn read(mut socket: BenchSocket, seen: Arc<AtomicU64>) {
    while let Some(Ok(message)) = socket.0.next().await {
        if let Message::Text(text) = message
            && text.contains(r#""event/message.received""#)
        {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    }
}
