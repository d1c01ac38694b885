//! Two agents that have to do with each other, a connection for each, and the calls that they keep in flight together.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::super::agent::{BenchEndpoint, BenchSocket, LoggedInAgent};
use super::super::rounds::Latencies;

/// How long events may take to arrive after the last answer.
const EVENTS_TIMEOUT: Duration = Duration::from_secs(60);

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PairSide {
    First,
    Second,
}

/// A call that one of them makes.
pub(super) struct PairRequest {
    pub(super) side: PairSide,
    /// Calls of one kind have their latencies together.
    pub(super) kind: usize,
    pub(super) frame: Utf8Bytes,
}

/// What the two do. Each of the calls in flight has a number, which is also its id; what comes next under a number is asked
/// only after the call before was answered.
pub(super) trait PairWork {
    const KINDS: usize;

    /// How many calls are in flight.
    fn depth(&self) -> usize;

    /// The next call with this number; none if there is no more to do.
    fn request(&mut self, number: usize, now: Instant) -> Option<PairRequest>;

    /// Gives how many events the first and the second are told because of the call.
    fn answered(&mut self, number: usize, result: &str) -> anyhow::Result<[u64; 2]>;
}

/// The connections of the two. Both are read all the time, because each is told what the other does.
pub(super) struct PairSockets {
    sockets: [BenchSocket; 2],
    seen: [u64; 2],
    expected: [u64; 2],
}

/// Answers have an id, events a method.
#[derive(Deserialize)]
struct PairFrame<'a> {
    id: Option<&'a str>,
    method: Option<&'a str>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

impl PairSide {
    fn index(self) -> usize {
        match self {
            PairSide::First => 0,
            PairSide::Second => 1,
        }
    }
}

impl PairSockets {
    pub(super) async fn connect(
        endpoint: &BenchEndpoint,
        first: &LoggedInAgent,
        second: &LoggedInAgent,
    ) -> anyhow::Result<Self> {
        let first = BenchSocket::connect(endpoint, &first.token, 0, 0).await?;
        let second = BenchSocket::connect(endpoint, &second.token, 0, 0).await?;
        Ok(Self { sockets: [first, second], seen: [0; 2], expected: [0; 2] })
    }

    /// Works until there is no more to do and every call is answered. Gives how long the calls of each kind took.
    pub(super) async fn run<W: PairWork>(&mut self, work: &mut W) -> anyhow::Result<Vec<Latencies>> {
        let mut latencies = (0..W::KINDS).map(|_| Latencies::new()).collect::<anyhow::Result<Vec<_>>>()?;
        let (began, mut in_flight) = (Instant::now(), 0);
        let mut sent: Vec<Option<(usize, Instant)>> = vec![None; work.depth()];
        for (number, sent) in sent.iter_mut().enumerate() {
            let Some(request) = work.request(number, began) else { continue };
            *sent = Some((request.kind, began));
            in_flight += 1;
            self.feed(request).await?;
        }
        self.flush().await?;

        while in_flight > 0 {
            // One flush per batch of ready answers, as a careful client does.
            let mut next = Some(self.next().await?);
            let now = Instant::now();
            while let Some((side, message)) = next {
                if let Some((number, result)) = self.read(side, &message)? {
                    let call = sent.get_mut(number).and_then(Option::take);
                    let (kind, since) = call.context("the server answered a call that was not made")?;
                    latencies[kind].record(now - since);
                    let events = work.answered(number, result)?;
                    self.expected = [self.expected[0] + events[0], self.expected[1] + events[1]];
                    match work.request(number, now) {
                        Some(request) => {
                            sent[number] = Some((request.kind, now));
                            self.feed(request).await?;
                        }
                        None => in_flight -= 1,
                    }
                }
                next = self.ready()?;
            }
            self.flush().await?;
        }
        Ok(latencies)
    }

    /// Waits for the events of all that was answered. Each must arrive, and only once.
    pub(super) async fn settle(&mut self) -> anyhow::Result<()> {
        let waited = tokio::time::timeout(EVENTS_TIMEOUT, self.read_events()).await;
        if let Ok(read) = waited {
            read?;
        }
        ensure!(
            self.seen == self.expected,
            "of events for the two agents of a pair {:?} were due and {:?} arrived",
            self.expected,
            self.seen
        );
        Ok(())
    }

    async fn read_events(&mut self) -> anyhow::Result<()> {
        while self.seen.iter().zip(self.expected).any(|(seen, expected)| *seen < expected) {
            let (side, message) = self.next().await?;
            ensure!(self.read(side, &message)?.is_none(), "the server answered a call that was not made");
        }
        Ok(())
    }

    async fn feed(&mut self, PairRequest { side, frame, .. }: PairRequest) -> anyhow::Result<()> {
        Ok(self.sockets[side.index()].0.feed(Message::Text(frame)).await?)
    }

    async fn flush(&mut self) -> anyhow::Result<()> {
        for socket in &mut self.sockets {
            socket.0.flush().await?;
        }
        Ok(())
    }

    async fn next(&mut self) -> anyhow::Result<(PairSide, Message)> {
        let [first, second] = &mut self.sockets;
        let (side, message) = tokio::select! {
            message = first.0.next() => (PairSide::First, message),
            message = second.0.next() => (PairSide::Second, message),
        };
        Ok((side, message.context("the server closed the socket")??))
    }

    /// What has come already.
    fn ready(&mut self) -> anyhow::Result<Option<(PairSide, Message)>> {
        for side in [PairSide::First, PairSide::Second] {
            let next = self.sockets[side.index()].0.next().now_or_never();
            if let Some(message) = next.flatten().transpose()? {
                return Ok(Some((side, message)));
            }
        }
        Ok(None)
    }

    /// The number and the result of an answer; events are counted.
    fn read<'m>(&mut self, side: PairSide, message: &'m Message) -> anyhow::Result<Option<(usize, &'m str)>> {
        let text: &'m str = match message {
            Message::Text(text) => text.as_str(),
            Message::Close(frame) => bail!("the server closed the connection: {frame:?}"),
            _ => return Ok(None),
        };
        let frame: PairFrame<'m> =
            serde_json::from_str(text).with_context(|| format!("neither an answer nor an event: {text}"))?;
        let Some(id) = frame.id else {
            let method = frame.method.with_context(|| format!("a call was answered with {text}"))?;
            self.seen[side.index()] += u64::from(is_counted(method));
            return Ok(None);
        };
        let result = frame.result.with_context(|| format!("a call was answered with {text}"))?;
        let number = id.strip_prefix("rpc-").and_then(|hex| usize::from_str_radix(hex, 16).ok());
        Ok(Some((number.with_context(|| format!("an answer with an unknown id: {text}"))?, result.get())))
    }
}

/// Other events, of capabilities for instance, come when they come.
fn is_counted(method: &str) -> bool {
    method == "event/message.received" || method.starts_with("event/task.")
}
