//! From one agent's send to the other's event, at 5,000 messages a second, beside a relay without a store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::super::Plan;
use super::super::agent::{BenchSocket, Transport, register_agents};
use super::super::load::{LoadTasks, answered, gather};
use super::super::process::{BenchFolder, BenchServer, Build};
use super::super::report::{Goal, Measurement, Report, ReportedFigure};
use super::super::rounds::{Latencies, RoundLoad, Sample, SampleSeries, alternate};
use super::bare_commits::BareCommits;
use super::bare_store::name;
use super::payload::{SplitMix64, low_half, request};
use super::ticker::{due, tick};

const PER_SECOND: u64 = 5_000;
const GAP: Duration = Duration::from_nanos(1_000_000_000 / PER_SECOND);

/// Agents on each side. Messages go to each of them in turn.
const AGENTS: usize = 4;

const WARM_UP: Duration = Duration::from_secs(1);

/// How long after the last message is due everything must have arrived.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(60);

/// A server, and the agents on it.
pub(in super::super) struct DeliveryLoad {
    server: BenchServer,
    senders: Vec<BenchSocket>,
    receivers: Vec<BenchSocket>,
    to: Arc<[String]>,
    rounds: u64,
    _folder: Option<BenchFolder>,
}

/// When each message of a round is due, and to whom.
#[derive(Clone)]
struct RoundSchedule {
    start: Instant,
    /// Messages for each receiver.
    each: u64,
    to: Arc<[String]>,
    round: u64,
}

pub(super) async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let title = format!("{}; raw: a relay without a store", title());
    eprintln!("{title} …");
    let mut ours = DeliveryLoad::aund(&Build::this()?, None).await?;
    let mut raw = DeliveryLoad::relay().await?;
    let (folder, mut bare) = (BenchFolder::new("bare_commits")?, Vec::new());
    let mut bare_commits = BareCommits::new(&folder, GAP).await?;
    ours.round(WARM_UP).await?;
    raw.round(WARM_UP).await?;
    bare_commits.round(WARM_UP).await?;
    let both = async || {
        bare.push(bare_commits.round(plan.span).await?);
        raw.round(plan.span).await
    };
    let pairs = alternate(plan.rounds, async || ours.round(plan.span).await, both).await?;

    let line = |unit, figure: fn(&Sample) -> f64| ReportedFigure::new(unit, SampleSeries::of(&pairs, figure));
    let at_most = |now, later| Some(Goal::RatioAtMost { now: Some(now), later });
    let lines = vec![
        line("p50, µs", |sample| sample.p50_us).goal(at_most(5.0, 4.5)),
        line("p99, µs", |sample| sample.p99_us).goal(at_most(3.0, 3.0)),
        line("per second", |sample| sample.per_second),
        line("per server-CPU-second", |sample| sample.per_cpu_second),
    ];
    report.add(Measurement { title, lines });

    let relayed: Vec<Sample> = pairs.into_iter().map(|(_, raw)| raw).collect();
    let line = |unit, figure: fn(&Sample) -> f64| {
        ReportedFigure::new(unit, SampleSeries::pair(&bare, &relayed, figure))
    };
    let lines = vec![line("p50, µs", |sample| sample.p50_us), line("p99, µs", |sample| sample.p99_us)];
    let title = format!("bare SQLite commits at {PER_SECOND} a second, without sockets; raw: the same relay");
    report.add(Measurement { title, lines });
    Ok(())
}

pub(in super::super) fn title() -> String {
    format!("delivery at {PER_SECOND} messages a second")
}

impl DeliveryLoad {
    pub(in super::super) async fn aund(build: &Build, store: Option<&str>) -> anyhow::Result<Self> {
        let folder = BenchFolder::new("delivery")?;
        let server = BenchServer::aund(build, &folder, store).await?;
        let endpoint = server.endpoint(Transport::Plain);
        let agents = register_agents(endpoint, 2 * AGENTS).await?;
        let mut sockets = Vec::with_capacity(2 * AGENTS);
        for agent in &*agents {
            sockets.push(BenchSocket::connect(endpoint, &agent.token, 0, 0).await?);
        }
        let receivers = sockets.split_off(AGENTS);
        let to = agents[AGENTS..].iter().map(|agent| agent.identity.aid.clone()).collect();
        Ok(Self { server, senders: sockets, receivers, to, rounds: 0, _folder: Some(folder) })
    }

    async fn relay() -> anyhow::Result<Self> {
        let server = BenchServer::relay().await?;
        let endpoint = server.endpoint(Transport::Plain);
        let to: Arc<[String]> = (0..AGENTS).map(name).collect();
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for to in &*to {
            senders.push(endpoint.dial().await?);
            let mut receiver = endpoint.dial().await?;
            receiver.call("join", json!({ "to": to })).await?;
            receivers.push(receiver);
        }
        Ok(Self { server, senders, receivers, to, rounds: 0, _folder: None })
    }
}

impl RoundLoad for DeliveryLoad {
    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        self.rounds += 1;
        let each = (span.as_secs_f64() * PER_SECOND as f64) as u64 / AGENTS as u64;
        let meter = self.server.meter()?;
        // A moment ahead, so that every task has started.
        let start = Instant::now() + Duration::from_millis(10);
        let timetable = RoundSchedule { start, each, to: self.to.clone(), round: self.rounds };
        let (mut senders, mut receivers, mut queues) = (LoadTasks::new(), LoadTasks::new(), Vec::new());
        for (sender, receiver) in self.senders.drain(..).zip(self.receivers.drain(..)) {
            let (queue, numbers) = mpsc::channel(each as usize);
            queues.push(queue);
            senders.spawn(send(sender, numbers, timetable.clone()));
            receivers.spawn(receive(receiver, timetable.clone()));
        }
        let ticker = tokio::task::spawn_blocking(move || tick(start, GAP, each * AGENTS as u64, &queues));

        let all = async { tokio::try_join!(gather(receivers), gather(senders)) };
        let arrived = tokio::time::timeout(span + ARRIVAL_TIMEOUT, all).await;
        let (receivers, senders) = arrived.context("not every message arrived")??;
        let sample = meter.stop(&receivers.1)?;
        ticker.await.context("the ticker panicked")?;
        (self.receivers, self.senders) = (receivers.0, senders.0);
        Ok(sample)
    }
}

/// Sends what is due, and reads the answers.
async fn send(
    mut socket: BenchSocket,
    mut numbers: mpsc::Receiver<u64>,
    timetable: RoundSchedule,
) -> anyhow::Result<(BenchSocket, Latencies)> {
    let mut random = SplitMix64::new(timetable.round);
    let mut unanswered = timetable.each;
    while unanswered > 0 {
        tokio::select! {
            Some(number) = numbers.recv() => {
                let to = &timetable.to[number as usize % AGENTS];
                let message = request(0, to, random.next() ^ number, number);
                socket.0.send(Message::Text(message)).await?;
            }
            frame = socket.0.next() => {
                unanswered -= u64::from(answered(&frame.context("the server closed the socket")??)?.is_some());
            }
        }
    }
    // How long an answer took is not measured here.
    Ok((socket, Latencies::new()?))
}

/// Reads events until all have arrived.
async fn receive(
    mut socket: BenchSocket,
    timetable: RoundSchedule,
) -> anyhow::Result<(BenchSocket, Latencies)> {
    let mut latencies = Latencies::new()?;
    let mut received = 0;
    while received < timetable.each {
        let frame = socket.0.next().await.context("the server closed the socket")??;
        let now = Instant::now();
        let event = match frame {
            Message::Text(event) => event,
            // The socket answers it by itself.
            Message::Ping(_) => continue,
            frame => bail!("a receiver was sent {frame:?}"),
        };
        received += 1;
        let number = low_half(&event).with_context(|| format!("a receiver was sent {event}"))?;
        latencies.record(now.saturating_duration_since(due(timetable.start, GAP, number)));
    }
    Ok((socket, latencies))
}
