//! `aund bench --message`: what a durable message costs, against the least that a store and a socket can cost.
//!
//! Sends are compared with bare group-commit loops that have no sockets, and with JetStream; delivery with a relay that has
//! no store. All sides of a comparison take their rounds in turn within one run.

mod bare_commits;
mod bare_store;
pub(super) mod delivery;
pub(super) mod federation;
mod group_commit;
mod jetstream;
mod payload;
pub(super) mod postgres;
pub(super) mod pull;
mod send;
pub(super) mod send_load;
mod side;
mod single_commits;
mod ticker;

use super::Plan;
use super::What;
use super::report::{Goal, Measurement, Report, ReportedFigure};
use super::rounds::{Sample, SampleSeries};

pub(super) async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    if plan.wants(What::Send) {
        send::measure(plan, report).await?;
    }
    if plan.wants(What::Depth) {
        report.add(send::depth(plan).await?);
    }
    match &plan.postgres {
        Some(url) if plan.wants(What::Postgres) => postgres::measure(plan, url, report).await?,
        None if plan.only.contains(&What::Postgres) => anyhow::bail!("--only postgres needs --postgres URL"),
        _ => {}
    }
    if plan.wants(What::Delivery) {
        delivery::measure(plan, report).await?;
    }
    if plan.wants(What::Pull) {
        report.add(pull::pages(plan).await?);
        report.add(pull::catch_up(plan).await?);
    }
    Ok(())
}

/// The same rounds with the service in a process of its own, against the whole server on the same PostgreSQL.
pub(super) async fn split(plan: &Plan, url: &str, redis: &str, report: &mut Report) -> anyhow::Result<()> {
    postgres::split(plan, url, redis, report).await
}

/// Sends of ours against those of another side.
fn row(title: String, ours: &[Sample], other: &[Sample], goal: Goal) -> Measurement {
    let line =
        |unit, figure: fn(&Sample) -> f64| ReportedFigure::new(unit, SampleSeries::pair(ours, other, figure));
    Measurement {
        title,
        lines: vec![
            line("per second", |sample| sample.per_second).goal(Some(goal)),
            line("p50, µs", |sample| sample.p50_us),
            line("p99, µs", |sample| sample.p99_us),
        ],
    }
}

/// The same where each side is one process, whose CPU time tells something.
fn row_with_cpu(title: String, ours: &[Sample], other: &[Sample], goal: Goal) -> Measurement {
    let mut row = row(title, ours, other, goal);
    let series = SampleSeries::pair(ours, other, |sample| sample.per_cpu_second);
    row.lines.insert(1, ReportedFigure::new("per server-CPU-second", series));
    row
}
