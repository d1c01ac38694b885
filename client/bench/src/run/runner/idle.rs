//! Runners that have done one turn and wait: their memory and CPU time, and those of a server with many of them.

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::Plan;
use crate::process::{Meter, Pid, total};
use crate::report::{Measurement, ReportedFigure};
use crate::rounds::SampleSeries;
use crate::run::server::PROFILE;

use super::launched::LaunchedRun;
use super::load::RunnerLoad;
use super::once;

/// Runners that are started at once.
const SIDE_BY_SIDE: usize = 16;

/// The longest that a runner stays without work.
const IDLE_TIMEOUT_MS: u64 = 3_600_000;

/// Of the runner that is started and ended before the first reading.
const SHORT_IDLE_TIMEOUT_MS: u64 = 1_000;

/// Before each reading: what was needed only to start has been given back.
const SETTLE: Duration = Duration::from_secs(2);

/// A server over a while.
#[derive(Clone, Copy)]
struct IdleServer {
    millicores: f64,
    resident_kib: f64,
}

/// The processes of runners over a while.
struct IdleRunners {
    processes: usize,
    resident_kib: f64,
    /// Without the pages of files: runners share those of the program.
    own_kib: f64,
    millicores: f64,
}

/// One runner, and then many.
pub(super) async fn measure(plan: &Plan) -> anyhow::Result<[Measurement; 2]> {
    let (span, many) = (plan.idle_span, plan.idle_runners);
    let title = format!("one idle runner with its back end, over {span:?}");
    eprintln!("{title} …");
    let load = RunnerLoad::start("idle", "").await?;
    // Everything has been used once.
    let mut first = LaunchedRun::new(&load, PROFILE).await?;
    first.start_runner(&load, SHORT_IDLE_TIMEOUT_MS).await?;
    first.leave(&load).await?;
    let (without, _) = read(&load, span).await?;

    let runner = idle_runner(&load).await?;
    let (_, one) = read(&load, span).await?;
    let lines = vec![
        once("runner resident, KiB", runner.resident_kib()?),
        once("processes", one.processes as f64),
        once("all resident, KiB", one.resident_kib),
        once("all private, KiB", one.own_kib),
        once("all CPU, millicores", one.millicores),
    ];
    let alone = Measurement { title: load.titled(&title), lines };

    let title =
        format!("{many} idle runners with their back ends, over {span:?}; raw: the server without runners");
    eprintln!("{title} …");
    let more = many.saturating_sub(1);
    let started = stream::iter(0..more).map(|_| idle_runner(&load)).buffer_unordered(SIDE_BY_SIDE);
    let _runners: Vec<Pid> = started.try_collect().await?;
    let (with, all) = read(&load, span).await?;
    let each = |figure: f64| figure / many as f64;
    let lines = vec![
        pair("server CPU, millicores", with.millicores, without.millicores),
        pair("server resident, KiB", with.resident_kib, without.resident_kib),
        once("processes of each", each(all.processes as f64)),
        once("resident of each, KiB", each(all.resident_kib)),
        once("private of each, KiB", each(all.own_kib)),
        once("CPU of each, millicores", each(all.millicores)),
        load.end().await?,
    ];
    Ok([alone, Measurement { title: load.titled(&title), lines }])
}

/// A runner that has done its turn.
async fn idle_runner(load: &RunnerLoad) -> anyhow::Result<Pid> {
    let mut run = LaunchedRun::new(load, PROFILE).await?;
    run.start_runner(load, IDLE_TIMEOUT_MS).await?;
    run.runner()
}

/// The server and all of its runners, in the same time.
async fn read(load: &RunnerLoad, span: Duration) -> anyhow::Result<(IdleServer, IdleRunners)> {
    tokio::time::sleep(SETTLE).await;
    let pids = load.processes()?;
    let (server, runners) = (load.server.meter()?, Meter::of(pids.clone())?);
    tokio::time::sleep(span).await;
    let (server_millicores, millicores) = (server.millicores()?, runners.millicores()?);
    let server = IdleServer { millicores: server_millicores, resident_kib: load.server.resident_kib()? };
    let runners = IdleRunners {
        processes: pids.len(),
        resident_kib: total(&pids, Pid::resident_kib)?,
        own_kib: total(&pids, Pid::own_memory_kib)?,
        millicores,
    };
    Ok((server, runners))
}

fn pair(unit: &'static str, ours: f64, raw: f64) -> ReportedFigure {
    ReportedFigure::new(unit, SampleSeries { ours: vec![ours], raw: vec![raw] })
}
