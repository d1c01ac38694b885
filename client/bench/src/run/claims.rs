//! Claims that race: many runners that have registered want one run at the same moment. Beside it as many bare updates.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures_util::future::try_join_all;
use serde_json::json;

use crate::Plan;
use crate::report::Measurement;
use crate::rounds::{Latencies, RoundLoad, Sample};

use super::bare_claims::BareClaims;
use super::http::{ApiConnection, request};
use super::server::{RunJob, RunServer, epoch};
use super::{ROUND_TIMEOUT, figure, in_turn};

/// Runners of a run, with a connection each.
const CLAIMERS: usize = 100;

/// Runs that are claimed in turn, so that the rate of none of their tokens is reached.
const RUNS: usize = 20;

/// A server, and runs that many runners want.
struct ClaimLoad {
    server: RunServer,
    connections: Vec<ApiConnection>,
    runs: Vec<ContestedRun>,
    next: usize,
}

/// A run, the runners that have registered for it, and what each sends to claim it.
struct ContestedRun {
    job: RunJob,
    runners: Vec<String>,
    claims: Vec<Vec<u8>>,
}

pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Measurement> {
    let title = format!(
        "{CLAIMERS} runners claim a run at once, of {RUNS} runs in turn; raw: as many UPDATE … WHERE owner IS NULL on SQLite"
    );
    eprintln!("{title} …");
    let (mut ours, mut bare) = (ClaimLoad::start().await?, BareClaims::new(CLAIMERS, RUNS).await?);
    let pairs = in_turn(plan, &mut ours, &mut bare).await?;
    Ok(Measurement {
        title,
        lines: vec![
            figure(&pairs, "p99, µs", |sample| sample.p99_us),
            figure(&pairs, "p50, µs", |sample| sample.p50_us),
            figure(&pairs, "per server-CPU-second", |sample| sample.per_cpu_second),
            figure(&pairs, "per second", |sample| sample.per_second),
        ],
    })
}

impl ClaimLoad {
    async fn start() -> anyhow::Result<Self> {
        let server = RunServer::start("claims").await?;
        let mut connections = Vec::with_capacity(CLAIMERS);
        for _ in 0..CLAIMERS {
            connections.push(server.connect().await?);
        }
        let mut runs = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            runs.push(ContestedRun::new(&server, &mut connections).await?);
        }
        Ok(Self { server, connections, runs, next: 0 })
    }

    /// All claim the next run. Exactly one gets it, and gives it back.
    async fn race(&mut self, latencies: &mut Latencies) -> anyhow::Result<()> {
        let run = &self.runs[self.next % self.runs.len()];
        self.next += 1;
        let claims = self.connections.iter_mut().zip(&run.claims).map(|(api, claim)| async move {
            let since = Instant::now();
            let answer = api.ask(claim).await?;
            anyhow::Ok((since.elapsed(), answer))
        });
        let mut winners = Vec::new();
        for ((took, answer), runner) in try_join_all(claims).await?.into_iter().zip(&run.runners) {
            latencies.record(took);
            match answer.status {
                409 => {}
                _ => winners.push((runner, epoch(&answer.data()?)?)),
            }
        }
        ensure!(winners.len() == 1, "{} of {CLAIMERS} runners have got a run", winners.len());
        for (runner, epoch) in winners {
            run.release(&mut self.connections[0], runner, epoch).await?;
        }
        Ok(())
    }

    async fn run(&mut self, span: Duration) -> anyhow::Result<Sample> {
        let (meter, until) = (self.server.server.meter()?, Instant::now() + span);
        let mut latencies = Latencies::new()?;
        while Instant::now() < until {
            self.race(&mut latencies).await?;
        }
        meter.stop(&latencies)
    }
}

impl RoundLoad for ClaimLoad {
    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        let round = tokio::time::timeout(span + ROUND_TIMEOUT, self.run(span)).await;
        round.with_context(|| format!("a round of claims did not end within {ROUND_TIMEOUT:?}"))?
    }
}

impl ContestedRun {
    async fn new(server: &RunServer, connections: &mut [ApiConnection]) -> anyhow::Result<Self> {
        let api = connections.first_mut().context("there is no connection")?;
        let job = server.job(api).await?;
        // The lease of a run whose commands have not ended cannot be given back.
        let path = format!("/commands/{}/cancel", job.command);
        api.call("POST", &path, &server.token, &json!({})).await?;
        let runners = try_join_all(connections.iter_mut().map(|api| job.register(api))).await?;
        let path = job.claim_path();
        let claim = |runner: &String| request("POST", &path, &job.token, &job.claim(runner).to_string());
        let claims = runners.iter().map(claim).collect();
        Ok(Self { job, runners, claims })
    }

    async fn release(&self, api: &mut ApiConnection, runner: &str, epoch: i64) -> anyhow::Result<()> {
        let release = json!({ "runnerId": runner, "epoch": epoch, "release": true });
        let path = format!("/runs/{}/lease", self.job.run);
        let released = api.call("PATCH", &path, &self.job.token, &release).await?;
        ensure!(released["released"] == true, "a lease was not given back: {released}");
        Ok(())
    }
}
