//! Many who watch runs as event streams: how long an event takes from its append to the frame of each of them, and what they hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::Plan;
use crate::report::{Measurement, ReportedFigure};
use crate::rounds::{Latencies, Sample, SampleSeries};

use super::events::AppendWriter;
use super::http::ApiConnection;
use super::server::{RunServer, last_seq};
use super::stream::RunEventStream;
use super::{ROUND_TIMEOUT, WARM_UP};

/// Watchers of each run.
const EACH: usize = 10;

/// An event is due in each run after this time, whatever the server does.
const GAP: Duration = Duration::from_millis(500);

/// Streams that are opened at once.
const SIDE_BY_SIDE: usize = 64;

/// After the last stream: what was needed only to open it has been given back.
const SETTLE: Duration = Duration::from_secs(2);

/// Memory repeats itself; more readings than this tell nothing new.
const ENOUGH: usize = 3;

/// Runs with their runners and watchers.
struct WatchLoad {
    server: RunServer,
    runs: Vec<WatchedRun>,
    watchers: JoinSet<anyhow::Result<()>>,
    kib_each: f64,
}

struct WatchedRun {
    api: ApiConnection,
    writer: AppendWriter,
    seen: Arc<SeenEvents>,
}

/// What the watchers of a run have seen.
struct SeenEvents {
    /// Since when each event counts, by its seq.
    since: Mutex<Vec<Instant>>,
    latencies: Mutex<Latencies>,
    count: AtomicU64,
}

pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Measurement> {
    let runs = (plan.watchers / EACH).max(1);
    let title = format!(
        "{} watchers of {runs} runs over HTTP, an event every {GAP:?} in each run: from its append to each frame",
        runs * EACH
    );
    eprintln!("{title} …");
    let mut kib_each = Vec::new();
    let mut load = WatchLoad::start(runs).await?;
    kib_each.push(load.kib_each);
    // Each reading is of a fresh process: one that has served before holds memory it would reuse.
    while kib_each.len() < plan.rounds.min(ENOUGH) {
        drop(load);
        load = WatchLoad::start(runs).await?;
        kib_each.push(load.kib_each);
    }
    load.round(WARM_UP).await?;
    let mut samples = Vec::with_capacity(plan.rounds);
    for _ in 0..plan.rounds {
        samples.push(load.round(plan.span).await?);
    }
    Ok(Measurement { title, lines: lines(&samples, kib_each) })
}

fn lines(samples: &[Sample], kib_each: Vec<f64>) -> Vec<ReportedFigure> {
    let line =
        |unit, figure: fn(&Sample) -> f64| ReportedFigure::new(unit, SampleSeries::alone(samples, figure));
    vec![
        line("p50, µs", |sample| sample.p50_us),
        line("p99, µs", |sample| sample.p99_us),
        line("frames per CPU-second", |sample| sample.per_cpu_second),
        line("frames per second", |sample| sample.per_second),
        ReportedFigure::new("KiB for each watcher", SampleSeries { ours: kib_each, raw: Vec::new() }),
    ]
}

impl WatchLoad {
    async fn start(runs: usize) -> anyhow::Result<Self> {
        let server = RunServer::start("watchers").await?;
        let mut watched = Vec::with_capacity(runs);
        for _ in 0..runs {
            watched.push(WatchedRun::start(&server).await?);
        }
        let mut load = Self { server, runs: watched, watchers: JoinSet::new(), kib_each: 0.0 };
        tokio::time::sleep(SETTLE).await;
        let before = load.server.server.resident_kib()?;
        load.open().await?;
        tokio::time::sleep(SETTLE).await;
        let after = load.server.server.resident_kib()?;
        load.kib_each = (after - before) / load.watchers.len() as f64;
        Ok(load)
    }

    /// Opens all streams, and has each read until the end.
    async fn open(&mut self) -> anyhow::Result<()> {
        let (server, mut opening) = (&self.server, Vec::with_capacity(self.runs.len() * EACH));
        for run in &self.runs {
            for _ in 0..EACH {
                opening.push(async move {
                    let (id, after) = (&run.writer.run, run.writer.written);
                    let stream = RunEventStream::open(server.endpoint(), &server.token, id, after).await?;
                    anyhow::Ok((stream, run.seen.clone(), after))
                });
            }
        }
        let streams: Vec<_> = stream::iter(opening).buffer_unordered(SIDE_BY_SIDE).try_collect().await?;
        for (stream, seen, after) in streams {
            self.watchers.spawn(watch(stream, seen, after));
        }
        Ok(())
    }

    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        let round = tokio::time::timeout(span + ROUND_TIMEOUT, self.run(span)).await;
        round
            .with_context(|| format!("not every watcher was told of every event within {ROUND_TIMEOUT:?}"))?
    }

    /// Until every watcher has seen every event.
    async fn run(&mut self, span: Duration) -> anyhow::Result<Sample> {
        for run in &self.runs {
            *run.seen.latencies.lock() = Latencies::new()?;
        }
        let (meter, start, count) = (self.server.server.meter()?, Instant::now(), self.runs.len() as u32);
        let mut appending = JoinSet::new();
        for (number, run) in (0..).zip(self.runs.drain(..)) {
            // The runs are spread over the gap.
            let first = start + GAP * number / count;
            appending.spawn(run.append_until(first, start + span));
        }
        while let Some(done) = appending.join_next().await {
            self.runs.push(done.context("a runner of the load generator panicked")??);
        }
        for run in &self.runs {
            while run.seen.count.load(Ordering::Relaxed) < run.frames() {
                check(&mut self.watchers)?;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        let mut total = Latencies::new()?;
        for run in &self.runs {
            total.add(&run.seen.latencies.lock())?;
        }
        check(&mut self.watchers)?;
        meter.stop(&total)
    }
}

impl WatchedRun {
    /// With one event in its log, so that everything has been used once.
    async fn start(server: &RunServer) -> anyhow::Result<Self> {
        let mut api = server.connect().await?;
        let mut writer = server.working(&mut api).await?;
        last_seq(&api.ask(&writer.next(1)).await?)?;
        let (latencies, count) = (Mutex::new(Latencies::new()?), AtomicU64::new(0));
        let since = Mutex::new(vec![Instant::now(); writer.written as usize + 1]);
        Ok(Self { api, writer, seen: Arc::new(SeenEvents { since, latencies, count }) })
    }

    /// How many frames its watchers have got when each has seen all of its events but the first.
    fn frames(&self) -> u64 {
        (self.writer.written - 1) * EACH as u64
    }

    /// Appends an event whenever one is due.
    async fn append_until(mut self, first: Instant, until: Instant) -> anyhow::Result<Self> {
        let (mut due, mut answered) = (first, first);
        while due < until {
            tokio::time::sleep_until(due.into()).await;
            let request = self.writer.next(1);
            // The timer is a millisecond coarse, which is not the server's. That the append before was not answered in time is.
            let since = if answered > due { due } else { Instant::now() };
            self.seen.since.lock().push(since);
            let last = last_seq(&self.api.ask(&request).await?)?;
            ensure!(last == self.writer.written, "the event {} of a run has seq {last}", self.writer.written);
            answered = Instant::now();
            due += GAP;
        }
        Ok(self)
    }
}

/// Watchers end only if something is wrong.
fn check(watchers: &mut JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    let Some(ended) = watchers.try_join_next() else { return Ok(()) };
    ended.context("a watcher of the load generator panicked")??;
    bail!("a watcher has ended")
}

/// Each event must come, in order, and only once.
async fn watch(mut stream: RunEventStream, seen: Arc<SeenEvents>, after: u64) -> anyhow::Result<()> {
    let mut last = after;
    loop {
        let seqs = stream.next().await?;
        let now = Instant::now();
        for seq in seqs {
            ensure!(seq == last + 1, "a watcher was told of {seq} after {last}");
            last = seq;
            let since = seen.since.lock().get(seq as usize).copied();
            let since =
                since.with_context(|| format!("a watcher was told of {seq}, which was not appended"))?;
            seen.latencies.lock().record(now.saturating_duration_since(since));
            seen.count.fetch_add(1, Ordering::Relaxed);
        }
    }
}
