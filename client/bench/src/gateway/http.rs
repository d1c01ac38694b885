//! Requests over HTTP on connections that stay open: a registered agent, and a ping as JSON-RPC, against a bare axum handler for each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Plan;
use crate::agent::{Transport, register_agents};
use crate::process::{BenchFolder, BenchServer, Build};
use crate::report::{Goal, Measurement, ReportedFigure};
use crate::rounds::{Latencies, RoundLoad, Sample, SampleSeries, alternate};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpWhat {
    Agent,
    Rpc,
}

pub(crate) const LOADS: [HttpWhat; 2] = [HttpWhat::Agent, HttpWhat::Rpc];

const AGENT: &str = r#"{"name":"Helper","description":"what it is for"}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"meta.ping","params":{}}"#;

/// A server, and the request that it is asked again and again.
pub(crate) struct HttpLoad {
    server: BenchServer,
    request: Arc<[u8]>,
    connections: usize,
    folder: Option<BenchFolder>,
    /// The path of the agent.
    path: String,
}

pub(crate) fn title(plan: &Plan, what: HttpWhat) -> String {
    let asked = match what {
        HttpWhat::Agent => "GET /agents/{id}",
        HttpWhat::Rpc => "POST /rpc, meta.ping",
    };
    format!("{asked}, plain, {} connections", plan.connections)
}

pub(crate) async fn measure(plan: &Plan, what: HttpWhat) -> anyhow::Result<Measurement> {
    let against = match what {
        HttpWhat::Agent => "an axum handler that reads the same row",
        HttpWhat::Rpc => "an axum handler that reads the id",
    };
    let title = format!("{}; raw: {against}", title(plan, what));
    eprintln!("{title} …");
    let mut ours = HttpLoad::aund(plan, &Build::this()?, what).await?;
    let mut raw = ours.raw().await?;
    let pairs =
        alternate(plan.rounds, async || ours.round(plan.span).await, async || raw.round(plan.span).await)
            .await?;
    let series = |figure: fn(&Sample) -> f64| SampleSeries::of(&pairs, figure);
    let goal = Goal::RatioAtLeast { now: Some(0.50), later: 0.50 };
    Ok(Measurement {
        title,
        lines: vec![
            ReportedFigure::new("per server-CPU-second", series(|sample| sample.per_cpu_second))
                .goal(Some(goal)),
            ReportedFigure::new("per second", series(|sample| sample.per_second)),
            ReportedFigure::new("p50, µs", series(|sample| sample.p50_us)),
            ReportedFigure::new("p99, µs", series(|sample| sample.p99_us)),
        ],
    })
}

impl HttpLoad {
    pub(crate) async fn aund(plan: &Plan, build: &Build, what: HttpWhat) -> anyhow::Result<Self> {
        let folder = BenchFolder::new("http")?;
        let server = BenchServer::aund(build, &folder, None).await?;
        let agents = register_agents(server.endpoint(Transport::Plain), 1).await?;
        let token = &agents.first().context("nobody was registered")?.token;
        let mut stream = connected(&server).await?;
        let made = ask(&mut stream, &request("POST", "/agents", token, AGENT), &mut Vec::new()).await?;
        let made: Value = serde_json::from_slice(&made)?;
        let id = made["data"]["id"].as_str().with_context(|| format!("no agent was made: {made}"))?;
        let path = format!("/agents/{id}");
        let request = match what {
            HttpWhat::Agent => request("GET", &path, token, ""),
            HttpWhat::Rpc => request("POST", "/rpc", token, PING),
        };
        Ok(Self {
            server,
            request: request.into(),
            connections: plan.connections,
            folder: Some(folder),
            path,
        })
    }

    /// The same request for the baseline, which reads the file of this server.
    async fn raw(&self) -> anyhow::Result<Self> {
        let folder = self.folder.as_ref().context("it has no folder")?;
        let server = BenchServer::raw_http(&folder.file("data").join("agent.db")).await?;
        let (request, connections) = (self.request.clone(), self.connections);
        Ok(Self { server, request, connections, folder: None, path: self.path.clone() })
    }
}

impl RoundLoad for HttpLoad {
    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        let mut streams = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            streams.push(connected(&self.server).await?);
        }
        let (meter, until) = (self.server.meter()?, Instant::now() + span);
        let mut tasks = JoinSet::new();
        for stream in streams {
            tasks.spawn(ask_until(stream, self.request.clone(), until));
        }
        let mut total = Latencies::new()?;
        while let Some(done) = tasks.join_next().await {
            total.add(&done.context("a connection of the load generator panicked")??)?;
        }
        meter.stop(&total)
    }
}

async fn connected(server: &BenchServer) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", server.endpoint(Transport::Plain).port())).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn request(method: &str, path: &str, token: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

async fn ask_until(mut stream: TcpStream, request: Arc<[u8]>, until: Instant) -> anyhow::Result<Latencies> {
    let (mut latencies, mut buffer) = (Latencies::new()?, Vec::new());
    let mut now = Instant::now();
    while now < until {
        ask(&mut stream, &request, &mut buffer).await?;
        let answered = Instant::now();
        latencies.record(answered - now);
        now = answered;
    }
    Ok(latencies)
}

/// Sends a request and reads the whole answer; gives its body.
async fn ask(stream: &mut TcpStream, request: &[u8], buffer: &mut Vec<u8>) -> anyhow::Result<Vec<u8>> {
    stream.write_all(request).await?;
    buffer.clear();
    loop {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).await?;
        ensure!(length > 0, "the server closed the connection");
        buffer.extend_from_slice(&piece[..length]);
        let Some(head) = buffer.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let text = str::from_utf8(&buffer[..head])?;
        if !text.starts_with("HTTP/1.1 2") {
            bail!("the server answered {text}\n{}", String::from_utf8_lossy(&buffer[head..]));
        }
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        let whole = head + 4 + length.context("the answer has no length")?;
        if buffer.len() >= whole {
            return Ok(buffer[head + 4..whole].to_vec());
        }
    }
}
