//! Two domains: how fast the directory of one is copied by the other, with how much memory, and how soon a new agent is found there.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::super::Plan;
use super::super::agent::{BenchSocket, LoggedInAgent, Transport};
use super::super::message::federation::{Domains, OTHER};
use super::super::process::{BenchFolder, BenchServer, Build};
use super::super::report::{Goal, Measurement, Report, ReportedFigure};
use super::super::rounds::{Latencies, Sample, SampleSeries};
use super::BenchIndexMaker;
use super::documents::documents;
use super::server::{publish, wait_until_found};

/// How often an agent publishes, and its finding in the other domain is waited for.
const FOUND: usize = 20;
/// How long the copy may take.
const COPY_TIMEOUT: Duration = Duration::from_secs(600);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub(super) async fn measure(
    plan: &Plan,
    maker: &dyn BenchIndexMaker,
    report: &mut Report,
) -> anyhow::Result<()> {
    // A tenth first: what memory depends on shows in the difference.
    let (_, small) = copied(maker, plan.agents / 10).await?;
    report.add(small);
    let (domains, large) = copied(maker, plan.agents).await?;
    report.add(large);
    report.add(published_there(&domains).await?);
    Ok(())
}

/// A domain that begins with an empty directory copies one of so many agents.
async fn copied(maker: &dyn BenchIndexMaker, agents: usize) -> anyhow::Result<(Domains, Measurement)> {
    let title = format!("the directory of {agents} agents is copied by another domain");
    eprintln!("{title} …");
    let there_at = BenchFolder::new("there")?;
    maker.publish(&there_at.file("data"), OTHER, &documents(agents, OTHER)).await?;
    let settings =
        format!("[search]\npeers = [\"{OTHER}\"]\n[limits.classes]\n\"search.query\" = 10000000\n");
    // Its own directory reads the documents first: what is measured is the copy.
    let read = async |there: &BenchServer, there_agents: &[LoggedInAgent]| {
        let mut asking = session(there, &there_agents[0].token).await?;
        wait_for(&mut asking, agents, || Ok(())).await
    };
    let domains = Domains::with(&Build::this()?, &settings, there_at, read).await?;
    let there = domains.there.as_ref().context("the other domain runs")?;
    let mut asking = session(&domains.here, &domains.here_agents[0].token).await?;
    let (began, already) = (Instant::now(), count(&mut asking).await?);
    let (before, mut most_here, mut most_there) = (domains.here.own_memory_kib()?, 0.0_f64, 0.0_f64);
    wait_for(&mut asking, agents, || {
        most_here = most_here.max(domains.here.own_memory_kib()?);
        most_there = most_there.max(there.own_memory_kib()?);
        Ok(())
    })
    .await?;
    let seconds = began.elapsed().as_secs_f64();
    let one =
        |unit, value: f64| ReportedFigure::new(unit, SampleSeries { ours: vec![value], raw: Vec::new() });
    let lines = vec![
        one("copied before the clock began", already as f64),
        one("entries per second", (agents - already.min(agents)) as f64 / seconds.max(0.001)),
        one("seconds", seconds),
        one("own memory before, KiB", before),
        one("the most while it copies", most_here),
        one("the most of the copied one", most_there),
    ];
    Ok((domains, Measurement { title, lines }))
}

async fn session(server: &BenchServer, token: &str) -> anyhow::Result<BenchSocket> {
    BenchSocket::connect(server.endpoint(Transport::Plain), token, 0, 0).await
}

async fn count(asking: &mut BenchSocket) -> anyhow::Result<usize> {
    let info = asking.call("search.ap_info", json!({})).await?;
    let count = info["agent_count"].as_u64().context("a directory counts its agents")?;
    Ok(usize::try_from(count)?)
}

async fn wait_for(
    asking: &mut BenchSocket,
    agents: usize,
    mut look: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let until = Instant::now() + COPY_TIMEOUT;
    while count(asking).await? < agents {
        look()?;
        ensure!(Instant::now() < until, "the directory does not have {agents} agents after {COPY_TIMEOUT:?}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    look()
}

/// From the beginning of a PUT in one domain to the first answer of the other that has the agent.
async fn published_there(domains: &Domains) -> anyhow::Result<Measurement> {
    const MOST_US: f64 = 5_000_000.0;
    let title = format!("from a PUT of agent.md to search.query in the other domain, {FOUND} times");
    eprintln!("{title} …");
    let there = domains.there.as_ref().context("the other domain runs")?;
    let mut asking = session(&domains.here, &domains.here_agents[0].token).await?;
    let (mut latencies, started) = (Latencies::new()?, Instant::now());
    for number in 0..FOUND {
        let agent = &domains.there_agents[number % domains.there_agents.len()];
        let (aid, word) = (&agent.identity.aid, format!("findable{number:05}"));
        let content = format!(
            "---\naid: \"{aid}\"\nname: \"{word}\"\ntype: agent\nversion: 1.0.0\ndescription: \"{word}\"\n---\n"
        );
        let published = Instant::now();
        publish(there.endpoint(Transport::Plain), agent, &content).await?;
        wait_until_found(&mut asking, &word, aid).await?;
        latencies.record(published.elapsed());
    }
    let sample = [Sample::new(&latencies, started.elapsed().as_secs_f64(), f64::NAN, f64::NAN)];
    let line =
        |unit, figure: fn(&Sample) -> f64| ReportedFigure::new(unit, SampleSeries::alone(&sample, figure));
    let slowest = line("p99, µs", |sample| sample.p99_us).goal(Some(Goal::AtMost(MOST_US)));
    Ok(Measurement { title, lines: vec![line("p50, µs", |sample| sample.p50_us), slowest] })
}
