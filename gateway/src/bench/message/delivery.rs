//! From one agent's send to the other's event, at 5,000 messages a second, beside a relay without a store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::super::Plan;
use super::super::client::{Socket, Transport, enrol};
use super::super::load::{Tasks, answered, gather};
use super::super::process::{Build, Scratch, Server};
use super::super::report::{Goal, Line, Report, Row};
use super::super::rounds::{Latencies, RoundLoad, Sample, Series, alternate};
use super::floor::Floor;
use super::pace::{due, strike};
use super::payload::{Chance, low_half, request};
use super::store::name;

const PER_SECOND: u64 = 5_000;
const GAP: Duration = Duration::from_nanos(1_000_000_000 / PER_SECOND);

/// Agents on each side. The messages go round among them.
const AGENTS: usize = 4;

const WARM_UP: Duration = Duration::from_secs(1);

/// How long after the last message is due everything must have arrived.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, and the agents on it.
pub(in super::super) struct DeliveryLoad {
    server: Server,
    senders: Vec<Socket>,
    receivers: Vec<Socket>,
    to: Arc<[String]>,
    rounds: u64,
    _scratch: Option<Scratch>,
}

/// What every agent knows of a round.
#[derive(Clone)]
struct Timetable {
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
    let (folder, mut floors) = (Scratch::new("floor")?, Vec::new());
    let mut floor = Floor::new(&folder, GAP).await?;
    ours.round(WARM_UP).await?;
    raw.round(WARM_UP).await?;
    floor.round(WARM_UP).await?;
    let both = async || {
        floors.push(floor.round(plan.span).await?);
        raw.round(plan.span).await
    };
    let pairs = alternate(plan.rounds, async || ours.round(plan.span).await, both).await?;

    let line = |unit, figure: fn(&Sample) -> f64| Line::new(unit, Series::of(&pairs, figure));
    let at_most = |now, later| Some(Goal::RatioAtMost { now: Some(now), later });
    let lines = vec![
        line("p50, µs", |sample| sample.p50_us).goal(at_most(5.0, 4.5)),
        line("p99, µs", |sample| sample.p99_us).goal(at_most(3.0, 3.0)),
        line("per second", |sample| sample.per_second),
        line("per server-CPU-second", |sample| sample.per_cpu_second),
    ];
    report.add(Row { title, lines });

    let relayed: Vec<Sample> = pairs.into_iter().map(|(_, raw)| raw).collect();
    let line = |unit, figure: fn(&Sample) -> f64| Line::new(unit, Series::pair(&floors, &relayed, figure));
    let lines = vec![line("p50, µs", |sample| sample.p50_us), line("p99, µs", |sample| sample.p99_us)];
    let title = format!("bare SQLite commits at {PER_SECOND} a second, without sockets; raw: the same relay");
    report.add(Row { title, lines });
    Ok(())
}

pub(in super::super) fn title() -> String {
    format!("delivery at {PER_SECOND} messages a second")
}

impl DeliveryLoad {
    pub(in super::super) async fn aund(build: &Build, store: Option<&str>) -> anyhow::Result<Self> {
        let scratch = Scratch::new("delivery")?;
        let server = Server::aund(build, &scratch, store).await?;
        let target = server.target(Transport::Plain);
        let members = enrol(target, 2 * AGENTS).await?;
        let mut sockets = Vec::with_capacity(2 * AGENTS);
        for member in &*members {
            sockets.push(Socket::connect(target, &member.token, 0, 0).await?);
        }
        let receivers = sockets.split_off(AGENTS);
        let to = members[AGENTS..].iter().map(|member| member.agent.aid.clone()).collect();
        Ok(Self { server, senders: sockets, receivers, to, rounds: 0, _scratch: Some(scratch) })
    }

    async fn relay() -> anyhow::Result<Self> {
        let server = Server::relay().await?;
        let target = server.target(Transport::Plain);
        let to: Arc<[String]> = (0..AGENTS).map(name).collect();
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for to in &*to {
            senders.push(target.dial().await?);
            let mut receiver = target.dial().await?;
            receiver.call("join", json!({ "to": to })).await?;
            receivers.push(receiver);
        }
        Ok(Self { server, senders, receivers, to, rounds: 0, _scratch: None })
    }
}

impl RoundLoad for DeliveryLoad {
    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        self.rounds += 1;
        let each = (span.as_secs_f64() * PER_SECOND as f64) as u64 / AGENTS as u64;
        let meter = self.server.meter()?;
        // A moment ahead, so that everyone is in place.
        let start = Instant::now() + Duration::from_millis(10);
        let timetable = Timetable { start, each, to: self.to.clone(), round: self.rounds };
        let (mut senders, mut receivers, mut queues) = (Tasks::new(), Tasks::new(), Vec::new());
        for (sender, receiver) in self.senders.drain(..).zip(self.receivers.drain(..)) {
            let (queue, numbers) = mpsc::channel(each as usize);
            queues.push(queue);
            senders.spawn(send(sender, numbers, timetable.clone()));
            receivers.spawn(receive(receiver, timetable.clone()));
        }
        let pace = tokio::task::spawn_blocking(move || strike(start, GAP, each * AGENTS as u64, &queues));

        let all = async { tokio::try_join!(gather(receivers), gather(senders)) };
        let arrived = tokio::time::timeout(span + PATIENCE, all).await;
        let (receivers, senders) = arrived.context("not every message arrived")??;
        let sample = meter.stop(&receivers.1)?;
        pace.await.context("the clock panicked")?;
        (self.receivers, self.senders) = (receivers.0, senders.0);
        Ok(sample)
    }
}

/// Sends what is due, and reads the answers.
async fn send(
    mut socket: Socket,
    mut numbers: mpsc::Receiver<u64>,
    timetable: Timetable,
) -> anyhow::Result<(Socket, Latencies)> {
    let mut chance = Chance::new(timetable.round);
    let mut unanswered = timetable.each;
    while unanswered > 0 {
        tokio::select! {
            Some(number) = numbers.recv() => {
                let to = &timetable.to[number as usize % AGENTS];
                let message = request(0, to, chance.next() ^ number, number);
                socket.0.send(Message::Text(message)).await?;
            }
            frame = socket.0.next() => {
                unanswered -= u64::from(answered(&frame.context("the server hung up")??)?.is_some());
            }
        }
    }
    // How long an answer took is no figure of this measurement.
    Ok((socket, Latencies::new()?))
}

/// Reads events until all have come.
async fn receive(mut socket: Socket, timetable: Timetable) -> anyhow::Result<(Socket, Latencies)> {
    let mut latencies = Latencies::new()?;
    for _ in 0..timetable.each {
        let frame = socket.0.next().await.context("the server hung up")??;
        let now = Instant::now();
        let Message::Text(event) = frame else { bail!("a receiver was sent {frame:?}") };
        let number = low_half(&event).with_context(|| format!("a receiver was sent {event}"))?;
        latencies.record(now.saturating_duration_since(due(timetable.start, GAP, number)));
    }
    Ok((socket, latencies))
}
