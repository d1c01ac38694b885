//! How many agents can connect in a second: with a token they have, or with a full login.

use std::sync::Arc;
use std::time::Duration;

use crate::Plan;
use crate::agent::{LoggedInAgent, Transport, register_agents};
use crate::load::{self, ConnectKind};
use crate::process::{BenchFolder, BenchServer, Build};
use crate::report::{Goal, Measurement, ReportedFigure};
use crate::rounds::{RoundLoad, Sample, SampleSeries, alternate};

/// Agents for each worker: when one is used again, the server has long closed its last session.
const AGENTS_PER_WORKER: usize = 8;

/// A server, and workers that connect and disconnect.
pub(crate) struct ConnectLoad {
    server: BenchServer,
    kind: ConnectKind,
    workers: usize,
    _folder: Option<BenchFolder>,
}

/// TCP, upgrade, challenge and `auth.connect`, against TCP and upgrade alone. Both end with a reset.
pub(crate) async fn token(plan: &Plan) -> anyhow::Result<Measurement> {
    let title = format!("{}; raw: bare WebSocket accepts", token_title(plan));
    eprintln!("{title} …");
    let mut ours = ConnectLoad::aund(plan, &Build::this()?, None, ConnectKind::Token).await?;
    let mut raw = ConnectLoad {
        server: BenchServer::raw().await?,
        kind: ConnectKind::Accept,
        workers: plan.connections,
        _folder: None,
    };

    let pairs =
        alternate(plan.rounds, async || ours.round(plan.span).await, async || raw.round(plan.span).await)
            .await?;

    let goal = Goal::RatioAtLeast { now: Some(0.30), later: 0.40 };
    Ok(Measurement { title, lines: lines(|figure| SampleSeries::of(&pairs, figure), Some(goal)) })
}

/// `auth.aid_login1`, `auth.aid_login2` and `auth.connect`; the baseline has nothing like it.
pub(crate) async fn login(plan: &Plan) -> anyhow::Result<Measurement> {
    let title = login_title(plan);
    eprintln!("{title} …");
    let mut ours = ConnectLoad::aund(plan, &Build::this()?, None, ConnectKind::Login).await?;
    let mut samples = Vec::with_capacity(plan.rounds);
    for _ in 0..plan.rounds {
        samples.push(ours.round(plan.span).await?);
    }

    Ok(Measurement { title, lines: lines(|figure| SampleSeries::alone(&samples, figure), None) })
}

pub(crate) fn token_title(plan: &Plan) -> String {
    format!("token connects, plain, {} at once", plan.connections)
}

pub(crate) fn login_title(plan: &Plan) -> String {
    format!("full logins (login1, login2, connect), plain, {} at once", plan.connections)
}

impl ConnectLoad {
    pub(crate) async fn aund(
        plan: &Plan,
        build: &Build,
        store: Option<&str>,
        kind: fn(Arc<[LoggedInAgent]>) -> ConnectKind,
    ) -> anyhow::Result<Self> {
        let (folder, workers) = (BenchFolder::new("connect")?, plan.connections);
        let server = BenchServer::aund(build, &folder, store).await?;
        let agents = register_agents(server.endpoint(Transport::Plain), workers * AGENTS_PER_WORKER).await?;
        Ok(Self { server, kind: kind(agents), workers, _folder: Some(folder) })
    }
}

impl RoundLoad for ConnectLoad {
    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        let meter = self.server.meter()?;
        let endpoint = self.server.endpoint(Transport::Plain);
        let latencies = load::run(endpoint, &self.kind, self.workers, span).await?;
        meter.stop(&latencies)
    }
}

fn lines(series: impl Fn(fn(&Sample) -> f64) -> SampleSeries, goal: Option<Goal>) -> Vec<ReportedFigure> {
    vec![
        ReportedFigure::new("per server-CPU-second", series(|sample| sample.per_cpu_second)).goal(goal),
        ReportedFigure::new("per second", series(|sample| sample.per_second)),
        ReportedFigure::new("p50, µs", series(|sample| sample.p50_us)),
        ReportedFigure::new("p99, µs", series(|sample| sample.p99_us)),
    ]
}
