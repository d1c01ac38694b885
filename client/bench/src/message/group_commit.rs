//! The bare loop: rows that arrive while a commit runs share the next one, and each is answered after its commit.
//!
//! No sockets, no sessions, no checks: the least that durable storage can cost. It runs inside the bench, whose CPU
//! time is then the loop's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::super::process::{BenchFolder, Pid};
use super::super::rounds::{Latencies, Sample};
use super::bare_store::{BareStore, RowLayout};
use super::payload::SplitMix64;

/// Clients that each have one row in flight, and the task that commits them together.
pub(super) struct GroupCommit {
    queue: mpsc::Sender<PendingRow>,
    latencies: Arc<Mutex<Latencies>>,
    depth: usize,
    recipients: usize,
    rounds: u64,
    _committer: JoinSet<()>,
}

/// A row for a recipient, and the client that waits for it.
struct PendingRow {
    recipient: usize,
    since: Instant,
    answer: oneshot::Sender<()>,
}

impl GroupCommit {
    /// On a SQLite file in `folder`, with the settings of our own stores.
    pub(super) async fn sqlite(
        folder: &BenchFolder,
        layout: RowLayout,
        depth: usize,
    ) -> anyhow::Result<Self> {
        let file = folder.file("rows.db");
        Self::new(BareStore::sqlite(&file, layout).await.context("the bare loop has no store")?, depth)
    }

    pub(super) fn new(store: BareStore, depth: usize) -> anyhow::Result<Self> {
        let (queue, waiting) = mpsc::channel(depth);
        let (recipients, latencies) = (store.recipients(), Arc::new(Mutex::new(Latencies::new()?)));
        let mut committer = JoinSet::new();
        committer.spawn(commit_all(store, waiting, depth, latencies.clone()));
        Ok(Self { queue, latencies, depth, recipients, rounds: 0, _committer: committer })
    }

    pub(super) async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        self.rounds += 1;
        *self.latencies.lock() = Latencies::new()?;
        let (meter, until) = (Pid::own().meter()?, Instant::now() + span);
        let mut clients = JoinSet::new();
        for number in 0..self.depth {
            let random = SplitMix64::new(self.rounds * self.depth as u64 + number as u64);
            clients.spawn(store_until(self.queue.clone(), self.recipients, random, until));
        }
        while let Some(done) = clients.join_next().await {
            done.context("a client of the bare loop panicked")??;
        }
        meter.stop(&self.latencies.lock())
    }
}

async fn store_until(
    queue: mpsc::Sender<PendingRow>,
    recipients: usize,
    mut random: SplitMix64,
    until: Instant,
) -> anyhow::Result<()> {
    loop {
        let since = Instant::now();
        if since >= until {
            return Ok(());
        }
        let (answer, done) = oneshot::channel();
        let row = PendingRow { recipient: random.below(recipients), since, answer };
        queue.send(row).await.ok().context("the bare loop has ended")?;
        done.await.context("the bare loop could not commit")?;
    }
}

/// There is no timer: rows are collected for as long as the running commit takes.
async fn commit_all(
    mut store: BareStore,
    mut waiting: mpsc::Receiver<PendingRow>,
    most: usize,
    latencies: Arc<Mutex<Latencies>>,
) {
    let (mut group, mut recipients) = (Vec::with_capacity(most), Vec::with_capacity(most));
    while waiting.recv_many(&mut group, most).await > 0 {
        recipients.clear();
        recipients.extend(group.iter().map(|row: &PendingRow| row.recipient));
        if let Err(error) = store.commit(&recipients).await {
            eprintln!("the bare loop could not commit: {error}");
            return;
        }
        let (now, mut latencies) = (Instant::now(), latencies.lock());
        for row in group.drain(..) {
            latencies.record(now - row.since);
            // A client waits for each row, except while the bench ends.
            let _ = row.answer.send(());
        }
    }
}
