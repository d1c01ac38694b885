//! `task.list` over many ended tasks of one owner: all pages, one after the other, and what the last ones take beside the first.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::super::Plan;
use super::super::agent::{BenchSocket, Transport, register_agents};
use super::super::process::{BenchFolder, BenchServer};
use super::super::report::{Goal, Measurement, Report, ReportedFigure};
use super::super::rounds::{Latencies, Sample, SampleSeries};
use super::TaskStoreKind;
use super::fill::CanceledTasks;
use super::frames::call;
use super::pair::PairSockets;

/// "limit: default 20, max 100" (task.list).
const PAGE: usize = 100;

/// Calls in flight while the tasks are made.
const FILLERS: usize = 64;

/// How long that may take.
const FILL_TIMEOUT: Duration = Duration::from_secs(1_800);

/// How long a page may take.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Which tasks are asked for. All of them are canceled, so the same are found either way.
#[derive(Clone, Copy)]
enum ListFilter {
    Canceled,
    /// Every role and every status is looked through for each page.
    Any,
}

/// All pages once.
struct ListPass {
    first: Sample,
    middle: Sample,
    last: Sample,
    all: Sample,
}

#[derive(Deserialize)]
struct ListAnswer {
    id: Option<String>,
    result: Option<ListedPage>,
}

#[derive(Deserialize)]
struct ListedPage {
    items: Vec<TaskOfPage>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct TaskOfPage {
    task_id: String,
}

pub(super) async fn measure(
    plan: &Plan,
    store: TaskStoreKind<'_>,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (tasks, name) = (plan.tasks, store.name());
    eprintln!("task.list over {tasks} ended tasks on {name} …");
    let folder = BenchFolder::new("list")?;
    let server = store.server(&folder).await?;
    let agents = register_agents(server.endpoint(Transport::Plain), 2).await?;
    let two = [&agents[0], &agents[1]];
    let mut sockets = PairSockets::connect(server.endpoint(Transport::Plain), two[0], two[1]).await?;
    report.add(fill(&mut sockets, &two[1].identity.aid, tasks, name).await?);
    drop(sockets);

    let mut reader = BenchSocket::connect(server.endpoint(Transport::Plain), &two[0].token, 0, 1).await?;
    let filters = [ListFilter::Canceled, ListFilter::Any];
    let mut passes = filters.map(|_| Vec::with_capacity(plan.rounds));
    for filter in filters {
        pass(&server, &mut reader, filter, tasks).await?;
    }
    for _ in 0..plan.rounds {
        for (filter, passes) in filters.into_iter().zip(&mut passes) {
            passes.push(pass(&server, &mut reader, filter, tasks).await?);
        }
    }
    for (filter, passes) in filters.into_iter().zip(&passes) {
        let title = format!(
            "task.list on {name}, pages of {PAGE} of {tasks} ended tasks, {}; raw: the first tenth of the pages",
            filter.name()
        );
        report.add(Measurement { title, lines: lines(passes) });
    }
    Ok(())
}

async fn fill(
    sockets: &mut PairSockets,
    assignee: &str,
    tasks: usize,
    store: &str,
) -> anyhow::Result<Measurement> {
    let began = Instant::now();
    let mut work = CanceledTasks::new(assignee, tasks, FILLERS.min(tasks));
    let filled = tokio::time::timeout(FILL_TIMEOUT, sockets.run(&mut work)).await;
    filled.with_context(|| format!("{tasks} tasks were not made within {FILL_TIMEOUT:?}"))??;
    let seconds = began.elapsed().as_secs_f64();
    sockets.settle().await?;
    let one =
        |unit, value: f64| ReportedFigure::new(unit, SampleSeries { ours: vec![value], raw: Vec::new() });
    Ok(Measurement {
        title: format!(
            "{tasks} tasks of one owner on {store}, made and canceled, {FILLERS} in flight on one connection"
        ),
        lines: vec![one("seconds", seconds), one("calls per second", 2.0 * tasks as f64 / seconds)],
    })
}

fn lines(passes: &[ListPass]) -> Vec<ReportedFigure> {
    let beside_first = |unit, of: fn(&ListPass) -> &Sample, figure: fn(&Sample) -> f64| {
        let ours = passes.iter().map(|pass| figure(of(pass))).collect();
        let raw = passes.iter().map(|pass| figure(&pass.first)).collect();
        ReportedFigure::new(unit, SampleSeries { ours, raw })
    };
    let all = |unit, figure: fn(&Sample) -> f64| {
        let ours = passes.iter().map(|pass| figure(&pass.all)).collect();
        ReportedFigure::new(unit, SampleSeries { ours, raw: Vec::new() })
    };
    // It shall not grow. The p99 of a tenth is that of few pages, and differs more from round to round.
    let at_most = |now| Some(Goal::RatioAtMost { now: Some(now), later: 1.0 });
    vec![
        beside_first("last tenth, p50, µs", |pass| &pass.last, |sample| sample.p50_us).goal(at_most(1.2)),
        beside_first("last tenth, p99, µs", |pass| &pass.last, |sample| sample.p99_us).goal(at_most(1.5)),
        beside_first("middle tenth, p50, µs", |pass| &pass.middle, |sample| sample.p50_us),
        beside_first("middle tenth, p99, µs", |pass| &pass.middle, |sample| sample.p99_us),
        all("all pages, p50, µs", |sample| sample.p50_us),
        all("all pages, p99, µs", |sample| sample.p99_us),
        all("pages per CPU-second", |sample| sample.per_cpu_second),
    ]
}

/// Reads all pages; together they must have each task once.
async fn pass(
    server: &BenchServer,
    reader: &mut BenchSocket,
    filter: ListFilter,
    tasks: usize,
) -> anyhow::Result<ListPass> {
    let (meter, mut took) = (server.meter()?, Vec::with_capacity(tasks / PAGE + 1));
    let (mut seen, mut cursor) = (HashSet::with_capacity(tasks), None::<String>);
    loop {
        let read = tokio::time::timeout(PAGE_TIMEOUT, page(reader, filter, cursor.as_deref())).await;
        let (time, page) = read.context("a page of task.list was not answered in time")??;
        took.push(time);
        for TaskOfPage { task_id } in page.items {
            ensure!(seen.insert(task_id), "task.list has a task on two pages");
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
        ensure!(took.len() <= tasks, "task.list does not end");
    }
    ensure!(seen.len() == tasks, "task.list has {} of {tasks} tasks", seen.len());
    let tenth = (took.len() / 10).max(1);
    let middle = (took.len() - tenth) / 2;
    Ok(ListPass {
        first: sample(&took[..tenth])?,
        middle: sample(&took[middle..middle + tenth])?,
        last: sample(&took[took.len() - tenth..])?,
        all: meter.stop(&latencies(&took)?)?,
    })
}

/// From the call to the frame that answers it; what is in it is read afterwards.
async fn page(
    reader: &mut BenchSocket,
    filter: ListFilter,
    cursor: Option<&str>,
) -> anyhow::Result<(Duration, ListedPage)> {
    let request = call(0, "task.list", &filter.params(cursor));
    let began = Instant::now();
    reader.0.send(Message::Text(request)).await?;
    loop {
        let message = reader.0.next().await.context("the server closed the socket")??;
        let took = began.elapsed();
        let Message::Text(text) = message else { continue };
        let answer: ListAnswer =
            serde_json::from_str(&text).with_context(|| format!("not an answer: {text}"))?;
        // Events have no id.
        if answer.id.is_some() {
            let page = answer.result.with_context(|| format!("task.list was answered with {text}"))?;
            return Ok((took, page));
        }
    }
}

fn latencies(took: &[Duration]) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::new()?;
    took.iter().for_each(|took| latencies.record(*took));
    Ok(latencies)
}

fn sample(took: &[Duration]) -> anyhow::Result<Sample> {
    let seconds = took.iter().sum::<Duration>().as_secs_f64();
    Ok(Sample::new(&latencies(took)?, seconds, f64::NAN, f64::NAN))
}

impl ListFilter {
    fn name(self) -> &'static str {
        match self {
            ListFilter::Canceled => "status canceled",
            ListFilter::Any => "any status",
        }
    }

    fn params(self, cursor: Option<&str>) -> String {
        match self {
            ListFilter::Canceled => json!({ "status": "canceled", "limit": PAGE, "cursor": cursor }),
            ListFilter::Any => json!({ "limit": PAGE, "cursor": cursor }),
        }
        .to_string()
    }
}
