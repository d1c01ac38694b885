//! `aund bench --run`: what runs cost: events that are appended, claims that race, the results of long runs, and those who watch.
//!
//! Everything is asked over HTTP through the gateway, with the tokens that back ends and runners have. Appends are compared with a
//! bare handler that commits the same rows in groups and with durable messages, claims with bare conditional updates, and the result
//! of a long run with that of a shorter one. `aund bench --runner` measures the runners that the server starts (`runner/`).

mod appends;
mod bare_claims;
mod bare_handler;
mod bare_log;
mod claims;
mod events;
mod http;
mod results;
mod runner;
mod server;
mod stream;
mod watchers;

use std::path::Path;
use std::time::Duration;

use super::report::{Report, ReportedFigure};
use super::rounds::{RoundLoad, Sample, SampleSeries, alternate};
use super::{Plan, What};

/// Before the first round each side runs this long without being measured.
const WARM_UP: Duration = Duration::from_millis(500);

/// How long the last answers of a round may take.
const ROUND_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    if plan.wants(What::Appends) {
        report.add(appends::singly(plan).await?);
        report.add(appends::in_batches(plan).await?);
    }
    if plan.wants(What::Claims) {
        report.add(claims::measure(plan).await?);
    }
    if plan.wants(What::Results) {
        report.add(results::measure(plan).await?);
    }
    if plan.wants(What::Watchers) {
        report.add(watchers::measure(plan).await?);
    }
    runner::measure(plan, report).await
}

/// Runs the bare handler that appends are compared with, on this file.
pub(super) async fn serve_bare(file: &Path) -> anyhow::Result<()> {
    bare_handler::serve(file).await
}

/// The rounds of two sides in turn, after each has warmed up.
async fn in_turn(
    plan: &Plan,
    ours: &mut impl RoundLoad,
    other: &mut impl RoundLoad,
) -> anyhow::Result<Vec<(Sample, Sample)>> {
    ours.round(WARM_UP).await?;
    other.round(WARM_UP).await?;
    alternate(plan.rounds, async || ours.round(plan.span).await, async || other.round(plan.span).await).await
}

/// One figure of both sides.
fn figure(pairs: &[(Sample, Sample)], unit: &'static str, figure: fn(&Sample) -> f64) -> ReportedFigure {
    ReportedFigure::new(unit, SampleSeries::of(pairs, figure))
}
