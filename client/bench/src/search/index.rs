//! The index in this process: as fast as it can be asked, on one thread, and whether its answers are right.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::super::Plan;
use super::super::agent::ISSUER;
use super::super::process::{BenchFolder, Pid};
use super::super::report::{Goal, Measurement, Report, ReportedFigure};
use super::super::rounds::{Latencies, RoundLoad, Sample, SampleSeries, alternate};
use super::documents::{NOW_MS, documents};
use super::fts5::Fts5;
use super::questions::questions;
use super::{BenchIndex, BenchIndexMaker};

/// Different questions that both sides are asked, over and over.
const QUESTIONS: usize = 2_000;

/// Those whose answers are compared with a look at every document.
const COMPARED: usize = 50;

const LIMIT: usize = 10;

/// Before the first round each side runs this long without being measured.
const WARM_UP: Duration = Duration::from_millis(500);

struct IndexLoad<'a> {
    index: &'a dyn BenchIndex,
    questions: &'a [String],
    next: usize,
}

pub(super) async fn measure(
    plan: &Plan,
    maker: &dyn BenchIndexMaker,
    report: &mut Report,
) -> anyhow::Result<()> {
    let title = format!("the index, {} documents, one thread, the {LIMIT} best", plan.agents);
    eprintln!("{title} …");
    let folder = BenchFolder::new("index")?;
    let documents = documents(plan.agents, ISSUER);
    let started = Instant::now();
    let index = tokio::task::block_in_place(|| maker.make(&folder.file("index"), &documents))?;
    report.note(
        "indexed",
        format!("{} documents in {:.1} s", documents.len(), started.elapsed().as_secs_f64()),
    );
    drop(documents);
    let questions = questions(QUESTIONS);
    report.note("top ten", tokio::task::block_in_place(|| compare(index.as_ref(), &questions[..COMPARED]))?);

    let words: Vec<Vec<String>> = questions.iter().map(|question| index.words(question)).collect();
    let mut ours = IndexLoad { index: index.as_ref(), questions: &questions, next: 0 };
    let mut raw = Fts5::new(&folder.file("fts5.db"), &index.rows(), &words).await?;
    ours.round(WARM_UP).await?;
    raw.round(WARM_UP).await?;
    let pairs =
        alternate(plan.rounds, async || ours.round(plan.span).await, async || raw.round(plan.span).await)
            .await?;
    let line = |unit, figure: fn(&Sample) -> f64| ReportedFigure::new(unit, SampleSeries::of(&pairs, figure));
    let ten_times = Goal::RatioAtLeast { now: Some(10.0), later: 10.0 };
    report.add(Measurement {
        title: format!("{title}; raw: SQLite FTS5, bm25"),
        lines: vec![
            line("per CPU-second", |sample| sample.per_cpu_second).goal(Some(ten_times)),
            line("p50, µs", |sample| sample.p50_us),
            line("p99, µs", |sample| sample.p99_us).goal(Some(Goal::AtMost(10_000.0))),
        ],
    });
    Ok(())
}

/// How many questions have exactly the answers, in order and with the scores, that they must have.
fn compare(index: &dyn BenchIndex, questions: &[String]) -> anyhow::Result<String> {
    let (mut equal, mut answered) = (0, 0);
    for question in questions {
        let found = index.query(question, NOW_MS, LIMIT)?;
        answered += usize::from(!found.is_empty());
        equal += usize::from(found == index.brute_force(question, NOW_MS, LIMIT));
    }
    ensure!(answered * 2 > questions.len(), "only {answered} of {} questions have answers", questions.len());
    Ok(format!("{equal} of {} questions as by a look at every document", questions.len()))
}

impl RoundLoad for IndexLoad<'_> {
    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        tokio::task::block_in_place(|| {
            let (meter, until, mut latencies) =
                (Pid::own().meter()?, Instant::now() + span, Latencies::new()?);
            loop {
                let started = Instant::now();
                if started >= until {
                    return meter.stop(&latencies);
                }
                let question = &self.questions[self.next % self.questions.len()];
                self.index.query(question, NOW_MS, LIMIT)?;
                self.next += 1;
                latencies.record(started.elapsed());
            }
        })
    }
}
