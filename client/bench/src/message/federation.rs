//! `aund bench --federation`: what it costs to reach an agent of another domain, against one of the same.

use std::net::Ipv4Addr;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures_util::StreamExt as _;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::super::Plan;
use super::super::agent::{BenchSocket, ISSUER, LoggedInAgent, Transport, register_agents_under};
use super::super::load;
use super::super::process::{BenchFolder, BenchServer, Build, CONFIG, tail};
use super::super::report::{Goal, Measurement, Report, ReportedFigure};
use super::super::rounds::{Sample, SampleSeries};
use super::payload::{low_half, request};
use super::send_load::{ONLINE_DEPTH, SENDERS, SendLoad};
use super::side::{StoreSide, in_turn};

/// The other domain.
pub(in super::super) const OTHER: &str = "others.localhost";
/// Agents of the other domain.
const RECEIVERS: usize = 4;
/// Both domains listen on this port, each on a loopback address of its own.
const PORT: u16 = 20001;
/// Sends in flight while the other domain is down.
const FILLERS: usize = 64;
/// How long the messages in the outbox may take to arrive.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(300);

pub(in super::super) async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    const DEPTH: usize = ONLINE_DEPTH;
    let title = format!("{}; raw: within one domain", title(DEPTH));
    eprintln!("{title} …");
    let samples = both(DEPTH, plan).await?;
    let line = |unit, figure: fn(&Sample) -> f64| {
        ReportedFigure::new(unit, SampleSeries::pair(&samples[0], &samples[1], figure))
    };
    let goal = Goal::RatioAtLeast { now: Some(0.5), later: 0.6 };
    report.add(Measurement {
        title,
        lines: vec![
            line("per second", |sample| sample.per_second).goal(Some(goal)),
            line("per server-CPU-second", |sample| sample.per_cpu_second),
            line("p50, µs", |sample| sample.p50_us),
            line("p99, µs", |sample| sample.p99_us),
        ],
    });
    report.add(latency(plan).await?);
    report.add(outage(plan).await?);
    Ok(())
}

pub(in super::super) fn title(depth: usize) -> String {
    format!("message.send to another domain, {depth} in flight on {SENDERS} connections")
}

/// Two domains, whose agents send to those of the other.
pub(in super::super) async fn send_load(build: &Build, depth: usize) -> anyhow::Result<SendLoad> {
    Domains::start(build, 0).await?.load(depth).await
}

/// Sends to another domain, and sends within a domain on a server of its own, in turn.
async fn both(depth: usize, plan: &Plan) -> anyhow::Result<Vec<Vec<Sample>>> {
    let this = Build::this()?;
    let to_another = send_load(&this, depth).await?;
    let within = SendLoad::online(&this, depth, None).await?;
    let mut sides = [StoreSide::Ours(Box::new(to_another)), StoreSide::Ours(Box::new(within))];
    in_turn(&mut sides, plan.rounds, plan.span).await
}

async fn latency(plan: &Plan) -> anyhow::Result<Measurement> {
    const MOST_MORE_US: f64 = 5_000.0;
    let title = format!("the same with {SENDERS} in flight: how long an answer takes");
    eprintln!("{title} …");
    let samples = both(SENDERS, plan).await?;
    let line = |unit, figure: fn(&Sample) -> f64| {
        ReportedFigure::new(unit, SampleSeries::pair(&samples[0], &samples[1], figure))
    };
    let more = samples[0]
        .iter()
        .zip(&samples[1])
        .map(|(to_another, within)| to_another.p99_us - within.p99_us)
        .collect();
    let more = ReportedFigure::new("p99 more than within", SampleSeries { ours: more, raw: Vec::new() });
    let lines = vec![
        line("p50, µs", |sample| sample.p50_us),
        line("p99, µs", |sample| sample.p99_us),
        more.goal(Some(Goal::AtMost(MOST_MORE_US))),
    ];
    Ok(Measurement { title, lines })
}

/// Once: the other domain is down while messages for it go to the outbox, and is started again.
async fn outage(plan: &Plan) -> anyhow::Result<Measurement> {
    const MOST_SECONDS: f64 = 30.0;
    let waiting = plan.waiting;
    let title = format!("{waiting} messages are sent to a domain that is down, and it is started again");
    eprintln!("{title} …");
    let mut domains = Domains::start(&Build::this()?, 3600).await?;
    let (sender, receiver) = (&domains.here_agents[0], &domains.there_agents[0]);
    let mut socket =
        BenchSocket::connect(domains.here.endpoint(Transport::Plain), &sender.token, 0, 0).await?;
    // Once while it is up, so that its certificates are known.
    let to = receiver.identity.aid.clone();
    socket.call("message.send", json!({ "to": to, "payload": { "type": "text" } })).await?;
    domains.there.take().context("the other domain runs")?.stop().await?;

    let before = domains.here.resident_kib()?;
    let started = Instant::now();
    let mut number = 0;
    let write = |id| {
        number += 1;
        request(id, &to, number, number)
    };
    let depth = FILLERS.min(waiting);
    let mut left = waiting - depth;
    let more = |_| {
        let more = left > 0;
        left = left.saturating_sub(1);
        more
    };
    load::call_while(socket, depth, more, write).await?;
    let (kept, during) = (started.elapsed(), domains.here.resident_kib()?);

    domains.there = Some(domains.start_there().await?);
    let back = Instant::now();
    let waited = tokio::time::timeout(ARRIVAL_TIMEOUT, domains.arrivals(waiting)).await;
    let Arrivals { arrived, duplicates, out_of_order } = waited.context("not every message arrived")??;
    let took = back.elapsed();
    ensure!(arrived == waiting, "{arrived} of {waiting} messages arrived");
    let one =
        |unit, value: f64| ReportedFigure::new(unit, SampleSeries { ours: vec![value], raw: Vec::new() });
    let lines = vec![
        one("queued per second", waiting as f64 / kept.as_secs_f64()),
        one("seconds until all arrived", took.as_secs_f64()).goal(Some(Goal::AtMost(MOST_SECONDS))),
        one("duplicates", duplicates as f64).goal(Some(Goal::AtMost(0.0))),
        one("out of order", out_of_order as f64).goal(Some(Goal::AtMost(0.0))),
        one("resident before, KiB", before),
        one("resident while queued", during),
        one("resident afterwards", domains.here.resident_kib()?),
    ];
    Ok(Measurement { title, lines })
}

/// Two domains that trust each other, and agents of both.
pub(in super::super) struct Domains {
    build: Build,
    pub here: BenchServer,
    pub there: Option<BenchServer>,
    pub here_agents: Arc<[LoggedInAgent]>,
    pub there_agents: Arc<[LoggedInAgent]>,
    here_at: BenchFolder,
    there_at: BenchFolder,
    address: Ipv4Addr,
}

struct Arrivals {
    arrived: usize,
    duplicates: usize,
    out_of_order: usize,
}

impl Domains {
    async fn start(build: &Build, retention_seconds: u64) -> anyhow::Result<Self> {
        // Left out where it is the default, because older builds have another name for it.
        let settings = match retention_seconds {
            0 => String::new(),
            seconds => format!("[message]\npeer_retention_seconds = {seconds}\n"),
        };
        Self::with(build, &settings, BenchFolder::new("there")?, async |_, _| Ok(())).await
    }

    /// With settings of the first domain. The other one finds its folder as it is, and is made ready before the first one starts.
    pub async fn with(
        build: &Build,
        settings: &str,
        there_at: BenchFolder,
        ready: impl AsyncFnOnce(&BenchServer, &[LoggedInAgent]) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        static DOMAINS: AtomicU8 = AtomicU8::new(1);
        let [.., high, low] = std::process::id().to_be_bytes();
        let number = DOMAINS.fetch_add(2, Ordering::Relaxed);
        let address = |number| Ipv4Addr::new(127, 32 | (high & 31), low, number);
        let (here_address, there_address) = (address(number), address(number + 1));
        let here_at = BenchFolder::new("here")?;
        let there = start(build, &there_at, OTHER, there_address, ISSUER, here_address, "").await?;
        let there_agents = register_agents_under(there.endpoint(Transport::Plain), OTHER, RECEIVERS).await?;
        ready(&there, &there_agents).await?;
        let here = start(build, &here_at, ISSUER, here_address, OTHER, there_address, settings).await?;
        trust(build, &here_at, &there_at, OTHER).await?;
        trust(build, &there_at, &here_at, ISSUER).await?;
        let here_agents = register_agents_under(here.endpoint(Transport::Plain), ISSUER, SENDERS).await?;
        for agent in &*there_agents {
            BenchSocket::connect(there.endpoint(Transport::Plain), &agent.token, 0, 0).await?;
        }
        Ok(Self {
            build: build.clone(),
            here,
            there: Some(there),
            here_agents,
            there_agents,
            here_at,
            there_at,
            address: there_address,
        })
    }

    async fn start_there(&self) -> anyhow::Result<BenchServer> {
        start(&self.build, &self.there_at, OTHER, self.address, ISSUER, self.address, "").await
    }

    /// Senders in this domain, receivers in the other.
    async fn load(self, depth: usize) -> anyhow::Result<SendLoad> {
        let there = self.there.context("the other domain runs")?;
        let folders = vec![self.here_at, self.there_at];
        SendLoad::to_another_domain(folders, self.here, there, &self.here_agents, &self.there_agents, depth)
            .await
    }

    /// Reads the events of the first agent of the other domain, until so many different messages have arrived.
    async fn arrivals(&self, waiting: usize) -> anyhow::Result<Arrivals> {
        let there = self.there.as_ref().context("the other domain runs")?;
        let mut socket =
            BenchSocket::connect(there.endpoint(Transport::Plain), &self.there_agents[0].token, 0, 0).await?;
        let (mut seen, mut last) = (vec![false; waiting + 1], 0);
        let mut arrivals = Arrivals { arrived: 0, duplicates: 0, out_of_order: 0 };
        while arrivals.arrived < waiting {
            let frame = socket.0.next().await.context("the server closed the socket")??;
            let Message::Text(event) = frame else { continue };
            let Some(number) = low_half(&event) else { continue };
            let slot = seen.get_mut(number as usize).context("a message that was not sent")?;
            match std::mem::replace(slot, true) {
                true => arrivals.duplicates += 1,
                false => arrivals.arrived += 1,
            }
            arrivals.out_of_order += usize::from(number < last);
            last = last.max(number);
        }
        Ok(arrivals)
    }
}

async fn start(
    build: &Build,
    folder: &BenchFolder,
    issuer: &str,
    address: Ipv4Addr,
    other: &str,
    other_address: Ipv4Addr,
    settings: &str,
) -> anyhow::Result<BenchServer> {
    let config = format!(
        "{CONFIG}\n[federation]\nrelays_per_second = 10000000\nrelays_per_agent = 10000000\n{settings}"
    );
    let (file, log) = (folder.file("aund.toml"), folder.file("aund.log"));
    std::fs::write(&file, config).context("the server's config could not be written")?;
    let mut command = build.command();
    command.args(["serve", "--issuer", issuer, "--listen", &format!("{address}:{PORT}")]);
    command.args(["--listen", "plain:127.0.0.1:0", "--resolve", &format!("{other}={other_address}:{PORT}")]);
    command.arg("--data").arg(folder.file("data")).arg("--config").arg(file);
    command.stderr(std::fs::File::create(&log).context("the server's log could not be made")?);
    BenchServer::start(command)
        .await
        .with_context(|| format!("the domain {issuer} did not start; its log ends:\n{}", tail(&log)))
}

/// Has the domain in one folder trust the one in the other. Builds that do not know `--domain` are asked without it.
async fn trust(build: &Build, whose: &BenchFolder, whom: &BenchFolder, domain: &str) -> anyhow::Result<()> {
    let mut output = add_root(build, whose, whom, &["--domain", domain]).await?;
    if !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("unexpected argument") {
        output = add_root(build, whose, whom, &[]).await?;
    }
    ensure!(output.status.success(), "a domain trusts nobody: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

async fn add_root(
    build: &Build,
    whose: &BenchFolder,
    whom: &BenchFolder,
    words: &[&str],
) -> anyhow::Result<Output> {
    let mut command = build.command();
    command.args(["certs", "trust", "add"]).arg(whom.file("data").join("pki/root.crt")).args(words);
    command.arg("--data").arg(whose.file("data")).stdin(Stdio::null());
    command.output().await.context("a domain cannot be told whom to trust")
}
