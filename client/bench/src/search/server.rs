//! A real server: how soon an agent that publishes its document is found, and how many queries it answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::super::Plan;
use super::super::agent::{BenchEndpoint, BenchSocket, LoggedInAgent, Transport, register_agents};
use super::super::load::{self, LoadTasks};
use super::super::process::{BenchFolder, BenchServer, Build, CONFIG};
use super::super::report::{Measurement, Report, ReportedFigure};
use super::super::rounds::{Latencies, Sample, SampleSeries};
use super::documents::document;
use super::questions::questions;
use super::vocabulary::Vocabulary;

/// Agents that publish a document on the server.
const AGENTS: usize = 1_000;

/// How many of them publish another one, whose finding is waited for.
const FOUND: usize = 100;

/// How many publish at once.
const SIDE_BY_SIDE: usize = 16;

/// Sessions that ask at once. Each agent has one, so that none reaches its limit.
const ASKING: usize = 64;

/// Between two looks whether an agent is found.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// An agent that is not found by then never will be.
const FOUND_TIMEOUT: Duration = Duration::from_secs(120);

/// Limits that are counted and not reached.
const CLASSES: &str = "[limits.classes]\n\"search.query\" = 10000000\n";

pub(super) async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let agents = AGENTS.min(plan.agents);
    eprintln!("search.query through the gateway, {agents} agents …");
    let folder = BenchFolder::new("search")?;
    let config = format!("{CONFIG}{CLASSES}");
    let server = BenchServer::aund_with(&Build::this()?, &folder, None, &config).await?;
    let endpoint = server.endpoint(Transport::Plain);
    let agents = register_agents(endpoint, agents).await?;
    report.add(memory(&server, endpoint, &agents[0]).await?);
    publish_all(endpoint, &agents).await?;
    report.add(publish_to_found(endpoint, &agents).await?);
    report.add(queries(plan, &server, &agents).await?);
    Ok(())
}

/// With a directory that has had no Chinese text, and after the first: that loads a dictionary.
async fn memory(
    server: &BenchServer,
    endpoint: &BenchEndpoint,
    agent: &LoggedInAgent,
) -> anyhow::Result<Measurement> {
    let mut session = BenchSocket::connect(endpoint, &agent.token, 0, 0).await?;
    let mut after = async |question: &str| {
        session.call("search.query", json!({ "q": question })).await?;
        server.own_memory_kib()
    };
    let (without, with) = (after("weather forecast").await?, after("今天天气怎么样").await?);
    let one =
        |unit, value: f64| ReportedFigure::new(unit, SampleSeries { ours: vec![value], raw: Vec::new() });
    Ok(Measurement {
        title: "own memory of the server, before and after its first Chinese text".to_owned(),
        lines: vec![one("without Chinese, KiB", without), one("with Chinese, KiB", with)],
    })
}

async fn publish_all(endpoint: &BenchEndpoint, agents: &[LoggedInAgent]) -> anyhow::Result<()> {
    let vocabulary = Vocabulary::new();
    let publishing = agents.iter().enumerate().map(|(number, agent)| {
        let made = document(&vocabulary, number, agent.identity.aid.clone());
        async move { publish(endpoint, agent, &made.content).await }
    });
    stream::iter(publishing).buffer_unordered(SIDE_BY_SIDE).try_collect::<Vec<()>>().await?;
    let last = agents.last().context("no agent is registered")?;
    let mut session = BenchSocket::connect(endpoint, &last.token, 0, 0).await?;
    wait_until_found(&mut session, &last.identity.aid, &last.identity.aid).await
}

/// From the beginning of a PUT to the first answer that has the agent.
async fn publish_to_found(endpoint: &BenchEndpoint, agents: &[LoggedInAgent]) -> anyhow::Result<Measurement> {
    let (vocabulary, mut latencies) = (Vocabulary::new(), Latencies::new()?);
    let mut session = BenchSocket::connect(endpoint, &agents[0].token, 0, 0).await?;
    let (started, count) = (Instant::now(), FOUND.min(agents.len()));
    for (number, agent) in agents.iter().enumerate().take(count) {
        let aid = &agent.identity.aid;
        let mut content = document(&vocabulary, number, aid.clone()).content;
        let word = format!("findable{number:05}");
        content.push_str(&format!("\n{word}\n"));
        let published = Instant::now();
        publish(endpoint, agent, &content).await?;
        wait_until_found(&mut session, &word, aid).await?;
        latencies.record(published.elapsed());
    }
    let sample = [Sample::new(&latencies, started.elapsed().as_secs_f64(), f64::NAN, f64::NAN)];
    let line =
        |unit, figure: fn(&Sample) -> f64| ReportedFigure::new(unit, SampleSeries::alone(&sample, figure));
    Ok(Measurement {
        title: format!("from a PUT of agent.md to search.query, {count} times, one after the other"),
        lines: vec![line("p50, µs", |sample| sample.p50_us), line("p99, µs", |sample| sample.p99_us)],
    })
}

pub(super) async fn wait_until_found(
    session: &mut BenchSocket,
    question: &str,
    aid: &str,
) -> anyhow::Result<()> {
    let until = Instant::now() + FOUND_TIMEOUT;
    loop {
        let page = session.call("search.query", json!({ "q": question, "limit": 1 })).await?;
        if page["items"][0]["aid"] == aid {
            return Ok(());
        }
        ensure!(Instant::now() < until, "{aid} was not found within {FOUND_TIMEOUT:?}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn queries(plan: &Plan, server: &BenchServer, agents: &[LoggedInAgent]) -> anyhow::Result<Measurement> {
    let asked: Arc<[String]> = questions(2_000).into();
    let mut sockets = Vec::new();
    for agent in agents.iter().take(ASKING) {
        sockets.push(BenchSocket::connect(server.endpoint(Transport::Plain), &agent.token, 0, 1).await?);
    }
    let (connections, mut samples) = (sockets.len(), Vec::new());
    for round in 0..plan.rounds {
        let (meter, until, mut tasks) = (server.meter()?, Instant::now() + plan.span, LoadTasks::new());
        for (number, socket) in sockets.drain(..).enumerate() {
            let (asked, mut next) = (asked.clone(), round * 31 + number * 17);
            let write = move |number| {
                next += 1;
                request(number, &asked[next % asked.len()])
            };
            tasks.spawn(load::call_while(socket, 1, move |now| now < until, write));
        }
        let (back, latencies) = load::gather(tasks).await?;
        sockets = back;
        samples.push(meter.stop(&latencies)?);
    }
    let line =
        |unit, figure: fn(&Sample) -> f64| ReportedFigure::new(unit, SampleSeries::alone(&samples, figure));
    Ok(Measurement {
        title: format!(
            "search.query, plain, {connections} connections, 1 in flight, {} agents",
            agents.len()
        ),
        lines: vec![
            line("per server-CPU-second", |sample| sample.per_cpu_second),
            line("per second", |sample| sample.per_second),
            line("p50, µs", |sample| sample.p50_us),
            line("p99, µs", |sample| sample.p99_us),
        ],
    })
}

fn request(number: usize, question: &str) -> Utf8Bytes {
    let params = json!({ "q": question });
    format!(r#"{{"jsonrpc":"2.0","id":"rpc-{number:016x}","method":"search.query","params":{params}}}"#)
        .into()
}

/// `PUT /agent.md`, on a connection of its own.
pub(super) async fn publish(
    endpoint: &BenchEndpoint,
    agent: &LoggedInAgent,
    content: &str,
) -> anyhow::Result<()> {
    let (aid, token, length) = (&agent.identity.aid, &agent.token, content.len());
    let head = format!(
        "PUT /agent.md HTTP/1.1\r\nhost: {aid}\r\nauthorization: Bearer {token}\r\ncontent-type: text/markdown\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    let mut stream = endpoint.stream().await?;
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(content.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.context("the answer to a PUT could not be read")?;
    match answer.split_whitespace().nth(1) {
        Some("200" | "201") => Ok(()),
        _ => bail!("PUT /agent.md was answered with {answer}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_json_whatever_is_asked() {
        let frame: serde_json::Value = serde_json::from_str(&request(7, "a \"quoted\" 词")).unwrap();
        assert_eq!(frame["params"]["q"], "a \"quoted\" 词");
        assert_eq!(frame["id"], "rpc-0000000000000007");
    }
}
