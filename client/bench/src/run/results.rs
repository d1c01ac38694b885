//! `GET /runs/{runId}/result` of a long run beside a shorter one: what it takes, and that the memory of the server does not grow with
//! the log that is read.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::Plan;
use crate::process::BenchServer;
use crate::report::{Goal, Measurement, ReportedFigure};
use crate::rounds::{Latencies, Sample, SampleSeries, alternate};

use super::ROUND_TIMEOUT;
use super::events::AppendWriter;
use super::http::{ApiConnection, number, request};
use super::server::{RunServer, last_seq, tenant_token};

/// "1 to 200 events" are appended at once.
const MOST_OF_APPEND: usize = 200;

/// How many times as long the long run is.
const TIMES: usize = 10;

/// Events of the run whose result is read before the first reading of the memory.
const FIRST: usize = 10;

/// Tokens that read in turn: each may send 1,000 requests in a second.
const TOKENS: usize = 8;

/// How often the memory is read while a result is made.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A server with a run for each round, whose result is read again and again. The server has read nothing of it before.
struct ResultLoad {
    server: RunServer,
    api: ApiConnection,
    /// Those of the rounds that are left, one for each token.
    requests: Vec<Vec<Vec<u8>>>,
    events: usize,
    /// Of the process before it has read one of the runs.
    first_kib: f64,
}

/// One round, and the memory of the server in it.
struct ResultRound {
    /// The whole log is read; the results after it go on from there.
    first_us: f64,
    sample: Sample,
    most_kib: f64,
    after_kib: f64,
    /// Before the first round.
    first_kib: f64,
}

pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Measurement> {
    let (long, short) = (plan.events, (plan.events / TIMES).max(FIRST));
    let title = format!("GET /runs/{{runId}}/result, {long} events; raw: {short} events");
    eprintln!("{title} …");
    let mut ours = ResultLoad::start(long, plan.rounds).await?;
    let mut other = ResultLoad::start(short, plan.rounds).await?;
    let rounds =
        alternate(plan.rounds, async || ours.round(plan.span).await, async || other.round(plan.span).await)
            .await?;
    let line = |unit, figure: fn(&ResultRound) -> f64| {
        let ours = rounds.iter().map(|(long, _)| figure(long)).collect();
        let raw = rounds.iter().map(|(_, short)| figure(short)).collect();
        ReportedFigure::new(unit, SampleSeries { ours, raw })
    };
    let more = rounds.iter().map(|(long, _)| long.most_kib - long.first_kib).collect();
    // It shall not grow; the rest is the noise of two processes.
    let goal = Some(Goal::RatioAtMost { now: Some(1.1), later: 1.0 });
    Ok(Measurement {
        title,
        lines: vec![
            line("first result of a run, µs", |round| round.first_us),
            line("p50 of those after it, µs", |round| round.sample.p50_us),
            line("p99 of those after it, µs", |round| round.sample.p99_us),
            line("per server-CPU-second", |round| round.sample.per_cpu_second),
            line("resident before, KiB", |round| round.first_kib),
            line("resident at most, KiB", |round| round.most_kib).goal(goal),
            line("resident after, KiB", |round| round.after_kib).goal(goal),
            ReportedFigure::new("more than before, KiB", SampleSeries { ours: more, raw: Vec::new() }),
        ],
    })
}

impl ResultLoad {
    /// The run is read by a fresh process, which holds nothing of the appends.
    async fn start(events: usize, rounds: usize) -> anyhow::Result<Self> {
        let filling = RunServer::start("results").await?;
        let mut api = filling.connect().await?;
        let small = fill(&filling, &mut api, FIRST).await?;
        let mut runs = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            runs.push(fill(&filling, &mut api, events).await?);
        }
        let server = filling.restarted().await?;
        let mut api = server.connect().await?;
        let mut tokens = Vec::with_capacity(TOKENS);
        for _ in 0..TOKENS {
            tokens.push(tenant_token(&server.folder).await?);
        }
        let of = |run: &String| -> Vec<Vec<u8>> {
            tokens.iter().map(|token| request("GET", &format!("/runs/{run}/result"), token, "")).collect()
        };
        // Threads, tables and caches of the process do not count.
        for request in of(&small) {
            read(&mut api, &request, FIRST).await?;
        }
        let (requests, first_kib) = (runs.iter().map(of).collect(), server.server.resident_kib()?);
        Ok(Self { server, api, requests, events, first_kib })
    }

    async fn round(&mut self, span: Duration) -> anyhow::Result<ResultRound> {
        let Self { server: RunServer { server, .. }, api, requests, events, first_kib } = self;
        let requests = requests.pop().context("every run was read already")?;
        let mut turned = requests.iter().cycle();
        let mut most_kib = server.resident_kib()?;
        let mut first_us = None;
        let (mut meter, mut latencies) = (server.meter()?, Latencies::new()?);
        let mut until = Instant::now() + span;
        while latencies.count() == 0 || Instant::now() < until {
            let request = turned.next().context("there is no token")?;
            let since = Instant::now();
            let reading = tokio::time::timeout(ROUND_TIMEOUT, read(api, request, *events));
            let answered = most_while(server, &mut most_kib, reading).await?;
            answered.with_context(|| format!("a result took longer than {ROUND_TIMEOUT:?}"))??;
            let took = since.elapsed();
            if first_us.is_some() {
                latencies.record(took);
            } else {
                first_us = Some(took.as_secs_f64() * 1e6);
                (meter, until) = (server.meter()?, Instant::now() + span);
            }
        }
        let first_us = first_us.context("no result was read")?;
        let sample = meter.stop(&latencies)?;
        let (after_kib, first_kib) = (sample.resident_kib, *first_kib);
        Ok(ResultRound { first_us, sample, most_kib, after_kib, first_kib })
    }
}

/// What a future gives. Meanwhile the memory of the server is looked at.
async fn most_while<T>(
    server: &BenchServer,
    most_kib: &mut f64,
    future: impl Future<Output = T>,
) -> anyhow::Result<T> {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    tokio::pin!(future);
    loop {
        tokio::select! {
            given = &mut future => return Ok(given),
            _ = looks.tick() => *most_kib = most_kib.max(server.resident_kib()?),
        }
    }
}

/// Reads a result that must have seen so many events.
async fn read(api: &mut ApiConnection, request: &[u8], events: usize) -> anyhow::Result<()> {
    let result = api.ask(request).await?.data()?;
    let last = number(&result, "lastSeq")?;
    ensure!(
        last == events as i64 && result["completed"] == true,
        "this is no result of {events} events: {result}"
    );
    Ok(())
}

/// A run whose log has so many events: parts of what the back end says, its reply, and the end of the command.
async fn fill(server: &RunServer, api: &mut ApiConnection, events: usize) -> anyhow::Result<String> {
    let mut writer = server.working(api).await?;
    let mut left = events.saturating_sub(2);
    while left > 0 {
        let count = left.min(MOST_OF_APPEND);
        last_seq(&api.ask(&writer.next(count)).await?)?;
        left -= count;
    }
    reply(api, &writer).await?;
    let path = format!("/commands/{}/status", writer.command);
    let end = json!({ "runnerId": writer.runner, "epoch": writer.epoch, "status": "completed" });
    api.call("PATCH", &path, &writer.token, &end).await?;
    Ok(writer.run)
}

async fn reply(api: &mut ApiConnection, writer: &AppendWriter) -> anyhow::Result<()> {
    let payload: Value = json!({ "text": "Berlin.", "final": true, "replyAuthority": true });
    let event = json!({
        "clientEventId": "reply", "type": "assistant_message", "commandId": writer.command, "payload": payload,
    });
    last_seq(&api.ask(&writer.request(&event.to_string())).await?)?;
    Ok(())
}
