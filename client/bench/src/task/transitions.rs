//! Durable changes of tasks beside durable `message.send`: the same server, agents, connections and calls in flight, in turn.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::task::JoinSet;

use super::super::Plan;
use super::super::agent::{LoggedInAgent, Transport, register_agents};
use super::super::process::{BenchFolder, BenchServer, Build};
use super::super::report::{Goal, Measurement, Report, ReportedFigure, shown};
use super::super::rounds::{Latencies, RoundLoad, Sample, SampleSeries};
use super::TaskStoreKind;
use super::lives::{TaskLives, TransitionKind};
use super::pair::PairSockets;
use super::sends::PairSends;

/// A figure of a sample.
type FigureOf = fn(&Sample) -> f64;

/// Calls in flight for each connection. Of a pair the calls that change tasks are now more on one connection and now on the other.
pub(in super::super) const IN_FLIGHT: [usize; 2] = [1, 4];

/// Before the first round each kind of work runs this long without being measured.
const WARM_UP: Duration = Duration::from_millis(500);

/// How long the last answers of a round may take.
const ROUND_TIMEOUT: Duration = Duration::from_secs(60);

const GOAL: Goal = Goal::RatioAtLeast { now: Some(0.3), later: 0.3 };

#[derive(Clone, Copy)]
enum PairWorkKind {
    Tasks,
    Sends,
}

/// A real server, and pairs of agents on it.
pub(in super::super) struct TransitionLoad {
    server: BenchServer,
    pairs: Vec<WorkingPair>,
    _folder: BenchFolder,
}

struct WorkingPair {
    sockets: PairSockets,
    lives: TaskLives,
    sends: PairSends,
}

/// One round of one kind of work.
struct WorkSample {
    all: Sample,
    /// The same for each kind of call.
    by_kind: Vec<Sample>,
}

pub(super) async fn measure(
    plan: &Plan,
    store: TaskStoreKind<'_>,
    report: &mut Report,
) -> anyhow::Result<()> {
    for depth in IN_FLIGHT {
        let title = format!("{}, {}", title(plan, depth), store.name());
        eprintln!("{title} …");
        let mut load = TransitionLoad::start(plan, &Build::this()?, store.url().as_deref(), depth).await?;
        let (tasks, sends) = load.in_turn(plan).await?;
        add(report, &title, store, &tasks, &sends);
    }
    Ok(())
}

pub(in super::super) fn title(plan: &Plan, depth: usize) -> String {
    let connections = 2 * pairs(plan);
    format!("changes of tasks, {} in flight on {connections} connections", connections * depth)
}

fn pairs(plan: &Plan) -> usize {
    (plan.connections / 2).max(1)
}

fn add(
    report: &mut Report,
    title: &str,
    store: TaskStoreKind<'_>,
    tasks: &[WorkSample],
    sends: &[WorkSample],
) {
    let line = |unit, figure: fn(&Sample) -> f64| {
        let of = |samples: &[WorkSample]| samples.iter().map(|sample| figure(&sample.all)).collect();
        ReportedFigure::new(unit, SampleSeries { ours: of(tasks), raw: of(sends) })
    };
    let mut lines = vec![
        line("per second", |sample| sample.per_second).goal(Some(GOAL)),
        line("p50, µs", |sample| sample.p50_us),
        line("p99, µs", |sample| sample.p99_us),
    ];
    // On PostgreSQL the database does its part in processes of its own.
    if matches!(store, TaskStoreKind::Sqlite) {
        lines.insert(1, line("per server-CPU-second", |sample| sample.per_cpu_second));
    }
    report.add(Measurement { title: format!("{title}; raw: message.send by the same agents"), lines });

    let figures: [(&str, FigureOf); 3] = [
        ("per second", |sample| sample.per_second),
        ("p50 in µs", |sample| sample.p50_us),
        ("p99 in µs", |sample| sample.p99_us),
    ];
    for (unit, figure) in figures {
        let line = |(number, kind): (usize, &TransitionKind)| {
            let ours = tasks.iter().map(|sample| figure(&sample.by_kind[number])).collect();
            ReportedFigure::new(kind.method(), SampleSeries { ours, raw: Vec::new() })
        };
        let lines = TransitionKind::ALL.iter().enumerate().map(line).collect();
        report.add(Measurement { title: format!("{title}, each kind of call, {unit}"), lines });
    }
}

impl TransitionLoad {
    pub(in super::super) async fn start(
        plan: &Plan,
        build: &Build,
        store: Option<&str>,
        depth: usize,
    ) -> anyhow::Result<Self> {
        let (folder, pairs) = (BenchFolder::new("task")?, pairs(plan));
        let server = super::server(build, &folder, store).await?;
        let endpoint = server.endpoint(Transport::Plain);
        let agents = register_agents(endpoint, 2 * pairs).await?;
        let mut working = Vec::with_capacity(pairs);
        for (number, two) in agents.chunks_exact(2).enumerate() {
            let sockets = PairSockets::connect(endpoint, &two[0], &two[1]).await?;
            working.push(WorkingPair::new(sockets, two, 2 * depth, number as u64));
        }
        Ok(Self { server, pairs: working, _folder: folder })
    }

    /// The rounds of both kinds. Another one begins each time, so that a machine that changes its speed favours none.
    async fn in_turn(&mut self, plan: &Plan) -> anyhow::Result<(Vec<WorkSample>, Vec<WorkSample>)> {
        for kind in [PairWorkKind::Sends, PairWorkKind::Tasks] {
            self.work_round(kind, WARM_UP).await?;
        }
        let (mut tasks, mut sends) = (Vec::with_capacity(plan.rounds), Vec::with_capacity(plan.rounds));
        for round in 0..plan.rounds {
            let (changed, sent) = if round % 2 == 0 {
                let sent = self.work_round(PairWorkKind::Sends, plan.span).await?;
                (self.work_round(PairWorkKind::Tasks, plan.span).await?, sent)
            } else {
                let changed = self.work_round(PairWorkKind::Tasks, plan.span).await?;
                (changed, self.work_round(PairWorkKind::Sends, plan.span).await?)
            };
            let (ours, raw) = (changed.all.per_second, sent.all.per_second);
            eprintln!(
                "  round {}: {} changes of tasks and {} sends a second, ratio {:.2}",
                round + 1,
                shown(ours),
                shown(raw),
                ours / raw
            );
            tasks.push(changed);
            sends.push(sent);
        }
        Ok((tasks, sends))
    }

    async fn work_round(&mut self, kind: PairWorkKind, span: Duration) -> anyhow::Result<WorkSample> {
        let round = tokio::time::timeout(span + ROUND_TIMEOUT, self.run(kind, span)).await;
        let sample = round.with_context(|| format!("a round did not end within {ROUND_TIMEOUT:?}"))??;
        // What the others are told of this round must not burden the next one.
        for pair in &mut self.pairs {
            pair.sockets.settle().await?;
        }
        Ok(sample)
    }

    async fn run(&mut self, kind: PairWorkKind, span: Duration) -> anyhow::Result<WorkSample> {
        let (meter, began) = (self.server.meter()?, Instant::now());
        let mut working = JoinSet::new();
        for pair in self.pairs.drain(..) {
            working.spawn(pair.round(kind, began + span));
        }
        let (mut total, mut by_kind) = (Latencies::new()?, Vec::<Latencies>::new());
        while let Some(done) = working.join_next().await {
            let (pair, latencies) = done.context("a pair of agents panicked")??;
            self.pairs.push(pair);
            for of_kind in &latencies {
                total.add(of_kind)?;
            }
            if by_kind.is_empty() {
                by_kind = latencies;
                continue;
            }
            for (sum, of_kind) in by_kind.iter_mut().zip(&latencies) {
                sum.add(of_kind)?;
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        let by_kind =
            by_kind.iter().map(|of_kind| Sample::new(of_kind, seconds, f64::NAN, f64::NAN)).collect();
        Ok(WorkSample { all: meter.stop(&total)?, by_kind })
    }
}

/// Only the changes of tasks, as two builds are compared by.
impl RoundLoad for TransitionLoad {
    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        Ok(self.work_round(PairWorkKind::Tasks, span).await?.all)
    }
}

impl WorkingPair {
    fn new(sockets: PairSockets, agents: &[LoggedInAgent], depth: usize, seed: u64) -> Self {
        let [owner, assignee] = [&agents[0].identity.aid, &agents[1].identity.aid];
        let sends = PairSends::new([owner.clone(), assignee.clone()], depth, seed);
        Self { sockets, lives: TaskLives::new(assignee, depth), sends }
    }

    async fn round(
        mut self,
        kind: PairWorkKind,
        until: Instant,
    ) -> anyhow::Result<(WorkingPair, Vec<Latencies>)> {
        let latencies = match kind {
            PairWorkKind::Tasks => {
                self.lives.end_at(until);
                self.sockets.run(&mut self.lives).await?
            }
            PairWorkKind::Sends => {
                self.sends.end_at(until);
                self.sockets.run(&mut self.sends).await?
            }
        };
        Ok((self, latencies))
    }
}
