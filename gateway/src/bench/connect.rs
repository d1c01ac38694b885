//! How many agents can come in: with a token they have, or with a full login.

use std::sync::Arc;

use super::Plan;
use super::client::{Member, Transport, enrol};
use super::load::{self, Errand};
use super::process::{Scratch, Server};
use super::report::{Goal, Line, Row};
use super::rounds::{Sample, Series, alternate};

/// Agents for each worker: when one is used again, the server has long noticed that its last session is gone.
const AGENTS_PER_WORKER: usize = 8;

/// TCP, upgrade, challenge and `auth.connect`, against TCP and upgrade alone. Both end with a reset.
pub(super) async fn token(plan: &Plan) -> anyhow::Result<Row> {
    let title = format!("token connects, plain, {} at once; raw: bare WebSocket accepts", plan.connections);
    eprintln!("{title} …");
    let scratch = Scratch::new("connect")?;
    let (server, baseline) = (Server::ours(&scratch).await?, Server::raw().await?);
    let errand = Errand::Token(members(plan, &server).await?);

    let pairs = alternate(
        plan.rounds,
        async || round(plan, &server, &errand).await,
        async || round(plan, &baseline, &Errand::Accept).await,
    )
    .await?;

    let goal = Goal::RatioAtLeast { now: Some(0.30), later: 0.40 };
    Ok(Row { title, lines: lines(|figure| Series::of(&pairs, figure), Some(goal)) })
}

/// `auth.aid_login1`, `auth.aid_login2` and `auth.connect`; the baseline has nothing like it.
pub(super) async fn login(plan: &Plan) -> anyhow::Result<Row> {
    let title = format!("full logins (login1, login2, connect), plain, {} at once", plan.connections);
    eprintln!("{title} …");
    let scratch = Scratch::new("login")?;
    let server = Server::ours(&scratch).await?;
    let errand = Errand::Login(members(plan, &server).await?);

    let mut samples = Vec::with_capacity(plan.rounds);
    for _ in 0..plan.rounds {
        samples.push(round(plan, &server, &errand).await?);
    }

    Ok(Row { title, lines: lines(|figure| Series::alone(&samples, figure), None) })
}

async fn members(plan: &Plan, server: &Server) -> anyhow::Result<Arc<[Member]>> {
    enrol(server.target(Transport::Plain), plan.connections * AGENTS_PER_WORKER).await
}

async fn round(plan: &Plan, server: &Server, errand: &Errand) -> anyhow::Result<Sample> {
    let meter = server.meter()?;
    let latencies = load::run(server.target(Transport::Plain), errand, plan.connections, plan.span).await?;
    meter.stop(&latencies)
}

fn lines(series: impl Fn(fn(&Sample) -> f64) -> Series, goal: Option<Goal>) -> Vec<Line> {
    vec![
        Line::new("per server-CPU-second", series(|sample| sample.per_cpu_second)).goal(goal),
        Line::new("per second", series(|sample| sample.per_second)),
        Line::new("p50, µs", series(|sample| sample.p50_us)),
        Line::new("p99, µs", series(|sample| sample.p99_us)),
    ]
}
