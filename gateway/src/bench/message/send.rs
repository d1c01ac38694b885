//! Durable `message.send`: answered after its commit, a number in flight on a few connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use super::super::Plan;
use super::super::client::{Member, Socket, Transport, enrol};
use super::super::load::{self, Tasks};
use super::super::process::{Build, Scratch, Server};
use super::super::report::{Goal, Report, Row};
use super::super::rounds::{RoundLoad, Sample};
use super::jetstream::JetStream;
use super::payload::Messages;
use super::row_with_cpu;
use super::rows::{GroupCommit, Layout};
use super::side::{Side, in_turn};

/// Connections that send. The depth is shared among them.
pub(super) const SENDERS: usize = 4;

/// Agents that are online and read, when they are.
const RECEIVERS: usize = 4;

/// How long events may be on their way after the last answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends in flight to agents that are online, and to agents that are not.
pub(in super::super) const ONLINE_DEPTH: usize = 64;
pub(in super::super) const OFFLINE_DEPTH: usize = 256;

/// The real server, with agents that send to others.
pub(in super::super) struct Post {
    server: Server,
    senders: Vec<Socket>,
    depth: usize,
    to: Arc<[String]>,
    rounds: u64,
    receivers: Option<Receivers>,
    /// The server of the recipients, where it is another one.
    there: Option<Server>,
    _folders: Vec<Scratch>,
}

/// Long connections that read their events and count them.
struct Receivers {
    seen: Arc<AtomicU64>,
    expected: u64,
    _readers: JoinSet<()>,
}

/// 64 in flight to agents that are online; against plain rows and against JetStream.
pub(super) async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    const DEPTH: usize = ONLINE_DEPTH;
    let title = online_title();
    eprintln!("{title} …");
    let (post, folder) = (Post::online(&Build::this()?, DEPTH, None).await?, Scratch::new("rows")?);
    let rows = GroupCommit::sqlite(&folder, Layout::Plain, DEPTH).await?;
    let mut sides = vec![Side::Ours(Box::new(post)), Side::GroupCommit(rows)];
    let mut titles =
        vec![("bare SQLite group commit".to_owned(), Goal::RatioAtLeast { now: Some(0.30), later: 0.40 })];
    match JetStream::version(&plan.nats_server).await {
        Err(error) => report.note("jetstream", format!("left out: {error:#}")),
        Ok(version) => {
            for (sync, goal) in [
                (true, Goal::RatioAtLeast { now: Some(4.0), later: 6.0 }),
                (false, Goal::RatioAtLeast { now: None, later: 1.0 }),
            ] {
                sides.push(Side::JetStream(JetStream::start(&plan.nats_server, sync, DEPTH).await?));
                let kept = if sync { "file, sync_interval: always" } else { "file, default (not synced)" };
                titles.push((format!("JetStream {version}, {kept}"), goal));
            }
        }
    }

    let samples = in_turn(&mut sides, plan.rounds, plan.span).await?;
    for ((other, goal), theirs) in titles.into_iter().zip(&samples[1..]) {
        report.add(row_with_cpu(format!("{title}; raw: {other}"), &samples[0], theirs, goal));
    }
    Ok(())
}

/// 256 in flight to many agents, none of them online; against rows with an inbox index and a time-ordered key.
pub(super) async fn depth(plan: &Plan) -> anyhow::Result<Row> {
    const DEPTH: usize = OFFLINE_DEPTH;
    let recipients = plan.recipients;
    let title = offline_title(plan);
    eprintln!("{title} …");
    let (post, folder) =
        (Post::offline(&Build::this()?, DEPTH, recipients, None).await?, Scratch::new("rows")?);
    let rows = GroupCommit::sqlite(&folder, Layout::Inbox { recipients }, DEPTH).await?;

    let mut sides = [Side::Ours(Box::new(post)), Side::GroupCommit(rows)];
    let samples = in_turn(&mut sides, plan.rounds, plan.span).await?;
    let title = format!("{title}; raw: bare SQLite group commit with inbox index and time-ordered key");
    let goal = Goal::RatioAtLeast { now: Some(1.0), later: 1.2 };
    Ok(row_with_cpu(title, &samples[0], &samples[1], goal))
}

pub(in super::super) fn online_title() -> String {
    format!("message.send, {ONLINE_DEPTH} in flight on {SENDERS} connections, receivers online")
}

pub(in super::super) fn offline_title(plan: &Plan) -> String {
    let recipients = plan.recipients;
    format!("message.send, {OFFLINE_DEPTH} in flight on {SENDERS} connections, {recipients} recipients")
}

impl Post {
    /// A few receivers who are there and read what arrives.
    pub(in super::super) async fn online(
        build: &Build,
        depth: usize,
        store: Option<&str>,
    ) -> anyhow::Result<Self> {
        let scratch = Scratch::new("send")?;
        let server = Server::aund(build, &scratch, store).await?;
        let members = enrol(server.target(Transport::Plain), SENDERS + RECEIVERS).await?;
        let receivers = Receivers::start(&server, &members[SENDERS..]).await?;
        Self::new(scratch, server, &members, depth, Some(receivers)).await
    }

    /// Many recipients who have been there once, so that each has a device and its inbox.
    pub(in super::super) async fn offline(
        build: &Build,
        depth: usize,
        recipients: usize,
        store: Option<&str>,
    ) -> anyhow::Result<Self> {
        let scratch = Scratch::new("depth")?;
        let server = Server::aund(build, &scratch, store).await?;
        Self::to_absent(scratch, server, depth, recipients).await
    }

    /// The same on a server that runs already.
    pub(super) async fn to_absent(
        scratch: Scratch,
        server: Server,
        depth: usize,
        recipients: usize,
    ) -> anyhow::Result<Self> {
        let target = server.target(Transport::Plain);
        let members = enrol(target, SENDERS + recipients).await?;
        let visit = |member: &Member| {
            let token = member.token.clone();
            async move { Socket::connect(target, &token, 0, 0).await.map(drop) }
        };
        let visits: Vec<_> = members[SENDERS..].iter().map(visit).collect();
        stream::iter(visits).buffer_unordered(32).try_collect::<()>().await?;
        Self::new(scratch, server, &members, depth, None).await
    }

    /// The senders on one server, and receivers who are there and read on another.
    pub(super) async fn abroad(
        folders: Vec<Scratch>,
        server: Server,
        there: Server,
        senders: &[Member],
        receivers: &[Member],
        depth: usize,
    ) -> anyhow::Result<Self> {
        let reading = Receivers::start(&there, receivers).await?;
        let to = receivers.iter().map(|member| member.agent.aid.clone()).collect();
        let mut sockets = Vec::with_capacity(senders.len());
        for member in senders {
            sockets.push(Socket::connect(server.target(Transport::Plain), &member.token, 0, 0).await?);
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
        scratch: Scratch,
        server: Server,
        members: &[Member],
        depth: usize,
        receivers: Option<Receivers>,
    ) -> anyhow::Result<Self> {
        let mut senders = Vec::with_capacity(SENDERS);
        for member in &members[..SENDERS] {
            senders.push(Socket::connect(server.target(Transport::Plain), &member.token, 0, 0).await?);
        }
        let to = members[SENDERS..].iter().map(|member| member.agent.aid.clone()).collect();
        Ok(Self { server, senders, depth, to, rounds: 0, receivers, there: None, _folders: vec![scratch] })
    }
}

impl RoundLoad for Post {
    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        self.rounds += 1;
        let (meter, until) = (self.server.meter_with(self.there.as_ref())?, Instant::now() + span);
        let mut tasks = Tasks::new();
        for (number, socket) in self.senders.drain(..).enumerate() {
            let seed = self.rounds * SENDERS as u64 + number as u64;
            let mut messages = Messages::new(self.to.clone(), seed);
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
    async fn start(server: &Server, members: &[Member]) -> anyhow::Result<Self> {
        let (seen, mut readers) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
        for member in members {
            let socket = Socket::connect(server.target(Transport::Plain), &member.token, 0, 0).await?;
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
        let waited = tokio::time::timeout(PATIENCE, all).await;
        let seen = self.seen.load(Ordering::Relaxed);
        waited
            .ok()
            .filter(|()| seen == self.expected)
            .with_context(|| format!("{} messages were answered and {seen} events arrived", self.expected))
    }
}

async fn read(mut socket: Socket, seen: Arc<AtomicU64>) {
    while let Some(Ok(message)) = socket.0.next().await {
        if let Message::Text(text) = message
            && text.contains(r#""event/message.received""#)
        {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    }
}
