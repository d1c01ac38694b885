//! Events that are appended to many runs at once: one by one, beside a bare handler that commits the same rows in groups, and in
//! batches, beside durable messages.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::task::JoinSet;

use crate::Plan;
use crate::agent::Transport;
use crate::message::send_load::{ONLINE_DEPTH, SendLoad, online_title};
use crate::process::{BenchFolder, BenchServer, Build};
use crate::report::{Goal, Measurement, ReportedFigure};
use crate::rounds::{Latencies, RoundLoad, Sample};

use super::events::AppendWriter;
use super::http::ApiConnection;
use super::server::{RunServer, last_seq};
use super::{ROUND_TIMEOUT, figure, in_turn};

/// Runs that are appended to, with a runner and a connection each. A runner appends again when it is answered.
const RUNS: usize = 64;

/// Events of an append where it has more than one.
const BATCH: usize = 50;

/// A server, and runners that append to their runs.
struct AppendLoad {
    server: BenchServer,
    runners: Vec<AppendingRunner>,
    batch: usize,
    _folder: BenchFolder,
}

struct AppendingRunner {
    api: ApiConnection,
    writer: AppendWriter,
}

/// One event for each append; against the least that an HTTP server with this store could do.
pub(super) async fn singly(plan: &Plan) -> anyhow::Result<Measurement> {
    let title = format!(
        "POST /runs/{{runId}}/events, batches of 1, {RUNS} runs at once; raw: an axum handler that commits the same rows in groups"
    );
    eprintln!("{title} …");
    let (mut ours, mut bare) = (AppendLoad::ours(1).await?, AppendLoad::bare(1).await?);
    let pairs = in_turn(plan, &mut ours, &mut bare).await?;
    Ok(Measurement { title, lines: lines(&pairs, 0.5) })
}

/// Many events for each append; against messages that are as durable, each sent by itself, to a server of the same build.
pub(super) async fn in_batches(plan: &Plan) -> anyhow::Result<Measurement> {
    let title = format!(
        "POST /runs/{{runId}}/events, batches of {BATCH}, {RUNS} runs at once, events; raw: {}",
        online_title()
    );
    eprintln!("{title} …");
    let mut ours = AppendLoad::ours(BATCH).await?;
    let mut sends = SendLoad::online(&Build::this()?, ONLINE_DEPTH, None).await?;
    let pairs = in_turn(plan, &mut ours, &mut sends).await?;
    Ok(Measurement { title, lines: lines(&pairs, 3.0) })
}

fn lines(pairs: &[(Sample, Sample)], at_least: f64) -> Vec<ReportedFigure> {
    let goal = Some(Goal::RatioAtLeast { now: Some(at_least), later: at_least });
    vec![
        figure(pairs, "per server-CPU-second", |sample| sample.per_cpu_second).goal(goal),
        figure(pairs, "per second", |sample| sample.per_second).goal(goal),
        figure(pairs, "p50 of a request, µs", |sample| sample.p50_us),
        figure(pairs, "p99 of a request, µs", |sample| sample.p99_us),
    ]
}

impl AppendLoad {
    async fn ours(batch: usize) -> anyhow::Result<Self> {
        let runs = RunServer::start("appends").await?;
        let mut runners = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            let mut api = runs.connect().await?;
            let writer = runs.working(&mut api).await?;
            runners.push(AppendingRunner { api, writer });
        }
        let RunServer { server, folder, .. } = runs;
        Ok(Self { server, runners, batch, _folder: folder })
    }

    /// The same requests for the baseline, with ids as long as those of the server.
    async fn bare(batch: usize) -> anyhow::Result<Self> {
        let folder = BenchFolder::new("bare-appends")?;
        let mut command = Build::this()?.command();
        command.args(["bench-raw", "--events"]).arg(folder.file("events.db"));
        let server = BenchServer::start(command).await.context("the bare handler did not start")?;
        let mut runners = Vec::with_capacity(RUNS);
        for number in 0..RUNS {
            let id = |kind: &str| format!("{kind}_{number:032x}");
            let (run, command, runner) = (id("run"), id("cmd"), id("runner"));
            let token = format!("arr_{number:040}");
            let writer = AppendWriter { run, command, token, runner, epoch: 1, written: 0 };
            let api = ApiConnection::open(server.endpoint(Transport::Plain)).await?;
            runners.push(AppendingRunner { api, writer });
        }
        Ok(Self { server, runners, batch, _folder: folder })
    }

    async fn run(&mut self, span: Duration) -> anyhow::Result<Sample> {
        let (meter, until) = (self.server.meter()?, Instant::now() + span);
        let mut appending = JoinSet::new();
        for runner in self.runners.drain(..) {
            appending.spawn(runner.append_until(self.batch, until));
        }
        let mut total = Latencies::new()?;
        while let Some(done) = appending.join_next().await {
            let (runner, latencies) = done.context("a runner of the load generator panicked")??;
            self.runners.push(runner);
            total.add(&latencies)?;
        }
        let mut sample = meter.stop(&total)?;
        // What is counted are events.
        sample.per_second *= self.batch as f64;
        sample.per_cpu_second *= self.batch as f64;
        Ok(sample)
    }
}

impl RoundLoad for AppendLoad {
    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        let round = tokio::time::timeout(span + ROUND_TIMEOUT, self.run(span)).await;
        round.with_context(|| format!("a round of appends did not end within {ROUND_TIMEOUT:?}"))?
    }
}

impl AppendingRunner {
    /// Every event must be in the log, and only once.
    async fn append_until(mut self, batch: usize, until: Instant) -> anyhow::Result<(Self, Latencies)> {
        let mut latencies = Latencies::new()?;
        loop {
            let request = self.writer.next(batch);
            let since = Instant::now();
            let answer = self.api.ask(&request).await?;
            let now = Instant::now();
            latencies.record(now - since);
            if !answer.is_accepted() || now >= until {
                let last = last_seq(&answer)?;
                let written = self.writer.written;
                ensure!(last == written, "{written} events were appended, and the log has {last}");
                return Ok((self, latencies));
            }
        }
    }
}
