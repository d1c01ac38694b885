//! `message.pull`: pages of 200 rows, and an agent that catches up with its whole inbox.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::super::Plan;
use super::super::agent::{BenchSocket, LoggedInAgent, Transport, register_agents};
use super::super::load::{self, LoadTasks};
use super::super::process::{BenchFolder, BenchServer, Build};
use super::super::report::{Measurement, ReportedFigure};
use super::super::rounds::{RoundLoad, Sample, SampleSeries};
use super::payload::{SendRequests, SplitMix64};

/// "limit: default 100, max 200" (message.pull).
const PAGE: usize = 200;

/// Connections that pull at once: slots of one device, which see one inbox.
const PULLERS: usize = 4;

/// Pages in the inbox that is pulled from, again and again.
const PAGES: usize = 50;

/// Sends in flight while an inbox is filled.
const FILLERS: usize = 64;

/// A server with one agent that has messages in its inbox, and one that sends them.
struct PullInbox {
    server: BenchServer,
    agents: Arc<[LoggedInAgent]>,
    _folder: BenchFolder,
}

/// The inbox, and connections that pull pages from it.
pub(in super::super) struct PullLoad {
    inbox: PullInbox,
    pullers: Vec<BenchSocket>,
    rounds: usize,
}

pub(super) async fn pages(plan: &Plan) -> anyhow::Result<Measurement> {
    let title = title();
    eprintln!("{title} …");
    let mut load = PullLoad::new(&Build::this()?, None).await?;
    let mut samples = Vec::with_capacity(plan.rounds);
    for _ in 0..plan.rounds {
        samples.push(load.round(plan.span).await?);
    }
    Ok(Measurement { title, lines: page_lines(&samples) })
}

pub(in super::super) fn title() -> String {
    format!("message.pull, pages of {PAGE} rows, {PULLERS} connections, 1 in flight")
}

impl PullLoad {
    pub(in super::super) async fn new(build: &Build, store: Option<&str>) -> anyhow::Result<Self> {
        let inbox = PullInbox::new(build, store).await?;
        inbox.fill(PAGES * PAGE).await?;
        let mut pullers = Vec::with_capacity(PULLERS);
        for slot in 0..PULLERS {
            pullers.push(inbox.reader(slot).await?);
        }
        let full = pull(&mut pullers[0], 0).await?;
        ensure!(rows(&full) == PAGE, "a page has {} rows", rows(&full));
        Ok(Self { inbox, pullers, rounds: 0 })
    }
}

impl RoundLoad for PullLoad {
    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        let (meter, until) = (self.inbox.server.meter()?, Instant::now() + span);
        let mut tasks = LoadTasks::new();
        for (number, socket) in self.pullers.drain(..).enumerate() {
            let mut random = SplitMix64::new((self.rounds * PULLERS + number) as u64);
            let write = move |number| page_request(number, random.below(PAGES) * PAGE);
            tasks.spawn(load::call_while(socket, 1, move |now| now < until, write));
        }
        self.rounds += 1;
        let (back, latencies) = load::gather(tasks).await?;
        self.pullers = back;
        meter.stop(&latencies)
    }
}

fn page_request(number: usize, after: usize) -> Utf8Bytes {
    format!(
        r#"{{"jsonrpc":"2.0","id":"rpc-{number:016x}","method":"message.pull","params":{{"after_seq":{after},"limit":{PAGE}}}}}"#
    )
    .into()
}

fn page_lines(samples: &[Sample]) -> Vec<ReportedFigure> {
    let line =
        |unit, figure: fn(&Sample) -> f64| ReportedFigure::new(unit, SampleSeries::alone(samples, figure));
    vec![
        line("rows per CPU-second", |sample| sample.per_cpu_second * PAGE as f64),
        line("rows per second", |sample| sample.per_second * PAGE as f64),
        line("p50 of a page, µs", |sample| sample.p50_us),
        line("p99 of a page, µs", |sample| sample.p99_us),
    ]
}

/// Once: an inbox can be caught up with only once.
pub(super) async fn catch_up(plan: &Plan) -> anyhow::Result<Measurement> {
    let waiting = plan.waiting;
    let title = format!("catching up with {waiting} messages: pull a page, acknowledge it, again");
    eprintln!("{title} …");
    let inbox = PullInbox::new(&Build::this()?, None).await?;
    inbox.fill(waiting).await?;
    let before = inbox.server.resident_kib()?;

    let started = Instant::now();
    let mut reader = inbox.reader(0).await?;
    let (mut after, mut pages) = (0, 0);
    loop {
        let page = pull(&mut reader, after).await?;
        if rows(&page) == 0 {
            break;
        }
        let first = page["messages"][0]["seq"].as_u64();
        ensure!(first == Some(after + 1), "the row after {after} is {first:?}");
        after = page["latest_seq"].as_u64().context("a page without latest_seq")?;
        reader.call("message.ack", json!({ "seq": after })).await?;
        pages += 1;
    }
    let took = started.elapsed();

    ensure!(after == waiting as u64, "{after} of {waiting} messages arrived");
    let one =
        |unit, value: f64| ReportedFigure::new(unit, SampleSeries { ours: vec![value], raw: Vec::new() });
    let lines = vec![
        one("seconds", took.as_secs_f64()),
        one("pages", f64::from(pages)),
        one("rows per second", waiting as f64 / took.as_secs_f64()),
        one("resident before, KiB", before),
        one("resident after, KiB", inbox.server.resident_kib()?),
    ];
    Ok(Measurement { title, lines })
}

impl PullInbox {
    /// The reader has connected once, so that it has a device with an inbox.
    async fn new(build: &Build, store: Option<&str>) -> anyhow::Result<Self> {
        let folder = BenchFolder::new("pull")?;
        let server = BenchServer::aund(build, &folder, store).await?;
        let agents = register_agents(server.endpoint(Transport::Plain), 2).await?;
        let inbox = Self { server, agents, _folder: folder };
        drop(inbox.reader(0).await?);
        Ok(inbox)
    }

    async fn reader(&self, slot: usize) -> anyhow::Result<BenchSocket> {
        BenchSocket::connect(self.server.endpoint(Transport::Plain), &self.agents[1].token, 0, slot).await
    }

    /// Has the other agent send exactly `count` messages.
    async fn fill(&self, count: usize) -> anyhow::Result<()> {
        let endpoint = self.server.endpoint(Transport::Plain);
        let sender = BenchSocket::connect(endpoint, &self.agents[0].token, 0, 0).await?;
        let mut messages = SendRequests::new([self.agents[1].identity.aid.clone()].into(), 0);
        let depth = FILLERS.min(count);
        let mut left = count - depth;
        let more = |_| {
            let more = left > 0;
            left = left.saturating_sub(1);
            more
        };
        load::call_while(sender, depth, more, |number| messages.request(number)).await?;
        Ok(())
    }
}

async fn pull(reader: &mut BenchSocket, after: u64) -> anyhow::Result<Value> {
    reader.call("message.pull", json!({ "after_seq": after, "limit": PAGE })).await
}

fn rows(page: &Value) -> usize {
    page["messages"].as_array().map_or(0, Vec::len)
}
