//! Turns of a runner that waits already, one after the other.

use std::time::Duration;

use crate::Plan;
use crate::report::Measurement;
use crate::rounds::Latencies;
use crate::run::server::PROFILE;

use super::launched::LaunchedRun;
use super::load::RunnerLoad;
use super::of_rounds;

/// Turns of a round.
const TURNS: usize = 100;

/// Turns before the first round.
const WARM_UP: usize = 5;

/// How long the runner stays without work.
const IDLE_TIMEOUT_MS: u64 = 60_000;

/// Between two turns: then the runner waits again.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Measurement> {
    let title = format!(
        "POST /runs/{{runId}}/commands for a runner that waits, {TURNS} turns a round: to the end of the turn"
    );
    eprintln!("{title} …");
    let load = RunnerLoad::start("turns", "").await?;
    let mut run = LaunchedRun::new(&load, PROFILE).await?;
    run.start_runner(&load, IDLE_TIMEOUT_MS).await?;
    turns(&load, &mut run, WARM_UP).await?;
    let mut rounds = Vec::with_capacity(plan.rounds);
    for _ in 0..plan.rounds {
        run.watch_again(&load).await?;
        rounds.push(turns(&load, &mut run, TURNS).await?);
    }
    let lines = vec![
        of_rounds("p50, ms", &rounds, |latencies| latencies.quantile_ms(0.50)),
        of_rounds("p99, ms", &rounds, |latencies| latencies.quantile_ms(0.99)),
        load.end().await?,
    ];
    Ok(Measurement { title: load.titled(&title), lines })
}

async fn turns(load: &RunnerLoad, run: &mut LaunchedRun, count: usize) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::new()?;
    for _ in 0..count {
        tokio::time::sleep(PAUSE).await;
        let since = run.submit(load).await?;
        latencies.record(run.ended().await?.end_after(since));
    }
    Ok(latencies)
}
