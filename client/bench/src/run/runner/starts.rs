//! From the request for a runner to the first event of its run, and to the end of its turn.

use futures_util::future::try_join_all;

use crate::Plan;
use crate::report::Measurement;
use crate::rounds::Latencies;
use crate::run::server::PROFILE;

use super::launched::LaunchedRun;
use super::load::RunnerLoad;
use super::of_rounds;

/// How many runners are started at once, and how often in a round.
pub(super) const LOADS: [(usize, usize); 2] = [(1, 30), (32, 2)];

/// How long a runner stays that has nothing to do. The bench ends it before.
const IDLE_TIMEOUT_MS: u64 = 1_000;

/// The starts of a round.
struct StartRound {
    first: Latencies,
    end: Latencies,
}

pub(super) async fn measure(plan: &Plan, (at_once, times): (usize, usize)) -> anyhow::Result<Measurement> {
    let title = format!(
        "POST /runs/{{runId}}/runner-jobs, {at_once} at once, {} turns a round: to the first event, and to the end of the turn",
        at_once * times
    );
    eprintln!("{title} …");
    let load = RunnerLoad::start("starts", "").await?;
    // Everything has been used once.
    StartRound::new()?.start(&load, 1).await?;
    let mut rounds = Vec::with_capacity(plan.rounds);
    for _ in 0..plan.rounds {
        let mut round = StartRound::new()?;
        for _ in 0..times {
            round.start(&load, at_once).await?;
        }
        rounds.push(round);
    }
    let lines = vec![
        of_rounds("first event p50, ms", &rounds, |round| round.first.quantile_ms(0.50)),
        of_rounds("first event p99, ms", &rounds, |round| round.first.quantile_ms(0.99)),
        of_rounds("end of turn p50, ms", &rounds, |round| round.end.quantile_ms(0.50)),
        of_rounds("end of turn p99, ms", &rounds, |round| round.end.quantile_ms(0.99)),
        load.end().await?,
    ];
    Ok(Measurement { title: load.titled(&title), lines })
}

impl StartRound {
    fn new() -> anyhow::Result<Self> {
        Ok(Self { first: Latencies::new()?, end: Latencies::new()? })
    }

    /// So many runners at once. They have ended before the next ones are started.
    async fn start(&mut self, load: &RunnerLoad, at_once: usize) -> anyhow::Result<()> {
        let mut runs = try_join_all((0..at_once).map(|_| LaunchedRun::new(load, PROFILE))).await?;
        let starts = runs.iter_mut().map(|run| run.start_runner(load, IDLE_TIMEOUT_MS));
        for (since, times) in try_join_all(starts).await? {
            self.first.record(times.first_after(since));
            self.end.record(times.end_after(since));
        }
        try_join_all(runs.iter_mut().map(|run| run.leave(load))).await?;
        Ok(())
    }
}
