//! `aund bench --runner`: what the runners cost that the server starts (launcher `local`): their starts, their turns, those that are idle,
//! and how long the text of a back end takes to a watcher.
//!
//! Each measurement has a server of its own, and asks it over HTTP through the gateway. The runners reach the server as they always do,
//! over TLS. At its end a measurement cancels all runs, and counts the processes that are left of its runner jobs.

mod deltas;
mod idle;
mod launched;
mod load;
mod processes;
mod starts;
mod turns;

use std::time::Duration;

use crate::report::{Report, ReportedFigure};
use crate::rounds::SampleSeries;
use crate::{Plan, What};

/// How long a turn may take, with the start of its runner.
const TURN_TIMEOUT: Duration = Duration::from_secs(120);

/// How long runners may take to end after their runs were cancelled.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(30);

/// How often it is looked whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(super) async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    if plan.wants(What::Starts) {
        for load in starts::LOADS {
            report.add(starts::measure(plan, load).await?);
        }
    }
    if plan.wants(What::Turns) {
        report.add(turns::measure(plan).await?);
    }
    if plan.wants(What::IdleRunners) {
        for measurement in idle::measure(plan).await? {
            report.add(measurement);
        }
    }
    if plan.wants(What::Deltas) {
        report.add(deltas::measure(plan).await?);
    }
    Ok(())
}

/// One figure that is compared with nothing, of each round.
fn of_rounds<T>(unit: &'static str, rounds: &[T], figure: impl Fn(&T) -> f64) -> ReportedFigure {
    ReportedFigure::new(unit, SampleSeries { ours: rounds.iter().map(figure).collect(), raw: Vec::new() })
}

/// One figure that is read once.
fn once(unit: &'static str, value: f64) -> ReportedFigure {
    ReportedFigure::new(unit, SampleSeries { ours: vec![value], raw: Vec::new() })
}
